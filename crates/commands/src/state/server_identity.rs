//! What the server is to a driver: alone or a member of a set, writable or not, and which version of that it is.
//!
//! Made by `ServerContext` for `hello`, and for the section `repl` of `serverStatus`.

use platform::Clock;
use transaction::Store;

use crate::state::context::{ServerContext, ServerFacts};
use crate::state::replica_set::ReplicaSet;
use crate::state::topology::Topology;

/// See the module's head.
#[derive(Clone, Copy)]
pub(crate) struct ServerIdentity<'a> {
    pub(crate) facts: &'a ServerFacts,
    pub(crate) replica_set: &'a ReplicaSet,
    pub(crate) topology: &'a Topology,
    pub(crate) store: &'a Store,
    pub(crate) clock: &'a dyn Clock,
}

impl ServerContext {
    /// What it is.
    pub(crate) fn identity(&self) -> ServerIdentity<'_> {
        ServerIdentity {
            facts: &self.facts,
            replica_set: &self.replica_set,
            topology: &self.topology,
            store: &self.store,
            clock: &*self.clock,
        }
    }
}
