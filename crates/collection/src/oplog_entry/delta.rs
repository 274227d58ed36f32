//! Applying a logged delta `{d: {name: false}, u: {name: value}, i: {name: value}}` to a stored document.
//!
//! Called by replay. The stored document may be newer than the delta: replay starts a little early, and later entries
//! then bring every field they name to its final value. Therefore nothing here fails because a field is absent or
//! present: `u` sets where the field stands or appends; `i` moves to the end.

use bson::spec::ElementType;
use bson::{RawDocument, rawdoc};
use document::Element;
use query_language::update::diff::{Diff, apply_diff};

use crate::error::{CollectionError, Result};

/// Writes `old` with `diff` applied into `new`, which is cleared first.
///
/// # Errors
/// `Damaged` for a section that no version of this format has, or that is no document.
pub(crate) fn apply_delta(old: &RawDocument, diff: &RawDocument, new: &mut Vec<u8>) -> Result<()> {
    if is_nested(diff) {
        return apply_nested(old, diff, new);
    }
    let sections = Sections::read(diff)?;
    new.clear();
    new.extend_from_slice(&[0; 4]);
    for field in document::elements(old) {
        let name = field.name_bytes();
        if contains(sections.removed, name) || contains(sections.inserted, name) {
            continue;
        }
        put(new, &find(sections.set, name).unwrap_or(field));
    }
    for field in document::elements_of_bytes(sections.set) {
        if document::get_element(old, field.name()).is_none() {
            put(new, &field);
        }
    }
    for field in document::elements_of_bytes(sections.inserted) {
        put(new, &field);
    }
    new.push(0);
    let length = new.len() as i32;
    if let Some(prefix) = new.get_mut(..4) {
        prefix.copy_from_slice(&length.to_le_bytes());
    }
    Ok(())
}

/// Whether a delta goes into documents or arrays: sections `s<name>`.
fn is_nested(diff: &RawDocument) -> bool {
    document::elements(diff).any(|section| section.name_bytes().first() == Some(&b's'))
}

fn apply_nested(old: &RawDocument, diff: &RawDocument, new: &mut Vec<u8>) -> Result<()> {
    let delta = rawdoc! { "$v": 2, "diff": diff.to_owned() };
    let applied = apply_diff(old, &Diff::from_document(delta)?)?;
    new.clear();
    new.extend_from_slice(applied.as_bytes());
    Ok(())
}

struct Sections<'a> {
    removed: &'a [u8],
    set: &'a [u8],
    inserted: &'a [u8],
}

const EMPTY_DOCUMENT: &[u8] = &[5, 0, 0, 0, 0];

impl<'a> Sections<'a> {
    fn read(diff: &'a RawDocument) -> Result<Sections<'a>> {
        let mut sections = Sections { removed: EMPTY_DOCUMENT, set: EMPTY_DOCUMENT, inserted: EMPTY_DOCUMENT };
        for section in document::elements(diff) {
            if section.element_type != ElementType::EmbeddedDocument {
                let name = section.name();
                return Err(CollectionError::Damaged(format!("section '{name}' in a logged delta is no document")));
            }
            match section.name_bytes() {
                b"d" => sections.removed = section.value_bytes(),
                b"u" => sections.set = section.value_bytes(),
                b"i" => sections.inserted = section.value_bytes(),
                _ => {
                    let name = section.name();
                    return Err(CollectionError::Damaged(format!("unknown section '{name}' in a logged delta")));
                }
            }
        }
        Ok(sections)
    }
}

fn find<'a>(section: &'a [u8], name: &[u8]) -> Option<Element<'a>> {
    document::elements_of_bytes(section).find(|element| element.name_bytes() == name)
}

fn contains(section: &[u8], name: &[u8]) -> bool {
    find(section, name).is_some()
}

fn put(bytes: &mut Vec<u8>, element: &Element<'_>) {
    bytes.push(element.element_type as u8);
    bytes.extend_from_slice(element.name_bytes());
    bytes.push(0);
    bytes.extend_from_slice(element.value_bytes());
}

#[cfg(test)]
mod tests {
    use bson::RawDocumentBuf;

    use super::*;

    fn applied(old: &RawDocumentBuf, diff: &RawDocumentBuf) -> RawDocumentBuf {
        let mut bytes = Vec::new();
        apply_delta(old, diff, &mut bytes).unwrap();
        RawDocumentBuf::from_bytes(bytes).unwrap()
    }

    #[test]
    fn sections_are_applied_in_place_and_at_the_end() {
        let old = rawdoc! { "_id": 1, "a": 1, "b": 2, "c": 3 };
        let diff = rawdoc! { "d": { "b": false }, "u": { "a": "x" }, "i": { "z": true } };
        assert_eq!(applied(&old, &diff), rawdoc! { "_id": 1, "a": "x", "c": 3, "z": true });
    }

    #[test]
    fn a_newer_document_is_no_obstacle() {
        let newer = rawdoc! { "_id": 1, "z": 9, "a": 1 };
        let diff = rawdoc! { "d": { "gone": false }, "u": { "missing": 1 }, "i": { "z": true } };
        assert_eq!(applied(&newer, &diff), rawdoc! { "_id": 1, "a": 1, "missing": 1, "z": true });
    }
}
