//! `$divide`: always a double, or a decimal when an operand is one.

use document::Number;

use crate::expression::operators::prelude::*;

pub(super) const OPERATORS: &[Operator] =
    &[Operator::eager("$divide", "The quotient of two numbers.", Arity::Exactly(2), divide)];

fn divide<'a>(operator: &'static Operator, arguments: &mut [Value<'a>]) -> Result<Value<'a>> {
    let [left, right] = &*arguments else { return Err(operator.misplaced()) };
    if left.is_nullish() || right.is_nullish() {
        return Ok(Value::NULL);
    }
    match (Number::from_bson(left.or_null()), Number::from_bson(right.or_null())) {
        (Some(dividend), Some(divisor)) => match dividend.divide(divisor) {
            Some(quotient) => Ok(quotient.into()),
            None => Err(QueryError::new(ErrorKind::BadValue, "can't $divide by zero")),
        },
        _ => {
            let text = format!("only supports numeric types, not {} and {}", left.type_name(), right.type_name());
            Err(operator.error(ErrorKind::TypeMismatch, text))
        }
    }
}
