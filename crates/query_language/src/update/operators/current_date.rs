//! `$currentDate`: sets a field to the current date, or to a timestamp with `{$type: "timestamp"}`.

use bson::raw::{RawBsonRef, RawDocument};

use super::super::display::type_name;
use super::super::element::Element;
use super::super::operator::{FieldOperator, Scope};
use super::super::value::{Change, NewValue};
use crate::error::{ErrorKind, QueryError, Result};
use crate::filter::FilterOptions;

#[derive(Debug)]
enum CurrentDate {
    Date,
    Timestamp,
}

pub(super) fn parse(field: &Element<'_>, _: &FilterOptions) -> Result<Box<dyn FieldOperator>> {
    match field.value() {
        RawBsonRef::Boolean(_) => Ok(Box::new(CurrentDate::Date)),
        RawBsonRef::Document(choice) => Ok(Box::new(parse_type(choice)?)),
        _ => Err(bad_value(format!(
            "{} is not valid type for $currentDate. Please use a boolean ('true') or a $type expression \
             ({{$type: 'timestamp/date'}}).",
            type_name(field.element_type)
        ))),
    }
}

fn parse_type(choice: &RawDocument) -> Result<CurrentDate> {
    let mut kind = None;
    for field in choice {
        let (name, value) = field?;
        if name.as_str() != "$type" {
            return Err(bad_value(format!("Unrecognized $currentDate option: {name}")));
        }
        kind = match value {
            RawBsonRef::String("date") => Some(CurrentDate::Date),
            RawBsonRef::String("timestamp") => Some(CurrentDate::Timestamp),
            _ => None,
        };
    }
    kind.ok_or_else(|| {
        bad_value(
            "The '$type' string field is required to be 'date' or 'timestamp': {$currentDate: {field : {$type: 'date'}}}",
        )
    })
}

impl FieldOperator for CurrentDate {
    fn apply<'a>(&'a self, _: Option<Element<'a>>, scope: &Scope<'a>) -> Result<Change<'a>> {
        Ok(Change::Write(match self {
            CurrentDate::Date => NewValue::date(scope.context.clock.now()),
            CurrentDate::Timestamp => NewValue::timestamp(scope.context.clock.next_timestamp()),
        }))
    }
}

fn bad_value(message: impl Into<String>) -> QueryError {
    QueryError::new(ErrorKind::BadValue, message)
}
