//! `$type` and `$isNumber`.

use super::prelude::*;

pub(super) const OPERATORS: &[Operator] = &[
    Operator::eager("$isNumber", "Whether a value is a number.", Arity::Exactly(1), is_number),
    Operator::eager("$type", "The name of a value's BSON type, \"missing\" for none.", Arity::Exactly(1), type_of),
];

fn is_number<'a>(_: &'static Operator, arguments: &mut [Value<'a>]) -> Result<Value<'a>> {
    Ok(arguments.iter().all(|value| number::is_number(value.or_null())).into())
}

fn type_of<'a>(operator: &'static Operator, arguments: &mut [Value<'a>]) -> Result<Value<'a>> {
    let [value] = &*arguments else { return Err(operator.misplaced()) };
    Ok(value.type_name().into())
}
