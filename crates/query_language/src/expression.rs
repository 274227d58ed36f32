//! Aggregation expressions: parsed once, evaluated against documents.
//!
//! Called by filters (`$expr`), projections, pipeline updates, accumulators and pipeline stages. `parse` turns BSON
//! into a tree of `node`s with constants folded; `operators` holds the registry and one file an operator; `value` is what
//! evaluation yields and `variables` what it reads besides the document. It relies on `document` for comparison and
//! number arithmetic.

mod calendar;
mod conversion;
pub mod dependencies;
pub mod document_writer;
pub mod field_path;
mod limits;
pub mod metadata;
mod node;
mod number;
pub mod operator;
pub mod operators;
pub mod order;
mod parse;
mod redaction;
pub mod sort_pattern;
pub mod summation;
mod text;
mod time_unit;
pub mod value;
pub mod variables;

use std::collections::HashSet;

use bson::raw::{RawBson, RawBsonRef};

pub use dependencies::DependencySet;
pub use field_path::FieldPath;
pub use limits::check_bound;
pub(crate) use limits::check_bytes;
pub use metadata::{Metadata, MetadataUse};
pub use parse::show as show_value;
pub use redaction::Redaction;
pub use time_unit::TimeUnit;
pub use value::Value;
pub use variables::{EvaluationContext, ParseContext, Variables};

use crate::error::Result;

pub(crate) use node::{Node, single_field};
pub(crate) use number::positive_count;
pub(crate) use operators::function::{call_with, check_language, function_of};
pub(crate) use operators::meta;

/// A parsed expression.
#[derive(Debug)]
pub struct Expression(Node);

impl Expression {
    /// Parses a value as an expression. Errors are those MongoDB gives for the same mistake: unknown operators, wrong
    /// argument counts, undefined variables, invalid paths.
    pub fn parse(value: RawBsonRef<'_>, context: &ParseContext) -> Result<Self> {
        parse::parse_node(value, context).map(Self)
    }

    /// An expression that is always `value`.
    pub fn constant(value: RawBsonRef<'_>) -> Self {
        Self(parse::constant(value))
    }

    /// The path `$path`.
    pub fn field_path(path: FieldPath) -> Self {
        Self(Node::Path { base: node::Base::Root, path: Some(path) })
    }

    /// The value for a document. `context` must hold the variables that the expression was parsed with.
    pub fn evaluate<'a>(&'a self, context: &EvaluationContext<'a>) -> Result<Value<'a>> {
        self.0.evaluate(context)
    }

    /// The value when it depends on neither document nor variables. It may be `Value::Missing`.
    pub fn as_constant(&self) -> Option<&Value<'static>> {
        self.0.as_constant()
    }

    /// The path when the expression is just a field path of the document.
    pub fn as_field_path(&self) -> Option<&FieldPath> {
        self.0.as_field_path()
    }

    /// The tree.
    pub(crate) fn node(&self) -> &Node {
        &self.0
    }

    /// Adds what the expression reads.
    pub fn dependencies(&self, set: &mut DependencySet) {
        self.0.dependencies(set, &mut HashSet::new());
    }

    /// The expression as the client could have written it, for explain.
    pub fn to_bson(&self) -> Result<RawBson> {
        self.0.to_bson()
    }
}

#[cfg(test)]
mod tests;
