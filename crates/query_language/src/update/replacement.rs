//! Replacement updates: the document becomes another one, except its `_id`.

use bson::raw::{RawDocument, RawDocumentBuf};
use bson::spec::ElementType;

use super::apply::dollar_prefixed;
use super::display;
use super::element::{Element, elements, find, malformed};
use super::limits::{check_depth, check_size};
use super::{UpdateClock, UpdateContext, UpdatePurpose, writer};
use crate::error::{ErrorKind, QueryError, Result};

/// `before` replaced by `replacement`; `None` when they are the same.
pub(super) fn replace(
    replacement: &RawDocument,
    before: &RawDocument,
    context: &UpdateContext<'_>,
) -> Result<Option<Vec<u8>>> {
    if let Some(field) = elements(replacement).find(|field| field.name_bytes().first() == Some(&b'$')) {
        return Err(dollar_prefixed(field.name()));
    }
    finish(replacement, before, context.clock_of_zero_timestamps(), context.purpose)
}

/// The document that is stored when `after` is to take the place of `before`: `_id` kept and first, limits checked.
/// With a clock, zero timestamps at the top level become the current time, as they do on insert.
pub(super) fn finish(
    after: &RawDocument,
    before: &RawDocument,
    zero_timestamps: Option<&dyn UpdateClock>,
    purpose: UpdatePurpose,
) -> Result<Option<Vec<u8>>> {
    let id = kept_id(after, before)?;
    let mut out = Vec::with_capacity(after.as_bytes().len() + 32);
    let mark = writer::begin(&mut out);
    if let Some(id) = &id {
        writer::element(&mut out, id.element_type, id.name_bytes(), id.value_bytes());
    }
    let mut fields = elements(after);
    for field in fields.by_ref() {
        if field.name_bytes() != b"_id" {
            write_field(&mut out, &field, zero_timestamps);
        }
    }
    if fields.is_malformed() {
        return Err(malformed("a value exceeds its document"));
    }
    writer::end(&mut out, mark);
    if out == before.as_bytes() {
        return Ok(None);
    }
    check_size(&out, purpose)?;
    check_depth(&out)?;
    Ok(Some(out))
}

fn write_field(out: &mut Vec<u8>, field: &Element<'_>, zero_timestamps: Option<&dyn UpdateClock>) {
    if field.element_type == ElementType::Timestamp
        && field.value_bytes() == [0; 8]
        && let Some(clock) = zero_timestamps
    {
        let now = super::value::NewValue::timestamp(clock.next_timestamp());
        writer::element(out, now.kind(), field.name_bytes(), now.bytes());
        return;
    }
    writer::element(out, field.element_type, field.name_bytes(), field.value_bytes());
}

/// Whether it is the same to the last byte of its text, whatever the collation.
fn is_same_id(old: &Element<'_>, new: &Element<'_>) -> bool {
    let _by_bytes = document::collation::enter(None);
    document::compare_views(old.view(), new.view()).is_eq()
}

/// The `_id` of `before` if it has one (a different one in `after` is refused), otherwise that of `after`.
fn kept_id<'a>(after: &'a RawDocument, before: &'a RawDocument) -> Result<Option<Element<'a>>> {
    match (find(before, "_id"), find(after, "_id")) {
        (Some(old), Some(new)) if !is_same_id(&old, &new) => {
            let message = format!(
                "After applying the update, the (immutable) field '_id' was found to have been altered to {}",
                display::field(&new)
            );
            Err(QueryError::new(ErrorKind::ImmutableField, message))
        }
        (Some(old), _) => Ok(Some(old)),
        (None, new) => Ok(new),
    }
}

/// Wraps complete bytes.
pub(super) fn into_document(bytes: Vec<u8>) -> Result<RawDocumentBuf> {
    RawDocumentBuf::from_bytes(bytes).map_err(QueryError::from)
}
