//! Where a command notes what it has done, and how much of it there is to note.
//!
//! Made by `Context` for handlers that run queries. What is noted is in `execution_notes.rs`.

use executor::{ExecutionTotals, QueryExecutor};

use crate::state::context::Context;
use crate::state::execution_notes::{Detail, Execution, ExecutionNotes};
use crate::state::operations::Operation;
use crate::state::profiler::Profiler;

/// See the module's head.
#[derive(Clone, Copy)]
pub(crate) struct Noting<'a> {
    pub(crate) notes: &'a ExecutionNotes,
    pub(crate) profiler: &'a Profiler,
    operation: &'a Operation<'a>,
}

impl Context<'_> {
    /// Where it notes what it has done.
    pub(crate) fn noting(&self) -> Noting<'_> {
        Noting { notes: &self.notes, profiler: &self.server.profiler, operation: &self.operation }
    }
}

impl Noting<'_> {
    /// How much is to be noted of what the command does.
    pub(crate) fn detail(&self) -> Detail {
        let is_wanted = self.profiler.may_record(self.operation.elapsed());
        if is_wanted { Detail::WithPlan } else { Detail::Counts }
    }

    /// Notes all that an executor has done.
    pub(crate) fn note_executor(&self, executor: &QueryExecutor) {
        self.notes.add_execution(Execution::of(executor, self.detail()), &ExecutionTotals::default());
    }
}
