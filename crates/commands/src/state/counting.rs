//! Where it is counted what commands have done: by command, by what they did, and by collection.
//!
//! Made by `ServerContext` for `finished_operation.rs`, which adds what a command has noted.

use crate::state::command_figures::CommandFigures;
use crate::state::context::ServerContext;
use crate::state::namespace_usage::NamespaceUsage;
use crate::state::operation_counts::OperationCounts;

/// See the module's head.
#[derive(Clone, Copy)]
pub(crate) struct Counting<'a> {
    pub(crate) figures: &'a CommandFigures,
    pub(crate) counts: &'a OperationCounts,
    pub(crate) usage: &'a NamespaceUsage,
}

impl ServerContext {
    /// Where commands are counted.
    pub(crate) fn counting(&self) -> Counting<'_> {
        Counting { figures: &self.figures, counts: &self.counts, usage: &self.usage }
    }
}
