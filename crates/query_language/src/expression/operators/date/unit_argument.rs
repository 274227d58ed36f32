//! The `unit`, `startOfWeek` and date arguments that the date arithmetic operators share.

use bson::DateTime;

use crate::expression::calendar::{Unit, parse_weekday, to_date};
use crate::expression::operators::prelude::*;

/// The unit; `None` when null.
pub(super) fn unit(operator: &Operator, value: &Value<'_>) -> Result<Option<Unit>> {
    if value.is_nullish() {
        return Ok(None);
    }
    match value.as_str() {
        Some(name) => Unit::parse(name).map(Some),
        None => {
            let text = format!("requires 'unit' to be a string, but got {}", value.type_name());
            Err(operator.error(ErrorKind::Location(5439013), text))
        }
    }
}

/// The first day of the week from 1 for Monday, Sunday when left out or when `unit` is no week; `None` when null.
pub(super) fn first_day(operator: &Operator, value: Option<&Value<'_>>, unit: Option<Unit>) -> Result<Option<i64>> {
    const SUNDAY: i64 = 7;
    let Some(value) = value.filter(|_| unit == Some(Unit::Week)) else { return Ok(Some(SUNDAY)) };
    if value.is_nullish() {
        return Ok(None);
    }
    let Some(name) = value.as_str() else {
        let text = format!("requires 'startOfWeek' to be a string, but got {}", value.type_name());
        return Err(operator.error(ErrorKind::Location(5439015), text));
    };
    match parse_weekday(name) {
        Some(day) => Ok(Some(day)),
        None => {
            let text = format!("parameter 'startOfWeek' value cannot be recognized as a day of a week: {name}");
            Err(operator.error(ErrorKind::Location(5439016), text))
        }
    }
}

/// A date argument; `None` when null.
pub(super) fn date(operator: &Operator, name: &str, value: &Value<'_>, kind: u32) -> Result<Option<DateTime>> {
    to_date(value).map_err(|_| {
        let text = format!("requires '{name}' to be a date, but got {}", value.type_name());
        operator.error(ErrorKind::Location(kind), text)
    })
}
