//! What nearly every operator file needs, imported with one line.

pub(in crate::expression) use bson::raw::{
    CString, RawArray, RawArrayBuf, RawBson, RawBsonRef, RawDocument, RawDocumentBuf,
};

pub(in crate::expression) use document::work;

pub(in crate::expression) use crate::error::{ErrorKind, QueryError, Result};
pub(in crate::expression) use crate::expression::limits::{check_bytes, check_growth};
pub(in crate::expression) use crate::expression::node::{NamedArguments, Node, SpecialNode, single_field};
pub(in crate::expression) use crate::expression::number;
pub(in crate::expression) use crate::expression::operator::{Arity, NamedField, NamedRefusals, Operator};
pub(in crate::expression) use crate::expression::order::compare;
pub(in crate::expression) use crate::expression::parse::{parse_node, show};
pub(in crate::expression) use crate::expression::value::Value;
pub(in crate::expression) use crate::expression::variables::{EvaluationContext, ParseContext, Scope};
pub(in crate::expression) use crate::growth::{self, BuiltArray};

/// An error with one of MongoDB's numbers.
pub(in crate::expression) fn numbered(number: u32, message: impl Into<String>) -> QueryError {
    QueryError::new(ErrorKind::Location(number), message)
}

/// The elements of an array.
pub(in crate::expression) fn elements_of(array: &RawArray) -> Result<Vec<RawBsonRef<'_>>> {
    let mut elements = Vec::new();
    for element in array {
        work::step()?;
        growth::push(&mut elements, element?)?;
    }
    Ok(elements)
}

/// An array of these elements.
pub(in crate::expression) fn array_of<'a>(elements: impl IntoIterator<Item = RawBsonRef<'a>>) -> Result<RawArrayBuf> {
    let mut array = BuiltArray::default();
    for element in elements {
        work::step()?;
        array.push(element)?;
    }
    Ok(array.into_array())
}
