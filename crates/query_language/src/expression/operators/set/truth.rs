//! `$allElementsTrue` and `$anyElementTrue`.

use crate::expression::operators::prelude::*;
use crate::expression::value::is_truthy;

pub(super) const OPERATORS: &[Operator] = &[
    Operator::eager("$allElementsTrue", "Whether every element of an array is true.", Arity::Exactly(1), all),
    Operator::eager("$anyElementTrue", "Whether some element of an array is true.", Arity::Exactly(1), any),
];

fn all<'a>(operator: &'static Operator, arguments: &mut [Value<'a>]) -> Result<Value<'a>> {
    let elements = elements(operator, arguments, 17040)?;
    Ok(elements.into_iter().all(is_truthy).into())
}

fn any<'a>(operator: &'static Operator, arguments: &mut [Value<'a>]) -> Result<Value<'a>> {
    let elements = elements(operator, arguments, 17041)?;
    Ok(elements.into_iter().any(is_truthy).into())
}

fn elements<'v>(operator: &Operator, arguments: &'v [Value<'_>], kind: u32) -> Result<Vec<RawBsonRef<'v>>> {
    let [value] = arguments else { return Err(operator.misplaced()) };
    let Some(array) = value.as_array() else {
        let (name, found) = (operator.name, value.type_name());
        return Err(numbered(kind, format!("{name}'s argument must be an array, but is {found}")));
    };
    elements_of(array)
}
