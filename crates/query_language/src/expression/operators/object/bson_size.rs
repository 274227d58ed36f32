//! `$bsonSize` and `$binarySize`: sizes in bytes.

use crate::expression::operators::prelude::*;

pub(super) const OPERATORS: &[Operator] = &[
    Operator::eager("$binarySize", "The size of a string or binary value in bytes.", Arity::Exactly(1), binary_size),
    Operator::eager("$bsonSize", "The size of a document in bytes.", Arity::Exactly(1), bson_size),
];

fn bson_size<'a>(operator: &'static Operator, arguments: &mut [Value<'a>]) -> Result<Value<'a>> {
    let [value] = &*arguments else { return Err(operator.misplaced()) };
    if value.is_nullish() {
        return Ok(Value::NULL);
    }
    match value.as_document() {
        Some(document) => Ok((document.as_bytes().len() as i32).into()),
        None => {
            let found = value.type_name();
            Err(numbered(31393, format!("$bsonSize requires a document input, found: {found}")))
        }
    }
}

fn binary_size<'a>(operator: &'static Operator, arguments: &mut [Value<'a>]) -> Result<Value<'a>> {
    let [value] = &*arguments else { return Err(operator.misplaced()) };
    match value.get() {
        None | Some(RawBsonRef::Null | RawBsonRef::Undefined) => Ok(Value::NULL),
        Some(RawBsonRef::String(text)) => Ok((text.len() as i32).into()),
        Some(RawBsonRef::Binary(binary)) => Ok((binary.bytes.len() as i32).into()),
        Some(_) => {
            let found = value.type_name();
            Err(numbered(51276, format!("$binarySize requires a string or BinData argument, found: {found}")))
        }
    }
}
