//! `$arrayToObject`: a document from an array of `[key, value]` pairs or `{k, v}` documents.

use crate::expression::document_writer::DocumentWriter;
use crate::expression::operators::prelude::*;
use crate::expression::value::type_name;

pub(super) const OPERATORS: &[Operator] =
    &[Operator::eager("$arrayToObject", "A document from key and value pairs.", Arity::Exactly(1), convert)];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Shape {
    Pairs,
    Documents,
}

fn convert<'a>(operator: &'static Operator, arguments: &mut [Value<'a>]) -> Result<Value<'a>> {
    let [value] = arguments else { return Err(operator.misplaced()) };
    if value.is_nullish() {
        return Ok(Value::NULL);
    }
    let Some(array) = value.as_array() else {
        let found = value.type_name();
        return Err(numbered(40386, format!("$arrayToObject requires an array input, found: {found}")));
    };
    let mut shape = None;
    let mut writer = DocumentWriter::new();
    for element in array {
        work::step()?;
        let element = element?;
        let found = match element {
            RawBsonRef::Array(_) => Some(Shape::Pairs),
            RawBsonRef::Document(_) => Some(Shape::Documents),
            _ => None,
        };
        match (*shape.get_or_insert(found), element) {
            (Some(Shape::Pairs), RawBsonRef::Array(pair)) => {
                let (key, value) = from_pair(pair)?;
                writer.set(key, value);
            }
            (Some(Shape::Documents), RawBsonRef::Document(pair)) => {
                let (key, value) = from_document(pair)?;
                writer.set(key, value);
            }
            (first, other) => return Err(mixed(first, other)),
        }
    }
    Ok(writer.finish()?.into())
}

/// An element of another shape than the first, or a first element of no valid shape.
fn mixed(first: Option<Shape>, element: RawBsonRef<'_>) -> QueryError {
    let found = type_name(element.element_type());
    match first {
        None => numbered(40398, format!("Unrecognised input type format for $arrayToObject: {found}")),
        Some(Shape::Pairs) => {
            let message = format!(
                "$arrayToObject requires a consistent input format. Elements must all be arrays or all be objects. \
                 Array was detected, now found: {found}"
            );
            numbered(40396, message)
        }
        Some(Shape::Documents) => {
            let message = format!(
                "$arrayToObject requires a consistent input format. Elements must all be arrays or all be objects. \
                 Object was detected, now found: {found}"
            );
            numbered(40391, message)
        }
    }
}

fn from_pair(pair: &RawArray) -> Result<(&str, RawBsonRef<'_>)> {
    let parts = pair.into_iter().collect::<std::result::Result<Vec<_>, _>>()?;
    let [key, value] = parts.as_slice() else {
        let found = parts.len();
        let message = format!("$arrayToObject requires an array of size 2 arrays,found array of size: {found}");
        return Err(numbered(40397, message));
    };
    let RawBsonRef::String(key) = key else {
        let found = type_name(key.element_type());
        let message = format!(
            "$arrayToObject requires an array of key-value pairs, where the key must be of type string. \
             Found key type: {found}"
        );
        return Err(numbered(40395, message));
    };
    Ok((check_key(key, 4940400)?, *value))
}

fn from_document(pair: &RawDocument) -> Result<(&str, RawBsonRef<'_>)> {
    let found = pair.iter().count();
    if found != 2 {
        let message =
            format!("$arrayToObject requires an object keys of 'k' and 'v'. Found incorrect number of keys:{found}");
        return Err(numbered(40392, message));
    }
    let (Some(key), Some(value)) = (pair.get("k")?, pair.get("v")?) else {
        let shown = show(RawBsonRef::Document(pair));
        let message = format!(
            "$arrayToObject requires an object with keys 'k' and 'v'. Missing either or both keys from: {shown}"
        );
        return Err(numbered(40393, message));
    };
    let RawBsonRef::String(key) = key else {
        let found = type_name(key.element_type());
        let message = format!(
            "$arrayToObject requires an object with keys 'k' and 'v', where the value of 'k' must be of type string. \
             Found type: {found}"
        );
        return Err(numbered(40394, message));
    };
    Ok((check_key(key, 4940401)?, value))
}

fn check_key(key: &str, kind: u32) -> Result<&str> {
    if key.contains('\0') {
        return Err(numbered(kind, "Key field cannot contain an embedded null byte"));
    }
    Ok(key)
}
