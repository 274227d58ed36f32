//! `$maxN` and `$minN`: the greatest or least elements of an array, in order; null and missing do not count.

use crate::expression::operators::array_selection::{FIELDS, REFUSALS, count_and_elements};
use crate::expression::operators::prelude::*;

pub(super) const OPERATORS: &[Operator] = &[
    Operator::named("$maxN", "The n greatest elements of an array, greatest first.", FIELDS, REFUSALS, max_n),
    Operator::named("$minN", "The n least elements of an array, least first.", FIELDS, REFUSALS, min_n),
];

fn max_n<'a>(arguments: &NamedArguments<'a>, context: &EvaluationContext<'a>) -> Result<Value<'a>> {
    select(arguments, context, true)
}

fn min_n<'a>(arguments: &NamedArguments<'a>, context: &EvaluationContext<'a>) -> Result<Value<'a>> {
    select(arguments, context, false)
}

fn select<'a>(arguments: &NamedArguments<'a>, context: &EvaluationContext<'a>, descending: bool) -> Result<Value<'a>> {
    let (count, input) = count_and_elements(arguments, context)?;
    let mut elements = Vec::new();
    for element in input.as_array().into_iter().flatten() {
        match element? {
            RawBsonRef::Null | RawBsonRef::Undefined => {}
            element => growth::push(&mut elements, element)?,
        }
    }
    elements.sort_by(|left, right| {
        let ordering = compare(Some(*left), Some(*right));
        if descending { ordering.reverse() } else { ordering }
    });
    Ok(array_of(elements.into_iter().take(count))?.into())
}
