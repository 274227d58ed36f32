//! `$pull`: removes the array items that equal a value or match a condition.
//!
//! A document of operators (`{$gte: 5}`) or a regular expression is a condition on each item; any other document is a
//! query that items which are documents must match; everything else is compared for equality.

use std::cmp::Ordering;

use bson::raw::{RawDocument, RawDocumentBuf, cstr};
use bson::spec::ElementType;
use document::work;

use super::super::element::{Element, collect};
use super::super::operator::{FieldOperator, Scope, WhenBlocked};
use super::super::value::{Change, NewValue, Operand};
use super::super::writer::array_of;
use crate::error::{ErrorKind, QueryError, Result};
use crate::filter::{Filter, FilterOptions};

#[derive(Debug)]
enum Pull {
    /// Items equal to the operand.
    Equal(Operand),
    /// Items that match when looked at as the field `item`.
    Condition(Filter),
    /// Documents that match.
    Query(Filter),
}

pub(super) fn parse(field: &Element<'_>, options: &FilterOptions) -> Result<Box<dyn FieldOperator>> {
    let pull = match (field.element_type, field.value().as_document()) {
        (ElementType::RegularExpression, _) => Pull::Condition(Filter::parse(&wrap(field), options)?),
        (_, Some(document)) if is_condition(document) => Pull::Condition(Filter::parse(&wrap(field), options)?),
        (_, Some(document)) => Pull::Query(Filter::parse(document, options)?),
        _ => Pull::Equal(Operand::new(field)),
    };
    Ok(Box::new(pull))
}

/// Whether a document holds operators for the item itself, rather than a query on its fields.
fn is_condition(document: &RawDocument) -> bool {
    let first = document::elements(document).next();
    first.is_some_and(|first| {
        let name = first.name();
        let on_fields = ["$and", "$or", "$nor", "$expr", "$where", "$text", "$comment", "$jsonSchema", "$alwaysTrue"];
        let reference = ["$ref", "$id", "$db"];
        name.starts_with('$') && !on_fields.contains(&name) && !reference.contains(&name)
    })
}

/// `{item: condition}`, so that a filter can look at a bare value under that name.
fn wrap(value: &Element<'_>) -> RawDocumentBuf {
    let mut document = RawDocumentBuf::new();
    document.append(cstr!("item"), value.value());
    document
}

impl FieldOperator for Pull {
    fn apply<'a>(&'a self, existing: Option<Element<'a>>, _: &Scope<'a>) -> Result<Change<'a>> {
        match self {
            Pull::Equal(value) => {
                let value = value.element()?;
                keep_items(existing, |item| Ok(document::compare_views(value.view(), item.view()) != Ordering::Equal))
            }
            Pull::Condition(filter) => {
                keep_items(existing, |item| Ok(!filter.root().matches_field("item", item.value())?))
            }
            Pull::Query(filter) => keep_items(existing, |item| match item.value().as_document() {
                Some(document) => Ok(!filter.matches(document)?),
                None => Ok(true),
            }),
        }
    }

    fn when_blocked(&self, _: &Scope<'_>) -> WhenBlocked {
        WhenBlocked::Ignore
    }
}

/// The array without the items that `keep` refuses.
pub(super) fn keep_items<'a>(
    existing: Option<Element<'a>>,
    mut keep: impl FnMut(&Element<'a>) -> Result<bool>,
) -> Result<Change<'a>> {
    let Some(array) = existing else { return Ok(Change::Keep) };
    if array.element_type != ElementType::Array {
        return Err(QueryError::new(ErrorKind::BadValue, "Cannot apply $pull to a non-array value"));
    }
    let items = collect(array.value_bytes())?;
    let mut kept = Vec::with_capacity(items.len());
    for item in &items {
        work::step()?;
        if keep(item)? {
            kept.push(*item);
        }
    }
    match kept.len() == items.len() {
        true => Ok(Change::Keep),
        false => Ok(Change::Write(NewValue::array(array_of(&kept)))),
    }
}
