//! Reading slots: from memory when they are not written yet, otherwise from the file in pieces.
//!
//! Called by cursors, by inserts for what they overtake, and for single documents. Readers take no part in the ring's lock: they read, and look at the head
//! afterwards. What was overtaken meanwhile does not count.

use super::layout::{ALIGNMENT, RingState};
use super::slot::{self, HEADER_BYTES, Slot};
use super::{Ring, damaged, file, file_error, number_at, position_of, ring_key};
use crate::btree::Trees;
use crate::error::Result;
use crate::snapshot::Snapshot;

/// How much is read at once, and on which side of the slot.
#[derive(Debug, Clone, Copy)]
pub(super) enum Piece {
    Ahead(u64),
    Back(u64),
}

/// For one document.
pub(super) const POINT: Piece = Piece::Ahead(2 << 10);
/// For going forward.
pub(super) const AHEAD: Piece = Piece::Ahead(128 << 10);
/// For going backward.
pub(super) const BACK: Piece = Piece::Back(128 << 10);

/// A piece of the ring in memory of the reader's own.
#[derive(Debug, Default)]
pub(super) struct Window {
    bytes: Vec<u8>,
    start: u64,
    /// What is before this may have been overwritten while it was read.
    valid_from: u64,
    /// When it was read no document had been changed, so that no snapshot from before sees another state of one than what is here.
    is_original: bool,
}

/// Whether a snapshot sees a document as it was inserted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Override {
    /// As it was inserted.
    No,
    /// Changed, or deleted.
    Yes,
    /// It cannot be told any more: the document was overtaken, and what was kept of its change is gone.
    Overtaken,
}

/// A slot with a document; the document is in the window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FoundSlot {
    pub(super) timestamp: u64,
    /// Bytes to the slot before; 0: none.
    pub(super) back: u64,
    /// Bytes of the slot.
    pub(super) bytes: u64,
}

/// What is at a position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fetched {
    Slot(FoundSlot),
    /// Nothing; go on there.
    Skip(u64),
    /// The tail.
    End,
    /// It was, and is no more.
    Overtaken,
    Damaged,
}

enum Loaded {
    Yes,
    No(Fetched),
}

impl Window {
    fn at(&self, position: u64) -> Option<&[u8]> {
        if position < self.valid_from {
            return None;
        }
        self.bytes.get(position.checked_sub(self.start)? as usize..)
    }

    /// It is read on in a newer snapshot.
    pub(super) fn forget_age(&mut self) {
        self.is_original = false;
    }

    /// The document of a slot that was fetched.
    pub(super) fn document(&self, position: u64) -> &[u8] {
        let found = self.at(position).and_then(|bytes| bytes.get(HEADER_BYTES..slot::needed_bytes(bytes)?));
        found.unwrap_or_default()
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.bytes.capacity()
    }

    /// The first position, from one on, that may be a slot: it is one, or there is too little here to tell.
    pub(super) fn next_candidate(&self, mut position: u64) -> u64 {
        while let Some(bytes) = self.at(position) {
            match self.parse(position) {
                Some(Fetched::Slot(_) | Fetched::Skip(_)) => break,
                None if bytes.len() < HEADER_BYTES || slot::is_plausible(bytes) => break,
                _ => position += ALIGNMENT,
            }
        }
        position
    }

    fn parse(&self, position: u64) -> Option<Fetched> {
        let bytes = self.at(position)?;
        if bytes.len() < slot::needed_bytes(bytes)? {
            return None;
        }
        Some(match slot::read(bytes, position) {
            Some(Slot::Document { length, back, timestamp }) => {
                Fetched::Slot(FoundSlot { timestamp, back, bytes: slot::slot_bytes(length) })
            }
            Some(Slot::Skip { to }) if to > position => Fetched::Skip(to),
            _ => Fetched::Damaged,
        })
    }
}

impl Ring {
    /// Finds the slot at a position, reading a piece of the ring into the window unless it is there.
    pub(super) fn fetch(&self, window: &mut Window, position: u64, piece: Piece) -> Result<Fetched> {
        if let Some(found) = window.parse(position)
            && found != Fetched::Damaged
        {
            return Ok(found);
        }
        let mut wanted = HEADER_BYTES as u64;
        loop {
            if let Loaded::No(reason) = self.load(window, position, wanted, piece)? {
                return Ok(reason);
            }
            if let Some(found) = window.parse(position) {
                return Ok(found);
            }
            let needed = window.at(position).and_then(slot::needed_bytes).map_or(0, |needed| needed as u64);
            if needed <= wanted {
                return Ok(Fetched::Damaged);
            }
            wanted = needed;
        }
    }

    fn load(&self, window: &mut Window, position: u64, wanted: u64, piece: Piece) -> Result<Loaded> {
        let shared = self.shared.read();
        let state = shared.state;
        if position >= state.tail {
            return Ok(Loaded::No(Fetched::End));
        }
        if position < state.head {
            return Ok(Loaded::No(Fetched::Overtaken));
        }
        let used = position % state.extent_bytes;
        if state.extent_bytes - used < HEADER_BYTES as u64 {
            return Ok(Loaded::No(Fetched::Skip(position - used + state.extent_bytes)));
        }
        let (before, after) = match piece {
            Piece::Ahead(bytes) => (0, bytes),
            Piece::Back(bytes) => (bytes, 0),
        };
        if let Some(chunk) = shared.buffer.find(position) {
            let from = position.saturating_sub(before).max(chunk.start);
            let to = (position + wanted.max(after)).min(chunk.end());
            window.bytes.clear();
            window.bytes.extend_from_slice(&chunk.bytes[(from - chunk.start) as usize..(to - chunk.start) as usize]);
            (window.start, window.valid_from) = (from, from.max(state.head));
            window.is_original = state.overrides == 0;
            return Ok(Loaded::Yes);
        }
        let lap = if position >= state.lap { state.lap } else { state.previous_lap };
        let mut limit = shared.buffer.first().filter(|first| *first > position).unwrap_or(state.tail).min(state.tail);
        if position < state.lap {
            limit = limit.min(state.lap);
        }
        drop(shared);
        let from = position.saturating_sub(before).max(lap);
        let to = (position + wanted.max(after)).min(limit);
        window.is_original = state.overrides == 0;
        self.read_file(window, from, to, &state)?;
        let head = self.shared.read().state.head;
        if position < head {
            window.bytes.clear();
            return Ok(Loaded::No(Fetched::Overtaken));
        }
        window.valid_from = from.max(head);
        Ok(Loaded::Yes)
    }

    fn read_file(&self, window: &mut Window, from: u64, to: u64, state: &RingState) -> Result<()> {
        window.bytes.resize((to - from) as usize, 0);
        window.start = from;
        let mut filled = 0;
        let offset = file::FILE_HEADER_BYTES + state.offset_of(from);
        let file = match self.file.existing() {
            Ok(file) => file,
            // Lost with everything in it: damage that replay may still forgive.
            Err(error) if matches!(error.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::InvalidData) => {
                window.bytes.fill(0);
                return Ok(());
            }
            Err(error) => return Err(file_error(error)),
        };
        while filled < window.bytes.len() {
            match file.read_unverified_at(&mut window.bytes[filled..], offset + filled as u64).map_err(file_error)? {
                0 => break,
                count => filled += count,
            }
        }
        // What the file does not have is not there.
        window.bytes[filled..].fill(0);
        Ok(())
    }

    /// Whether a document that is in the window has been changed or deleted since it was inserted: then `value` is its state in a snapshot,
    /// which is empty when it is deleted.
    pub(super) fn overridden(
        &self,
        trees: &Trees,
        snapshot: &Snapshot,
        window: &Window,
        position: u64,
        value: &mut Vec<u8>,
    ) -> Result<Override> {
        let state = self.state();
        if window.is_original || (state.overrides == 0 && position >= state.head) {
            return Ok(Override::No);
        }
        let found = trees.get(snapshot, self.tree, &ring_key(number_at(position)), value);
        match found.map_err(|error| error.in_tree(self.tree))? {
            _ if position < self.state().head => Ok(Override::Overtaken),
            true => Ok(Override::Yes),
            false => Ok(Override::No),
        }
    }
}

impl crate::Engine {
    /// Reads a document of a ring as a snapshot sees it; `false` when it is not there (any more).
    ///
    /// # Errors
    /// `Corrupt`, `RingFile`, `SnapshotTooOld`.
    pub fn get_in_ring(&self, snapshot: &Snapshot, ring: &Ring, number: i64, document: &mut Vec<u8>) -> Result<bool> {
        let position = position_of(number);
        let mut window = Window::default();
        match ring.fetch(&mut window, position, POINT)? {
            Fetched::Slot(slot) if slot.timestamp > snapshot.timestamp().0 => return Ok(false),
            Fetched::Slot(_) => {}
            Fetched::Skip(_) | Fetched::End | Fetched::Overtaken => return Ok(false),
            Fetched::Damaged => return Err(damaged(ring.tree, position, "the slot is damaged")),
        }
        match ring.overridden(&self.trees, snapshot, &window, position, document)? {
            Override::Yes => return Ok(!document.is_empty()),
            Override::Overtaken => return Ok(false),
            Override::No => {}
        }
        document.clear();
        document.extend_from_slice(window.document(position));
        Ok(true)
    }

    /// Reads the newest state of a document of a ring, visible or not; `None` when it is not there. Of a slot that cannot be read it says so.
    ///
    /// # Errors
    /// `RingFile`; as `get_latest`.
    pub fn get_latest_in_ring(&self, ring: &Ring, number: i64, document: &mut Vec<u8>) -> Result<LatestInRing> {
        let position = position_of(number);
        let state = ring.state();
        if position < state.head || position >= state.tail {
            return Ok(LatestInRing::Absent);
        }
        if state.overrides > 0 && self.get_latest(ring.tree, &ring_key(number), document)?.is_some() {
            return Ok(if document.is_empty() { LatestInRing::Absent } else { LatestInRing::Changed });
        }
        let mut window = Window::default();
        match ring.fetch(&mut window, position, POINT)? {
            Fetched::Slot(_) => {
                document.clear();
                document.extend_from_slice(window.document(position));
                Ok(LatestInRing::AsInserted)
            }
            Fetched::Skip(_) | Fetched::End | Fetched::Overtaken => Ok(LatestInRing::Absent),
            Fetched::Damaged => Ok(LatestInRing::Unreadable),
        }
    }
}

/// The newest state of a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LatestInRing {
    /// Overtaken, deleted, or never there.
    Absent,
    /// As it was inserted.
    AsInserted,
    /// Changed since.
    Changed,
    /// Its slot is damaged, or, during replay, overwritten.
    Unreadable,
}
