//! Short questions about numbers that many operators ask of a BSON value.

use bson::raw::RawBsonRef;
use document::Number;
use document::decimal::{self, Decimal};

use super::parse::show;
use super::value::type_name;
use crate::error::{ErrorKind, QueryError, Result};

/// Whether the value is of a numeric type.
pub(crate) fn is_number(value: RawBsonRef<'_>) -> bool {
    Number::from_bson(value).is_some()
}

/// The value as an int32 when it is a number that is exactly one, whatever its type.
pub(crate) fn to_i32_exact(value: RawBsonRef<'_>) -> Option<i32> {
    to_i64_exact(value).and_then(|value| i32::try_from(value).ok())
}

/// The value as an int64 when it is a number that is exactly one, whatever its type.
pub(crate) fn to_i64_exact(value: RawBsonRef<'_>) -> Option<i64> {
    Number::from_bson(value)?.to_i64_exact()
}

/// Milliseconds to move a date by, rounded to a whole number: of a double half away from zero, of a decimal half to even.
pub(crate) fn whole_milliseconds(milliseconds: Number) -> Option<i64> {
    match milliseconds {
        Number::Double(value) => Number::Double(value.round()).to_i64_truncated(),
        Number::Decimal128(value) => decimal::quantize_to_integer(Decimal::from_bson(value)).to_i64_truncated(),
        integer => integer.integer(),
    }
}

/// The nearest double of a number.
pub(crate) fn to_f64(value: RawBsonRef<'_>) -> Option<f64> {
    Number::from_bson(value).map(Number::to_f64)
}

/// The `n` of `$firstN` and its kin: an integer above zero.
pub(crate) fn positive_count(value: RawBsonRef<'_>) -> Result<usize> {
    if !is_number(value) {
        let found = type_name(value.element_type());
        let message = format!("Value for 'n' must be of integral type, but found {found}");
        return Err(QueryError::new(ErrorKind::Location(5787902), message));
    }
    let Some(count) = to_i64_exact(value) else {
        let shown = show(value);
        let message = format!("Value for 'n' must be of integral type, but found {shown}");
        return Err(QueryError::new(ErrorKind::Location(5787903), message));
    };
    match usize::try_from(count) {
        Ok(count) if count > 0 => Ok(count),
        _ => {
            let message = format!("'n' must be greater than 0, found {count}");
            Err(QueryError::new(ErrorKind::Location(5787908), message))
        }
    }
}
