//! What it takes to write: the store, the clock, new identities, and buffers that the next write takes over.
//!
//! Held by `ServerContext`; given whole to what writes of its own accord (`replica_set`, `default_concerns`), without
//! the rest of the server.

use std::sync::Arc;

use bson::oid::ObjectId;
use document::ObjectIdGenerator;
use parking_lot::Mutex;
use platform::Clock;
use platform::command_memory::measure;
use transaction::{Store, Waiting, WriteContext};

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

    /// A new ObjectId.
    pub(crate) fn new_object_id(&self) -> ObjectId {
        self.object_ids.next((self.clock.wall_millis() / 1000) as u32)
    }
}
