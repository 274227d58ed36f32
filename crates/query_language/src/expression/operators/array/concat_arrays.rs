//! `$concatArrays`.

use crate::expression::operators::prelude::*;

pub(super) const OPERATORS: &[Operator] =
    &[Operator::eager("$concatArrays", "The elements of several arrays in one.", Arity::Any, concat_arrays)];

fn concat_arrays<'a>(_: &'static Operator, arguments: &mut [Value<'a>]) -> Result<Value<'a>> {
    let mut joined = BuiltArray::default();
    for argument in arguments {
        if argument.is_nullish() {
            return Ok(Value::NULL);
        }
        let Some(array) = argument.as_array() else {
            let found = argument.type_name();
            return Err(numbered(28664, format!("$concatArrays only supports arrays, not {found}")));
        };
        for element in array {
            work::step()?;
            joined.push(element?)?;
        }
        check_bytes(joined.as_array().as_bytes().len())?;
    }
    Ok(joined.into_array().into())
}
