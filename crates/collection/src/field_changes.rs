//! Which top-level fields differ between two versions of a document.
//!
//! Called for every update: the answer decides which indexes have to be looked at and is the delta that is logged. One
//! walk over both documents, comparing stored bytes; no allocation once the list has grown.
//!
//! The delta has the shape `new = (old without removed, some fields set in place) + inserted at the end`. A document
//! whose fields moved does not fit; then every moved field counts as changed and `is_delta` is false.

use std::ops::Range;

use bson::RawDocument;
use document::{Element, Elements, Interruption, work};

/// Up to so many, looking at each for each name is quicker than searching among the names.
const FEW_CHANGES: usize = 8;

/// What happened to a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FieldChangeKind {
    /// Its value was replaced where it stood.
    Set,
    /// It is gone.
    Removed,
    /// It was added at the end.
    Inserted,
}

#[derive(Clone, Debug)]
struct FieldChange {
    kind: FieldChangeKind,
    /// Where the name is: in the old document for `Removed`, otherwise in the new one.
    name: Range<u32>,
    /// End of the element there; its type is the byte before the name.
    end: u32,
}

/// The differences between an old and a new document. Reusable.
#[derive(Debug, Default)]
pub(crate) struct FieldChanges {
    changes: Vec<FieldChange>,
    is_delta: bool,
}

impl FieldChanges {
    /// Compares two documents, forgetting what was found before.
    pub(crate) fn compare(&mut self, old: &RawDocument, new: &RawDocument) {
        self.changes.clear();
        let mut old_fields = document::elements(old);
        let mut new_fields = document::elements(new);
        let (old_bytes, new_bytes) = (old.as_bytes(), new.as_bytes());
        let mut pending = new_fields.next();
        for old_field in old_fields.by_ref() {
            match &pending {
                Some(new_field) if new_field.name_bytes() == old_field.name_bytes() => {
                    let same_type = new_field.element_type == old_field.element_type;
                    if !same_type || new_field.value_bytes() != old_field.value_bytes() {
                        self.push(FieldChangeKind::Set, new_field, new_bytes, &new_fields);
                    }
                    pending = new_fields.next();
                }
                _ => self.push_removed(&old_field, old_bytes),
            }
        }
        while let Some(new_field) = pending {
            self.push(FieldChangeKind::Inserted, &new_field, new_bytes, &new_fields);
            pending = new_fields.next();
        }
        self.is_delta = !self.some_field_moved(old_bytes, new_bytes);
    }

    fn push(&mut self, kind: FieldChangeKind, field: &Element<'_>, bytes: &[u8], rest: &Elements<'_>) {
        let end = bytes.len() - rest.remaining();
        let name_start = end - field.value_bytes().len() - 1 - field.name_bytes().len();
        let name = name_start as u32..(name_start + field.name_bytes().len()) as u32;
        self.changes.push(FieldChange { kind, name, end: end as u32 });
    }

    fn push_removed(&mut self, field: &Element<'_>, bytes: &[u8]) {
        // The name is a slice of the old document: its distance from the start is its position.
        let start = field.name_bytes().as_ptr().addr() - bytes.as_ptr().addr();
        let name = start as u32..(start + field.name_bytes().len()) as u32;
        self.changes.push(FieldChange { kind: FieldChangeKind::Removed, end: name.end, name });
    }

    fn some_field_moved(&self, old: &[u8], new: &[u8]) -> bool {
        let name = |change: &FieldChange, bytes: &[u8]| -> Box<[u8]> { slice(bytes, &change.name).into() };
        let mut removed = self.changes.iter().filter(|change| change.kind == FieldChangeKind::Removed).peekable();
        if removed.peek().is_none() {
            return false;
        }
        let inserted: std::collections::HashSet<_> = self
            .changes
            .iter()
            .filter(|change| change.kind == FieldChangeKind::Inserted)
            .map(|change| name(change, new))
            .collect();
        !inserted.is_empty() && removed.any(|change| inserted.contains(&name(change, old)))
    }

    /// Whether nothing changed.
    pub(crate) fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    /// Whether the changes say all: applied to the old document they give the new one.
    pub(crate) fn is_delta(&self) -> bool {
        self.is_delta
    }

    /// Whether the field called `name` changed.
    pub(crate) fn contains(&self, name: &[u8], old: &RawDocument, new: &RawDocument) -> bool {
        self.changes.iter().any(|change| self.name(change, old, new) == name)
    }

    /// Whether a field changed whose name is among `names`, which are sorted.
    pub(crate) fn contains_any(&self, names: &[Box<[u8]>], old: &RawDocument, new: &RawDocument) -> bool {
        if self.changes.len() <= FEW_CHANGES {
            return names.iter().any(|name| self.contains(name, old, new));
        }
        self.changes.iter().any(|change| {
            let name = self.name(change, old, new);
            names.binary_search_by(|known| (**known).cmp(name)).is_ok()
        })
    }

    /// Counts a pass over all changes.
    ///
    /// # Errors
    /// The command is to stop.
    pub(crate) fn count_pass(&self) -> Result<(), Interruption> {
        work::done(self.changes.len())
    }

    fn name<'a>(&self, change: &FieldChange, old: &'a RawDocument, new: &'a RawDocument) -> &'a [u8] {
        let bytes = if change.kind == FieldChangeKind::Removed { old.as_bytes() } else { new.as_bytes() };
        slice(bytes, &change.name)
    }

    /// The stored elements (type, name, value) of the set or inserted fields, in order.
    pub(crate) fn elements<'a>(
        &'a self,
        kind: FieldChangeKind,
        new: &'a RawDocument,
    ) -> impl Iterator<Item = &'a [u8]> {
        let of_kind = self.changes.iter().filter(move |change| change.kind == kind);
        of_kind.map(|change| slice(new.as_bytes(), &(change.name.start - 1..change.end)))
    }

    /// The names of the removed fields.
    pub(crate) fn removed_names<'a>(&'a self, old: &'a RawDocument) -> impl Iterator<Item = &'a [u8]> {
        let removed = self.changes.iter().filter(|change| change.kind == FieldChangeKind::Removed);
        removed.map(|change| slice(old.as_bytes(), &change.name))
    }
}

fn slice<'a>(bytes: &'a [u8], range: &Range<u32>) -> &'a [u8] {
    bytes.get(range.start as usize..range.end as usize).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use bson::{RawDocumentBuf, rawdoc};

    use super::*;

    fn changes(old: &RawDocumentBuf, new: &RawDocumentBuf) -> FieldChanges {
        let mut changes = FieldChanges::default();
        changes.compare(old, new);
        changes
    }

    #[test]
    fn sets_removals_and_insertions_are_found() {
        let old = rawdoc! { "_id": 1, "a": 1, "b": "x", "c": true };
        let new = rawdoc! { "_id": 1, "a": 2, "c": true, "d": [1] };
        let found = changes(&old, &new);
        assert!(found.is_delta());
        assert_eq!(found.elements(FieldChangeKind::Set, &new).collect::<Vec<_>>(), [b"\x10a\0\x02\0\0\0"]);
        assert_eq!(found.removed_names(&old).collect::<Vec<_>>(), [b"b"]);
        assert_eq!(found.elements(FieldChangeKind::Inserted, &new).count(), 1);
        for (name, changed) in [("_id", false), ("a", true), ("b", true), ("c", false), ("d", true)] {
            assert_eq!(found.contains(name.as_bytes(), &old, &new), changed, "{name}");
        }
    }

    #[test]
    fn a_type_change_is_a_change() {
        let (old, new) = (rawdoc! { "a": 1.0 }, rawdoc! { "a": 1.0_f64.to_bits() as i64 });
        assert!(changes(&old, &new).contains(b"a", &old, &new));
        assert!(changes(&old, &old).is_empty());
    }

    #[test]
    fn moved_fields_are_no_delta() {
        let (old, new) = (rawdoc! { "a": 1, "b": 2 }, rawdoc! { "b": 2, "a": 1 });
        let found = changes(&old, &new);
        assert!(!found.is_delta() && found.contains(b"a", &old, &new));
    }
}
