//! `$arrayElemAt`, `$first`, `$last`: one element of an array; missing when there is none.

use crate::expression::operators::prelude::*;

pub(super) const OPERATORS: &[Operator] = &[
    Operator::eager(
        "$arrayElemAt",
        "The element at a position, counted from the end when negative.",
        Arity::Exactly(2),
        array_elem_at,
    ),
    Operator::eager("$first", "The first element of an array.", Arity::Exactly(1), first),
    Operator::eager("$last", "The last element of an array.", Arity::Exactly(1), last),
];

fn array_elem_at<'a>(operator: &'static Operator, arguments: &mut [Value<'a>]) -> Result<Value<'a>> {
    let [array, position] = arguments else { return Err(operator.misplaced()) };
    if array.is_nullish() || position.is_nullish() {
        return Ok(Value::NULL);
    }
    if array.as_array().is_none() {
        let found = array.type_name();
        return Err(numbered(28689, format!("$arrayElemAt's first argument must be an array, but is {found}")));
    }
    let given = position.or_null();
    if !number::is_number(given) {
        let found = position.type_name();
        return Err(numbered(28690, format!("$arrayElemAt's second argument must be a numeric value, but is {found}")));
    }
    let Some(position) = number::to_i32_exact(given) else {
        let shown = show(given);
        let message = format!("$arrayElemAt's second argument must be representable as a 32-bit integer: {shown}");
        return Err(numbered(28691, message));
    };
    Ok(std::mem::take(array).extract(|value| element_at(value, position)))
}

fn first<'a>(operator: &'static Operator, arguments: &mut [Value<'a>]) -> Result<Value<'a>> {
    end_of(operator, arguments, 0)
}

fn last<'a>(operator: &'static Operator, arguments: &mut [Value<'a>]) -> Result<Value<'a>> {
    end_of(operator, arguments, -1)
}

fn end_of<'a>(operator: &'static Operator, arguments: &mut [Value<'a>], position: i32) -> Result<Value<'a>> {
    let [array] = arguments else { return Err(operator.misplaced()) };
    if array.is_nullish() {
        return Ok(Value::NULL);
    }
    if array.as_array().is_none() {
        let (name, found) = (operator.name, array.type_name());
        return Err(numbered(28689, format!("{name}'s argument must be an array, but is {found}")));
    }
    Ok(std::mem::take(array).extract(|value| element_at(value, position)))
}

/// The element at a position of an array, from the end when negative.
fn element_at(value: RawBsonRef<'_>, position: i32) -> Option<RawBsonRef<'_>> {
    let array = value.as_array()?;
    let position = match usize::try_from(position) {
        Ok(position) => position,
        Err(_) => array.into_iter().count().checked_sub(position.unsigned_abs() as usize)?,
    };
    array.into_iter().nth(position)?.ok()
}
