//! In which order a transaction changed which records: so that its entries in the oplog, and change streams, tell it in that order.
//!
//! Part of `write_set`. A record has a *note*, with its place in the order. One that was changed once is told as what the commit does to it. One that was
//! changed again has *steps*, its single changes, which are told instead, each at its own place, and never applied.
//!
//! When the write set spills, notes go along with the records' values (`spilled_writes`), and the order goes into a private tree, in which a record is listed once:
//!
//! ```text
//! sequence (8 bytes, big-endian) ‖ 0 → record tree (8) ‖ record id (8)
//! sequence (8 bytes, big-endian) ‖ 1 → the operation of a step
//! ```

use std::collections::HashMap;

use collection::{RecordId, UpdateStyle};
use storage_engine::TreeId;

const WHOLE: u8 = 1;
const REPEATED: u8 = 2;

/// What is remembered of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RecordNote {
    /// The place of its first change.
    pub(crate) sequence: u64,
    /// Whether the document was replaced as a whole.
    pub(crate) style: UpdateStyle,
    /// It has steps.
    pub(crate) is_repeated: bool,
    /// The private tree lists it.
    is_listed: bool,
}

/// A change of a record, for `WriteSet::absorb`.
pub(crate) struct RecordChange {
    pub(crate) record_id: RecordId,
    pub(crate) style: UpdateStyle,
    /// What was remembered of the record until now.
    pub(crate) note: Option<RecordNote>,
    /// When this is its second change: the operation that tells the first.
    pub(crate) first: Option<Vec<u8>>,
    /// The operation that tells this one, when it is not the first.
    pub(crate) operation: Vec<u8>,
}

/// A place in the order: that of a change, and a record before its step.
pub(crate) type Place = (u64, u8);

/// What is at a place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Listed {
    Record(TreeId, RecordId),
    Step(Box<[u8]>),
}

/// See the module's head: what of it is in memory.
#[derive(Default)]
pub(crate) struct ChangeOrder {
    notes: HashMap<(TreeId, i64), RecordNote>,
    steps: Vec<(u64, Box<[u8]>)>,
    next: u64,
}

impl RecordNote {
    pub(crate) const BYTES: usize = 9;

    pub(crate) fn encode(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..8].copy_from_slice(&self.sequence.to_le_bytes());
        bytes[8] =
            if self.style == UpdateStyle::Whole { WHOLE } else { 0 } | if self.is_repeated { REPEATED } else { 0 };
        bytes
    }

    /// What was written with a spilled record.
    pub(crate) fn decode(bytes: &[u8; Self::BYTES]) -> RecordNote {
        let [sequence @ .., flags] = *bytes;
        let style = if flags & WHOLE != 0 { UpdateStyle::Whole } else { UpdateStyle::Fields };
        RecordNote {
            sequence: u64::from_le_bytes(sequence),
            style,
            is_repeated: flags & REPEATED != 0,
            is_listed: true,
        }
    }
}

impl RecordChange {
    /// Bytes of steps that it adds.
    pub(crate) fn step_bytes(&self) -> usize {
        let first = self.first.as_ref().map_or(0, Vec::len);
        if self.note.is_some() { first + self.operation.len() } else { 0 }
    }
}

impl ChangeOrder {
    /// What is remembered of a record, in memory.
    pub(crate) fn note(&self, tree: TreeId, record_id: RecordId) -> Option<RecordNote> {
        self.notes.get(&(tree, record_id.0)).copied()
    }

    /// Takes a change in.
    pub(crate) fn add(&mut self, tree: TreeId, change: RecordChange) {
        let sequence = self.next;
        self.next += 1;
        let style = change.style;
        let mut note = change.note.unwrap_or(RecordNote { sequence, style, is_repeated: false, is_listed: false });
        if change.note.is_some() {
            self.steps.extend(change.first.map(|first| (note.sequence, first.into_boxed_slice())));
            self.steps.push((sequence, change.operation.into_boxed_slice()));
            note.is_repeated = true;
        }
        if style == UpdateStyle::Whole {
            note.style = style;
        }
        self.notes.insert((tree, change.record_id.0), note);
    }

    /// What the private tree does not list, in order.
    pub(crate) fn unlisted(&self) -> Vec<(Place, Listed)> {
        let records = self.notes.iter().filter(|(_, note)| !note.is_listed);
        let records = records.map(|((tree, id), note)| ((note.sequence, 0), Listed::Record(*tree, RecordId(*id))));
        let steps = self.steps.iter().map(|(sequence, step)| ((*sequence, 1), Listed::Step(step.clone())));
        let mut unlisted: Vec<_> = records.chain(steps).collect();
        unlisted.sort_by_key(|(place, _)| *place);
        unlisted
    }

    /// Forgets what has been spilled.
    pub(crate) fn clear(&mut self) {
        self.notes.clear();
        self.steps.clear();
    }
}

/// The key in the private tree.
pub(crate) fn encode_place((sequence, kind): Place) -> [u8; 9] {
    let mut key = [kind; 9];
    key[..8].copy_from_slice(&sequence.to_be_bytes());
    key
}

impl Listed {
    /// The value in the private tree.
    pub(crate) fn encode(&self, value: &mut Vec<u8>) {
        value.clear();
        match self {
            Listed::Record(tree, record_id) => {
                value.extend_from_slice(&tree.0.to_be_bytes());
                value.extend_from_slice(&record_id.0.to_be_bytes());
            }
            Listed::Step(operation) => value.extend_from_slice(operation),
        }
    }

    /// Reads an entry of the private tree; `None`: it is none.
    pub(crate) fn decode(key: &[u8], value: &[u8]) -> Option<(Place, Listed)> {
        let (sequence, kind) = key.split_first_chunk()?;
        let sequence = u64::from_be_bytes(*sequence);
        match kind {
            [0] => {
                let (tree, record_id) = value.split_first_chunk()?;
                let record_id = RecordId(i64::from_be_bytes(*record_id.first_chunk()?));
                Some(((sequence, 0), Listed::Record(TreeId(u64::from_be_bytes(*tree)), record_id)))
            }
            [1] => Some(((sequence, 1), Listed::Step(value.into()))),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TREE: TreeId = TreeId(7);

    fn change(id: i64, note: Option<RecordNote>, first: Option<&[u8]>, operation: &[u8]) -> RecordChange {
        let (first, operation) = (first.map(<[u8]>::to_vec), operation.to_vec());
        RecordChange { record_id: RecordId(id), style: UpdateStyle::Fields, note, first, operation }
    }

    #[test]
    fn a_record_that_is_changed_again_gets_steps() {
        let mut order = ChangeOrder::default();
        order.add(TREE, change(5, None, None, b"a"));
        order.add(TREE, change(3, None, None, b"b"));
        order.add(TREE, change(5, order.note(TREE, RecordId(5)), Some(b"a"), b"c"));
        order.add(TREE, change(5, order.note(TREE, RecordId(5)), None, b"d"));
        let step = |operation: &[u8]| Listed::Step(operation.into());
        let expected = vec![
            ((0, 0), Listed::Record(TREE, RecordId(5))),
            ((0, 1), step(b"a")),
            ((1, 0), Listed::Record(TREE, RecordId(3))),
            ((2, 1), step(b"c")),
            ((3, 1), step(b"d")),
        ];
        assert_eq!(order.unlisted(), expected);
        for (place, listed) in expected {
            let mut value = Vec::new();
            listed.encode(&mut value);
            assert_eq!(Listed::decode(&encode_place(place), &value), Some((place, listed)));
        }
    }

    #[test]
    fn notes_survive_spilling_and_are_listed_once() {
        let mut order = ChangeOrder::default();
        order.add(TREE, RecordChange { style: UpdateStyle::Whole, ..change(5, None, None, b"a") });
        let note = order.note(TREE, RecordId(5)).unwrap();
        let spilled = RecordNote::decode(&note.encode());
        assert_eq!(spilled, RecordNote { is_listed: true, ..note });
        order.clear();
        order.add(TREE, change(5, Some(spilled), Some(b"a"), b"b"));
        let note = order.note(TREE, RecordId(5)).unwrap();
        assert!(note.is_repeated && note.style == UpdateStyle::Whole && note.sequence == 0);
        let step = |operation: &[u8]| Listed::Step(operation.into());
        assert_eq!(order.unlisted(), vec![((0, 1), step(b"a")), ((1, 1), step(b"b"))]);
    }
}
