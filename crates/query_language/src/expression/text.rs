//! Values as text: what `$toString`, `$concat`'s kin and messages show for numbers and dates.

use std::borrow::Cow;

use bson::DateTime;
use bson::raw::RawBsonRef;

use super::calendar;
use super::value::Value;
use crate::error::{ErrorKind, QueryError, Result};

/// The string that `$toLower`, `$substrBytes`, `$strcasecmp`... make of their argument; empty for null.
pub(crate) fn coerce_to_string<'v>(value: &'v Value<'_>) -> Result<Cow<'v, str>> {
    Ok(match value.get() {
        None | Some(RawBsonRef::Null | RawBsonRef::Undefined) => Cow::Borrowed(""),
        Some(RawBsonRef::String(text) | RawBsonRef::Symbol(text) | RawBsonRef::JavaScriptCode(text)) => {
            Cow::Borrowed(text)
        }
        Some(RawBsonRef::Int32(value)) => value.to_string().into(),
        Some(RawBsonRef::Int64(value)) => value.to_string().into(),
        Some(RawBsonRef::Double(value)) => format_double(value).into(),
        Some(RawBsonRef::Decimal128(value)) => value.to_string().into(),
        Some(RawBsonRef::DateTime(value)) => format_date(value)?.into(),
        Some(RawBsonRef::Timestamp(value)) => format!("Timestamp({}, {})", value.time, value.increment).into(),
        Some(_) => {
            let message = format!("can't convert from BSON type {} to String", value.type_name());
            return Err(QueryError::new(ErrorKind::Location(16007), message));
        }
    })
}

/// A date in ISO 8601 with milliseconds, in UTC.
pub(crate) fn format_date(date: DateTime) -> Result<String> {
    calendar::format_date(calendar::ISO_FORMAT_UTC, &calendar::LocalTime::in_utc(date))
}

/// A double as MongoDB prints it: no fraction for whole numbers, an exponent of two digits outside 1e-4 to 1e16.
pub(crate) fn format_double(value: f64) -> String {
    if value.is_nan() {
        return "NaN".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "Infinity" } else { "-Infinity" }.to_owned();
    }
    let magnitude = value.abs();
    if magnitude == 0.0 || (1e-4..1e16).contains(&magnitude) {
        return value.to_string();
    }
    let text = format!("{value:e}");
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    match exponent.strip_prefix('-') {
        Some(exponent) => format!("{digits}e-{exponent:0>2}"),
        None => format!("{digits}e+{exponent:0>2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubles_print_short() {
        for (value, text) in [(1.0, "1"), (0.5, "0.5"), (-2.25, "-2.25"), (1e300, "1e+300"), (1e-5, "1e-05")] {
            assert_eq!(format_double(value), text);
        }
    }
}
