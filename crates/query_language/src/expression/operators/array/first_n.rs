//! `$firstN` and `$lastN`: the elements at one end of an array.

use crate::expression::operators::array_selection::{FIELDS, REFUSALS, count_and_elements};
use crate::expression::operators::prelude::*;

pub(super) const OPERATORS: &[Operator] = &[
    Operator::named("$firstN", "The first n elements of an array.", FIELDS, REFUSALS, first_n),
    Operator::named("$lastN", "The last n elements of an array.", FIELDS, REFUSALS, last_n),
];

fn first_n<'a>(arguments: &NamedArguments<'a>, context: &EvaluationContext<'a>) -> Result<Value<'a>> {
    let (count, input) = count_and_elements(arguments, context)?;
    let array = input.as_array().into_iter().flatten();
    Ok(array.take(count).collect::<std::result::Result<RawArrayBuf, _>>()?.into())
}

fn last_n<'a>(arguments: &NamedArguments<'a>, context: &EvaluationContext<'a>) -> Result<Value<'a>> {
    let (count, input) = count_and_elements(arguments, context)?;
    let array = || input.as_array().into_iter().flatten();
    let skipped = array().count().saturating_sub(count);
    Ok(array().skip(skipped).collect::<std::result::Result<RawArrayBuf, _>>()?.into())
}
