//! The document an upsert inserts when nothing matched: the query's equalities, then the update.

use std::collections::BTreeSet;

use bson::oid::ObjectId;
use bson::raw::{RawBsonRef, RawDocument, RawDocumentBuf, cstr};
use bson::spec::ElementType;

use super::display::type_name;
use super::element::{Element, elements, find};
use super::operators;
use super::parse::OperatorUpdate;
use super::path::{Component, UpdatePath, check_length};
use super::replacement::into_document;
use super::{Update, UpdateContext, UpdateKind, UpdateOutcome, UpdatePurpose, apply, replacement};
use crate::error::{ErrorKind, QueryError, Result};

/// The seed as a document: the fields that the query fixes to one value.
pub(super) fn seed_document(
    kind: &UpdateKind,
    equalities: &[(&str, RawBsonRef<'_>)],
    context: &UpdateContext<'_>,
) -> Result<RawDocumentBuf> {
    let only_id = matches!(kind, UpdateKind::Replacement(_));
    let mut seed = OperatorUpdate::default();
    let mut paths = BTreeSet::new();
    for (path, value) in equalities {
        if path.starts_with("_id.") {
            let message = format!("field at '_id' must be exactly specified, field at sub-path '{path}'found");
            return Err(QueryError::new(ErrorKind::NotExactValueField, message));
        }
        if only_id && *path != "_id" {
            continue;
        }
        check_single(path, &paths)?;
        paths.insert(*path);
        let mut holder = RawDocumentBuf::new();
        holder.append(cstr!("value"), *value);
        let Some(field) = elements(&holder).next() else { continue };
        seed.add(literal_path(path)?, operators::set(&field))?;
    }
    seed.root.put_in_order();
    let empty = RawDocumentBuf::new();
    match apply::apply_operators(&seed, &empty, context)? {
        Some((bytes, _)) => into_document(bytes),
        None => Ok(empty),
    }
}

/// Every part is a field name here, whatever it looks like.
fn literal_path(path: &str) -> Result<UpdatePath> {
    let components: Vec<Component> = path.split('.').map(|name| Component::Field(name.to_owned())).collect();
    check_length(&components)?;
    Ok(UpdatePath { text: path.to_owned(), components })
}

/// Refuses a path that the query has given a value before, or whose parent or child it has.
fn check_single(path: &str, earlier: &BTreeSet<&str>) -> Result<()> {
    if earlier.contains(path) {
        let message = format!("cannot infer query fields to set, path '{path}' is matched twice");
        return Err(QueryError::new(ErrorKind::NotSingleValueField, message));
    }
    let parents = path.match_indices('.').filter_map(|(end, _)| path.get(..end));
    let parent = parents.into_iter().find(|parent| earlier.contains(parent));
    let below = format!("{path}.");
    let child = earlier.range(below.as_str()..).next().copied().filter(|next| next.starts_with(&below));
    match parent.or(child) {
        None => Ok(()),
        Some(other) => {
            let message = format!("cannot infer query fields to set, both paths '{path}' and '{other}' are matched");
            Err(QueryError::new(ErrorKind::NotSingleValueField, message))
        }
    }
}

impl Update {
    /// The document to insert when an upsert matched nothing.
    ///
    /// `equalities` are the paths that the query requires to equal one value (`Filter::equality_fields`); a replacement
    /// uses only `_id` of them. `context.purpose` must be `Insert`. `generated_id` becomes the `_id` when neither query nor
    /// update gives one. Errors: those of `apply`; `NotSingleValueField` and `NotExactValueField` for contradictory
    /// equalities; `InvalidIdField` and `DollarPrefixedFieldName` for values an `_id` may not have.
    pub fn upsert_document(
        &self,
        equalities: &[(&str, RawBsonRef<'_>)],
        context: &UpdateContext<'_>,
        generated_id: ObjectId,
    ) -> Result<RawDocumentBuf> {
        let context = &UpdateContext { purpose: UpdatePurpose::Insert, ..*context };
        let seed = seed_document(&self.kind, equalities, context)?;
        let mut document = match self.apply(&seed, context)? {
            UpdateOutcome::NoChange => seed,
            UpdateOutcome::Changed { document, .. } => document,
        };
        match find(&document, "_id") {
            Some(id) => check_id(&id)?,
            None => document = with_id(&document, generated_id),
        }
        let empty = RawDocumentBuf::new();
        match replacement::finish(&document, &empty, context.clock_of_zero_timestamps(), UpdatePurpose::Insert)? {
            Some(bytes) => into_document(bytes),
            None => Ok(document),
        }
    }
}

fn with_id(document: &RawDocument, id: ObjectId) -> RawDocumentBuf {
    let mut with_id = RawDocumentBuf::new();
    with_id.append(cstr!("_id"), id);
    for field in document.iter().flatten() {
        with_id.append(field.0, field.1);
    }
    with_id
}

/// Refuses values that cannot identify a document.
fn check_id(id: &Element<'_>) -> Result<()> {
    if matches!(id.element_type, ElementType::Array | ElementType::RegularExpression | ElementType::Undefined) {
        let message = format!("The '_id' value cannot be of type {}", type_name(id.element_type));
        return Err(QueryError::new(ErrorKind::InvalidIdField, message));
    }
    let Some(nested) = id.value().as_document() else { return Ok(()) };
    match elements(nested).find(|field| field.name_bytes().first() == Some(&b'$')) {
        None => Ok(()),
        Some(field) => {
            let name = field.name();
            let message = format!("_id fields may not contain '$'-prefixed fields: {name} is not valid for storage.");
            Err(QueryError::new(ErrorKind::DollarPrefixedFieldName, message))
        }
    }
}
