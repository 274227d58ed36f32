//! A cursor over a tree as a reader sees it: a snapshot alone, or a snapshot with what the reader's own transaction has written laid over it.
//!
//! Used by `read_view`'s cursors. Outside of transactions it is the engine's cursor behind one comparison. In one it goes through both in step;
//! where both have a key, what was written counts. It remembers where it is by key, so the transaction may go on writing between two steps.

use std::cmp::Ordering;
use std::sync::Arc;

use storage_engine::{BTreeCursor, Counted, TreeId};

use crate::write_set::{From, WriteSet};

type EngineResult<T> = std::result::Result<T, storage_engine::EngineError>;

/// See the module's head.
pub(crate) enum TreeCursor {
    Snapshot(BTreeCursor),
    Merged(Box<MergeCursor>),
}

/// Which way the cursor under it has last been moved.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    Forward,
    Backward,
}

/// A place between two keys.
enum Place {
    /// Before the first.
    Start,
    /// Behind the last.
    End,
    Before(Vec<u8>),
    After(Vec<u8>),
}

/// What the cursor under it is on.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Base {
    /// Not where this cursor is: it is to be positioned again.
    Stale,
    /// On an entry that was not yielded yet.
    Ahead(Direction),
    /// On the entry that was yielded last.
    Yielded(Direction),
    /// At the end in that direction.
    Exhausted(Direction),
}

/// See the module's head.
pub(crate) struct MergeCursor {
    base: BTreeCursor,
    state: Base,
    writes: Arc<WriteSet>,
    tree: TreeId,
    place: Place,
    key: Vec<u8>,
    /// What the entry was written to; `None`: it is the snapshot's.
    value: Option<Box<[u8]>>,
}

impl MergeCursor {
    pub(crate) fn new(base: BTreeCursor, writes: Arc<WriteSet>, tree: TreeId) -> MergeCursor {
        MergeCursor { base, state: Base::Stale, writes, tree, place: Place::Start, key: Vec::new(), value: None }
    }

    fn go(&mut self, place: Place) {
        self.place = place;
        self.state = Base::Stale;
    }

    fn step(&mut self, direction: Direction) -> EngineResult<bool> {
        loop {
            self.look_ahead(direction)?;
            let written = match direction {
                Direction::Forward => self.writes.next(self.tree, self.place.upwards()),
                Direction::Backward => self.writes.previous(self.tree, self.place.downwards()),
            }?;
            let has_base = matches!(self.state, Base::Ahead(_));
            let order = match &written {
                None if !has_base => return Ok(self.end(direction)),
                None => Ordering::Less,
                Some(_) if !has_base => Ordering::Greater,
                Some((key, _)) => match direction {
                    Direction::Forward => self.base.key().cmp(&**key),
                    Direction::Backward => self.base.key().cmp(&**key).reverse(),
                },
            };
            let Some((key, value)) = written.filter(|_| order.is_ge()) else {
                self.key.clear();
                self.key.extend_from_slice(self.base.key());
                self.value = None;
                self.state = Base::Yielded(direction);
                self.pass(direction);
                return Ok(true);
            };
            if order.is_eq() {
                self.state = Base::Yielded(direction);
            }
            self.key.clear();
            self.key.extend_from_slice(&key);
            self.pass(direction);
            if value.is_some() {
                self.value = value;
                return Ok(true);
            }
        }
    }

    /// Moves the place over the key.
    fn pass(&mut self, direction: Direction) {
        self.place = match direction {
            Direction::Forward => Place::After(self.key.clone()),
            Direction::Backward => Place::Before(self.key.clone()),
        };
    }

    fn end(&mut self, direction: Direction) -> bool {
        self.place = match direction {
            Direction::Forward => Place::End,
            Direction::Backward => Place::Start,
        };
        false
    }

    /// Has the cursor under it on the next entry of the snapshot.
    fn look_ahead(&mut self, direction: Direction) -> EngineResult<()> {
        match self.state {
            Base::Ahead(known) | Base::Exhausted(known) if known == direction => return Ok(()),
            Base::Yielded(known) if known == direction => {}
            _ => self.position(direction)?,
        }
        let moved = match direction {
            Direction::Forward => self.base.next()?,
            Direction::Backward => self.base.previous()?,
        };
        self.state = if moved { Base::Ahead(direction) } else { Base::Exhausted(direction) };
        Ok(())
    }

    fn position(&mut self, direction: Direction) -> EngineResult<()> {
        match (&self.place, direction) {
            (Place::Start, _) => self.base.seek_first(),
            (Place::End, _) => self.base.seek_last(),
            (Place::Before(key), Direction::Forward) => self.base.seek(key),
            (Place::After(key), Direction::Forward) => self.base.seek_after(key),
            (Place::Before(key), Direction::Backward) => self.base.seek_before(key),
            (Place::After(key), Direction::Backward) => self.base.seek_at_or_before(key),
        }
    }

    fn value(&mut self) -> EngineResult<&[u8]> {
        match &self.value {
            Some(value) => Ok(value),
            None => self.base.value(),
        }
    }
}

impl Place {
    fn upwards(&self) -> From<'_> {
        match self {
            Place::Start => From::Edge,
            // No key is above every key.
            Place::End => From::Beyond(ABOVE_ALL),
            Place::Before(key) => From::At(key),
            Place::After(key) => From::Beyond(key),
        }
    }

    fn downwards(&self) -> From<'_> {
        match self {
            Place::End => From::Edge,
            Place::Start => From::Beyond(&[]),
            Place::Before(key) => From::Beyond(key),
            Place::After(key) => From::At(key),
        }
    }
}

/// Longer than any key and of the highest bytes.
const ABOVE_ALL: &[u8] = &[0xFF; storage_engine::MAX_KEY_BYTES + 1];

impl TreeCursor {
    /// `next` then yields the first entry whose key is at or above `key`.
    #[inline]
    pub(crate) fn seek(&mut self, key: &[u8]) -> EngineResult<()> {
        match self {
            TreeCursor::Snapshot(cursor) => cursor.seek(key),
            TreeCursor::Merged(cursor) => {
                cursor.go(Place::Before(key.to_vec()));
                Ok(())
            }
        }
    }

    /// `next` then yields the first entry whose key is above `key`.
    pub(crate) fn seek_after(&mut self, key: &[u8]) -> EngineResult<()> {
        match self {
            TreeCursor::Snapshot(cursor) => cursor.seek_after(key),
            TreeCursor::Merged(cursor) => {
                cursor.go(Place::After(key.to_vec()));
                Ok(())
            }
        }
    }

    /// `previous` then yields the last entry whose key is below `key`.
    pub(crate) fn seek_before(&mut self, key: &[u8]) -> EngineResult<()> {
        match self {
            TreeCursor::Snapshot(cursor) => cursor.seek_before(key),
            TreeCursor::Merged(cursor) => {
                cursor.go(Place::Before(key.to_vec()));
                Ok(())
            }
        }
    }

    /// `previous` then yields the last entry whose key is at or below `key`.
    pub(crate) fn seek_at_or_before(&mut self, key: &[u8]) -> EngineResult<()> {
        match self {
            TreeCursor::Snapshot(cursor) => cursor.seek_at_or_before(key),
            TreeCursor::Merged(cursor) => {
                cursor.go(Place::After(key.to_vec()));
                Ok(())
            }
        }
    }

    /// `next` then yields the first entry.
    pub(crate) fn seek_first(&mut self) -> EngineResult<()> {
        match self {
            TreeCursor::Snapshot(cursor) => cursor.seek_first(),
            TreeCursor::Merged(cursor) => {
                cursor.go(Place::Start);
                Ok(())
            }
        }
    }

    /// `previous` then yields the last entry.
    pub(crate) fn seek_last(&mut self) -> EngineResult<()> {
        match self {
            TreeCursor::Snapshot(cursor) => cursor.seek_last(),
            TreeCursor::Merged(cursor) => {
                cursor.go(Place::End);
                Ok(())
            }
        }
    }

    /// Moves to the next entry; `false` at the end.
    #[inline]
    pub(crate) fn next(&mut self) -> EngineResult<bool> {
        match self {
            TreeCursor::Snapshot(cursor) => cursor.next(),
            TreeCursor::Merged(cursor) => cursor.step(Direction::Forward),
        }
    }

    /// Moves to the entry before; `false` at the beginning.
    #[inline]
    pub(crate) fn previous(&mut self) -> EngineResult<bool> {
        match self {
            TreeCursor::Snapshot(cursor) => cursor.previous(),
            TreeCursor::Merged(cursor) => cursor.step(Direction::Backward),
        }
    }

    /// Passes over the entries below `end` and counts them, those of one leaf at a time; `None` where a transaction's own writes are
    /// laid over them, so that each must be looked at.
    pub(crate) fn count_below(&mut self, end: &[u8]) -> EngineResult<Option<Counted>> {
        match self {
            TreeCursor::Snapshot(cursor) => cursor.count_below(end).map(Some),
            TreeCursor::Merged(_) => Ok(None),
        }
    }

    /// The key of the entry that the cursor is on.
    #[inline]
    pub(crate) fn key(&self) -> &[u8] {
        match self {
            TreeCursor::Snapshot(cursor) => cursor.key(),
            TreeCursor::Merged(cursor) => &cursor.key,
        }
    }

    /// Its value.
    #[inline]
    pub(crate) fn value(&mut self) -> EngineResult<&[u8]> {
        match self {
            TreeCursor::Snapshot(cursor) => cursor.value(),
            TreeCursor::Merged(cursor) => cursor.value(),
        }
    }
}
