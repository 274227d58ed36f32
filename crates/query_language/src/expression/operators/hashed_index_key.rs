//! `$toHashedIndexKey`: what a hashed index has in place of a value.

use super::prelude::*;

pub(super) const OPERATORS: &[Operator] = &[Operator::eager(
    "$toHashedIndexKey",
    "The hash by which a hashed index finds a value.",
    Arity::Exactly(1),
    to_hashed_index_key,
)];

fn to_hashed_index_key<'a>(operator: &'static Operator, arguments: &mut [Value<'a>]) -> Result<Value<'a>> {
    let [value] = &*arguments else { return Err(operator.misplaced()) };
    // Values are hashed as they stand in a document, and a missing one as null.
    let mut holder = BuiltArray::default();
    holder.push(value.or_null())?;
    let Some(stored) = document::array_elements(holder.as_array()).next() else { return Err(operator.misplaced()) };
    let hash = document::index_hash_of_stored(stored.element_type, stored.value_bytes())?;
    Ok(RawBsonRef::Int64(hash).into())
}
