//! Conversions between BSON types, as `$convert` and its short forms make them.

pub(crate) mod binary;
mod json;

use bson::DateTime;
use bson::oid::ObjectId;
use bson::raw::RawBsonRef;
use bson::spec::ElementType;
use document::Number;
use document::decimal::Decimal;

use binary::BinaryOptions;

use super::calendar::{Zone, date_of_object_id, parse_date_text};
use super::text::{format_date, format_double};
use super::value::{Value, is_truthy, type_name};
use crate::error::{ErrorKind, QueryError, Result};

/// The text that MongoDB puts after what went wrong.
const NO_ON_ERROR: &str = "in $convert with no onError value";

/// A present value converted to a type. Every failure is a `ConversionFailure`.
pub(crate) fn convert<'a>(value: RawBsonRef<'a>, target: ElementType) -> Result<Value<'a>> {
    match target {
        ElementType::Double
        | ElementType::Int32
        | ElementType::Int64
        | ElementType::Decimal128
        | ElementType::Boolean
        | ElementType::String
        | ElementType::ObjectId
        | ElementType::DateTime
            if value.element_type() == target =>
        {
            Ok(Value::Borrowed(value))
        }
        ElementType::Double => to_double(value),
        ElementType::Int32 => {
            let integer = to_integer(value, target)?;
            i32::try_from(integer).map(Value::from).map_err(|_| overflow(value))
        }
        ElementType::Int64 => to_integer(value, target).map(Value::from),
        ElementType::Decimal128 => to_decimal(value),
        // Of every other type the answer is true, for a number unless it is zero.
        ElementType::Boolean => Ok(is_truthy(value).into()),
        ElementType::String => to_text(value),
        ElementType::ObjectId => to_object_id(value),
        ElementType::DateTime => to_date(value),
        ElementType::Array | ElementType::EmbeddedDocument => match value {
            RawBsonRef::String(text) => json::from_text(text, target),
            RawBsonRef::Binary(_) if target == ElementType::Array => json::from_vector(value),
            _ => Err(unsupported(value, target)),
        },
        _ => Err(unsupported(value, target)),
    }
}

/// The same where binary data may be on either side, for `$convert`.
pub(crate) fn convert_with<'a>(
    value: RawBsonRef<'a>,
    target: ElementType,
    options: &BinaryOptions,
) -> Result<Value<'a>> {
    match (value.element_type(), target) {
        (_, ElementType::Binary) => binary::to_binary(value, options),
        (ElementType::Binary, ElementType::String) => binary::to_text(value, options).map(Value::from),
        (ElementType::Binary, ElementType::Int32 | ElementType::Int64 | ElementType::Double) => {
            binary::to_number(value, target, options.order)
        }
        _ => convert(value, target),
    }
}

fn failure(message: String) -> QueryError {
    QueryError::new(ErrorKind::ConversionFailure, message)
}

fn unsupported(value: RawBsonRef<'_>, target: ElementType) -> QueryError {
    let (from, to) = (type_name(value.element_type()), type_name(target));
    failure(format!("Unsupported conversion from {from} to {to} {NO_ON_ERROR}"))
}

fn overflow(value: RawBsonRef<'_>) -> QueryError {
    let shown = to_text(value).ok().and_then(|text| text.as_str().map(str::to_owned)).unwrap_or_default();
    failure(format!("Conversion would overflow target type {NO_ON_ERROR}: {shown}"))
}

fn unparsable(text: &str, problem: &str) -> QueryError {
    failure(format!("Failed to parse number '{text}' {NO_ON_ERROR}: {problem}"))
}

fn to_double<'a>(value: RawBsonRef<'_>) -> Result<Value<'a>> {
    Ok(match value {
        RawBsonRef::Boolean(value) => f64::from(u8::from(value)).into(),
        RawBsonRef::DateTime(date) => (date.timestamp_millis() as f64).into(),
        RawBsonRef::String(text) => parse_double(text)?.into(),
        RawBsonRef::Decimal128(decimal) => {
            let double = Decimal::from_bson(decimal).to_f64();
            if double.is_infinite() && matches!(Decimal::from_bson(decimal), Decimal::Finite { .. }) {
                return Err(overflow(value));
            }
            double.into()
        }
        other => match Number::from_bson(other) {
            Some(number) => number.to_f64().into(),
            None => return Err(unsupported(value, ElementType::Double)),
        },
    })
}

fn to_integer(value: RawBsonRef<'_>, target: ElementType) -> Result<i64> {
    match value {
        RawBsonRef::Boolean(value) => Ok(i64::from(value)),
        RawBsonRef::DateTime(date) if target == ElementType::Int64 => Ok(date.timestamp_millis()),
        RawBsonRef::String(text) => parse_integer(text),
        other => {
            let number = Number::from_bson(other).ok_or_else(|| unsupported(value, target))?;
            if number.is_nan() {
                return Err(failure(format!("Attempt to convert NaN value to integer type {NO_ON_ERROR}")));
            }
            if number.is_nan_or_infinite() {
                return Err(failure(format!("Attempt to convert infinity value to integer type {NO_ON_ERROR}")));
            }
            number.to_i64_truncated().ok_or_else(|| overflow(value))
        }
    }
}

fn to_decimal<'a>(value: RawBsonRef<'_>) -> Result<Value<'a>> {
    let decimal = match value {
        RawBsonRef::Boolean(value) => Decimal::from_i64(i64::from(value)),
        RawBsonRef::DateTime(date) => Decimal::from_i64(date.timestamp_millis()),
        RawBsonRef::String(text) => {
            check_number_text(text)?;
            Decimal::parse(text).ok_or_else(|| unparsable(text, "Failed to parse string to decimal"))?
        }
        other => match Number::from_bson(other) {
            Some(number) => number.to_decimal(),
            None => return Err(unsupported(value, ElementType::Decimal128)),
        },
    };
    Ok(Value::from(decimal.to_bson()))
}

fn to_text<'a>(value: RawBsonRef<'_>) -> Result<Value<'a>> {
    Ok(Value::from(match value {
        RawBsonRef::Boolean(value) => value.to_string(),
        RawBsonRef::Double(value) => format_double(value),
        RawBsonRef::Int32(value) => value.to_string(),
        RawBsonRef::Int64(value) => value.to_string(),
        RawBsonRef::Decimal128(value) => value.to_string(),
        RawBsonRef::ObjectId(id) => id.to_hex(),
        RawBsonRef::DateTime(date) => format_date(date)?,
        _ => return Err(unsupported(value, ElementType::String)),
    }))
}

fn to_object_id<'a>(value: RawBsonRef<'_>) -> Result<Value<'a>> {
    let RawBsonRef::String(text) = value else { return Err(unsupported(value, ElementType::ObjectId)) };
    let problem = match text.len() {
        24 => match ObjectId::parse_str(text) {
            Ok(id) => return Ok(id.into()),
            Err(_) => "Invalid character found in hex string".to_owned(),
        },
        length => format!("Invalid string length for parsing to OID, expected 24 but found {length}"),
    };
    Err(failure(format!("Failed to parse objectId '{text}' {NO_ON_ERROR}: {problem}")))
}

fn to_date<'a>(value: RawBsonRef<'_>) -> Result<Value<'a>> {
    match value {
        RawBsonRef::Int64(milliseconds) => Ok(DateTime::from_millis(milliseconds).into()),
        RawBsonRef::Double(_) | RawBsonRef::Decimal128(_) => {
            let milliseconds = to_integer(value, ElementType::Int64)?;
            Ok(DateTime::from_millis(milliseconds).into())
        }
        RawBsonRef::ObjectId(id) => Ok(date_of_object_id(id).into()),
        RawBsonRef::Timestamp(time) => Ok(DateTime::from_millis(i64::from(time.time) * 1000).into()),
        RawBsonRef::String(text) => {
            let date = parse_date_text(text).map_err(|problem| failure(problem.0))?;
            date.resolve(&Zone::UTC).map(Value::from).map_err(|error| failure(error.message))
        }
        _ => Err(unsupported(value, ElementType::DateTime)),
    }
}

/// Refuses hexadecimal numbers and white space, which a number's text may not hold.
fn check_number_text(text: &str) -> Result<()> {
    let unsigned = text.trim_start_matches(['-', '+']);
    if unsigned.starts_with("0x") || unsigned.starts_with("0X") {
        return Err(failure(format!("Illegal hexadecimal input {NO_ON_ERROR}: {text}")));
    }
    if text.is_empty() {
        return Err(unparsable(text, "Empty string"));
    }
    if text.contains(char::is_whitespace) {
        return Err(unparsable(text, "Did not consume whole string."));
    }
    Ok(())
}

fn parse_double(text: &str) -> Result<f64> {
    check_number_text(text)?;
    let value: f64 = text.parse().map_err(|_| unparsable(text, "Did not consume whole string."))?;
    if value.is_infinite() && text.contains(|c: char| c.is_ascii_digit()) {
        return Err(unparsable(text, "Out of range"));
    }
    Ok(value)
}

fn parse_integer(text: &str) -> Result<i64> {
    use std::num::IntErrorKind::{NegOverflow, PosOverflow};
    check_number_text(text)?;
    text.parse().map_err(|error: std::num::ParseIntError| match error.kind() {
        PosOverflow | NegOverflow => unparsable(text, "Overflow"),
        _ if text.starts_with(|c: char| c.is_ascii_digit() || c == '-' || c == '+') => {
            unparsable(text, "Did not consume whole string.")
        }
        _ => unparsable(text, "Did not consume any digits"),
    })
}
