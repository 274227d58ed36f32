//! Filters: the predicates of `find`, `update`, `delete`, `$match`, partial indexes and validators.
//!
//! [`Filter::parse`] turns the client's document into a normalized tree of [`FilterNode`]s, which the planner reads to
//! derive index bounds and which is evaluated over raw BSON without allocating. Called by the planner, the executor,
//! aggregation, updates (`$pull`, array filters, upsert) and `collection` (partial indexes). It relies on `document`
//! for comparison and iteration and on `expression` for `$expr`. One operator a file; a word reserved by Rust gets `_filter`.
//!
//! How a path meets arrays (see `search`): a predicate holds for a document when it holds for any value its path leads
//! to. Arrays on the way are searched element by element, and by position where the path has a number; an array at
//! the end offers its elements, then itself. `$not`, `$ne`, `$nin` and `$nor` negate that whole search.

mod all;
mod bits;
mod comparison;
mod elem_match;
mod equality_fields;
mod evaluate;
mod exists;
mod expr;
mod failure;
mod geo;
mod in_filter;
mod json_schema;
mod literal;
mod logical;
mod mod_filter;
mod near;
mod normalize;
mod operators;
mod parse;
mod referenced_paths;
mod regex;
mod sample_rate;
mod search;
mod serialize;
mod shape;
mod size;
mod text_filter;
mod type_filter;
pub(crate) mod value_text;
mod where_filter;
pub(crate) mod whole_number;

use std::sync::Arc;

use bson::{DateTime, RawBsonRef, RawDocument, RawDocumentBuf};
use document::{FieldPath, ValueView, with_view};

use crate::error::Result;
use crate::expression::Variables;
use crate::rows::Row;
use evaluate::Subject;

pub use bits::{BitTest, BitsFilter};
pub use comparison::{Comparison, ComparisonOperator};
pub use elem_match::{ElemMatchObject, ElemMatchValue};
pub use evaluate::MatchDetails;
pub use exists::ExistsFilter;
pub use expr::ExprFilter;
pub use failure::describe_failure;
pub use geo::{GeoFilter, GeoRelation};
pub use in_filter::InFilter;
pub use json_schema::JsonSchema;
pub use literal::Literal;
pub use mod_filter::ModFilter;
pub use near::{Near, NearCenter, NearFilter, Nearest};
pub use operators::{OPERATORS, Support};
pub use referenced_paths::ReferencedPaths;
pub use regex::RegexFilter;
pub use sample_rate::SampleRate;
pub use size::SizeFilter;
pub use text_filter::{BoundText, TextFilter, no_index};
pub use type_filter::TypeFilter;
pub use where_filter::WhereFilter;

/// What parsing needs to know beside the filter.
#[derive(Debug, Clone)]
pub struct FilterOptions {
    /// The command's variables (`let`, `NOW`), for `$expr` and `$sampleRate`.
    pub variables: Arc<Variables>,
    /// Whether `$expr` may be used.
    pub expressions: Expressions,
    /// Whether `$where` may be used.
    pub scripts: Scripts,
    /// Whether `$near` may be used.
    pub nearness: Nearness,
    /// Whether `$text` may be used.
    pub texts: Texts,
}

/// Whether a filter may have `$near`: that of a query may, which gives its documents in an order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Nearness {
    Allowed,
    Refused,
}

/// Whether a filter may have `$text`: that of a query may, which an index answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Texts {
    Allowed,
    Refused,
}

/// Whether a filter may have `$where`: that of a query may, a validator, an aggregation's and the like may not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Scripts {
    Allowed,
    Refused,
}

/// Whether a filter may have `$expr`, which needs a whole document to be evaluated against.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expressions {
    /// It may.
    Allowed,
    /// It is refused with `QueryFeatureNotAllowed`: array filters, `$pull`, the filter of an upsert.
    Refused,
}

impl FilterOptions {
    /// Options of a command with these variables.
    pub fn new(variables: Arc<Variables>) -> Self {
        Self {
            variables,
            expressions: Expressions::Allowed,
            scripts: Scripts::Refused,
            nearness: Nearness::Refused,
            texts: Texts::Refused,
        }
    }

    /// The same with `$where`.
    pub fn with_scripts(self) -> Self {
        Self { scripts: Scripts::Allowed, ..self }
    }

    /// The same with `$near`.
    pub fn with_nearness(self) -> Self {
        Self { nearness: Nearness::Allowed, ..self }
    }

    /// The same with `$text`.
    pub fn with_texts(self) -> Self {
        Self { texts: Texts::Allowed, ..self }
    }

    /// The same without `$expr`.
    pub fn without_expressions(self) -> Self {
        Self { expressions: Expressions::Refused, ..self }
    }
}

impl Default for FilterOptions {
    /// No user variables, and the epoch as `NOW`: for filters that belong to no command.
    fn default() -> Self {
        Self::new(Arc::new(Variables::new(DateTime::from_millis(0), None, 0)))
    }
}

/// One node of a filter. Leaves hold their path; logical nodes hold children.
///
/// `$ne`, `$nin` and `$exists: false` are `Not` of the positive leaf, `$all` is an `And` of its entries, `$comment` leaves
/// nothing, and the filter that matches everything is an `And` without children.
#[derive(Debug, Clone)]
pub enum FilterNode {
    /// Matches nothing: `$alwaysFalse`, `$in: []`, `$all: []`.
    AlwaysFalse,
    /// Every child matches.
    And(Vec<FilterNode>),
    /// Some child matches.
    Or(Vec<FilterNode>),
    /// No child matches.
    Nor(Vec<FilterNode>),
    /// The child does not match.
    Not(Box<FilterNode>),
    /// `$eq`, `$lt`, `$lte`, `$gt`, `$gte`.
    Comparison(Comparison),
    /// `$in`.
    In(InFilter),
    /// `$exists: true`.
    Exists(ExistsFilter),
    /// `$type`.
    Type(TypeFilter),
    /// `$size`.
    Size(SizeFilter),
    /// `$mod`.
    Mod(ModFilter),
    /// `$bitsAllSet` and its kin.
    Bits(BitsFilter),
    /// A regular expression.
    Regex(RegexFilter),
    /// `$elemMatch` with a filter for documents in the array.
    ElemMatchObject(ElemMatchObject),
    /// `$elemMatch` with operators for the elements themselves.
    ElemMatchValue(ElemMatchValue),
    /// `$geoWithin` and `$geoIntersects`.
    Geo(GeoFilter),
    /// `$near` and `$nearSphere`.
    Near(NearFilter),
    /// `$expr`.
    Expr(ExprFilter),
    /// `$jsonSchema`.
    JsonSchema(JsonSchema),
    /// `$sampleRate`.
    SampleRate(SampleRate),
    /// `$where`.
    Where(WhereFilter),
    /// `$text`.
    Text(TextFilter),
}

impl FilterNode {
    /// The path of a leaf; `None` for logical nodes, `$expr`, `$jsonSchema`, `$sampleRate`, `$where` and `$text`.
    pub fn path(&self) -> Option<&FieldPath> {
        match self {
            FilterNode::Comparison(leaf) => Some(&leaf.path),
            FilterNode::In(leaf) => Some(&leaf.path),
            FilterNode::Exists(leaf) => Some(&leaf.path),
            FilterNode::Type(leaf) => Some(&leaf.path),
            FilterNode::Size(leaf) => Some(&leaf.path),
            FilterNode::Mod(leaf) => Some(&leaf.path),
            FilterNode::Bits(leaf) => Some(&leaf.path),
            FilterNode::Regex(leaf) => Some(&leaf.path),
            FilterNode::ElemMatchObject(leaf) => Some(&leaf.path),
            FilterNode::ElemMatchValue(leaf) => Some(&leaf.path),
            FilterNode::Geo(leaf) => Some(&leaf.path),
            FilterNode::Near(leaf) => Some(&leaf.path),
            FilterNode::AlwaysFalse
            | FilterNode::And(_)
            | FilterNode::Or(_)
            | FilterNode::Nor(_)
            | FilterNode::Not(_)
            | FilterNode::Expr(_)
            | FilterNode::JsonSchema(_)
            | FilterNode::SampleRate(_)
            | FilterNode::Where(_)
            | FilterNode::Text(_) => None,
        }
    }

    /// The children of a logical node; none for leaves (`$elemMatch` included).
    pub fn children(&self) -> &[FilterNode] {
        match self {
            FilterNode::And(children) | FilterNode::Or(children) | FilterNode::Nor(children) => children,
            FilterNode::Not(child) => std::slice::from_ref(child),
            _ => &[],
        }
    }

    /// Whether the document satisfies this node.
    pub fn matches(&self, document: &RawDocument) -> Result<bool> {
        self.evaluate(Subject::Document(document.as_bytes()))
    }

    /// Whether `value` satisfies this node when it is what every path of the node leads to.
    ///
    /// For predicates over one field: a value decoded from an index key, an array element under `$pull`.
    pub fn matches_value(&self, value: RawBsonRef<'_>) -> Result<bool> {
        with_view(value, |view| self.evaluate(Subject::Value(view)))
    }

    /// The same for a value in the `document` crate's form.
    pub fn matches_view(&self, value: ValueView<'_>) -> Result<bool> {
        self.evaluate(Subject::Value(value))
    }

    /// Whether the values that `lookup` gives for whole paths satisfy this node: for filters over compound index keys.
    pub fn matches_keys<'a>(&self, lookup: &'a dyn Fn(&FieldPath) -> Option<ValueView<'a>>) -> Result<bool> {
        self.evaluate(Subject::Keys(lookup))
    }

    /// Whether a document of one field, `{name: value}`, satisfies this node; for array filters.
    pub fn matches_field(&self, name: &str, value: RawBsonRef<'_>) -> Result<bool> {
        with_view(value, |view| self.evaluate(Subject::Field(name, view)))
    }

    /// Whether a row satisfies this node, which reads no other fields of documents than the row has.
    pub(crate) fn matches_row(&self, row: Row<'_>) -> Result<bool> {
        self.evaluate(Subject::Row(row))
    }

    /// This node as the client could have written it.
    pub fn to_document(&self) -> RawDocumentBuf {
        serialize::to_document(self)
    }

    /// The paths read by this node.
    pub fn referenced_paths(&self) -> ReferencedPaths {
        ReferencedPaths::of(self)
    }

    fn evaluate(&self, subject: Subject<'_>) -> Result<bool> {
        evaluate::evaluate(self, subject, &mut MatchDetails::default()).map_err(|error| *error)
    }
}

/// A parsed and normalized filter.
#[derive(Debug, Clone)]
pub struct Filter {
    root: FilterNode,
}

impl Filter {
    /// Parses the filter of a command. Errors have MongoDB's codes: mostly `BadValue`; `NotImplemented` for operators
    /// that MongoDB has and this server refuses.
    pub fn parse(filter: &RawDocument, options: &FilterOptions) -> Result<Self> {
        let root = parse::Parser::new(options).filter(filter)?;
        if options.texts == Texts::Allowed {
            text_filter::check_places(&root)?;
        }
        let root = normalize::normalize(root)?;
        if options.nearness == Nearness::Allowed {
            near::check_places(&root)?;
        }
        Ok(Self { root })
    }

    /// Parses a document of operators, `{$gt: 3, $lt: 5}`, as a predicate over a value itself (see
    /// [`FilterNode::matches_value`]); for `$pull` and the like.
    pub fn parse_value_predicate(operators: &RawDocument, options: &FilterOptions) -> Result<Self> {
        let root = parse::Parser::new(options).value_predicate(operators)?;
        Ok(Self { root: normalize::normalize(root)? })
    }

    /// Its `$near`, if it has one.
    pub fn near(&self) -> Option<&NearFilter> {
        let conditions = match &self.root {
            FilterNode::And(children) => children,
            other => std::slice::from_ref(other),
        };
        conditions.iter().find_map(|node| if let FilterNode::Near(leaf) = node { Some(leaf) } else { None })
    }

    /// Its `$text`, of which there is one at most.
    pub fn text(&self) -> Option<&TextFilter> {
        fn find(node: &FilterNode) -> Option<&TextFilter> {
            match node {
                FilterNode::Text(leaf) => Some(leaf),
                other => other.children().iter().find_map(find),
            }
        }
        find(&self.root)
    }

    /// The tree.
    pub fn root(&self) -> &FilterNode {
        &self.root
    }

    /// Whether this is the filter that every document satisfies.
    pub fn is_empty(&self) -> bool {
        matches!(&self.root, FilterNode::And(children) if children.is_empty())
    }

    /// Whether the document satisfies the filter. Errors come from `$expr`, and from regular expressions that step back
    /// beyond their limit, or longer than the command may run.
    #[inline]
    pub fn matches(&self, document: &RawDocument) -> Result<bool> {
        self.root.matches(document)
    }

    /// The same, also reporting the array position that matched, for the positional operator `$`.
    pub fn matches_with(&self, document: &RawDocument, details: &mut MatchDetails) -> Result<bool> {
        details.reset();
        let subject = Subject::Document(document.as_bytes());
        evaluate::evaluate(&self.root, subject, details).map_err(|error| *error)
    }

    /// Whether `value`, as what every path leads to, satisfies the filter, and where in it when it is an array.
    pub(crate) fn matching_position(&self, value: ValueView<'_>) -> Result<Option<usize>> {
        let mut details = MatchDetails::new();
        let found = evaluate::evaluate(&self.root, Subject::Value(value), &mut details).map_err(|error| *error)?;
        Ok(if found { details.array_position() } else { None })
    }

    /// The fields that an upsert takes from the filter: its top-level equalities, sorted by path. Fails with
    /// `NotSingleValueField` when two of them disagree about a field.
    pub fn equality_fields(&self) -> Result<Vec<(&str, RawBsonRef<'_>)>> {
        equality_fields::of(&self.root)
    }

    /// The same with contradictions left in, which `Update::upsert_document` refuses where they matter: a replacement takes
    /// only `_id` from the filter.
    pub fn equality_fields_unchecked(&self) -> Vec<(&str, RawBsonRef<'_>)> {
        equality_fields::unchecked(&self.root)
    }

    /// The paths that the filter reads.
    pub fn referenced_paths(&self) -> ReferencedPaths {
        self.root.referenced_paths()
    }

    /// The filter without its constants, the same for filters that can share a plan.
    pub fn shape(&self) -> String {
        shape::of(&self.root)
    }

    /// A hash of the shape, stable across processes.
    pub fn shape_hash(&self) -> u64 {
        shape::hash(&self.root)
    }

    /// The normalized filter as a document, for explain.
    pub fn to_document(&self) -> RawDocumentBuf {
        self.root.to_document()
    }
}

#[cfg(test)]
mod tests;
