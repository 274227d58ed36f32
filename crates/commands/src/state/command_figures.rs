//! What the server counts of the commands that it runs: how often each was run and failed, how long reads, writes and the others took, errors.
//!
//! Counted by `dispatcher`; shown by `serverStatus` (`metrics.commands`, `opLatencies`, `asserts`).

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::latency::Latency;
use crate::DocumentWriter;
use crate::request::declaration::Class;
use crate::request::declaration::{Declaration, SessionUse};
use crate::request::error::CommandError;
use crate::state::operation_counts::count;

/// Of one command.
#[derive(Debug, Default)]
struct CommandCount {
    total: AtomicU64,
    failed: AtomicU64,
}

/// See the module's head.
#[derive(Debug)]
pub(crate) struct CommandFigures {
    /// By name, sorted.
    commands: Vec<(&'static str, CommandCount)>,
    unknown: AtomicU64,
    reads: Latency,
    writes: Latency,
    others: Latency,
    transactions: Latency,
    /// Errors of the server, and of those who asked.
    own_errors: AtomicU64,
    user_errors: AtomicU64,
}

impl CommandFigures {
    /// Nothing counted yet of these commands, which are sorted by name.
    pub(crate) fn new(commands: &mut dyn Iterator<Item = &'static Declaration>) -> Self {
        Self {
            commands: commands.map(|command| (command.name, CommandCount::default())).collect(),
            unknown: AtomicU64::new(0),
            reads: Latency::default(),
            writes: Latency::default(),
            others: Latency::default(),
            transactions: Latency::default(),
            own_errors: AtomicU64::new(0),
            user_errors: AtomicU64::new(0),
        }
    }

    /// A request came; nobody has such a command.
    pub(crate) fn count_unknown(&self) {
        count(&self.unknown, 1);
    }

    /// A request for a command came.
    pub(crate) fn count_request(&self, command: &Declaration) {
        self.with_count(command, |figures| count(&figures.total, 1));
    }

    /// It has failed.
    pub(crate) fn count_failure(&self, command: Option<&Declaration>, error: &CommandError) {
        if let Some(command) = command {
            self.with_count(command, |figures| count(&figures.failed, 1));
        }
        self.count_error(error.code_name == "InternalError");
    }

    /// Errors of single statements of commands that succeeded.
    pub(crate) fn count_write_errors(&self, errors: u64) {
        count(&self.user_errors, errors);
    }

    /// A command has run, so long.
    pub(crate) fn record(&self, command: &Declaration, elapsed: Duration) {
        let latency = match (command.session_use, command.class) {
            (SessionUse::EndsTransaction, _) => &self.transactions,
            (_, Class::Read) => &self.reads,
            (_, Class::Write) => &self.writes,
            (_, Class::Exempt) => &self.others,
        };
        latency.record(elapsed);
    }

    fn count_error(&self, is_own: bool) {
        count(if is_own { &self.own_errors } else { &self.user_errors }, 1);
    }

    fn with_count(&self, command: &Declaration, act: impl FnOnce(&CommandCount)) {
        let found = self.commands.binary_search_by(|(name, _)| (*name).cmp(command.name));
        if let Some((_, figures)) = found.ok().and_then(|position| self.commands.get(position)) {
            act(figures);
        }
    }

    /// Writes `metrics.commands`.
    pub(crate) fn write_commands(&self, section: &mut DocumentWriter<'_>) {
        section.size("<UNKNOWN>", self.unknown.load(Ordering::Relaxed));
        for (name, figures) in &self.commands {
            section.document(name, |entry| {
                entry.size("failed", figures.failed.load(Ordering::Relaxed));
                entry.size("total", figures.total.load(Ordering::Relaxed));
            });
        }
    }

    /// Writes `opLatencies`.
    pub(crate) fn write_latencies(&self, with_histograms: bool, section: &mut DocumentWriter<'_>) {
        for (name, latency) in [
            ("reads", &self.reads),
            ("writes", &self.writes),
            ("commands", &self.others),
            ("transactions", &self.transactions),
        ] {
            section.document(name, |figures| latency.write(with_histograms, figures));
        }
    }

    /// Writes `asserts`. Nothing here is what MongoDB counts as a warning, a message or a tripwire, and counters do not roll over.
    pub(crate) fn write_errors(&self, section: &mut DocumentWriter<'_>) {
        section.count("regular", self.own_errors.load(Ordering::Relaxed));
        section.int32("warning", 0);
        section.int32("msg", 0);
        section.count("user", self.user_errors.load(Ordering::Relaxed));
        section.int32("tripwire", 0);
        section.int32("rollovers", 0);
    }
}
