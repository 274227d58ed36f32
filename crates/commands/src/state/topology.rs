//! The topology as clients see it: `topologyVersion`, and telling those who wait for another one.
//!
//! Written by `hello` and with errors that say that the server's state has changed. Whoever changes what `hello` says calls
//! `ServerContext::topology_changed` afterwards: clients that wait are then answered at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use bson::oid::ObjectId;
use transaction::Store;

use crate::DocumentWriter;
use crate::state::replica_set::members::SetMembers;

/// Which version of the topology there is.
pub(crate) struct Topology {
    /// Changes with every start.
    process_id: ObjectId,
    /// How often the topology has changed since the start.
    counter: AtomicI64,
    /// Its changes of role count, too, from the moment on at which somebody is refused because of them.
    members: Option<Arc<dyn SetMembers>>,
    /// And whether its log answers.
    store: Arc<Store>,
}

impl Topology {
    pub(crate) fn new(process_id: ObjectId, members: Option<Arc<dyn SetMembers>>, store: Arc<Store>) -> Self {
        Self { process_id, counter: AtomicI64::new(0), members, store }
    }

    fn counter(&self) -> i64 {
        let changes = self.members.as_ref().map_or(0, |members| members.role_changes());
        self.counter.load(Ordering::Acquire) + (changes + self.store.leadership_changes()) as i64
    }

    /// Another one at every start.
    pub(crate) fn process_id(&self) -> ObjectId {
        self.process_id
    }

    /// How often it has changed, if the process is this one.
    pub(crate) fn counter_of(&self, process_id: ObjectId) -> Option<i64> {
        (process_id == self.process_id).then(|| self.counter())
    }

    /// Appends `topologyVersion`.
    pub(crate) fn write_version(&self, reply: &mut DocumentWriter<'_>) {
        reply.document("topologyVersion", |version| {
            version.object_id("processId", self.process_id);
            version.int64("counter", self.counter());
        });
    }

    /// It has changed.
    pub(crate) fn count_change(&self) {
        self.counter.fetch_add(1, Ordering::AcqRel);
    }
}
