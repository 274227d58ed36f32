//! `$ln`, `$log`, `$log10`.

use document::Number;
use document::decimal::{self, Decimal};

use super::numeric_argument::{show_number, single_number};
use crate::expression::operators::prelude::*;

pub(super) const OPERATORS: &[Operator] = &[
    Operator::eager("$ln", "The natural logarithm of a number.", Arity::Exactly(1), ln),
    Operator::eager("$log", "The logarithm of a number in a base.", Arity::Exactly(2), log),
    Operator::eager("$log10", "The logarithm of a number in base 10.", Arity::Exactly(1), log10),
];

fn ln<'a>(operator: &'static Operator, arguments: &mut [Value<'a>]) -> Result<Value<'a>> {
    let Some(number) = positive(operator, arguments, 28766)? else { return Ok(Value::NULL) };
    Ok(match number {
        Number::Decimal128(value) => decimal::logarithm(Decimal::from_bson(value)).to_bson().into(),
        number => number.to_f64().ln().into(),
    })
}

fn log10<'a>(operator: &'static Operator, arguments: &mut [Value<'a>]) -> Result<Value<'a>> {
    let Some(number) = positive(operator, arguments, 28761)? else { return Ok(Value::NULL) };
    Ok(match number {
        Number::Decimal128(value) => decimal::decimal_logarithm(Decimal::from_bson(value)).to_bson().into(),
        number => number.to_f64().log10().into(),
    })
}

fn log<'a>(operator: &'static Operator, arguments: &mut [Value<'a>]) -> Result<Value<'a>> {
    let [value, base] = &*arguments else { return Err(operator.misplaced()) };
    if value.is_nullish() || base.is_nullish() {
        return Ok(Value::NULL);
    }
    let not_numeric = |kind, what: &str, value: &Value<'_>| {
        numbered(kind, format!("$log's {what} must be numeric, not {}", value.type_name()))
    };
    let number = Number::from_bson(value.or_null()).ok_or_else(|| not_numeric(28756, "argument", value))?;
    let base = Number::from_bson(base.or_null()).ok_or_else(|| not_numeric(28757, "base", base))?;
    if !is_positive(number) {
        let shown = show_number(number);
        return Err(numbered(28758, format!("$log's argument must be a positive number, but is {shown}")));
    }
    if !is_positive(base) || base.compare(Number::Int32(1)).is_eq() {
        let shown = show_number(base);
        let message = format!("$log's base must be a positive number not equal to 1, but is {shown}");
        return Err(numbered(28759, message));
    }
    if number.is_decimal() || base.is_decimal() {
        return Ok(decimal::logarithm_in_base(number.to_decimal(), base.to_decimal()).to_bson().into());
    }
    Ok((number.to_f64().ln() / base.to_f64().ln()).into())
}

/// NaN passes, as a logarithm of NaN is NaN.
fn is_positive(number: Number) -> bool {
    number.is_nan() || number.sign() > 0
}

fn positive(operator: &Operator, arguments: &[Value<'_>], kind: u32) -> Result<Option<Number>> {
    match single_number(operator, arguments)? {
        Some(number) if !is_positive(number) => {
            let (name, shown) = (operator.name, show_number(number));
            Err(numbered(kind, format!("{name}'s argument must be a positive number, but is {shown}")))
        }
        number => Ok(number),
    }
}
