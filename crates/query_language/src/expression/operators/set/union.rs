//! `$setUnion`.

use super::elements::distinct;
use crate::expression::operators::prelude::*;

pub(super) const OPERATORS: &[Operator] =
    &[Operator::eager("$setUnion", "The elements that appear in any of the arrays.", Arity::Any, union)];

fn union<'a>(_: &'static Operator, arguments: &mut [Value<'a>]) -> Result<Value<'a>> {
    let mut all = BuiltArray::default();
    for argument in arguments {
        if argument.is_nullish() {
            return Ok(Value::NULL);
        }
        let Some(array) = argument.as_array() else {
            let found = argument.type_name();
            let message = format!("All operands of $setUnion must be arrays. One argument is of type: {found}");
            return Err(numbered(17043, message));
        };
        for element in array {
            work::step()?;
            all.push(element?)?;
        }
        check_bytes(all.as_array().as_bytes().len())?;
    }
    Ok(array_of(distinct(all.as_array())?)?.into())
}
