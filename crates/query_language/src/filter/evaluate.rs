//! Evaluation of a filter tree against a document or a value.
//!
//! Nothing here allocates: values are read where they are stored. Errors are boxed so that the outcome of each step
//! fits in two registers.

use bson::spec::ElementType;
use document::{FieldPath, LeafArrays, ValueView, elements_of_bytes, work};

use super::search::Search;
use super::{FilterNode, expr, json_schema, text_filter, where_filter};
use crate::error::QueryError;
use crate::expression::Metadata;
use crate::rows::Row;

/// Whether something matched.
pub(crate) type Outcome = std::result::Result<bool, Box<QueryError>>;

/// What a match found out beside its being one.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct MatchDetails {
    position: Option<usize>,
    metadata: Option<Box<Metadata>>,
}

impl MatchDetails {
    /// Nothing known.
    pub fn new() -> Self {
        Self::default()
    }

    /// The position, in the outermost array that the filter searched, of the element that matched. With several
    /// arrays in a filter it is the last one searched.
    pub fn array_position(&self) -> Option<usize> {
        self.position
    }

    /// With what is known of the document, which is not found out by a match.
    #[must_use]
    pub fn with_metadata(self, metadata: Metadata) -> Self {
        Self { metadata: Some(Box::new(metadata)), ..self }
    }

    pub(crate) fn metadata(&self) -> Option<&Metadata> {
        self.metadata.as_deref()
    }

    pub(crate) fn record(&mut self, position: usize) {
        self.position = Some(position);
    }

    pub(crate) fn reset(&mut self) {
        self.position = None;
    }
}

/// What a node is evaluated against.
#[derive(Clone, Copy)]
pub(crate) enum Subject<'a> {
    /// A document, as stored bytes.
    Document(&'a [u8]),
    /// A document of one field.
    Field(&'a str, ValueView<'a>),
    /// The value that every path leads to.
    Value(ValueView<'a>),
    /// An array element under `$elemMatch`, which is not searched further.
    Element(ValueView<'a>),
    /// A row, which has the fields that the filter reads.
    Row(Row<'a>),
    /// Values by whole path.
    Keys(&'a dyn Fn(&FieldPath) -> Option<ValueView<'a>>),
}

impl<'a> Subject<'a> {
    /// The document, for what needs all of it; what is said where there is none.
    fn document_or(self, not_allowed: fn() -> QueryError) -> Result<&'a [u8], Box<QueryError>> {
        match self {
            Subject::Document(document) => Ok(document),
            _ => Err(Box::new(not_allowed())),
        }
    }

    /// Whether some value at `path` is accepted. A field at the top, which most paths are, needs no search.
    #[inline]
    fn any<F>(self, path: &FieldPath, leaf_arrays: LeafArrays, details: &mut MatchDetails, mut accepts: F) -> Outcome
    where
        F: FnMut(Option<ValueView<'_>>, &mut MatchDetails) -> Outcome,
    {
        match self {
            Subject::Element(value) => accepts(Some(value), details),
            Subject::Document(document) if path.len() == 1 => {
                let name = path.first().as_bytes();
                work::search(document)?;
                match elements_of_bytes(document).find(|element| element.name_bytes() == name) {
                    None => accepts(None, details),
                    Some(element) if element.element_type != ElementType::Array => {
                        accepts(Some(element.view()), details)
                    }
                    Some(element) => Search { path, leaf_arrays, accepts }.at_leaf(element.view(), details),
                }
            }
            Subject::Document(document) => Search { path, leaf_arrays, accepts }.in_document(document, 0, details),
            Subject::Value(value) => Search { path, leaf_arrays, accepts }.at_leaf(value, details),
            Subject::Row(row) => match row.view(path.first()) {
                None => accepts(None, details),
                Some(value) => Search { path, leaf_arrays, accepts }.at_first(value, details),
            },
            Subject::Field(name, value) => Search { path, leaf_arrays, accepts }.in_field(name, value, details),
            Subject::Keys(lookup) => match lookup(path) {
                None => accepts(None, details),
                Some(value) => Search { path, leaf_arrays, accepts }.at_leaf(value, details),
            },
        }
    }
}

/// Whether the subject satisfies the node.
pub(crate) fn evaluate(node: &FilterNode, subject: Subject<'_>, details: &mut MatchDetails) -> Outcome {
    use LeafArrays::{Expand, Whole};
    match node {
        FilterNode::AlwaysFalse => Ok(false),
        FilterNode::And(children) => all(children, subject, details),
        FilterNode::Or(children) => any(children, subject),
        FilterNode::Nor(children) => Ok(!any(children, subject)?),
        FilterNode::Not(child) => Ok(!evaluate(child, subject, &mut MatchDetails::default())?),
        FilterNode::Comparison(leaf) => subject.any(&leaf.path, Expand, details, |value, _| Ok(leaf.accepts(value))),
        FilterNode::In(leaf) => subject.any(&leaf.path, Expand, details, |value, _| leaf.accepts(value)),
        FilterNode::Exists(leaf) => subject.any(&leaf.path, Whole, details, |value, _| Ok(value.is_some())),
        FilterNode::Type(leaf) => subject.any(&leaf.path, Expand, details, |value, _| Ok(leaf.accepts(value))),
        FilterNode::Size(leaf) => subject.any(&leaf.path, Whole, details, |value, _| Ok(leaf.accepts(value))),
        FilterNode::Mod(leaf) => subject.any(&leaf.path, Expand, details, |value, _| Ok(leaf.accepts(value))),
        FilterNode::Bits(leaf) => subject.any(&leaf.path, Expand, details, |value, _| Ok(leaf.accepts(value))),
        FilterNode::Regex(leaf) => subject.any(&leaf.path, Expand, details, |value, _| leaf.accepts(value)),
        FilterNode::ElemMatchObject(leaf) => {
            subject.any(&leaf.path, Whole, details, |value, inner| leaf.accepts(value, inner))
        }
        FilterNode::ElemMatchValue(leaf) => {
            subject.any(&leaf.path, Whole, details, |value, inner| leaf.accepts(value, inner))
        }
        FilterNode::Geo(leaf) => subject.any(&leaf.path, Expand, details, |value, _| leaf.accepts(value)),
        FilterNode::Near(leaf) => subject.any(&leaf.path, Expand, details, |value, _| leaf.accepts(value)),
        FilterNode::Expr(leaf) => match subject {
            Subject::Row(row) => leaf.accepts_row(row),
            subject => leaf.accepts(subject.document_or(expr::not_allowed)?),
        },
        FilterNode::JsonSchema(leaf) => leaf.accepts(subject.document_or(json_schema::not_allowed)?),
        FilterNode::SampleRate(leaf) => Ok(leaf.accepts()),
        FilterNode::Where(leaf) => leaf.accepts(subject.document_or(where_filter::not_allowed)?),
        FilterNode::Text(leaf) => leaf.accepts(subject.document_or(text_filter::not_allowed)?),
    }
}

/// Conditions that are counted together.
const COUNTED: usize = 64;

fn all(children: &[FilterNode], subject: Subject<'_>, details: &mut MatchDetails) -> Outcome {
    for children in children.chunks(COUNTED) {
        work::done(children.len())?;
        for child in children {
            if !evaluate(child, subject, details)? {
                details.reset();
                return Ok(false);
            }
        }
    }
    Ok(true)
}

/// Which branch matched decides nothing about positions, so branches report none.
fn any(children: &[FilterNode], subject: Subject<'_>) -> Outcome {
    for children in children.chunks(COUNTED) {
        work::done(children.len())?;
        for child in children {
            if evaluate(child, subject, &mut MatchDetails::default())? {
                return Ok(true);
            }
        }
    }
    Ok(false)
}
