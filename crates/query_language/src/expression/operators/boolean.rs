//! `$and`, `$or` (which stop at the first argument that decides) and `$not`.

use super::prelude::*;

pub(super) const OPERATORS: &[Operator] = &[
    Operator::lazy("$and", "Whether every argument is true; true of none.", Arity::Any, and),
    Operator::eager("$not", "The opposite of the argument's truth.", Arity::Exactly(1), not),
    Operator::lazy("$or", "Whether some argument is true; false of none.", Arity::Any, or),
];

fn and<'a>(arguments: &'a [Node], context: &EvaluationContext<'a>) -> Result<Value<'a>> {
    for argument in arguments {
        if !argument.evaluate(context)?.is_truthy() {
            return Ok(false.into());
        }
    }
    Ok(true.into())
}

fn or<'a>(arguments: &'a [Node], context: &EvaluationContext<'a>) -> Result<Value<'a>> {
    for argument in arguments {
        if argument.evaluate(context)?.is_truthy() {
            return Ok(true.into());
        }
    }
    Ok(false.into())
}

fn not<'a>(_: &'static Operator, arguments: &mut [Value<'a>]) -> Result<Value<'a>> {
    Ok((!arguments.iter().any(Value::is_truthy)).into())
}
