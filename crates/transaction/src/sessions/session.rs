//! One logical session: when it was used, who uses it now, what it has written.

use std::any::Any;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bson::Uuid;
use parking_lot::{Condvar, Mutex};
use platform::{MemoryReservation, WaitKind, waiting};
use storage_engine::{Batch, TreeId};

use super::record::{ExecutedStatement, SessionRecord};
use crate::multi_document::OpenTransaction;

/// How long a command waits for the session before it looks whether it should end.
const CHECK_INTERVAL: Duration = Duration::from_millis(20);

/// Whose a session is, in the words of the layers above.
pub type Owner = Arc<dyn Any + Send + Sync>;

/// See the module's head. Shared as an `Arc`.
#[derive(Debug)]
pub struct Session {
    id: Uuid,
    /// Who began it, or was the first to go on with it since the start.
    owner: OnceLock<Owner>,
    /// Milliseconds of the monotonic clock.
    last_use: AtomicU64,
    is_in_use: Mutex<bool>,
    returned: Condvar,
    has_changed: AtomicBool,
    has_ended: AtomicBool,
    record: Mutex<SessionRecord>,
    transaction: Mutex<Option<OpenTransaction>>,
    /// Counts it with its record.
    memory: Mutex<MemoryReservation>,
}

/// What is kept of a session whose record is in the tree.
#[derive(Clone, Debug)]
pub(super) struct Aside {
    /// By the monotonic clock.
    pub(super) last_use: Duration,
    pub(super) owner: Option<Owner>,
}

/// What is known of a session without its record.
#[derive(Clone, Debug)]
pub struct KnownSession {
    id: Uuid,
    aside: Aside,
}

impl KnownSession {
    pub(super) fn new(id: Uuid, aside: Aside) -> KnownSession {
        KnownSession { id, aside }
    }

    /// `lsid.id`.
    pub fn id(&self) -> Uuid {
        self.id
    }

    /// When it was last used, by the monotonic clock.
    pub fn last_use(&self) -> Duration {
        self.aside.last_use
    }

    /// Whose it is.
    pub fn owner(&self) -> Option<&Owner> {
        self.aside.owner.as_ref()
    }
}

/// A session that one command has for itself, until this is dropped.
#[derive(Debug)]
pub struct CheckedOutSession(Arc<Session>);

impl Session {
    pub(crate) fn new(id: Uuid, now: Duration, memory: MemoryReservation) -> Session {
        Session {
            id,
            owner: OnceLock::new(),
            last_use: AtomicU64::new(now.as_millis() as u64),
            is_in_use: Mutex::new(false),
            returned: Condvar::new(),
            has_changed: AtomicBool::new(false),
            has_ended: AtomicBool::new(false),
            record: Mutex::default(),
            transaction: Mutex::default(),
            memory: Mutex::new(memory),
        }
    }

    /// `lsid.id`.
    pub fn id(&self) -> Uuid {
        self.id
    }

    /// Somebody uses it: it is his, if it is nobody's yet.
    pub fn claim(&self, owner: impl FnOnce() -> Owner) {
        self.owner.get_or_init(owner);
    }

    /// Whose it is.
    pub fn owner(&self) -> Option<&Owner> {
        self.owner.get()
    }

    /// What is kept of it when it is set aside.
    pub(super) fn aside(&self) -> Aside {
        Aside { last_use: self.last_use(), owner: self.owner().cloned() }
    }

    pub(crate) fn touch(&self, now: Duration) {
        self.last_use.store(now.as_millis() as u64, Ordering::Relaxed);
    }

    /// When it was last used, by the monotonic clock.
    pub fn last_use(&self) -> Duration {
        Duration::from_millis(self.last_use.load(Ordering::Relaxed))
    }

    /// Whether a command has it for itself.
    pub fn is_in_use(&self) -> bool {
        *self.is_in_use.lock()
    }

    /// Takes the session for one command, waiting until no other has it. `None`: `is_interrupted` said so.
    pub fn check_out(self: &Arc<Self>, is_interrupted: &dyn Fn() -> bool) -> Option<CheckedOutSession> {
        let mut is_in_use = self.is_in_use.lock();
        while *is_in_use {
            if is_interrupted() {
                return None;
            }
            waiting(WaitKind::Locks, || self.returned.wait_for(&mut is_in_use, CHECK_INTERVAL));
        }
        *is_in_use = true;
        Some(CheckedOutSession(self.clone()))
    }

    /// What a statement of the current retryable write has done, if it was executed.
    pub fn executed(&self, statement: i32) -> Option<ExecutedStatement> {
        self.record.lock().executed(statement)
    }

    /// The transaction that is open in it.
    pub(crate) fn transaction(&self) -> &Mutex<Option<OpenTransaction>> {
        &self.transaction
    }

    /// A command of the open transaction has run for so long.
    pub fn note_active(&self, elapsed: Duration) {
        if let Some(open) = self.transaction.lock().as_mut() {
            open.active += elapsed;
        }
    }

    pub(crate) fn record(&self) -> &Mutex<SessionRecord> {
        &self.record
    }

    /// Whether there is nothing that anybody would miss.
    pub(crate) fn has_written_nothing(&self) -> bool {
        self.record.lock().is_empty() && self.transaction.lock().is_none()
    }

    /// Whether the tree has its record as it is.
    pub(super) fn is_stored(&self) -> bool {
        !self.has_changed.load(Ordering::Acquire) && self.transaction.lock().is_none()
    }

    /// Changes the record, and counts what it takes then.
    pub(crate) fn change_record<T>(&self, change: impl FnOnce(&mut SessionRecord) -> T) -> T {
        let mut record = self.record.lock();
        let before = record.memory_bytes();
        let result = change(&mut record);
        let after = record.memory_bytes();
        drop(record);
        if after > before {
            self.memory.lock().grow_unchecked(after - before);
        } else if after < before {
            let mut memory = self.memory.lock();
            let left = memory.bytes().saturating_sub(before - after);
            memory.shrink(left);
        }
        result
    }

    /// `true`: it had not been marked.
    pub(crate) fn mark_changed(&self) -> bool {
        !self.has_changed.swap(true, Ordering::AcqRel)
    }

    pub(crate) fn end(&self) {
        self.has_ended.store(true, Ordering::Release);
    }

    /// Puts the record as it is now into a batch for the tree of sessions.
    pub(crate) fn put_into(&self, tree: TreeId, batch: &mut Batch) {
        // Before the record is read: what is added meanwhile marks the session again.
        self.has_changed.store(false, Ordering::Release);
        let key = self.id.bytes();
        if self.has_ended.load(Ordering::Acquire) {
            batch.delete(tree, &key);
        } else {
            batch.put(tree, &key, &self.record.lock().encode());
        }
    }
}

impl CheckedOutSession {
    /// The session.
    pub fn session(&self) -> &Arc<Session> {
        &self.0
    }
}

impl Drop for CheckedOutSession {
    fn drop(&mut self) {
        *self.0.is_in_use.lock() = false;
        self.0.returned.notify_one();
    }
}
