//! `$firstN` and `$lastN`: the elements at one end of an array.

use crate::expression::operators::array_selection::{FIELDS, REFUSALS, count_and_elements};
use crate::expression::operators::prelude::*;

pub(super) const OPERATORS: &[Operator] = &[
    Operator::named("$firstN", "The first n elements of an array.", FIELDS, REFUSALS, first_n),
    Operator::named("$lastN", "The last n elements of an array.", FIELDS, REFUSALS, last_n),
];

fn first_n<'a>(arguments: &NamedArguments<'a>, context: &EvaluationContext<'a>) -> Result<Value<'a>> {
    let (count, input) = count_and_elements(arguments, context)?;
    let elements = input.as_array().into_iter().flatten();
    taken(elements.take(count))
}

fn last_n<'a>(arguments: &NamedArguments<'a>, context: &EvaluationContext<'a>) -> Result<Value<'a>> {
    let (count, input) = count_and_elements(arguments, context)?;
    let array = || input.as_array().into_iter().flatten();
    let skipped = array().count().saturating_sub(count);
    taken(array().skip(skipped))
}

fn taken<'a, 'e>(elements: impl Iterator<Item = bson::error::Result<RawBsonRef<'e>>>) -> Result<Value<'a>> {
    let mut array = BuiltArray::default();
    for element in elements {
        work::step()?;
        array.push(element?)?;
    }
    Ok(array.into_array().into())
}
