//! Dates in time zones: conversion between BSON dates and calendar fields, formats, units, dates read from text.
//!
//! Used by the date operators and by conversions between dates and strings, for every date that BSON can hold.

pub(crate) mod civil;
mod format;
mod local;
mod parse_format;
#[cfg(test)]
mod properties;
mod text;
mod unit;
mod zone;

use bson::DateTime;
use bson::oid::ObjectId;
use bson::raw::RawBsonRef;

pub(crate) use format::{ISO_FORMAT_LOCAL, ISO_FORMAT_UTC, format_date};
pub(crate) use local::{LocalTime, from_local};
pub(crate) use parse_format::{check_parse_format, parse_with_format};
pub(crate) use text::parse_date_text;
pub(crate) use unit::{Unit, parse_weekday};
pub(crate) use zone::{Zone, zone_argument};

use super::value::Value;
use crate::error::{ErrorKind, QueryError, Result};

/// The date in a value: a date, or the time part of a timestamp or ObjectId; `None` for null and missing.
pub(crate) fn to_date(value: &Value<'_>) -> Result<Option<DateTime>> {
    Ok(Some(match value.get() {
        None | Some(RawBsonRef::Null | RawBsonRef::Undefined) => return Ok(None),
        Some(RawBsonRef::DateTime(date)) => date,
        Some(RawBsonRef::Timestamp(time)) => DateTime::from_millis(i64::from(time.time) * 1000),
        Some(RawBsonRef::ObjectId(id)) => date_of_object_id(id),
        Some(_) => {
            let message = format!("can't convert from BSON type {} to Date", value.type_name());
            return Err(QueryError::new(ErrorKind::Location(16006), message));
        }
    }))
}

/// The time in an ObjectId, whose seconds MongoDB reads as a signed number: from 1901 to 2038.
pub(crate) fn date_of_object_id(id: ObjectId) -> DateTime {
    let [a, b, c, d, ..] = id.bytes();
    DateTime::from_millis(i64::from(i32::from_be_bytes([a, b, c, d])) * 1000)
}
