//! `$setDifference`: what only the first array holds, in its order.

use std::collections::HashSet;

use super::elements::{ElementKey, contains, distinct};
use crate::expression::operators::prelude::*;

pub(super) const OPERATORS: &[Operator] = &[Operator::eager(
    "$setDifference",
    "The elements that appear in the first array but not in the second.",
    Arity::Exactly(2),
    difference,
)];

fn difference<'a>(operator: &'static Operator, arguments: &mut [Value<'a>]) -> Result<Value<'a>> {
    let [first, second] = &*arguments else { return Err(operator.misplaced()) };
    if first.is_nullish() || second.is_nullish() {
        return Ok(Value::NULL);
    }
    let first_array = first.as_array().ok_or_else(|| not_an_array("First", first, 17048))?;
    let second_array = second.as_array().ok_or_else(|| not_an_array("Second", second, 17049))?;
    let excluded = distinct(second_array)?;
    let mut seen = HashSet::new();
    let mut kept = BuiltArray::default();
    for element in first_array {
        work::step()?;
        let element = element?;
        if !contains(&excluded, element) && seen.insert(ElementKey(element)) {
            kept.push(element)?;
        }
    }
    Ok(kept.into_array().into())
}

fn not_an_array(which: &str, value: &Value<'_>, kind: u32) -> QueryError {
    let found = value.type_name();
    let message = format!("both operands of $setDifference must be arrays. {which} argument is of type: {found}");
    numbered(kind, message)
}
