//! Trigonometric and hyperbolic functions, degrees and radians: of doubles, and of decimals with all their digits.

use std::f64::consts::PI;

use document::Number;
use document::decimal::{Decimal, trigonometry};

use super::numeric_argument::{show_number, single_number};
use crate::expression::operators::prelude::*;

pub(super) const OPERATORS: &[Operator] = &[
    Operator::eager("$acos", "The arc cosine in radians.", Arity::Exactly(1), acos),
    Operator::eager("$acosh", "The hyperbolic arc cosine.", Arity::Exactly(1), acosh),
    Operator::eager("$asin", "The arc sine in radians.", Arity::Exactly(1), asin),
    Operator::eager("$asinh", "The hyperbolic arc sine.", Arity::Exactly(1), asinh),
    Operator::eager("$atan", "The arc tangent in radians.", Arity::Exactly(1), atan),
    Operator::eager("$atan2", "The angle of a point, given as y and x, in radians.", Arity::Exactly(2), atan2),
    Operator::eager("$atanh", "The hyperbolic arc tangent.", Arity::Exactly(1), atanh),
    Operator::eager("$cos", "The cosine of radians.", Arity::Exactly(1), cos),
    Operator::eager("$cosh", "The hyperbolic cosine.", Arity::Exactly(1), cosh),
    Operator::eager("$degreesToRadians", "Degrees as radians.", Arity::Exactly(1), degrees_to_radians),
    Operator::eager("$radiansToDegrees", "Radians as degrees.", Arity::Exactly(1), radians_to_degrees),
    Operator::eager("$sin", "The sine of radians.", Arity::Exactly(1), sin),
    Operator::eager("$sinh", "The hyperbolic sine.", Arity::Exactly(1), sinh),
    Operator::eager("$tan", "The tangent of radians.", Arity::Exactly(1), tan),
    Operator::eager("$tanh", "The hyperbolic tangent.", Arity::Exactly(1), tanh),
];

/// A function of doubles and of decimals.
type Function = (fn(f64) -> f64, fn(Decimal) -> Decimal);

/// Applies a function whose argument must lie between two bounds.
fn apply<'a>(
    operator: &'static Operator,
    arguments: &[Value<'a>],
    (least, most, bounds): (f64, f64, &str),
    (of_double, of_decimal): Function,
) -> Result<Value<'a>> {
    let Some(number) = single_number(operator, arguments)? else { return Ok(Value::NULL) };
    let is_below = number.compare(Number::Double(least)).is_lt();
    if !number.is_nan() && (is_below || number.compare(Number::Double(most)).is_gt()) {
        let (name, shown) = (operator.name, show_number(number));
        return Err(numbered(50989, format!("cannot apply {name} to {shown}, value must be in {bounds}")));
    }
    Ok(match number {
        Number::Decimal128(value) => of_decimal(Decimal::from_bson(value)).to_bson().into(),
        number => of_double(number.to_f64()).into(),
    })
}

const ANY: (f64, f64, &str) = (f64::NEG_INFINITY, f64::INFINITY, "[-inf,inf]");
const UNIT: (f64, f64, &str) = (-1.0, 1.0, "[-1,1]");
const FROM_ONE: (f64, f64, &str) = (1.0, f64::INFINITY, "[1,inf]");

/// Angles may not be infinite; every other number is one, a decimal beyond all doubles too.
fn apply_to_angle<'a>(operator: &'static Operator, arguments: &[Value<'a>], function: Function) -> Result<Value<'a>> {
    match single_number(operator, arguments)? {
        Some(number) if number.is_nan_or_infinite() && !number.is_nan() => {
            let (name, shown) = (operator.name, show_number(number));
            Err(numbered(50989, format!("cannot apply {name} to {shown}, value must be in (-inf,inf)")))
        }
        _ => apply(operator, arguments, ANY, function),
    }
}

macro_rules! functions {
    ($($name:ident $bounds:ident;)+) => {
        $(fn $name<'a>(operator: &'static Operator, arguments: &mut [Value<'a>]) -> Result<Value<'a>> {
            apply(operator, arguments, $bounds, (f64::$name, trigonometry::$name))
        })+
    };
}

macro_rules! functions_of_angles {
    ($($name:ident)+) => {
        $(fn $name<'a>(operator: &'static Operator, arguments: &mut [Value<'a>]) -> Result<Value<'a>> {
            apply_to_angle(operator, arguments, (f64::$name, trigonometry::$name))
        })+
    };
}

functions! {
    acos UNIT;
    acosh FROM_ONE;
    asin UNIT;
    asinh ANY;
    atan ANY;
    atanh UNIT;
    cosh ANY;
    sinh ANY;
    tanh ANY;
}

functions_of_angles! { cos sin tan }

fn atan2<'a>(operator: &'static Operator, arguments: &mut [Value<'a>]) -> Result<Value<'a>> {
    let [y, x] = &*arguments else { return Err(operator.misplaced()) };
    if y.is_nullish() || x.is_nullish() {
        return Ok(Value::NULL);
    }
    let not_numeric = |kind, value: &Value<'_>| {
        let text = format!("only supports numeric types, not {}", value.type_name());
        operator.error(ErrorKind::Location(kind), text)
    };
    let y = Number::from_bson(y.or_null()).ok_or_else(|| not_numeric(51044, y))?;
    let x = Number::from_bson(x.or_null()).ok_or_else(|| not_numeric(51045, x))?;
    Ok(match y.is_decimal() || x.is_decimal() {
        true => trigonometry::atan2(y.to_decimal(), x.to_decimal()).to_bson().into(),
        false => y.to_f64().atan2(x.to_f64()).into(),
    })
}

fn degrees_to_radians<'a>(operator: &'static Operator, arguments: &mut [Value<'a>]) -> Result<Value<'a>> {
    apply(operator, arguments, ANY, (|value| value * (PI / 180.0), trigonometry::degrees_to_radians))
}

fn radians_to_degrees<'a>(operator: &'static Operator, arguments: &mut [Value<'a>]) -> Result<Value<'a>> {
    apply(operator, arguments, ANY, (|value| value * (180.0 / PI), trigonometry::radians_to_degrees))
}
