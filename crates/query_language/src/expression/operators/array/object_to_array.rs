//! `$objectToArray`: a document as an array of `{k, v}` documents.

use bson::raw::cstr;

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
    let mut pairs = RawArrayBuf::new();
    for element in document {
        work::step()?;
        let (name, value) = element?;
        let mut pair = RawDocumentBuf::new();
        pair.append(cstr!("k"), name.as_str());
        pair.append(cstr!("v"), value);
        pairs.push(pair);
    }
    Ok(pairs.into())
}
