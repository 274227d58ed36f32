//! `$indexOfArray`: the first position of a value in an array, within optional bounds.

use crate::expression::operators::index_bounds::index_bound;
use crate::expression::operators::prelude::*;

pub(super) const OPERATORS: &[Operator] = &[Operator::eager(
    "$indexOfArray",
    "The first position of a value in an array from a start to before an end; -1 when absent.",
    Arity::Between(2, 4),
    index_of_array,
)];

fn index_of_array<'a>(operator: &'static Operator, arguments: &mut [Value<'a>]) -> Result<Value<'a>> {
    let [array, wanted, bounds @ ..] = arguments else { return Err(operator.misplaced()) };
    if array.is_nullish() {
        return Ok(Value::NULL);
    }
    let Some(elements) = array.as_array() else {
        let found = array.type_name();
        return Err(numbered(40090, format!("$indexOfArray requires an array as a first argument, found: {found}")));
    };
    let start = bounds.first().map(|bound| index_bound(operator, bound, "starting")).transpose()?.unwrap_or(0);
    let end = bounds.get(1).map(|bound| index_bound(operator, bound, "ending")).transpose()?.unwrap_or(usize::MAX);
    for (position, element) in elements.into_iter().enumerate().skip(start) {
        if position >= end {
            break;
        }
        if compare(Some(element?), wanted.get()).is_eq() {
            return Ok((position as i32).into());
        }
    }
    Ok((-1).into())
}
