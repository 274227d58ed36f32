//! `$jsonSchema`: draft 4 of JSON Schema as MongoDB has it, with `bsonType` and without references.
//!
//! A schema is a list of rules, which all must hold for a value; each is about values of some type and holds for all
//! others. Parsed by `parse`; `describe` says which rules do not hold, for `errInfo`.

pub(crate) mod describe;
pub(crate) mod parse;

use std::collections::HashSet;
use std::sync::Arc;

use bson::{RawArray, RawBson, RawBsonRef, RawDocument, RawDocumentBuf};
use document::{Number, ValueView, array_elements, elements, values_equal, work};

use super::TypeFilter;
use super::evaluate::Outcome;
use super::regex::RegexFilter;
use crate::error::{ErrorKind, QueryError, Result};

/// A schema for whole documents.
#[derive(Debug, Clone)]
pub struct JsonSchema {
    schema: Arc<Schema>,
    source: RawDocumentBuf,
}

impl JsonSchema {
    /// The schema as the client wrote it.
    pub fn source(&self) -> &RawDocument {
        &self.source
    }

    pub(crate) fn schema(&self) -> &Schema {
        &self.schema
    }

    pub(crate) fn accepts(&self, document: &[u8]) -> Outcome {
        let document = RawDocument::from_bytes(document).map_err(|error| Box::new(QueryError::from(error)))?;
        self.schema.accepts(RawBsonRef::Document(document)).map_err(Box::new)
    }
}

/// What is said where there is no document.
pub(crate) fn not_allowed() -> QueryError {
    QueryError::new(ErrorKind::QueryFeatureNotAllowed, "$jsonSchema is not allowed in this context")
}

/// A schema or a part of one.
#[derive(Debug, Clone, Default)]
pub(crate) struct Schema {
    title: Option<String>,
    description: Option<String>,
    rules: Vec<Rule>,
}

/// What one keyword asks.
#[derive(Debug, Clone)]
struct Rule {
    keyword: &'static str,
    /// The keyword and its value, for messages; empty where parts of the schema are in it.
    specified: RawDocumentBuf,
    check: Check,
}

#[derive(Debug, Clone)]
enum Check {
    Type(TypeFilter),
    Enum(Vec<RawBson>),
    /// `maximum` and `minimum`, which may be beside `exclusiveMaximum` and `exclusiveMinimum`.
    Limit {
        limit: Number,
        bound: Bound,
        is_exclusive: bool,
    },
    MultipleOf(Number),
    TextLength(Bound, u64),
    Pattern(RegexFilter),
    Required(Vec<String>),
    PropertyCount(Bound, u64),
    Properties(Vec<(String, Schema)>),
    PatternProperties(Vec<(RegexFilter, Schema)>),
    AdditionalProperties {
        named: HashSet<String>,
        patterns: Vec<RegexFilter>,
        others: Others,
    },
    Dependencies(Vec<(String, Dependency)>),
    Items(Box<Schema>),
    ItemList(Vec<Schema>),
    AdditionalItems {
        first: usize,
        others: Others,
    },
    ItemCount(Bound, u64),
    UniqueItems,
    AllOf(Vec<Schema>),
    AnyOf(Vec<Schema>),
    OneOf(Vec<Schema>),
    Not(Box<Schema>),
}

/// Which end a number limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Bound {
    Least,
    Most,
}

impl Bound {
    fn holds(self, limit: u64, found: usize) -> bool {
        match self {
            Bound::Least => found as u64 >= limit,
            Bound::Most => found as u64 <= limit,
        }
    }
}

/// What may be beside what is named.
#[derive(Debug, Clone)]
enum Others {
    Forbidden,
    Like(Box<Schema>),
}

/// What must hold when a property is there.
#[derive(Debug, Clone)]
enum Dependency {
    Properties(Vec<String>),
    Schema(Schema),
}

impl Schema {
    /// Whether all rules hold for a value.
    ///
    /// # Errors
    /// The command is to stop; a pattern takes too long.
    pub(crate) fn accepts(&self, value: RawBsonRef<'_>) -> Result<bool> {
        for rule in &self.rules {
            work::step()?;
            if !rule.check.holds(value)? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

impl Check {
    fn holds(&self, value: RawBsonRef<'_>) -> Result<bool> {
        match self {
            Check::Type(types) => Ok(types.contains(value.element_type())),
            Check::Enum(values) => Ok(values.iter().any(|known| values_equal(known.as_raw_bson_ref(), value))),
            Check::Limit { limit, bound, is_exclusive } => {
                Ok(Number::from_bson(value).is_none_or(|found| is_within(found, *limit, *bound, *is_exclusive)))
            }
            Check::MultipleOf(divisor) => Ok(Number::from_bson(value)
                .is_none_or(|found| found.remainder(*divisor).is_some_and(|remainder| remainder.is_zero()))),
            Check::TextLength(bound, limit) => {
                Ok(value.as_str().is_none_or(|text| bound.holds(*limit, text.chars().count())))
            }
            Check::Pattern(pattern) => value.as_str().map_or(Ok(true), |text| is_match(pattern, text)),
            Check::AllOf(schemas) => all(schemas, |schema| schema.accepts(value)),
            Check::AnyOf(schemas) => Ok(!all(schemas, |schema| Ok(!schema.accepts(value)?))?),
            Check::OneOf(schemas) => {
                let mut found = 0;
                for schema in schemas {
                    found += usize::from(schema.accepts(value)?);
                }
                Ok(found == 1)
            }
            Check::Not(schema) => Ok(!schema.accepts(value)?),
            _ => match value {
                RawBsonRef::Document(document) => self.holds_for_document(document),
                RawBsonRef::Array(array) => self.holds_for_array(array),
                _ => Ok(true),
            },
        }
    }

    fn holds_for_document(&self, document: &RawDocument) -> Result<bool> {
        match self {
            Check::Required(names) => all(names, |name| Ok(has(document, name))),
            Check::PropertyCount(bound, limit) => Ok(bound.holds(*limit, elements(document).count())),
            Check::Properties(named) => all(named, |(name, schema)| {
                document::get_field(document, name).map_or(Ok(true), |value| schema.accepts(value))
            }),
            Check::PatternProperties(patterns) => all(elements(document), |element| {
                all(patterns, |(pattern, schema)| {
                    Ok(!is_match(pattern, element.name())? || schema.accepts(element.value())?)
                })
            }),
            Check::AdditionalProperties { named, patterns, others } => all(elements(document), |element| {
                if !is_additional(element.name(), named, patterns)? {
                    return Ok(true);
                }
                others.accept(element.value())
            }),
            Check::Dependencies(dependencies) => all(dependencies, |(name, dependency)| {
                if !has(document, name) {
                    return Ok(true);
                }
                match dependency {
                    Dependency::Properties(names) => all(names, |name| Ok(has(document, name))),
                    Dependency::Schema(schema) => schema.accepts(RawBsonRef::Document(document)),
                }
            }),
            _ => Ok(true),
        }
    }

    fn holds_for_array(&self, array: &RawArray) -> Result<bool> {
        match self {
            Check::Items(schema) => all(array_elements(array), |item| schema.accepts(item.value())),
            Check::ItemList(schemas) => {
                all(array_elements(array).zip(schemas), |(item, schema)| schema.accepts(item.value()))
            }
            Check::AdditionalItems { first, others } => {
                all(array_elements(array).skip(*first), |item| others.accept(item.value()))
            }
            Check::ItemCount(bound, limit) => Ok(bound.holds(*limit, array_elements(array).count())),
            Check::UniqueItems => Ok(duplicate_of(array)?.is_none()),
            _ => Ok(true),
        }
    }
}

impl Others {
    fn accept(&self, value: RawBsonRef<'_>) -> Result<bool> {
        match self {
            Others::Forbidden => Ok(false),
            Others::Like(schema) => schema.accepts(value),
        }
    }
}

/// Whether something is true of all; asks whether to stop.
fn all<T>(items: impl IntoIterator<Item = T>, mut is_true: impl FnMut(T) -> Result<bool>) -> Result<bool> {
    for item in items {
        work::step()?;
        if !is_true(item)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn has(document: &RawDocument, name: &str) -> bool {
    work::note_search(document.as_bytes());
    document::get_field(document, name).is_some()
}

fn is_match(pattern: &RegexFilter, text: &str) -> Result<bool> {
    pattern.accepts(Some(ValueView::String(text.as_bytes()))).map_err(|error| *error)
}

fn is_additional(name: &str, named: &HashSet<String>, patterns: &[RegexFilter]) -> Result<bool> {
    if named.contains(name) {
        return Ok(false);
    }
    all(patterns, |pattern| Ok(!is_match(pattern, name)?))
}

fn is_within(found: Number, limit: Number, bound: Bound, is_exclusive: bool) -> bool {
    // What is not a number is below all numbers, and within no limit but itself.
    if found.is_nan() || limit.is_nan() {
        return found.is_nan() && limit.is_nan() && !is_exclusive;
    }
    let order = match bound {
        Bound::Most => found.compare(limit),
        Bound::Least => limit.compare(found),
    };
    order.is_lt() || (order.is_eq() && !is_exclusive)
}

/// A value that is in an array twice.
fn duplicate_of(array: &RawArray) -> Result<Option<RawBsonRef<'_>>> {
    let mut items: Vec<ValueView<'_>> = Vec::new();
    let count = array_elements(array).count();
    crate::before_allocating(count * size_of::<ValueView<'_>>())?;
    items.extend(array_elements(array).map(|item| item.view()));
    work::sort_by(&mut items, |left, right| document::compare_views(*left, *right))?;
    let twice = items.windows(2).find_map(|pair| match pair {
        [left, right] if document::compare_views(*left, *right).is_eq() => Some(*left),
        _ => None,
    });
    let Some(twice) = twice else { return Ok(None) };
    let is_it = |item: &document::Element<'_>| document::compare_views(item.view(), twice).is_eq();
    Ok(array_elements(array).find(is_it).map(|item| item.value()))
}
