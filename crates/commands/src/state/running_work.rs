//! What is going on in the server: commands, open transactions, cursors, backups, builds of indexes.
//!
//! Made by `ServerContext` for `currentOp` and the stage `$currentOp`.

use platform::Clock;
use transaction::Store;

use crate::state::backups::Backups;
use crate::state::client_cursors::ClientCursors;
use crate::state::context::{ServerContext, ServerFacts};
use crate::state::operations::Operations;
use crate::state::parameters::Parameters;

/// See the module's head.
#[derive(Clone, Copy)]
pub(crate) struct RunningWork<'a> {
    pub(crate) operations: &'a Operations,
    pub(crate) cursors: &'a ClientCursors,
    pub(crate) backups: &'a Backups,
    pub(crate) store: &'a Store,
    /// How long transactions may be open.
    pub(crate) parameters: &'a Parameters,
    pub(crate) clock: &'a dyn Clock,
    pub(crate) facts: &'a ServerFacts,
}

impl ServerContext {
    /// What is going on.
    pub(crate) fn running_work(&self) -> RunningWork<'_> {
        RunningWork {
            operations: &self.operations,
            cursors: &self.cursors,
            backups: &self.backups,
            store: &self.store,
            parameters: &self.parameters,
            clock: &*self.clock,
            facts: &self.facts,
        }
    }
}
