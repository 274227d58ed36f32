//! `$pop`: removes the first (-1) or the last (1) item of an array.

use bson::raw::RawBsonRef;
use bson::spec::ElementType;
use document::Number;

use super::super::display;
use super::super::element::{Element, collect};
use super::super::operator::{FieldOperator, Scope, WhenBlocked};
use super::super::value::{Change, NewValue};
use super::super::writer::array_of;
use crate::error::{ErrorKind, QueryError, Result};
use crate::filter::FilterOptions;

#[derive(Debug)]
enum Pop {
    First,
    Last,
}

pub(super) fn parse(field: &Element<'_>, _: &FilterOptions) -> Result<Box<dyn FieldOperator>> {
    let failed = |message| Err(QueryError::new(ErrorKind::FailedToParse, message));
    let Some(number) = Number::from_view(field.view()).and_then(Number::to_i64_exact) else {
        return match field.value() {
            RawBsonRef::Double(_) | RawBsonRef::Decimal128(_) => {
                failed(format!("Expected an integer: {}", display::field(field)))
            }
            _ => failed(format!("Expected a number in: {}", display::field(field))),
        };
    };
    match number {
        -1 => Ok(Box::new(Pop::First)),
        1 => Ok(Box::new(Pop::Last)),
        _ => failed(format!("$pop expects 1 or -1, found: {}", display::value(field))),
    }
}

impl FieldOperator for Pop {
    fn apply<'a>(&'a self, existing: Option<Element<'a>>, scope: &Scope<'a>) -> Result<Change<'a>> {
        let Some(array) = existing else { return Ok(Change::Keep) };
        if array.element_type != ElementType::Array {
            let message = format!(
                "Path '{}' contains an element of non-array type '{}'",
                scope.leaf.path.text,
                display::type_name(array.element_type)
            );
            return Err(QueryError::new(ErrorKind::TypeMismatch, message));
        }
        let items = collect(array.value_bytes())?;
        let rest = match self {
            Pop::First => items.split_first().map(|(_, rest)| rest),
            Pop::Last => items.split_last().map(|(_, rest)| rest),
        };
        Ok(rest.map_or(Change::Keep, |rest| Change::Write(NewValue::array(array_of(rest)))))
    }

    fn when_blocked(&self, _: &Scope<'_>) -> WhenBlocked {
        WhenBlocked::CannotTraverse
    }
}
