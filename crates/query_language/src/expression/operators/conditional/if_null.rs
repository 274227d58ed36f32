//! `$ifNull`: the first argument that is not null, undefined or missing, otherwise the last.

use crate::expression::operators::prelude::*;

pub(super) const OPERATORS: &[Operator] =
    &[Operator::special("$ifNull", "The first argument that is neither null nor missing, otherwise the last.", parse)];

/// The behaviour, under the name that explain shows; the public entry adds the check of the argument count.
static LAZY: Operator = Operator::lazy("$ifNull", "", Arity::Any, evaluate);

fn parse(_: &'static Operator, argument: RawBsonRef<'_>, context: &ParseContext) -> Result<Node> {
    let arguments = crate::expression::parse::parse_arguments(argument, context)?;
    if arguments.len() < 2 {
        let given = arguments.len();
        let message = format!("$ifNull needs at least two arguments, had: {given}");
        return Err(numbered(1257300, message));
    }
    crate::expression::parse::fold(Node::Positional { operator: &LAZY, arguments }, context)
}

fn evaluate<'a>(arguments: &'a [Node], context: &EvaluationContext<'a>) -> Result<Value<'a>> {
    let mut value = Value::Missing;
    for argument in arguments {
        value = argument.evaluate(context)?;
        if !value.is_nullish() {
            break;
        }
    }
    Ok(value)
}
