//! The entries of a group of long keys, put in order: in the tree they stand by their digests (`index_key::long_key`).
//!
//! Used by `IndexCursor`, which goes through a group when it comes upon a shortened key. The group is read through, and what
//! comes next is kept, as much as `KEPT_BYTES`; when that has been given out, the group is read through again. So a group of any size
//! takes little memory, and one that is kept whole, as nearly all are, is read once.

use std::collections::BTreeMap;

use collection::{Collection, CollectionError, RecordId, long_key};
use platform::command_memory::{Patience, before_allocating};
use storage_engine::EngineError;

use crate::error::Result;
use crate::merge_cursor::TreeCursor;

/// Bytes of keys that are kept.
pub(crate) const KEPT_BYTES: usize = if cfg!(test) { 16 << 10 } else { 4 << 20 };

/// Which way a cursor goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    Forward,
    Backward,
}

/// From where a cursor goes on.
#[derive(Clone, Debug)]
pub(crate) enum Edge {
    /// From the first key at or above this one, or the last below it.
    At(Vec<u8>),
    /// Behind this entry, either way.
    Beyond(Vec<u8>, RecordId),
}

impl Edge {
    /// Whether an entry is on the side that the cursor goes to.
    pub(crate) fn admits(&self, key: &[u8], record_id: RecordId, way: Way) -> bool {
        match (self, way) {
            (Edge::At(edge), Way::Forward) => key >= edge.as_slice(),
            (Edge::At(edge), Way::Backward) => key < edge.as_slice(),
            (Edge::Beyond(edge, record), Way::Forward) => (key, record_id) > (edge.as_slice(), *record),
            (Edge::Beyond(edge, record), Way::Backward) => (key, record_id) < (edge.as_slice(), *record),
        }
    }
}

/// A key and its record, with the type bits.
type Kept = ((Vec<u8>, RecordId), Vec<u8>);

/// A cursor's place in a group.
pub(crate) struct LongKeys {
    /// What all stored keys of the group begin with.
    group: Vec<u8>,
    way: Way,
    /// What comes next, with the type bits.
    kept: BTreeMap<(Vec<u8>, RecordId), Vec<u8>>,
    /// Whether more comes behind that.
    has_more: bool,
    current: Option<Entry>,
}

struct Entry {
    key: Vec<u8>,
    record_id: RecordId,
    type_bits: Vec<u8>,
}

impl LongKeys {
    /// A group, of which nothing has been read. `fill` comes next.
    pub(crate) fn new(group: &[u8], way: Way) -> LongKeys {
        LongKeys { group: group.to_vec(), way, kept: BTreeMap::new(), has_more: false, current: None }
    }

    pub(crate) fn group(&self) -> &[u8] {
        &self.group
    }

    /// The whole key of the entry that the cursor is on, its record, and its type bits.
    pub(crate) fn current(&self) -> Option<(&[u8], RecordId, &[u8])> {
        self.current.as_ref().map(|entry| (entry.key.as_slice(), entry.record_id, entry.type_bits.as_slice()))
    }

    /// Moves to the entry that comes next; `false`: the group is at its end. `cursor` is put anywhere.
    ///
    /// # Errors
    /// `Engine`; `Collection` when the command is to stop.
    pub(crate) fn step(&mut self, cursor: &mut TreeCursor, collection: &Collection) -> Result<bool> {
        if self.kept.is_empty()
            && self.has_more
            && let Some(entry) = &self.current
        {
            let edge = Edge::Beyond(entry.key.clone(), entry.record_id);
            self.fill(Some(&edge), cursor, collection)?;
        }
        let next = match self.way {
            Way::Forward => self.kept.pop_first(),
            Way::Backward => self.kept.pop_last(),
        };
        let Some(((key, record_id), type_bits)) = next else { return Ok(false) };
        self.current = Some(Entry { key, record_id, type_bits });
        Ok(true)
    }

    /// Reads through the group and keeps what comes next behind the edge.
    ///
    /// # Errors
    /// As `step`.
    pub(crate) fn fill(&mut self, edge: Option<&Edge>, cursor: &mut TreeCursor, collection: &Collection) -> Result<()> {
        self.kept.clear();
        // What was left out and comes first: behind it nothing is kept, however small it is, or what was left out would be passed over.
        let mut left_out: Option<(Vec<u8>, RecordId)> = None;
        let located = |error| collection.locate(error);
        let mut bytes = 0;
        cursor.seek(&self.group).map_err(located)?;
        while cursor.next().map_err(located)? && cursor.key().starts_with(&self.group) {
            let (stored, record_id) = RecordId::split(cursor.key())?;
            let stored = stored.to_vec();
            let value = cursor.value().map_err(located)?;
            let size = stored.len() + value.len();
            before_allocating(size, Patience::FailsAtOnce).map_err(EngineError::NoMemory)?;
            let mut key = Vec::with_capacity(size);
            let type_bits = long_key::restore(&stored, value, &mut key).map_err(CollectionError::from)?;
            if edge.is_some_and(|edge| !edge.admits(&key, record_id, self.way)) {
                continue;
            }
            let entry = (key, record_id);
            let is_behind = |first: &(Vec<u8>, RecordId)| match self.way {
                Way::Forward => entry > *first,
                Way::Backward => entry < *first,
            };
            if left_out.as_ref().is_some_and(is_behind) {
                continue;
            }
            bytes += size;
            self.kept.insert(entry, type_bits.to_vec());
            while bytes > KEPT_BYTES
                && self.kept.len() > 1
                && let Some((entry, type_bits)) = self.take_farthest()
            {
                // As it was counted: beside the key and the type bits, the digest and a length.
                bytes -= entry.0.len() + type_bits.len() + long_key::OVERHEAD_BYTES;
                left_out = Some(entry);
            }
        }
        self.has_more = left_out.is_some();
        Ok(())
    }

    /// Forgets what comes last.
    fn take_farthest(&mut self) -> Option<Kept> {
        match self.way {
            Way::Forward => self.kept.pop_last(),
            Way::Backward => self.kept.pop_first(),
        }
    }
}
