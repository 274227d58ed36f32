//! Operands that must be whole numbers, and what MongoDB says when they are not.

use bson::RawBsonRef;
use document::Number;

use super::value_text;

/// A whole number of any numeric type. The error is the reason, which callers put after their own words.
pub(crate) fn parse(name: &str, value: RawBsonRef<'_>) -> Result<i64, String> {
    let problem = match Number::from_bson(value) {
        None => "Expected a number in",
        Some(number) => match number.to_i64_exact() {
            Some(integer) => return Ok(integer),
            None if number.is_nan() => "Expected an integer, but found NaN in",
            None if number.is_integral() || number.is_nan_or_infinite() => "Cannot represent as a 64-bit integer",
            None => "Expected an integer",
        },
    };
    Err(format!("{problem}: {}", value_text::element(name, value)))
}
