//! `$abs`.

use super::numeric_argument::single_number;
use crate::expression::operators::prelude::*;

pub(super) const OPERATORS: &[Operator] =
    &[Operator::eager("$abs", "The absolute value of a number.", Arity::Exactly(1), absolute)];

fn absolute<'a>(operator: &'static Operator, arguments: &mut [Value<'a>]) -> Result<Value<'a>> {
    let Some(number) = single_number(operator, arguments)? else { return Ok(Value::NULL) };
    match number.checked_absolute() {
        Some(absolute) => Ok(absolute.into()),
        None => Err(numbered(28680, "can't take $abs of long long min")),
    }
}
