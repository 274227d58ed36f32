//! `$mod`.

use bson::RawBsonRef;
use document::{FieldPath, Number, ValueView};

use super::FilterNode;
use super::parse::{FieldOperand, bad_value};
use crate::error::Result;

/// A number whose remainder, after its fraction is cut off, is the given one.
#[derive(Debug, Clone)]
pub struct ModFilter {
    /// Where the number is.
    pub path: FieldPath,
    /// Not 0.
    pub divisor: i64,
    /// The wanted remainder, which has the sign of the dividend.
    pub remainder: i64,
}

impl ModFilter {
    #[inline]
    pub(crate) fn accepts(&self, value: Option<ValueView<'_>>) -> bool {
        let number = value.and_then(Number::from_view).and_then(Number::to_i64_truncated);
        // Wrapping only matters for the least integer modulo -1, which is 0.
        number.is_some_and(|number| number.wrapping_rem(self.divisor) == self.remainder)
    }
}

/// `{path: {$mod: [divisor, remainder]}}`.
pub(crate) fn parse(operand: &FieldOperand<'_>) -> Result<FilterNode> {
    let RawBsonRef::Array(entries) = operand.value else { return bad_value("malformed mod, needs to be an array") };
    let mut entries = entries.into_iter();
    let Some(divisor) = entries.next().transpose()? else {
        return bad_value("malformed mod, not enough elements");
    };
    let divisor = number("divisor", divisor)?;
    let Some(remainder) = entries.next().transpose()? else {
        return bad_value("malformed mod, not enough elements");
    };
    let remainder = number("remainder", remainder)?;
    if entries.next().is_some() {
        return bad_value("malformed mod, too many elements");
    }
    let (divisor, remainder) = (integer("divisor", divisor)?, integer("remainder", remainder)?);
    if divisor == 0 {
        return bad_value("divisor cannot be 0");
    }
    Ok(FilterNode::Mod(ModFilter { path: operand.path.clone(), divisor, remainder }))
}

fn number(what: &str, value: RawBsonRef<'_>) -> Result<Number> {
    match Number::from_bson(value) {
        Some(number) => Ok(number),
        None => bad_value(format!("malformed mod, {what} not a number")),
    }
}

fn integer(what: &str, number: Number) -> Result<i64> {
    if let Some(integer) = number.to_i64_truncated() {
        return Ok(integer);
    }
    let problem = match number.is_nan_or_infinite() {
        true => "Unable to coerce NaN/Inf to integral type",
        false => "Out of bounds coercing to integral value",
    };
    bad_value(format!("malformed mod, {what} value is invalid :: caused by :: {problem}"))
}
