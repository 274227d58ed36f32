//! What of a transaction's changes is not in memory: in trees of the engine that nobody else knows.
//!
//! Used by `write_set`. Pages of such a tree are evicted like any others, so a transaction larger than memory pins nothing; they are noted as dropped
//! from the start, so a crash leaves nothing of them, and `reap` drops them when the transaction has ended. For each tree that the transaction
//! writes there is one, with the same keys; a value begins with a byte that says whether the key was written or removed (1), and whether the note of
//! a record follows (2). One more lists the order of the changes (`change_order`).

use std::collections::BTreeMap;
use std::sync::Arc;

use collection::{Catalog, CollectionError};
use storage_engine::{BTreeCursor, Batch, Engine, EngineError, TreeId};

use crate::change_order::{Listed, Place, RecordNote, encode_place};
use crate::write_set::{Entry, From, Written, WrittenTree};

/// Bytes that are written in one go: checkpoints wait for it, and it takes page frames that others want.
const CHUNK_BYTES: usize = 32 << 10;

type Result<T> = std::result::Result<T, EngineError>;

/// See the module's head.
pub(crate) struct SpilledWrites {
    engine: Arc<Engine>,
    catalog: Arc<Catalog>,
    private: BTreeMap<TreeId, TreeId>,
    order: Option<TreeId>,
}

/// The first byte of a value.
const WRITTEN: u8 = 1;
const WITH_NOTE: u8 = 2;

impl SpilledWrites {
    pub(crate) fn new(engine: Arc<Engine>, catalog: Arc<Catalog>) -> SpilledWrites {
        SpilledWrites { engine, catalog, private: BTreeMap::new(), order: None }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.private.is_empty()
    }

    pub(crate) fn has(&self, tree: TreeId) -> bool {
        self.private.contains_key(&tree)
    }

    /// Puts the changes of `tree` into `private` from here on.
    pub(crate) fn add(&mut self, tree: TreeId, private: TreeId) {
        self.private.insert(tree, private);
    }

    /// Whether there is a tree for the order.
    pub(crate) fn has_order(&self) -> bool {
        self.order.is_some()
    }

    /// Puts the order into `private` from here on.
    pub(crate) fn add_order(&mut self, private: TreeId) {
        self.order = Some(private);
    }

    /// Writes changes; newer ones take the place of older ones. `note` has what is remembered of a record.
    pub(crate) fn put(
        &self,
        tree: TreeId,
        written: &WrittenTree,
        note: impl Fn(&[u8]) -> Option<RecordNote>,
        pause: &mut dyn FnMut(),
    ) -> Result<()> {
        let Some(private) = self.private.get(&tree) else { return Ok(()) };
        let mut chunks = Chunks { engine: &self.engine, batch: Batch::new(), pause };
        let mut value = Vec::new();
        for (key, written) in written {
            value.clear();
            value.push(if written.is_some() { WRITTEN } else { 0 });
            if let Some(note) = note(key) {
                value[0] |= WITH_NOTE;
                value.extend_from_slice(&note.encode());
            }
            value.extend_from_slice(written.as_deref().unwrap_or_default());
            chunks.put(*private, key, &value)?;
        }
        chunks.finish()
    }

    /// Adds to the order.
    pub(crate) fn put_order(&self, unlisted: &[(Place, Listed)], pause: &mut dyn FnMut()) -> Result<()> {
        let Some(private) = self.order else { return Ok(()) };
        let mut chunks = Chunks { engine: &self.engine, batch: Batch::new(), pause };
        let mut value = Vec::new();
        for (place, listed) in unlisted {
            listed.encode(&mut value);
            chunks.put(private, &encode_place(*place), &value)?;
        }
        chunks.finish()
    }

    /// All that is listed in the order.
    pub(crate) fn order(&self) -> SpilledWalk<(Place, Listed)> {
        SpilledWalk {
            cursor: self.order.map(|private| self.engine.cursor_over_settled(private)),
            read: listed,
            ahead: None,
        }
    }

    /// All changes of a tree, by key.
    pub(crate) fn changes(&self, tree: TreeId) -> SpilledWalk<Entry> {
        SpilledWalk { cursor: self.cursor(tree), read: |cursor| Ok(entry(cursor)?), ahead: None }
    }

    /// What was remembered of a record.
    pub(crate) fn note(&self, tree: TreeId, key: &[u8]) -> Result<Option<RecordNote>> {
        let Some(private) = self.private.get(&tree) else { return Ok(None) };
        let mut value = Vec::new();
        let found = self.engine.get_latest(*private, key, &mut value)?;
        Ok(found.and_then(|_| split(&value).0))
    }

    pub(crate) fn get(&self, tree: TreeId, key: &[u8]) -> Result<Option<Written>> {
        let Some(private) = self.private.get(&tree) else { return Ok(None) };
        let mut value = Vec::new();
        let found = self.engine.get_latest(*private, key, &mut value)?;
        Ok(found.map(|_| decode(&value)))
    }

    pub(crate) fn next(&self, tree: TreeId, from: From<'_>) -> Result<Option<Entry>> {
        let Some(mut cursor) = self.cursor(tree) else { return Ok(None) };
        match from {
            From::Edge => cursor.seek_first()?,
            From::At(key) => cursor.seek(key)?,
            From::Beyond(key) => cursor.seek_after(key)?,
        }
        if cursor.next()? { entry(&mut cursor).map(Some) } else { Ok(None) }
    }

    pub(crate) fn previous(&self, tree: TreeId, from: From<'_>) -> Result<Option<Entry>> {
        let Some(mut cursor) = self.cursor(tree) else { return Ok(None) };
        match from {
            From::Edge => cursor.seek_last()?,
            From::At(key) => cursor.seek_at_or_before(key)?,
            From::Beyond(key) => cursor.seek_before(key)?,
        }
        if cursor.previous()? { entry(&mut cursor).map(Some) } else { Ok(None) }
    }

    /// No snapshot is held: what is in there is settled, and a commit that has been decided must be able to read it whatever happens to snapshots.
    fn cursor(&self, tree: TreeId) -> Option<BTreeCursor> {
        self.private.get(&tree).map(|private| self.engine.cursor_over_settled(*private))
    }
}

/// A walk over a private tree, while nothing more is spilled.
pub(crate) struct SpilledWalk<T> {
    cursor: Option<BTreeCursor>,
    /// What the cursor is on.
    read: fn(&mut BTreeCursor) -> crate::error::Result<T>,
    ahead: Option<T>,
}

impl<T> SpilledWalk<T> {
    /// The next one, which stays the next one until it is taken.
    ///
    /// # Errors
    /// `Engine`; `Collection` with `Damaged`.
    pub(crate) fn peek(&mut self) -> crate::error::Result<Option<&T>> {
        if self.ahead.is_none()
            && let Some(cursor) = &mut self.cursor
        {
            match cursor.next()? {
                true => self.ahead = Some((self.read)(cursor)?),
                false => self.cursor = None,
            }
        }
        Ok(self.ahead.as_ref())
    }

    /// Takes what `peek` has shown.
    pub(crate) fn take(&mut self) -> Option<T> {
        self.ahead.take()
    }
}

impl Drop for SpilledWrites {
    fn drop(&mut self) {
        self.private.values().chain(&self.order).for_each(|tree| self.catalog.drop_private_tree(*tree));
    }
}

/// What a cursor is on.
fn entry(cursor: &mut BTreeCursor) -> Result<Entry> {
    let written = decode(cursor.value()?);
    Ok((Box::from(cursor.key()), written))
}

/// What a cursor over the order is on.
fn listed(cursor: &mut BTreeCursor) -> crate::error::Result<(Place, Listed)> {
    let key = cursor.key().to_vec();
    let listed = Listed::decode(&key, cursor.value()?);
    let damaged = || CollectionError::Damaged("the order of a transaction's changes".to_owned());
    Ok(listed.ok_or_else(damaged)?)
}

fn decode(value: &[u8]) -> Written {
    split(value).1.map(Box::from)
}

/// The note, and what was written.
fn split(value: &[u8]) -> (Option<RecordNote>, Option<&[u8]>) {
    let Some((flags, value)) = value.split_first() else { return (None, None) };
    let (note, value) = match value.split_first_chunk() {
        Some((note, value)) if flags & WITH_NOTE != 0 => (Some(RecordNote::decode(note)), value),
        _ => (None, value),
    };
    (note, (flags & WRITTEN != 0).then_some(value))
}

/// Changes that are applied a chunk at a time.
struct Chunks<'a> {
    engine: &'a Engine,
    batch: Batch,
    /// Called before each.
    pause: &'a mut dyn FnMut(),
}

impl Chunks<'_> {
    fn put(&mut self, tree: TreeId, key: &[u8], value: &[u8]) -> Result<()> {
        self.batch.put(tree, key, value);
        if self.batch.memory_bytes() >= CHUNK_BYTES {
            (self.pause)();
            self.engine.apply_settled(&self.batch)?;
            self.batch.clear();
        }
        Ok(())
    }

    fn finish(self) -> Result<()> {
        if self.batch.is_empty() {
            return Ok(());
        }
        (self.pause)();
        self.engine.apply_settled(&self.batch)
    }
}
