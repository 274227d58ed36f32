//! What nearly every operator file needs, imported with one line.

pub(in crate::expression) use bson::raw::{
    CString, RawArray, RawArrayBuf, RawBson, RawBsonRef, RawDocument, RawDocumentBuf,
};

pub(in crate::expression) use crate::error::{ErrorKind, QueryError, Result};
pub(in crate::expression) use crate::expression::limits::{check_bytes, check_growth};
pub(in crate::expression) use crate::expression::node::{NamedArguments, Node, SpecialNode, single_field};
pub(in crate::expression) use crate::expression::number;
pub(in crate::expression) use crate::expression::operator::{Arity, NamedField, NamedRefusals, Operator};
pub(in crate::expression) use crate::expression::order::compare;
pub(in crate::expression) use crate::expression::parse::{parse_node, show};
pub(in crate::expression) use crate::expression::value::Value;
pub(in crate::expression) use crate::expression::variables::{EvaluationContext, ParseContext, Scope};

/// An error with one of MongoDB's numbers.
pub(in crate::expression) fn numbered(number: u32, message: impl Into<String>) -> QueryError {
    QueryError::new(ErrorKind::Location(number), message)
}
