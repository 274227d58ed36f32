//! `$in`: whether an array holds a value.

use crate::expression::operators::prelude::*;

pub(super) const OPERATORS: &[Operator] =
    &[Operator::eager("$in", "Whether the second argument, an array, holds the first.", Arity::Exactly(2), in_array)];

fn in_array<'a>(operator: &'static Operator, arguments: &mut [Value<'a>]) -> Result<Value<'a>> {
    let [value, array] = arguments else { return Err(operator.misplaced()) };
    let Some(elements) = array.as_array() else {
        let found = array.type_name();
        return Err(numbered(40081, format!("$in requires an array as a second argument, found: {found}")));
    };
    for element in elements {
        work::step()?;
        if compare(Some(element?), value.get()).is_eq() {
            return Ok(true.into());
        }
    }
    Ok(false.into())
}
