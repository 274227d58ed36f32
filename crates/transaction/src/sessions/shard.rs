//! A part of the table of sessions: those that are here, and those of which only the last use is here and the rest in the tree.
//!
//! Called by the table, which has each behind a lock. A session that is set aside takes a fraction of its memory; whoever goes on with it
//! has its record read again. So only those that are in use, or have written since the last checkpoint, need memory.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use bson::Uuid;
use platform::MemoryReservation;

use super::session::{Aside, KnownSession, Session};

/// What a session takes that is set aside, with its places in the map.
const ASIDE_BYTES: u64 = 2 * size_of::<(Uuid, Aside)>() as u64;
/// Such a part of those that could make room does so at a time, the oldest.
const MOVED_SHARE: usize = 8;

pub(super) struct Shard {
    here: HashMap<Uuid, Arc<Session>>,
    aside: HashMap<Uuid, Aside>,
    /// How often one was set aside.
    turns: u64,
    /// Counts those that are set aside; the others count themselves.
    memory: MemoryReservation,
}

impl Shard {
    pub(super) fn new(memory: MemoryReservation) -> Shard {
        Shard { here: HashMap::new(), aside: HashMap::new(), turns: 0, memory }
    }

    pub(super) fn get(&self, id: Uuid) -> Option<&Arc<Session>> {
        self.here.get(&id)
    }

    pub(super) fn is_aside(&self, id: Uuid) -> bool {
        self.aside.contains_key(&id)
    }

    pub(super) fn insert(&mut self, session: Arc<Session>) {
        self.here.insert(session.id(), session);
    }

    pub(super) fn remove(&mut self, id: Uuid) -> Option<Arc<Session>> {
        self.here.remove(&id)
    }

    /// Sets a session aside whose record is in the tree as it is.
    pub(super) fn set_aside(&mut self, id: Uuid, aside: Aside) {
        self.aside.insert(id, aside);
        self.turns += 1;
        self.count();
    }

    /// Another one when a session was set aside meanwhile, perhaps one that was here and has changed.
    pub(super) fn turn(&self) -> u64 {
        self.turns
    }

    /// The session of this id is not set aside any more.
    pub(super) fn take_aside(&mut self, id: Uuid) -> Option<Aside> {
        let aside = self.aside.remove(&id)?;
        self.count();
        Some(aside)
    }

    fn count(&mut self) {
        self.memory.resize_unchecked(self.aside.len() as u64 * ASIDE_BYTES);
    }

    /// Those that are here.
    pub(super) fn here(&self) -> impl Iterator<Item = &Arc<Session>> {
        self.here.values()
    }

    /// All of them.
    pub(super) fn known(&self) -> impl Iterator<Item = KnownSession> {
        let aside = self.aside.iter().map(|(id, aside)| KnownSession::new(*id, aside.clone()));
        self.here.values().map(|session| KnownSession::new(session.id(), session.aside())).chain(aside)
    }

    /// Those that nobody uses and whose last use is so.
    pub(super) fn unused(&self, is_meant: impl Fn(Duration) -> bool) -> Vec<Uuid> {
        let here = self.here.values().filter(|session| is_meant(session.last_use()) && !session.is_in_use());
        let aside = self.aside.iter().filter(|(_, aside)| is_meant(aside.last_use));
        here.map(|session| session.id()).chain(aside.map(|(id, _)| *id)).collect()
    }

    /// Forgets the oldest sessions that nobody uses and that have written nothing; how many. Whoever goes on with one begins it again and misses nothing.
    pub(super) fn forget_unwritten(&mut self) -> usize {
        let oldest = self.oldest_unused(Session::has_written_nothing);
        oldest.iter().filter_map(|id| self.here.remove(id)).count()
    }

    /// Sets the oldest sessions aside that nobody uses and whose record is in the tree as it is; how many.
    pub(super) fn set_stored_aside(&mut self) -> usize {
        let oldest = self.oldest_unused(Session::is_stored);
        let taken: Vec<_> = oldest.iter().filter_map(|id| self.here.remove(id)).collect();
        taken.iter().for_each(|session| self.set_aside(session.id(), session.aside()));
        taken.len()
    }

    /// An eighth of the sessions that nobody uses and that are so.
    fn oldest_unused(&self, are: impl Fn(&Session) -> bool) -> Vec<Uuid> {
        let unused = self.here.values().filter(|session| Arc::strong_count(session) == 1 && are(session));
        let mut oldest: Vec<_> = unused.map(|session| (session.last_use(), session.id().bytes())).collect();
        oldest.sort_unstable();
        oldest.truncate(oldest.len().div_ceil(MOVED_SHARE));
        oldest.into_iter().map(|(_, id)| Uuid::from_bytes(id)).collect()
    }
}
