//! `$avg`, `$max`, `$min`, `$stdDevPop`, `$stdDevSamp`, `$sum` as expressions: over the elements of one array, or over
//! several arguments.

use super::prelude::*;
use crate::accumulator::{Input, make_unary};

pub(super) const OPERATORS: &[Operator] = &[
    Operator::eager("$avg", "The mean of numbers.", Arity::Any, evaluate),
    Operator::eager("$max", "The greatest of values.", Arity::Any, evaluate),
    Operator::eager("$min", "The least of values.", Arity::Any, evaluate),
    Operator::eager("$stdDevPop", "The standard deviation of numbers as a population.", Arity::Any, evaluate),
    Operator::eager("$stdDevSamp", "The standard deviation of numbers as a sample.", Arity::Any, evaluate),
    Operator::eager("$sum", "The sum of numbers.", Arity::Any, evaluate),
];

fn evaluate<'a>(operator: &'static Operator, arguments: &mut [Value<'a>]) -> Result<Value<'a>> {
    let Some(mut state) = make_unary(operator.name) else { return Err(operator.misplaced()) };
    match arguments {
        [single] if single.as_array().is_some() => {
            for element in single.as_array().into_iter().flatten() {
                work::step()?;
                state.accumulate(Input::Value(element?.into()))?;
            }
        }
        several => {
            for argument in several.iter_mut() {
                state.accumulate(Input::Value(std::mem::take(argument)))?;
            }
        }
    }
    state.finish()
}
