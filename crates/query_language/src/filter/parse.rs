//! From the client's document to a tree: field names, operators, and what is refused where.

use std::cell::Cell;

use bson::{RawBsonRef, RawDocument};

use super::comparison;
use super::operators;
use super::regex::RegexFilter;
use super::{FilterNode, FilterOptions};
use crate::error::{ErrorKind, QueryError, Result};
use crate::path_budget::PathBudget;
use crate::watch;
use document::FieldPath;

/// What a document of a filter is matched against.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// The whole document.
    Root,
    /// A document inside an array, under `$elemMatch`.
    Element,
}

/// One operator of a field: `{path: {name: value}}`.
#[derive(Clone, Copy)]
pub(crate) struct FieldOperand<'a> {
    pub(crate) path: &'a FieldPath,
    pub(crate) name: &'a str,
    pub(crate) value: RawBsonRef<'a>,
    /// The document the operator stands in, for operators that come in pairs.
    pub(crate) siblings: &'a RawDocument,
    pub(crate) place: Place,
}

/// Parses the documents of one filter.
pub(crate) struct Parser<'o> {
    pub(crate) options: &'o FilterOptions,
    budget: PathBudget,
    /// Bytes of the paths of the `$elemMatch`es around what is parsed.
    prefix_bytes: Cell<usize>,
    /// Operators around what is parsed.
    levels: Cell<usize>,
}

/// Filters in one another, as in MongoDB: whatever is done with a filter is done by functions that call themselves for what is inside.
const LEVELS_MAX: usize = 100;

impl<'o> Parser<'o> {
    pub(crate) fn new(options: &'o FilterOptions) -> Self {
        Self { options, budget: PathBudget::default(), prefix_bytes: Cell::new(0), levels: Cell::new(0) }
    }

    /// Counts a condition on this path.
    pub(crate) fn note_condition(&self, path: &FieldPath) -> Result<()> {
        self.budget.add(self.prefix_bytes.get() + path.as_str().len())
    }

    /// What is parsed by `parse` is what an operator is about.
    ///
    /// # Errors
    /// `BadValue` when there are too many around it.
    pub(crate) fn inside<T>(&self, parse: impl FnOnce() -> Result<T>) -> Result<T> {
        let levels = self.levels.get();
        if levels >= LEVELS_MAX {
            return bad_value(format!("exceeded maximum query tree depth of {LEVELS_MAX}"));
        }
        self.levels.set(levels + 1);
        let parsed = parse();
        self.levels.set(levels);
        parsed
    }

    /// What is parsed by `parse` is inside of an operator, and stands below this path.
    pub(crate) fn below<T>(&self, path: &FieldPath, parse: impl FnOnce() -> Result<T>) -> Result<T> {
        let before = self.prefix_bytes.get();
        self.prefix_bytes.set(before + path.as_str().len());
        let parsed = self.inside(parse);
        self.prefix_bytes.set(before);
        parsed
    }

    /// A whole filter.
    pub(crate) fn filter(&self, filter: &RawDocument) -> Result<FilterNode> {
        self.document(filter, Place::Root)
    }

    /// A document of operators over the value itself.
    pub(crate) fn value_predicate(&self, operators: &RawDocument) -> Result<FilterNode> {
        self.operators(&FieldPath::new(""), operators, Place::Element)
    }

    /// A document of fields and top-level operators, all of which must hold.
    pub(crate) fn document(&self, document: &RawDocument, place: Place) -> Result<FilterNode> {
        let mut children = Vec::new();
        for element in document.iter() {
            watch::step()?;
            let (name, value) = element?;
            if name.as_str().starts_with('$') {
                children.extend(operators::parse_top_level(self, name.as_str(), value, place)?);
            } else {
                children.push(self.field(name.as_str(), value, place)?);
            }
        }
        Ok(FilterNode::And(children))
    }

    /// `{name: value}`, where the value is a constant, a regular expression or a document of operators.
    fn field(&self, name: &str, value: RawBsonRef<'_>, place: Place) -> Result<FilterNode> {
        let path = FieldPath::new(name);
        self.note_condition(&path)?;
        match value {
            RawBsonRef::Document(operators) if is_operator_document(operators) => {
                self.operators(&path, operators, place)
            }
            RawBsonRef::RegularExpression(regex) => {
                RegexFilter::new(path, regex.pattern.as_str(), regex.options.as_str()).map(FilterNode::Regex)
            }
            _ => comparison::equality(path, value),
        }
    }

    /// A document of operators of one path, all of which must hold.
    pub(crate) fn operators(&self, path: &FieldPath, document: &RawDocument, place: Place) -> Result<FilterNode> {
        let mut children = Vec::new();
        for element in document.iter() {
            watch::step()?;
            self.note_condition(path)?;
            let (name, value) = element?;
            let operand = FieldOperand { path, name: name.as_str(), value, siblings: document, place };
            children.extend(operators::parse_field_operator(self, &operand)?);
        }
        Ok(FilterNode::And(children))
    }
}

/// Whether a document is one of operators: its first field begins with `$` and it is no DBRef, which has `$ref` and `$id`.
pub(crate) fn is_operator_document(document: &RawDocument) -> bool {
    let has = |name| document::get_element(document, name).is_some();
    begins_with_operator(document) && !(has("$ref") && has("$id"))
}

/// The same for a condition on elements of an array, where a part of a DBRef is one on these fields.
pub(crate) fn is_element_operator_document(document: &RawDocument) -> bool {
    let has = |name: &&str| document::get_element(document, name).is_some();
    begins_with_operator(document) && !["$ref", "$id", "$db"].iter().any(has)
}

fn begins_with_operator(document: &RawDocument) -> bool {
    first_name(document).is_some_and(|first| first.starts_with('$'))
}

/// The name of a document's first field.
pub(crate) fn first_name(document: &RawDocument) -> Option<&str> {
    document.iter_elements().next()?.ok().map(|element| element.key().as_str())
}

/// A `BadValue` error.
pub(crate) fn bad_value<T>(message: impl Into<String>) -> Result<T> {
    Err(QueryError::new(ErrorKind::BadValue, message))
}
