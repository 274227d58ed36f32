//! What of a transaction's changes is not in memory: in trees of the engine that nobody else knows.
//!
//! Used by `write_set`. Pages of such a tree are evicted like any others, so a transaction larger than memory pins nothing; they are noted as dropped
//! from the start, so a crash leaves nothing of them, and `reap` drops them when the transaction has ended. For each tree that the transaction
//! writes there is one, with the same keys; a value begins with a byte that says whether the key was written (1) or removed (0).

use std::collections::HashMap;
use std::sync::Arc;

use collection::Catalog;
use storage_engine::{BTreeCursor, Batch, Engine, EngineError, TreeId};

use crate::write_set::{Entry, From, Written, WrittenTree};

/// Bytes that are written in one go.
const CHUNK_BYTES: usize = 64 << 10;

type Result<T> = std::result::Result<T, EngineError>;

/// See the module's head.
pub(crate) struct SpilledWrites {
    engine: Arc<Engine>,
    catalog: Arc<Catalog>,
    private: HashMap<TreeId, TreeId>,
}

impl SpilledWrites {
    pub(crate) fn new(engine: Arc<Engine>, catalog: Arc<Catalog>) -> SpilledWrites {
        SpilledWrites { engine, catalog, private: HashMap::new() }
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

    /// Writes changes; newer ones take the place of older ones.
    pub(crate) fn put(&self, tree: TreeId, written: &WrittenTree) -> Result<()> {
        let Some(private) = self.private.get(&tree) else { return Ok(()) };
        let (mut batch, mut value) = (Batch::new(), Vec::new());
        for (key, written) in written {
            value.clear();
            value.push(u8::from(written.is_some()));
            value.extend_from_slice(written.as_deref().unwrap_or_default());
            batch.put(*private, key, &value);
            if batch.memory_bytes() >= CHUNK_BYTES {
                self.engine.apply_settled(&batch)?;
                batch.clear();
            }
        }
        if batch.is_empty() { Ok(()) } else { self.engine.apply_settled(&batch) }
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
        let moved = cursor.next()?;
        entry(cursor, moved)
    }

    pub(crate) fn previous(&self, tree: TreeId, from: From<'_>) -> Result<Option<Entry>> {
        let Some(mut cursor) = self.cursor(tree) else { return Ok(None) };
        match from {
            From::Edge => cursor.seek_last()?,
            From::At(key) => cursor.seek_at_or_before(key)?,
            From::Beyond(key) => cursor.seek_before(key)?,
        }
        let moved = cursor.previous()?;
        entry(cursor, moved)
    }

    /// Every snapshot sees what is in there.
    fn cursor(&self, tree: TreeId) -> Option<BTreeCursor> {
        let private = self.private.get(&tree)?;
        Some(self.engine.cursor(&self.engine.begin_snapshot(), *private))
    }
}

impl Drop for SpilledWrites {
    fn drop(&mut self) {
        self.private.values().for_each(|tree| self.catalog.drop_private_tree(*tree));
    }
}

fn entry(mut cursor: BTreeCursor, moved: bool) -> Result<Option<Entry>> {
    if !moved {
        return Ok(None);
    }
    let written = decode(cursor.value()?);
    Ok(Some((Box::from(cursor.key()), written)))
}

fn decode(value: &[u8]) -> Written {
    match value.split_first() {
        Some((1, value)) => Some(Box::from(value)),
        _ => None,
    }
}
