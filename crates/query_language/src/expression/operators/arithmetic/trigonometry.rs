//! Trigonometric and hyperbolic functions, degrees and radians, of doubles.
//!
//! Decimal arguments are refused by name: no decimal implementation of these functions is at hand, and the digits of
//! a double would pass for the 34 of a decimal.

use std::f64::consts::PI;

use document::Number;
use document::decimal::{self, Decimal};

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

/// π with the digits of a decimal.
const PI_DIGITS: &str = "3.141592653589793238462643383279503";

/// Applies a function of a double whose argument must lie between two bounds.
fn apply<'a>(
    operator: &'static Operator,
    arguments: &[Value<'a>],
    (least, most, bounds): (f64, f64, &str),
    function: fn(f64) -> f64,
) -> Result<Value<'a>> {
    let Some(number) = single_number(operator, arguments)? else { return Ok(Value::NULL) };
    if number.is_decimal() {
        let text = "of a decimal is not implemented";
        return Err(operator.error(ErrorKind::NotImplemented, text));
    }
    let value = number.to_f64();
    if !value.is_nan() && !(least..=most).contains(&value) {
        let (name, shown) = (operator.name, show_number(number));
        return Err(numbered(50989, format!("cannot apply {name} to {shown}, value must be in {bounds}")));
    }
    Ok(function(value).into())
}

const ANY: (f64, f64, &str) = (f64::NEG_INFINITY, f64::INFINITY, "[-inf,inf]");
const FINITE: (f64, f64, &str) = (f64::MIN, f64::MAX, "(-inf,inf)");
const UNIT: (f64, f64, &str) = (-1.0, 1.0, "[-1,1]");
const FROM_ONE: (f64, f64, &str) = (1.0, f64::INFINITY, "[1,inf]");

macro_rules! functions {
    ($($name:ident $bounds:ident $function:path;)+) => {
        $(fn $name<'a>(operator: &'static Operator, arguments: &mut [Value<'a>]) -> Result<Value<'a>> {
            apply(operator, arguments, $bounds, $function)
        })+
    };
}

functions! {
    acos UNIT f64::acos;
    acosh FROM_ONE f64::acosh;
    asin UNIT f64::asin;
    asinh ANY f64::asinh;
    atan ANY f64::atan;
    atanh UNIT f64::atanh;
    cos FINITE f64::cos;
    cosh ANY f64::cosh;
    sin FINITE f64::sin;
    sinh ANY f64::sinh;
    tan FINITE f64::tan;
    tanh ANY f64::tanh;
}

fn atan2<'a>(operator: &'static Operator, arguments: &mut [Value<'a>]) -> Result<Value<'a>> {
    let [y, x] = &*arguments else { return Err(operator.misplaced()) };
    if y.is_nullish() || x.is_nullish() {
        return Ok(Value::NULL);
    }
    match (Number::from_bson(y.or_null()), Number::from_bson(x.or_null())) {
        (Some(y), Some(x)) if y.is_decimal() || x.is_decimal() => {
            Err(operator.error(ErrorKind::NotImplemented, "of a decimal is not implemented"))
        }
        (Some(y), Some(x)) => Ok(y.to_f64().atan2(x.to_f64()).into()),
        (None, _) => {
            Err(operator
                .error(ErrorKind::Location(51044), format!("only supports numeric types, not {}", y.type_name())))
        }
        (_, None) => {
            Err(operator
                .error(ErrorKind::Location(51045), format!("only supports numeric types, not {}", x.type_name())))
        }
    }
}

fn degrees_to_radians<'a>(operator: &'static Operator, arguments: &mut [Value<'a>]) -> Result<Value<'a>> {
    convert(operator, arguments, PI / 180.0, |value, pi| {
        decimal::divide(decimal::multiply(value, pi), Decimal::from_i64(180))
    })
}

fn radians_to_degrees<'a>(operator: &'static Operator, arguments: &mut [Value<'a>]) -> Result<Value<'a>> {
    convert(operator, arguments, 180.0 / PI, |value, pi| {
        decimal::divide(decimal::multiply(value, Decimal::from_i64(180)), pi)
    })
}

fn convert<'a>(
    operator: &'static Operator,
    arguments: &[Value<'a>],
    factor: f64,
    of_decimal: fn(Decimal, Decimal) -> Decimal,
) -> Result<Value<'a>> {
    Ok(match single_number(operator, arguments)? {
        None => Value::NULL,
        Some(Number::Decimal128(value)) => {
            let pi = Decimal::parse(PI_DIGITS).unwrap_or(Decimal::NaN);
            of_decimal(Decimal::from_bson(value), pi).to_bson().into()
        }
        Some(number) => (number.to_f64() * factor).into(),
    })
}
