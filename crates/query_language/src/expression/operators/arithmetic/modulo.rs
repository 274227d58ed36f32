//! `$mod`: the remainder, with the sign of the dividend.

use document::Number;

use crate::expression::operators::prelude::*;

pub(super) const OPERATORS: &[Operator] =
    &[Operator::eager("$mod", "The remainder of a division.", Arity::Exactly(2), modulo)];

fn modulo<'a>(operator: &'static Operator, arguments: &mut [Value<'a>]) -> Result<Value<'a>> {
    let [left, right] = &*arguments else { return Err(operator.misplaced()) };
    if left.is_nullish() || right.is_nullish() {
        return Ok(Value::NULL);
    }
    match (Number::from_bson(left.or_null()), Number::from_bson(right.or_null())) {
        (Some(dividend), Some(divisor)) => match dividend.remainder(divisor) {
            Some(remainder) => Ok(remainder.into()),
            None => Err(numbered(16610, "can't $mod by zero")),
        },
        _ => {
            let text = format!("only supports numeric types, not {} and {}", left.type_name(), right.type_name());
            Err(operator.error(ErrorKind::Location(16611), text))
        }
    }
}
