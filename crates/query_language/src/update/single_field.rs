//! The shortest way for the most frequent updates: one operator on one top-level field, such as `{$inc: {a: 1}}`.
//!
//! The document is searched for the field and the bytes around it are copied in two spans; nothing else is looked at.
//! The outcome is the same as that of the general walk in `apply`, which calls this when it can.

use bson::raw::RawDocument;

use super::UpdateContext;
use super::element::{Element, elements, malformed};
use super::operator::Scope;
use super::parse::OperatorUpdate;
use super::tree::{Leaf, Node};
use super::value::{Change, NewValue};
use crate::error::Result;

/// The name and the operator, when the update is of this kind. `_id` and names beginning with `$` have rules of their own.
pub(super) fn only_field(update: &OperatorUpdate) -> Option<(&str, &Leaf)> {
    match (update.root.fields.as_slice(), &update.root.matched, update.renames.is_empty()) {
        ([(name, Node::Leaf(leaf))], None, true) if name != "_id" && !name.starts_with('$') => Some((name, leaf)),
        _ => None,
    }
}

/// The document after the update; `None` when it is the same.
pub(super) fn apply_to_field<'a>(
    name: &str,
    leaf: &'a Leaf,
    root: &'a RawDocument,
    context: &'a UpdateContext<'a>,
) -> Result<Option<Vec<u8>>> {
    let bytes = root.as_bytes();
    let mut walk = elements(root);
    let existing = walk.find_named(name.as_bytes());
    if walk.is_malformed() {
        return Err(malformed("a value exceeds its document"));
    }
    // Without the field, a new one goes in front of the terminator.
    let end = existing.map_or(bytes.len() - 1, |_| bytes.len() - walk.remaining());
    let start = existing.map_or(end, |field| end - stored_length(&field));
    let scope = Scope { root, context, leaf, renamed: &[] };
    let (Some(before), Some(after)) = (bytes.get(4..start), bytes.get(end..)) else {
        return Err(malformed("an element exceeds its document"));
    };
    match leaf.operator.apply(existing, &scope)? {
        Change::Keep => Ok(None),
        Change::Remove => Ok(Some(splice(before, None, after))),
        Change::Write(value) => {
            let same = existing.is_some_and(|existing| {
                existing.element_type == value.kind() && existing.value_bytes() == value.bytes()
            });
            Ok((!same).then(|| splice(before, Some((name, &value)), after)))
        }
    }
}

/// The bytes that a field takes: type, name, terminator, value.
fn stored_length(field: &Element<'_>) -> usize {
    1 + field.name_bytes().len() + 1 + field.value_bytes().len()
}

/// The elements `before`, a field, and what follows up to the terminator.
fn splice(before: &[u8], field: Option<(&str, &NewValue<'_>)>, after: &[u8]) -> Vec<u8> {
    let field_length = field.map_or(0, |(name, value)| 1 + name.len() + 1 + value.bytes().len());
    let length = 4 + before.len() + field_length + after.len();
    let mut out = Vec::with_capacity(length);
    // A length beyond i32 is far above the size limit, which the caller checks.
    out.extend_from_slice(&i32::try_from(length).unwrap_or(i32::MAX).to_le_bytes());
    out.extend_from_slice(before);
    if let Some((name, value)) = field {
        out.push(value.kind() as u8);
        out.extend_from_slice(name.as_bytes());
        out.push(0);
        out.extend_from_slice(value.bytes());
    }
    out.extend_from_slice(after);
    out
}
