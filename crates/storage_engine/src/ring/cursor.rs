//! A cursor over a ring, in both directions: natural order is the order of positions.
//!
//! Made by `engine` for `transaction`'s record cursors. It has a piece of the ring in memory of its own. A cursor that goes forward and is overtaken
//! says so; one that goes backward has come to the end then. It stays where it is at the tail, and goes on from there in a newer snapshot: so it is
//! what a tailable cursor needs.

use std::sync::Arc;

use super::layout::ALIGNMENT;
use super::reading::{AHEAD, BACK, Fetched, FoundSlot, Override, Piece, Window};
use super::{Ring, damaged, number_at, position_of};
use crate::btree::Trees;
use crate::error::{EngineError, Result};
use crate::snapshot::Snapshot;

/// A cursor over one ring.
pub struct RingCursor {
    ring: Arc<Ring>,
    trees: Arc<Trees>,
    snapshot: Snapshot,
    window: Window,
    /// The slot that `next` looks at first; `None`: that at the head.
    forward: Option<u64>,
    /// The slot that `previous` looks at first.
    backward: Backward,
    current: u64,
    /// The state of the current document, if it is not as it was inserted.
    changed: Vec<u8>,
    is_changed: bool,
    skips_damage: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Backward {
    Newest,
    At(u64),
    Nothing,
}

impl crate::Engine {
    /// A cursor over a ring.
    pub fn ring_cursor(&self, snapshot: &Snapshot, ring: &Arc<Ring>) -> RingCursor {
        RingCursor {
            ring: ring.clone(),
            trees: self.trees.clone(),
            snapshot: snapshot.clone(),
            window: Window::default(),
            forward: None,
            backward: Backward::Newest,
            current: 0,
            changed: Vec::new(),
            is_changed: false,
            skips_damage: false,
        }
    }
}

impl RingCursor {
    /// `next` passes over what cannot be read: for replay, which meets slots that were overwritten.
    pub fn skip_damage(&mut self) {
        self.skips_damage = true;
    }

    /// Goes on in another snapshot.
    pub fn set_snapshot(&mut self, snapshot: &Snapshot) {
        self.snapshot = snapshot.clone();
        self.window.forget_age();
    }

    /// Bytes of memory that the cursor holds.
    pub fn memory_bytes(&self) -> usize {
        self.window.memory_bytes() + self.changed.capacity()
    }

    /// `next` then yields the first document.
    pub fn seek_first(&mut self) {
        (self.forward, self.backward) = (None, Backward::Nothing);
    }

    /// `previous` then yields the last document.
    pub fn seek_last(&mut self) {
        (self.forward, self.backward) = (Some(u64::MAX), Backward::Newest);
    }

    /// `next` then yields the document with this number or the first after it; `previous` the last before it.
    ///
    /// # Errors
    /// `RingFile`.
    pub fn seek(&mut self, number: i64) -> Result<()> {
        let position = position_of(number);
        match self.ring.fetch(&mut self.window, position, AHEAD)? {
            Fetched::Slot(slot) => self.stand_before(position, slot),
            Fetched::Skip(_) | Fetched::End => (self.forward, self.backward) = (Some(position), Backward::Newest),
            Fetched::Overtaken => self.seek_first(),
            Fetched::Damaged => return self.walk_to(position),
        }
        Ok(())
    }

    /// `next` then yields the first document after this one; `previous` this one or the last before it.
    ///
    /// # Errors
    /// `RingFile`.
    pub fn seek_after(&mut self, number: i64) -> Result<()> {
        let position = position_of(number);
        self.seek(number)?;
        if let Fetched::Slot(slot) = self.ring.fetch(&mut self.window, position, AHEAD)? {
            (self.forward, self.backward) = (Some(position + slot.bytes), Backward::At(position));
        }
        Ok(())
    }

    fn stand_before(&mut self, position: u64, slot: FoundSlot) {
        self.forward = Some(position);
        self.backward = before(position, slot);
    }

    /// For a number that no document has: from the head on.
    fn walk_to(&mut self, target: u64) -> Result<()> {
        let mut position = self.ring.state().head;
        self.backward = Backward::Nothing;
        while position < target {
            match self.ring.fetch(&mut self.window, position, AHEAD)? {
                Fetched::Slot(slot) => {
                    self.backward = Backward::At(position);
                    position += slot.bytes;
                }
                Fetched::Skip(to) => position = to,
                Fetched::End => break,
                Fetched::Overtaken => position = self.ring.state().head,
                Fetched::Damaged => return Err(damaged(self.ring.tree, position, "the slot is damaged")),
            }
        }
        self.forward = Some(position);
        Ok(())
    }

    /// The next document's number; `None` at the end.
    ///
    /// # Errors
    /// `RingPositionLost` when what comes next was overtaken; `Corrupt`, `RingFile`, `SnapshotTooOld`.
    #[allow(clippy::should_implement_trait, reason = "a cursor lends its documents, which an iterator cannot")]
    pub fn next(&mut self) -> Result<Option<i64>> {
        loop {
            let position = match self.forward {
                Some(u64::MAX) => return Ok(None),
                Some(position) => position,
                None => self.ring.state().head,
            };
            let slot = match self.ring.fetch(&mut self.window, position, AHEAD)? {
                Fetched::Slot(slot) => slot,
                Fetched::Skip(to) => {
                    self.forward = Some(to);
                    continue;
                }
                Fetched::End => return Ok(None),
                Fetched::Overtaken if self.forward.is_none() => continue,
                Fetched::Overtaken => return Err(EngineError::RingPositionLost),
                Fetched::Damaged if self.skips_damage => {
                    self.forward = Some(self.window.next_candidate(position + ALIGNMENT));
                    continue;
                }
                Fetched::Damaged => return Err(damaged(self.ring.tree, position, "the slot is damaged")),
            };
            if slot.timestamp > self.snapshot.timestamp().0 {
                return Ok(None);
            }
            match self.take(position)? {
                Taken::Overtaken if self.forward.is_none() => continue,
                Taken::Overtaken => return Err(EngineError::RingPositionLost),
                taken => {
                    (self.forward, self.backward) = (Some(position + slot.bytes), Backward::At(position));
                    if taken == Taken::Document {
                        return Ok(Some(number_at(position)));
                    }
                }
            }
        }
    }

    /// The number of the document before; `None` at the beginning.
    ///
    /// # Errors
    /// `Corrupt`, `RingFile`, `SnapshotTooOld`.
    pub fn previous(&mut self) -> Result<Option<i64>> {
        loop {
            let position = match self.backward {
                Backward::Nothing => return Ok(None),
                Backward::At(position) => position,
                Backward::Newest => match self.ring.state() {
                    state if state.last < state.tail && state.last >= state.head => state.last,
                    _ => return Ok(None),
                },
            };
            if position < self.ring.state().head {
                self.backward = Backward::Nothing;
                return Ok(None);
            }
            // The first step reads little: often it is the only one.
            let piece = if self.backward == Backward::Newest { Piece::Back(8 << 10) } else { BACK };
            let slot = match self.ring.fetch(&mut self.window, position, piece)? {
                Fetched::Slot(slot) => slot,
                Fetched::Overtaken | Fetched::Skip(_) | Fetched::End => {
                    self.backward = Backward::Nothing;
                    return Ok(None);
                }
                Fetched::Damaged => return Err(damaged(self.ring.tree, position, "the slot is damaged")),
            };
            self.stand_before(position, slot);
            if slot.timestamp > self.snapshot.timestamp().0 {
                continue;
            }
            match self.take(position)? {
                Taken::Document => return Ok(Some(number_at(position))),
                Taken::Deleted => {}
                Taken::Overtaken => {
                    self.backward = Backward::Nothing;
                    return Ok(None);
                }
            }
        }
    }

    /// Makes the document of a fetched slot the current one, if it is still there.
    fn take(&mut self, position: u64) -> Result<Taken> {
        let found = self.ring.overridden(&self.trees, &self.snapshot, &self.window, position, &mut self.changed)?;
        (self.current, self.is_changed) = (position, found == Override::Yes);
        Ok(match found {
            Override::Yes if self.changed.is_empty() => Taken::Deleted,
            Override::Yes | Override::No => Taken::Document,
            Override::Overtaken => Taken::Overtaken,
        })
    }

    /// The document that the last step yielded.
    pub fn document(&self) -> &[u8] {
        if self.is_changed { &self.changed } else { self.window.document(self.current) }
    }
}

/// What became of a slot that was fetched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Taken {
    Document,
    Deleted,
    Overtaken,
}

fn before(position: u64, slot: FoundSlot) -> Backward {
    match slot.back {
        0 => Backward::Nothing,
        back => Backward::At(position.saturating_sub(back)),
    }
}
