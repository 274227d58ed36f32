//! `$ceil`, `$floor`, `$round` (half to even) and `$trunc`.

use dec::Rounding;
use document::Number;
use document::decimal::{self, Decimal};

use super::numeric_argument::single_number;
use crate::expression::operators::prelude::*;

pub(super) const OPERATORS: &[Operator] = &[
    Operator::eager("$ceil", "The least integer not below a number.", Arity::Exactly(1), ceil),
    Operator::eager("$floor", "The greatest integer not above a number.", Arity::Exactly(1), floor),
    Operator::eager("$round", "A number rounded to a decimal place, half to even.", Arity::Between(1, 2), round),
    Operator::eager("$trunc", "A number cut off at a decimal place.", Arity::Between(1, 2), trunc),
];

/// The decimal places that may be asked for.
const PLACES: std::ops::RangeInclusive<i64> = -20..=100;

fn ceil<'a>(operator: &'static Operator, arguments: &mut [Value<'a>]) -> Result<Value<'a>> {
    Ok(single_number(operator, arguments)?.map_or(Value::NULL, |number| whole(number, f64::ceil, Rounding::Ceiling)))
}

fn floor<'a>(operator: &'static Operator, arguments: &mut [Value<'a>]) -> Result<Value<'a>> {
    Ok(single_number(operator, arguments)?.map_or(Value::NULL, |number| whole(number, f64::floor, Rounding::Floor)))
}

fn whole<'a>(number: Number, of_double: fn(f64) -> f64, rounding: Rounding) -> Value<'a> {
    match number {
        Number::Double(value) => of_double(value).into(),
        Number::Decimal128(value) => at_place(Decimal::from_bson(value), 0, rounding).to_bson().into(),
        integer => integer.into(),
    }
}

fn round<'a>(operator: &'static Operator, arguments: &mut [Value<'a>]) -> Result<Value<'a>> {
    to_place(operator, arguments, f64::round_ties_even, Rounding::HalfEven)
}

fn trunc<'a>(operator: &'static Operator, arguments: &mut [Value<'a>]) -> Result<Value<'a>> {
    to_place(operator, arguments, f64::trunc, Rounding::Down)
}

fn to_place<'a>(
    operator: &'static Operator,
    arguments: &mut [Value<'a>],
    of_double: fn(f64) -> f64,
    rounding: Rounding,
) -> Result<Value<'a>> {
    let (value, place) = match &*arguments {
        [value] => (value, None),
        [value, place] => (value, Some(place)),
        _ => return Err(operator.misplaced()),
    };
    if value.is_nullish() || place.is_some_and(Value::is_nullish) {
        return Ok(Value::NULL);
    }
    let Some(number) = Number::from_bson(value.or_null()) else {
        let text = format!("only supports numeric types, not {}", value.type_name());
        return Err(operator.error(ErrorKind::Location(51081), text));
    };
    let place = place.map(|place| decimal_place(operator, place)).transpose()?.unwrap_or(0);
    Ok(match number {
        Number::Double(value) if place == 0 || !value.is_finite() => of_double(value).into(),
        Number::Double(value) => at_place(Decimal::from_f64(value), place, rounding).to_f64().into(),
        Number::Decimal128(value) => at_place(Decimal::from_bson(value), place, rounding).to_bson().into(),
        integer if place >= 0 => integer.into(),
        integer => {
            let rounded = at_place(integer.to_decimal(), place, rounding).to_i64_truncated();
            let Some(rounded) = rounded else {
                let message = format!(
                    "invalid conversion from Decimal128 result in {} resulting from arguments: [{}]",
                    operator.name,
                    show(value.or_null())
                );
                return Err(numbered(51080, message));
            };
            match integer {
                Number::Int32(_) => Number::from_i64_narrowed(rounded).into(),
                _ => rounded.into(),
            }
        }
    })
}

fn decimal_place(operator: &Operator, place: &Value<'_>) -> Result<i32> {
    let Some(place) = number::to_i64_exact(place.or_null()) else {
        let message = format!("precision argument to  {} must be a integral value", operator.name);
        return Err(numbered(51082, message));
    };
    if !PLACES.contains(&place) {
        let name = operator.name;
        let message = format!("cannot apply {name} with precision value {place} value must be in [-20, 100]");
        return Err(numbered(51083, message));
    }
    Ok(place as i32)
}

/// A decimal rounded at a place, left alone when it has no digits beyond it.
fn at_place(value: Decimal, place: i32, rounding: Rounding) -> Decimal {
    match value {
        Decimal::Finite { exponent, .. } if exponent < -place => decimal::quantize(value, -place, rounding),
        other => other,
    }
}
