//! Why a document does not satisfy a filter, in the shape of MongoDB's `errInfo` of DocumentValidationFailure.
//!
//! Called by `collection` for a document that a validator refuses. The filter is taken as the client wrote it, clause by
//! clause: what is parsed is normalized, and would not be recognised.

mod reason;

use std::cell::Cell;
use std::ops::ControlFlow;

use bson::raw::{CStr, cstr};
use bson::spec::ElementType;
use bson::{RawArrayBuf, RawBson, RawBsonRef, RawDocument, RawDocumentBuf};
use document::{FieldPath, LeafArrays, array_elements, elements, walk_path, work};

use super::json_schema::describe::{add_annotations, broken_rules};
use super::parse::is_operator_document;
use super::{Filter, FilterNode, FilterOptions};
use crate::error::Result;
use crate::expression::{EvaluationContext, Expression, ParseContext};
use reason::{Reason, reason_of};

/// Bytes of values that a description shows: it is no copy of the document.
const SHOWN_BYTES_MAX: usize = 1 << 20;

/// What is to be told of a clause.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Told {
    /// Why it does not hold.
    WhyNot,
    /// Why it does, where it is negated.
    Why,
}

impl Told {
    fn negated(self) -> Told {
        if self == Told::Why { Told::WhyNot } else { Told::Why }
    }
}

/// Describes why a document does not satisfy a filter; empty if it does.
///
/// # Errors
/// Those of evaluating the filter.
pub fn describe_failure(filter: &RawDocument, document: &RawDocument) -> Result<RawDocumentBuf> {
    let describing = Describing { document, options: FilterOptions::default(), considered: Considered::new() };
    Ok(describing.filter(filter, Told::WhyNot)?.unwrap_or_default())
}

/// The values that a description shows, up to some size together.
pub(super) struct Considered {
    left: Cell<usize>,
}

impl Considered {
    fn new() -> Self {
        Self { left: Cell::new(SHOWN_BYTES_MAX) }
    }

    /// Counts a value, if there is room for it.
    pub(super) fn has_room_for(&self, value: RawBsonRef<'_>) -> bool {
        let bytes = match value {
            RawBsonRef::Document(document) => document.as_bytes().len(),
            RawBsonRef::Array(array) => array.as_bytes().len(),
            RawBsonRef::String(text) | RawBsonRef::Symbol(text) | RawBsonRef::JavaScriptCode(text) => text.len(),
            RawBsonRef::Binary(binary) => binary.bytes.len(),
            _ => 0,
        };
        // Its type and its name.
        match self.left.get().checked_sub(bytes + 16) {
            Some(left) => {
                self.left.set(left);
                true
            }
            None => false,
        }
    }

    /// Adds a value where there is room for it.
    pub(super) fn add(&self, described: &mut RawDocumentBuf, name: &CStr, value: RawBsonRef<'_>) {
        if self.has_room_for(value) {
            described.append(name, RawBson::from(value));
        }
    }
}

/// Documents as an array.
pub(super) fn array_of(documents: Vec<RawDocumentBuf>) -> RawArrayBuf {
    documents.into_iter().collect()
}

/// One condition of a filter.
enum Clause<'f> {
    /// `$and`, `$or`, `$nor`.
    List(&'static str, Vec<&'f RawDocument>),
    /// `{path: {$not: operators}}`.
    Not(&'f str, RawBsonRef<'f>),
    /// An operator of a path; the condition alone as a filter.
    Leaf { path: &'f str, operator: &'f str, alone: RawDocumentBuf },
    /// What stands in the place of a field.
    Top { operator: &'f str, value: RawBsonRef<'f>, alone: RawDocumentBuf },
}

struct Describing<'d> {
    document: &'d RawDocument,
    options: FilterOptions,
    considered: Considered,
}

impl Describing<'_> {
    fn filter(&self, filter: &RawDocument, told: Told) -> Result<Option<RawDocumentBuf>> {
        let clauses = clauses_of(filter)?;
        match clauses.as_slice() {
            [only] => self.clause(only, told),
            several => self.list("$and", several.len(), told, |position| match several.get(position) {
                Some(clause) => self.clause(clause, told),
                None => Ok(None),
            }),
        }
    }

    /// `None`: the clause is not as told.
    fn clause(&self, clause: &Clause<'_>, told: Told) -> Result<Option<RawDocumentBuf>> {
        match clause {
            Clause::List(name, filters) => {
                let inner = if *name == "$nor" { told.negated() } else { told };
                self.list(name, filters.len(), told, |position| match filters.get(position) {
                    Some(filter) => self.filter(filter, inner),
                    None => Ok(None),
                })
            }
            Clause::Not(path, operand) => {
                let inner = match operand {
                    RawBsonRef::Document(operators) => clauses_of_field(path, operators)?,
                    pattern => vec![leaf(path, "$regex", path, *pattern)?],
                };
                let details = match inner.as_slice() {
                    [only] => self.clause(only, told.negated())?,
                    several => self.list("$and", several.len(), told.negated(), |position| {
                        several.get(position).map_or(Ok(None), |clause| self.clause(clause, told.negated()))
                    })?,
                };
                Ok(details.map(|details| {
                    let mut described = named("$not");
                    described.append(cstr!("details"), details);
                    described
                }))
            }
            Clause::Leaf { path, operator, alone } => {
                let is_match = Filter::parse(alone, &self.options)?.matches(self.document)?;
                if is_match == (told == Told::Why) {
                    self.leaf(path, operator, alone, told).map(Some)
                } else {
                    Ok(None)
                }
            }
            Clause::Top { operator, value, alone } => {
                let is_match = Filter::parse(alone, &self.options)?.matches(self.document)?;
                if is_match == (told == Told::Why) {
                    self.top(operator, *value, alone, told).map(Some)
                } else {
                    Ok(None)
                }
            }
        }
    }

    /// A list of clauses, of which those are described that make it as told.
    fn list(
        &self,
        name: &str,
        count: usize,
        told: Told,
        describe: impl Fn(usize) -> Result<Option<RawDocumentBuf>>,
    ) -> Result<Option<RawDocumentBuf>> {
        let mut found = Vec::new();
        for position in 0..count {
            work::step()?;
            if let Some(details) = describe(position)? {
                let mut clause = RawDocumentBuf::new();
                clause.append(cstr!("index"), position as i32);
                clause.append(cstr!("details"), details);
                found.push(clause);
            }
        }
        // One that fails is enough for some, for others it has to be all.
        let needs_all = matches!((name, told), ("$or", Told::WhyNot) | ("$and", Told::Why) | ("$nor", Told::Why));
        if found.is_empty() || (needs_all && found.len() < count) {
            return Ok(None);
        }
        let is_satisfied = (told == Told::Why) != (name == "$nor");
        let key = if is_satisfied { cstr!("clausesSatisfied") } else { cstr!("clausesNotSatisfied") };
        let mut described = named(name);
        described.append(key, array_of(found));
        Ok(Some(described))
    }

    /// An operator of a path, with the values that it has looked at.
    fn leaf(&self, path: &str, operator: &str, alone: &RawDocument, told: Told) -> Result<RawDocumentBuf> {
        let Reason { failed, succeeded, arrays, expected } = reason_of(operator);
        let mut described = named(operator);
        self.considered.add(&mut described, cstr!("specifiedAs"), RawBsonRef::Document(alone));
        let values = self.values_at(path, arrays);
        let is_of_type = |value: &RawBsonRef<'_>| expected.is_none_or(|types| types.contains(&value.element_type()));
        if values.is_empty() && operator != "$exists" && told == Told::WhyNot {
            described.append(cstr!("reason"), "field was missing");
            return Ok(described);
        }
        let is_mismatch = told == Told::WhyNot && !values.is_empty() && !values.iter().any(is_of_type);
        let reason = match told {
            // It holds for what is there or for what is not.
            _ if operator == "$exists" => {
                if values.is_empty() {
                    failed
                } else {
                    succeeded
                }
            }
            _ if is_mismatch => "type did not match",
            Told::WhyNot => failed,
            Told::Why => succeeded,
        };
        described.append(cstr!("reason"), reason);
        if operator == "$exists" {
            return Ok(described);
        }
        self.add_values(&values, &mut described);
        if is_mismatch || operator == "$type" {
            add_types(&values, &mut described);
        }
        if let Some(types) = expected.filter(|_| is_mismatch) {
            let mut names: Vec<&str> = types.iter().map(|each| document::type_name(*each)).collect();
            names.sort_unstable();
            match names.as_slice() {
                [only] => described.append(cstr!("expectedType"), *only),
                _ => described.append(cstr!("expectedTypes"), names.into_iter().collect::<RawArrayBuf>()),
            }
        }
        Ok(described)
    }

    fn values_at(&self, path: &str, arrays: LeafArrays) -> Vec<RawBsonRef<'_>> {
        let mut values = Vec::new();
        let _ = walk_path::<()>(self.document, &FieldPath::new(path), arrays, |item| {
            values.extend(item.value());
            if values.len() * 16 > SHOWN_BYTES_MAX { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        values
    }

    fn add_values(&self, values: &[RawBsonRef<'_>], described: &mut RawDocumentBuf) {
        match values {
            [] => {}
            [only] => self.considered.add(described, cstr!("consideredValue"), *only),
            several => {
                let shown = several.iter().filter(|value| self.considered.has_room_for(**value));
                let shown: RawArrayBuf = shown.map(|value| RawBson::from(*value)).collect();
                described.append(cstr!("consideredValues"), shown);
            }
        }
    }

    fn top(&self, operator: &str, value: RawBsonRef<'_>, alone: &RawDocument, told: Told) -> Result<RawDocumentBuf> {
        let mut described = named(operator);
        if operator == "$jsonSchema"
            && told == Told::WhyNot
            && let FilterNode::JsonSchema(leaf) = Filter::parse(alone, &self.options)?.root()
        {
            add_annotations(leaf.schema(), &mut described);
            let document = RawBsonRef::Document(self.document);
            let broken = broken_rules(leaf.schema(), document, &self.considered)?;
            described.append(cstr!("schemaRulesNotSatisfied"), array_of(broken));
            return Ok(described);
        }
        self.considered.add(&mut described, cstr!("specifiedAs"), RawBsonRef::Document(alone));
        let reason = match (operator, told) {
            ("$jsonSchema", _) => "schema matched",
            ("$expr", Told::WhyNot) => "expression did not match",
            ("$expr", Told::Why) => "expression matched",
            ("$alwaysFalse", _) => "expression always evaluates to false",
            ("$alwaysTrue", _) => "expression always evaluates to true",
            (_, Told::WhyNot) => "condition did not hold",
            (_, Told::Why) => "condition held",
        };
        described.append(cstr!("reason"), reason);
        if operator == "$expr" {
            let variables = &self.options.variables;
            let expression = Expression::parse(value, &ParseContext::for_variables(variables))?;
            let result = expression.evaluate(&EvaluationContext::new(self.document, variables))?;
            if let Some(result) = result.get() {
                self.considered.add(&mut described, cstr!("expressionResult"), result);
            }
        }
        Ok(described)
    }
}

fn add_types(values: &[RawBsonRef<'_>], described: &mut RawDocumentBuf) {
    let mut types: Vec<&str> = values.iter().map(|value| document::type_name(value.element_type())).collect();
    types.sort_unstable();
    types.dedup();
    match types.as_slice() {
        [] => {}
        [only] => described.append(cstr!("consideredType"), *only),
        _ => described.append(cstr!("consideredTypes"), types.into_iter().collect::<RawArrayBuf>()),
    }
}

fn named(operator: &str) -> RawDocumentBuf {
    let mut described = RawDocumentBuf::new();
    described.append(cstr!("operatorName"), operator);
    described
}

/// The conditions of a filter, all of which must hold.
fn clauses_of(filter: &RawDocument) -> Result<Vec<Clause<'_>>> {
    let mut clauses = Vec::new();
    for element in elements(filter) {
        let (name, value) = (element.name(), element.value());
        match (name, value) {
            ("$comment", _) => {}
            ("$and", RawBsonRef::Array(list)) => clauses.push(Clause::List("$and", documents_of(list))),
            ("$or", RawBsonRef::Array(list)) => clauses.push(Clause::List("$or", documents_of(list))),
            ("$nor", RawBsonRef::Array(list)) => clauses.push(Clause::List("$nor", documents_of(list))),
            (operator, _) if operator.starts_with('$') => {
                clauses.push(Clause::Top { operator, value, alone: alone(operator, value)? });
            }
            (path, RawBsonRef::Document(operators)) if is_operator_document(operators) => {
                clauses.extend(clauses_of_field(path, operators)?);
            }
            (path, _) => {
                let is_pattern = value.element_type() == ElementType::RegularExpression;
                clauses.push(leaf(path, if is_pattern { "$regex" } else { "$eq" }, path, value)?);
            }
        }
    }
    Ok(clauses)
}

fn documents_of(list: &bson::RawArray) -> Vec<&RawDocument> {
    array_elements(list).filter_map(|item| item.value().as_document()).collect()
}

/// `{path: {operator: value, ...}}`.
fn clauses_of_field<'f>(path: &'f str, operators: &'f RawDocument) -> Result<Vec<Clause<'f>>> {
    let mut clauses = Vec::new();
    for element in elements(operators) {
        let mut condition = alone(element.name(), element.value())?;
        match element.name() {
            // It is told with its `$regex`.
            "$options" => continue,
            "$not" => {
                clauses.push(Clause::Not(path, element.value()));
                continue;
            }
            "$regex" => {
                if let Some(options) = document::get_field(operators, "$options") {
                    condition.append(cstr!("$options"), RawBson::from(options));
                }
            }
            _ => {}
        }
        clauses.push(leaf(path, element.name(), path, RawBsonRef::Document(&condition))?);
    }
    Ok(clauses)
}

fn leaf<'f>(path: &'f str, operator: &'f str, name: &str, value: RawBsonRef<'_>) -> Result<Clause<'f>> {
    Ok(Clause::Leaf { path, operator, alone: alone(name, value)? })
}

/// A document of one field.
fn alone(name: &str, value: RawBsonRef<'_>) -> Result<RawDocumentBuf> {
    let mut document = RawDocumentBuf::new();
    document.append(<&CStr>::try_from(name)?, RawBson::from(value));
    Ok(document)
}

#[cfg(test)]
mod tests {
    use bson::rawdoc;

    use super::*;

    #[test]
    fn what_a_failure_shows_is_bounded() {
        let filter = rawdoc! { "a": 1, "b": 1, "c": 1 };
        let long = "x".repeat(SHOWN_BYTES_MAX - 1000);
        let document = rawdoc! { "a": long.as_str(), "b": long.as_str(), "c": 2 };
        let described = describe_failure(&filter, &document).unwrap();
        assert!(described.as_bytes().len() < SHOWN_BYTES_MAX + 1000);
        let clauses = described.get_array("clausesNotSatisfied").unwrap();
        let shown = |position: usize| {
            let clause = clauses.get(position).unwrap().unwrap().as_document().unwrap();
            clause.get_document("details").unwrap().get("consideredValue").unwrap().is_some()
        };
        assert_eq!([shown(0), shown(1), shown(2)], [true, false, true]);
    }
}
