//! Dates in time zones: conversion between BSON dates and calendar fields, formats, units.
//!
//! Used by the date operators and by conversions between dates and strings. Time zone data is the one bundled with
//! `jiff`, so that results do not depend on the machine. Years outside -9999 to 9999 are refused.

mod format;
mod parse;
mod unit;

use bson::DateTime;
use bson::raw::RawBsonRef;
use jiff::tz::{Offset, TimeZone};
use jiff::{Timestamp, Zoned, civil};

pub(crate) use format::{ISO_FORMAT_LOCAL, ISO_FORMAT_UTC, check_format, format_zoned, week_of_year};
pub(crate) use parse::{parse_date_text, parse_with_format};
pub(crate) use unit::{Unit, parse_weekday};

use super::parse::show;
use super::value::Value;
use crate::error::{ErrorKind, QueryError, Result};

/// A date in a time zone.
pub(crate) fn in_zone(date: DateTime, zone: &TimeZone) -> Result<Zoned> {
    let timestamp = Timestamp::from_millisecond(date.timestamp_millis()).map_err(out_of_range)?;
    Ok(timestamp.to_zoned(zone.clone()))
}

/// A date in UTC.
pub(crate) fn in_utc(date: DateTime) -> Result<Zoned> {
    in_zone(date, &TimeZone::UTC)
}

/// The date of calendar fields in a time zone; fields that a clock change skips move forward.
pub(crate) fn from_civil(civil: civil::DateTime, zone: &TimeZone) -> Result<DateTime> {
    let zoned = civil.to_zoned(zone.clone()).map_err(out_of_range)?;
    Ok(DateTime::from_millis(zoned.timestamp().as_millisecond()))
}

/// The error of a date that calendar arithmetic cannot hold.
pub(crate) fn out_of_range(error: jiff::Error) -> QueryError {
    QueryError::new(ErrorKind::Overflow, format!("date out of the supported range: {error}"))
}

/// The date in a value: a date, or the time part of a timestamp or ObjectId; `None` for null and missing.
pub(crate) fn to_date(value: &Value<'_>) -> Result<Option<DateTime>> {
    Ok(Some(match value.get() {
        None | Some(RawBsonRef::Null | RawBsonRef::Undefined) => return Ok(None),
        Some(RawBsonRef::DateTime(date)) => date,
        Some(RawBsonRef::Timestamp(time)) => DateTime::from_millis(i64::from(time.time) * 1000),
        Some(RawBsonRef::ObjectId(id)) => id.timestamp(),
        Some(_) => {
            let message = format!("can't convert from BSON type {} to Date", value.type_name());
            return Err(QueryError::new(ErrorKind::Location(16006), message));
        }
    }))
}

/// The time zone argument: UTC when left out, `None` when null.
pub(crate) fn zone_argument(argument: Option<&Value<'_>>) -> Result<Option<TimeZone>> {
    let Some(value) = argument else { return Ok(Some(TimeZone::UTC)) };
    if value.is_nullish() {
        return Ok(None);
    }
    match value.as_str() {
        Some(text) => parse_zone(text).map(Some),
        None => {
            let message = format!("timezone must evaluate to a string, found {}", value.type_name());
            Err(QueryError::new(ErrorKind::Location(40517), message))
        }
    }
}

/// A time zone by its Olson name or as an offset: `+03`, `+0300`, `+03:00`.
pub(crate) fn parse_zone(text: &str) -> Result<TimeZone> {
    if matches!(text, "UTC" | "GMT" | "Z") {
        return Ok(TimeZone::UTC);
    }
    let zone = match text.chars().next() {
        Some('+' | '-') => parse_offset(text).map(TimeZone::fixed),
        Some(_) => TimeZone::get(text).ok(),
        None => None,
    };
    zone.ok_or_else(|| {
        let shown = show(RawBsonRef::String(text));
        QueryError::new(ErrorKind::Location(40485), format!("unrecognized time zone identifier: {shown}"))
    })
}

fn parse_offset(text: &str) -> Option<Offset> {
    let (sign, digits) = match text.as_bytes().split_first()? {
        (b'+', rest) => (1, rest),
        (b'-', rest) => (-1, rest),
        _ => return None,
    };
    let digits: Vec<i32> = match digits {
        [hours @ .., b':', minute_tens, minute_ones] if hours.len() == 2 => {
            [hours, &[*minute_tens, *minute_ones]].concat()
        }
        digits => digits.to_vec(),
    }
    .into_iter()
    .map(|byte| byte.is_ascii_digit().then(|| i32::from(byte - b'0')))
    .collect::<Option<_>>()?;
    let minutes = match digits.as_slice() {
        [h, hh] => (h * 10 + hh) * 60,
        [h, hh, m, mm] => (h * 10 + hh) * 60 + m * 10 + mm,
        _ => return None,
    };
    Offset::from_seconds(sign * minutes * 60).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zones_are_names_or_offsets() {
        for text in ["UTC", "America/New_York", "+03", "-0330", "+05:45"] {
            assert!(parse_zone(text).is_ok(), "{text}");
        }
        for text in ["", "Nowhere/City", "+3", "+03:0", "+ab"] {
            assert!(parse_zone(text).is_err(), "{text}");
        }
    }
}
