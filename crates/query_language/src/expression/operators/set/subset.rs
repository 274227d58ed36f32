//! `$setIsSubset`.

use super::elements::{contains, distinct};
use crate::expression::operators::prelude::*;

pub(super) const OPERATORS: &[Operator] = &[Operator::eager(
    "$setIsSubset",
    "Whether every element of the first array is in the second.",
    Arity::Exactly(2),
    subset,
)];

fn subset<'a>(operator: &'static Operator, arguments: &mut [Value<'a>]) -> Result<Value<'a>> {
    let [first, second] = &*arguments else { return Err(operator.misplaced()) };
    let first_array = first.as_array().ok_or_else(|| not_an_array("First", first, 17046))?;
    let second_array = second.as_array().ok_or_else(|| not_an_array("Second", second, 17042))?;
    let container = distinct(second_array)?;
    for element in first_array {
        work::step()?;
        if !contains(&container, element?) {
            return Ok(false.into());
        }
    }
    Ok(true.into())
}

fn not_an_array(which: &str, value: &Value<'_>, kind: u32) -> QueryError {
    let found = value.type_name();
    let message = format!("both operands of $setIsSubset must be arrays. {which} argument is of type: {found}");
    numbered(kind, message)
}
