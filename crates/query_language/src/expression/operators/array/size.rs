//! `$size` and `$isArray`.

use crate::expression::operators::prelude::*;

pub(super) const OPERATORS: &[Operator] = &[
    Operator::eager("$isArray", "Whether the argument is an array.", Arity::Exactly(1), is_array),
    Operator::eager("$size", "The number of elements of an array.", Arity::Exactly(1), size),
];

fn is_array<'a>(_: &'static Operator, arguments: &mut [Value<'a>]) -> Result<Value<'a>> {
    Ok(arguments.iter().all(|value| value.as_array().is_some()).into())
}

fn size<'a>(operator: &'static Operator, arguments: &mut [Value<'a>]) -> Result<Value<'a>> {
    let [value] = arguments else { return Err(operator.misplaced()) };
    match value.as_array() {
        Some(array) => Ok((array.into_iter().count() as i32).into()),
        None => {
            let found = value.type_name();
            Err(numbered(17124, format!("The argument to $size must be an array, but was of type: {found}")))
        }
    }
}
