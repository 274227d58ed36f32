//! `$setIntersection`.

use super::elements::{contains, distinct};
use crate::expression::operators::prelude::*;

pub(super) const OPERATORS: &[Operator] =
    &[Operator::eager("$setIntersection", "The elements that appear in all of the arrays.", Arity::Any, intersection)];

fn intersection<'a>(_: &'static Operator, arguments: &mut [Value<'a>]) -> Result<Value<'a>> {
    let mut common: Option<Vec<RawBsonRef<'_>>> = None;
    for argument in arguments.iter() {
        if argument.is_nullish() {
            return Ok(Value::NULL);
        }
        let Some(array) = argument.as_array() else {
            let found = argument.type_name();
            let message = format!("All operands of $setIntersection must be arrays. One argument is of type: {found}");
            return Err(numbered(17047, message));
        };
        let set = distinct(array)?;
        match &mut common {
            None => common = Some(set),
            Some(common) => {
                let mut kept = Vec::new();
                for element in common.drain(..) {
                    work::step()?;
                    kept.extend(Some(element).filter(|element| contains(&set, *element)));
                }
                *common = kept;
            }
        }
    }
    Ok(array_of(common.unwrap_or_default())?.into())
}
