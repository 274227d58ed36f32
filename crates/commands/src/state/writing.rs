//! What it takes to write: the store, the clock, new identities, and buffers that the next write takes over.
//!
//! Held by `ServerContext`; given whole to what writes of its own accord (`replica_set`, `default_concerns`), without
//! the rest of the server.

use std::sync::Arc;

use bson::RawDocument;
use bson::oid::ObjectId;
use collection::{Collection, RecordId, Validation};
use document::ObjectIdGenerator;
use parking_lot::Mutex;
use platform::Clock;
use platform::command_memory::measure;
use transaction::{Acknowledgement, CommitInfo, Decision, Store, Waiting, WriteContext};

use crate::request::error::{CommandError, Result};

/// Reusable buffers of writes that are kept.
const WRITE_CONTEXTS_MAX: usize = 64;
/// What those of one may have grown to: one large document does not stay.
const WRITE_CONTEXT_BYTES_MAX: i64 = 256 << 10;

/// Buffers of a write, with by how much they have grown at most.
#[derive(Default)]
struct PooledBuffers {
    context: WriteContext,
    grown: i64,
}

/// See the module's head.
pub(crate) struct Writing {
    pub(crate) store: Arc<Store>,
    pub(crate) clock: Arc<dyn Clock>,
    object_ids: ObjectIdGenerator,
    contexts: Mutex<Vec<PooledBuffers>>,
}

impl Writing {
    pub(crate) fn new(store: Arc<Store>, clock: Arc<dyn Clock>, object_ids: ObjectIdGenerator) -> Self {
        Self { store, clock, object_ids, contexts: Mutex::default() }
    }

    /// Lends the reusable buffers of a write.
    pub(crate) fn with_context<T>(&self, write: impl FnOnce(&mut WriteContext) -> T) -> T {
        let pooled = self.contexts.lock().pop();
        let PooledBuffers { mut context, grown } = pooled.unwrap_or_default();
        let (result, more) = measure(|| write(&mut context));
        let grown = grown + more.max(0);
        context.set_statement(None);
        context.set_transaction(None);
        context.set_waiting(Waiting::Always);
        let mut pool = self.contexts.lock();
        if pool.len() < WRITE_CONTEXTS_MAX && grown <= WRITE_CONTEXT_BYTES_MAX {
            pool.push(PooledBuffers { context, grown });
        }
        result
    }

    /// Puts a document in a place of a collection, or beside the others where there is none for it. Validators are not
    /// asked.
    ///
    /// # Errors
    /// Those of writing.
    pub(crate) fn put_at(
        &self,
        collection: &Arc<Collection>,
        place: Option<RecordId>,
        document: &RawDocument,
    ) -> Result<Option<CommitInfo>> {
        self.with_context(|write| {
            let Some(place) = place else {
                return Ok(Some(self.store.insert_document(write, collection, document, Validation::Bypass)?));
            };
            let changed = self.store.change_document(write, collection, place, Validation::Bypass, |_, new| {
                new.extend_from_slice(document.as_bytes());
                Ok::<_, CommandError>(Decision::ReplaceWhole)
            })?;
            Ok(changed.commit())
        })
    }

    /// Removes the document in a place of a collection.
    ///
    /// # Errors
    /// Those of writing.
    pub(crate) fn remove_at(&self, collection: &Arc<Collection>, place: RecordId) -> Result<Option<CommitInfo>> {
        let changed = self.with_context(|write| {
            self.store.change_document(write, collection, place, Validation::Bypass, |_, _| {
                Ok::<_, CommandError>(Decision::Delete)
            })
        })?;
        Ok(changed.commit())
    }

    /// Waits until a commit, if there was one, is as safe as it is to be.
    ///
    /// # Errors
    /// The oplog has stopped.
    pub(crate) fn acknowledge(&self, commit: Option<CommitInfo>, wanted: Acknowledgement) -> Result<()> {
        commit.map_or(Ok(()), |commit| Ok(self.store.acknowledge(&commit, wanted)?))
    }

    /// Waits until a commit, if there was one, is on this machine's disk for good, and in the shared log if there is one.
    ///
    /// # Errors
    /// The oplog has stopped; another member leads.
    pub(crate) fn secure(&self, commit: Option<CommitInfo>) -> Result<()> {
        let Some(commit) = commit else { return Ok(()) };
        self.store.acknowledge(&commit, Acknowledgement::Visible)?;
        Ok(self.store.wait_secured(commit.end)?)
    }

    /// A new ObjectId.
    pub(crate) fn new_object_id(&self) -> ObjectId {
        self.object_ids.next((self.clock.wall_millis() / 1000) as u32)
    }
}
