//! `$objectToArray`: a document as an array of `{k, v}` documents.

use crate::expression::operators::prelude::*;

pub(super) const OPERATORS: &[Operator] =
    &[Operator::eager("$objectToArray", "The fields of a document as {k, v} documents.", Arity::Exactly(1), convert)];

fn convert<'a>(operator: &'static Operator, arguments: &mut [Value<'a>]) -> Result<Value<'a>> {
    let [value] = arguments else { return Err(operator.misplaced()) };
    if value.is_nullish() {
        return Ok(Value::NULL);
    }
    let Some(document) = value.as_document() else {
        let found = value.type_name();
        return Err(numbered(40390, format!("$objectToArray requires a document input, found: {found}")));
    };
    let mut pairs = BuiltArray::default();
    for element in document {
        work::step()?;
        let (name, value) = element?;
        let fields = [("k", RawBsonRef::String(name.as_str())), ("v", value)];
        let pair = growth::document_of(fields.into_iter())?;
        pairs.push(RawBsonRef::Document(&pair))?;
        check_bytes(pairs.as_array().as_bytes().len())?;
    }
    Ok(pairs.into_array().into())
}
