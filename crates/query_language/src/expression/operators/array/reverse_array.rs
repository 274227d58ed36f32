//! `$reverseArray`.

use crate::expression::operators::prelude::*;

pub(super) const OPERATORS: &[Operator] =
    &[Operator::eager("$reverseArray", "The elements of an array from last to first.", Arity::Exactly(1), reverse)];

fn reverse<'a>(operator: &'static Operator, arguments: &mut [Value<'a>]) -> Result<Value<'a>> {
    let [value] = arguments else { return Err(operator.misplaced()) };
    if value.is_nullish() {
        return Ok(Value::NULL);
    }
    let Some(array) = value.as_array() else {
        let found = value.type_name();
        let message = format!("The argument to $reverseArray must be an array, but was of type: {found}");
        return Err(numbered(34435, message));
    };
    let elements = elements_of(array)?;
    Ok(array_of(elements.into_iter().rev())?.into())
}
