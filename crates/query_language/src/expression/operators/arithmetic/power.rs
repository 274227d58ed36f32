//! `$pow`, `$sqrt`, `$exp`.

use document::Number;
use document::decimal::{self, Decimal};

use super::numeric_argument::single_number;
use crate::expression::operators::prelude::*;

pub(super) const OPERATORS: &[Operator] = &[
    Operator::eager("$exp", "Euler's number to a power.", Arity::Exactly(1), exp),
    Operator::eager("$pow", "A number to a power.", Arity::Exactly(2), pow),
    Operator::eager("$sqrt", "The square root of a number.", Arity::Exactly(1), sqrt),
];

fn exp<'a>(operator: &'static Operator, arguments: &mut [Value<'a>]) -> Result<Value<'a>> {
    Ok(match single_number(operator, arguments)? {
        None => Value::NULL,
        Some(Number::Decimal128(value)) => decimal::exponential(Decimal::from_bson(value)).to_bson().into(),
        Some(number) => number.to_f64().exp().into(),
    })
}

fn sqrt<'a>(operator: &'static Operator, arguments: &mut [Value<'a>]) -> Result<Value<'a>> {
    let Some(number) = single_number(operator, arguments)? else { return Ok(Value::NULL) };
    if number.sign() < 0 {
        return Err(numbered(28714, "$sqrt's argument must be greater than or equal to 0"));
    }
    Ok(match number {
        Number::Decimal128(value) => decimal::square_root(Decimal::from_bson(value)).to_bson().into(),
        number => number.to_f64().sqrt().into(),
    })
}

fn pow<'a>(operator: &'static Operator, arguments: &mut [Value<'a>]) -> Result<Value<'a>> {
    let [base, exponent] = &*arguments else { return Err(operator.misplaced()) };
    if base.is_nullish() || exponent.is_nullish() {
        return Ok(Value::NULL);
    }
    let not_numeric = |kind, what: &str, value: &Value<'_>| {
        numbered(kind, format!("$pow's {what} must be numeric, not {}", value.type_name()))
    };
    let base = Number::from_bson(base.or_null()).ok_or_else(|| not_numeric(28762, "base", base))?;
    let exponent = Number::from_bson(exponent.or_null()).ok_or_else(|| not_numeric(28763, "exponent", exponent))?;
    if base.is_zero() && exponent.sign() < 0 {
        return Err(numbered(28764, "$pow cannot take a base of 0 and a negative exponent"));
    }
    if base.is_decimal() || exponent.is_decimal() {
        return Ok(decimal::power(base.to_decimal(), exponent.to_decimal()).to_bson().into());
    }
    let (Some(integer_base), Some(integer_exponent)) = (base.integer(), exponent.integer()) else {
        return Ok(base.to_f64().powf(exponent.to_f64()).into());
    };
    let both_int = matches!((base, exponent), (Number::Int32(_), Number::Int32(_)));
    Ok(match integer_power(integer_base, integer_exponent) {
        Some(power) if both_int => Number::from_i64_narrowed(power).into(),
        Some(power) => power.into(),
        None => base.to_f64().powf(exponent.to_f64()).into(),
    })
}

/// The power when it is an integer that fits.
fn integer_power(base: i64, exponent: i64) -> Option<i64> {
    match (base, exponent) {
        (_, 0) | (1, _) => Some(1),
        (-1, exponent) => Some(if exponent % 2 == 0 { 1 } else { -1 }),
        (0, _) => Some(0),
        (base, exponent) => base.checked_pow(u32::try_from(exponent).ok()?),
    }
}
