//! `$setEquals`.

use super::elements::distinct;
use crate::expression::operators::prelude::*;
use crate::expression::parse::{fold, parse_arguments};

pub(super) const OPERATORS: &[Operator] =
    &[Operator::special("$setEquals", "Whether the arrays hold the same elements.", parse)];

/// The behaviour; the public entry adds the check of the argument count.
static EAGER: Operator = Operator::eager("$setEquals", "", Arity::Any, equals);

fn parse(_: &'static Operator, argument: RawBsonRef<'_>, context: &ParseContext) -> Result<Node> {
    let arguments = parse_arguments(argument, context)?;
    if arguments.len() < 2 {
        let given = arguments.len();
        return Err(numbered(17045, format!("$setEquals needs at least two arguments had: {given}")));
    }
    fold(Node::Positional { operator: &EAGER, arguments }, context)
}

fn equals<'a>(_: &'static Operator, arguments: &mut [Value<'a>]) -> Result<Value<'a>> {
    let mut first: Option<Vec<RawBsonRef<'_>>> = None;
    for (position, argument) in arguments.iter().enumerate() {
        let Some(array) = argument.as_array() else {
            let found = argument.type_name();
            let position = position + 1;
            let message =
                format!("All operands of $setEquals must be arrays. {position}-th argument is of type: {found}");
            return Err(numbered(17044, message));
        };
        let set = distinct(array)?;
        let Some(first) = &first else {
            first = Some(set);
            continue;
        };
        let same = |(left, right): (&RawBsonRef<'_>, &RawBsonRef<'_>)| compare(Some(*left), Some(*right)).is_eq();
        if first.len() != set.len() || !first.iter().zip(&set).all(same) {
            return Ok(false.into());
        }
    }
    Ok(true.into())
}
