//! What a command has done, noted while it runs.
//!
//! Filled by the commands; read at their end by `dispatcher` for the counters of `serverStatus`, for lines about slow operations and for the
//! profiler ([`crate::handlers::diagnostics`]).

use std::cell::{Cell, RefCell};
use std::time::Duration;

use executor::{ExecutionTotals, QueryExecutor};
use platform::Waits;

/// A number that grows.
#[derive(Debug, Default)]
pub(crate) struct Noted(Cell<u64>);

impl Noted {
    pub(crate) fn add(&self, more: u64) {
        self.0.set(self.0.get() + more);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.get()
    }
}

/// See the module's head.
#[derive(Debug, Default)]
pub(crate) struct ExecutionNotes {
    pub(crate) keys_examined: Noted,
    pub(crate) docs_examined: Noted,
    pub(crate) returned: Noted,
    pub(crate) inserted: Noted,
    pub(crate) matched: Noted,
    pub(crate) modified: Noted,
    pub(crate) upserted: Noted,
    pub(crate) deleted: Noted,
    /// Statements that failed in a command that did not.
    pub(crate) write_errors: Noted,
    /// Statements of an update or delete that were run.
    pub(crate) statements: Noted,
    /// Whether something was sorted that no index gives in order.
    pub(crate) sorts: Cell<bool>,
    pub(crate) scans_collection: Cell<bool>,
    pub(crate) plan: RefCell<String>,
    pub(crate) cursor: Cell<i64>,
    pub(crate) is_exhausted: Cell<bool>,
    /// Time that it has waited for data to come.
    pub(crate) waited: Cell<Duration>,
    /// What its thread had waited for when it began.
    pub(crate) waited_before: Waits,
}

/// What an operation, or a statement of one, has waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Waited {
    /// For its place among those that run.
    pub(crate) place: Duration,
    /// For everything else but data to come.
    pub(crate) waits: Waits,
}

impl Waited {
    /// What is left of so long a time: it has worked.
    pub(crate) fn working(&self, elapsed: Duration) -> Duration {
        elapsed.saturating_sub(self.place + self.waits.total())
    }
}

/// Whether the plan is described, which costs a few allocations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Detail {
    Counts,
    WithPlan,
}

/// What an executor, or what stands for one, has done so far.
#[derive(Debug, Clone, Default)]
pub(crate) struct Execution {
    pub(crate) totals: ExecutionTotals,
    pub(crate) sorts: bool,
    pub(crate) scans_collection: bool,
    pub(crate) plan: String,
}

impl Execution {
    pub(crate) fn of(executor: &QueryExecutor, detail: Detail) -> Execution {
        let plan = if detail == Detail::WithPlan { executor.plan_summary() } else { String::new() };
        let (sorts, scans_collection) = (executor.sorts_in_memory(), executor.scans_collection());
        Execution { totals: executor.statistics(), sorts, scans_collection, plan }
    }
}

impl ExecutionNotes {
    /// A command begins on this thread.
    pub(crate) fn begin() -> ExecutionNotes {
        ExecutionNotes { waited_before: Waits::of_thread(), ..ExecutionNotes::default() }
    }

    /// What the command has waited for, beside its place and data.
    pub(crate) fn waits(&self) -> Waits {
        Waits::since(self.waited_before)
    }

    /// Adds what was done since `before`.
    pub(crate) fn add_execution(&self, execution: Execution, before: &ExecutionTotals) {
        let totals = execution.totals;
        self.keys_examined.add(totals.keys_examined.saturating_sub(before.keys_examined));
        self.docs_examined.add(totals.docs_examined.saturating_sub(before.docs_examined));
        self.sorts.set(self.sorts.get() || execution.sorts);
        self.scans_collection.set(self.scans_collection.get() || execution.scans_collection);
        *self.plan.borrow_mut() = execution.plan;
    }
}
