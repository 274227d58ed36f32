//! The driver of commands that are a list of writes: which statements are still to be run, in which order, when one is
//! run again, what an error of one means for the others, and the end of the reply.
//!
//! Used by `insert`, `update`, `delete` and `bulkWrite`. What a statement does is theirs ([`Statements`]); `insert` stores many at
//! once and uses only the frame.

use std::sync::atomic::AtomicU64;

use bson::RawDocument;
use collection::Namespace;
use document::{Limits, validate_document};
use transaction::{CommitInfo, ExecutedStatement};

use super::ended_statement::{ShownStatement, StatementBegin};
use super::write_errors::write_concern_error;
use crate::DocumentWriter;
use crate::handlers::schema::check_may_write;
use crate::handlers::time_series::{self, TimeSeries};
use crate::request::arguments::Arguments;
use crate::request::error::{CommandError, Result};
use crate::request::statement_ids::StatementIds;
use crate::request::write_concern::WriteConcern;
use crate::state::acknowledgement::Acknowledging;
use crate::state::changing::Changing;
use crate::state::operation_counts::{OperationCounts, count};
use crate::state::write_command::WriteCommand;

/// The time-series collection that a write by this name goes to, where there is no collection of the name.
///
/// # Errors
/// OperationNotSupportedInTransaction (263).
pub(super) fn written_series(changing: &Changing<'_>, namespace: &Namespace) -> Result<Option<TimeSeries>> {
    let reading = changing.reading;
    if reading.collection(namespace)?.is_some() {
        return Ok(None);
    }
    time_series::to_write(reading.queries, reading.transaction(), namespace)
}

/// Most operations in one write command.
pub(crate) const OPERATIONS_MAX: usize = 100_000;
/// Attempts of a statement whose collection is dropped before it does anything, or of an upsert whose insert finds that
/// another one was faster.
const STATEMENT_ATTEMPTS: usize = 10;
/// A statement may carry a document and more.
const STATEMENT_LIMITS: Limits = Limits { bytes_max: 48_000_000 };

/// Whether the statements after one that failed are run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StatementOrder {
    /// They are not.
    Ordered,
    /// They are.
    Unordered,
}

/// The statements of a command, as the command knows them.
pub(crate) trait Statements {
    /// Where the statement at a position is counted.
    fn counter<'c>(&self, position: usize, counts: &'c OperationCounts) -> &'c AtomicU64;

    /// Takes over what an earlier try of the command has done with the statement.
    fn add_executed(&mut self, changing: &Changing<'_>, position: usize, executed: &ExecutedStatement) -> Result<()>;

    /// Runs the statement at a position under its number, and keeps its newest commit.
    fn run(&mut self, changing: &Changing<'_>, position: usize, id: i32, commit: &mut Option<CommitInfo>)
    -> Result<()>;

    /// What the profiler is shown of the statement at a position. `None`: the command is shown as a whole.
    fn shown(&self, _position: usize) -> Option<ShownStatement<'_>> {
        None
    }

    /// A number that grows with everything that a statement does.
    fn progress(&self) -> u64;

    /// Whether a statement that has done nothing and failed so would find other circumstances.
    fn may_try_again(&self, changing: &Changing<'_>, error: &CommandError) -> bool {
        is_dropped_outside(changing, error)
    }
}

/// What has become of a command's statements.
pub(crate) struct WriteStatements {
    ids: StatementIds,
    order: StatementOrder,
    errors: WriteErrors,
    retried: RetriedStatements,
    commit: Option<CommitInfo>,
    /// The last statement has found things as they are, and changed nothing: that may be newer than the newest commit.
    has_only_found: bool,
}

impl WriteStatements {
    /// Begins so many statements on collections, if they may be run at all.
    ///
    /// # Errors
    /// InvalidLength, InvalidNamespace, InvalidOptions, MaxTimeMSExpired.
    pub(crate) fn begin(
        changing: &Changing<'_>,
        arguments: &mut Arguments<'_>,
        namespaces: &[Namespace],
        statements: usize,
        order: StatementOrder,
    ) -> Result<Self> {
        check_count(statements)?;
        namespaces.iter().try_for_each(|namespace| check_may_write(changing, namespace))?;
        changing.operation.set_time_limit(arguments.generic.max_time)?;
        let ids = std::mem::take(&mut arguments.generic.statement_ids);
        ids.check_count(statements)?;
        let (errors, retried) = (WriteErrors::default(), RetriedStatements::default());
        Ok(Self { ids, order, errors, retried, commit: None, has_only_found: false })
    }

    /// Runs all statements, up to the first that fails where they are ordered.
    ///
    /// # Errors
    /// What ends the whole command. Those of single statements are in the reply.
    pub(crate) fn run(
        &mut self,
        command: &WriteCommand<'_>,
        count_of_statements: usize,
        statements: &mut dyn Statements,
    ) -> Result<()> {
        let WriteCommand { changing, recording, counts, .. } = command;
        for position in 0..count_of_statements {
            let id = self.id(position);
            let outcome = match changing.session.executed(id) {
                Some(executed) => {
                    self.retried.push(id);
                    statements.add_executed(changing, position, &executed)
                }
                None => {
                    count(statements.counter(position, counts), 1);
                    changing.noting.notes.statements.add(1);
                    let is_shown = changing.noting.profiler.may_profile();
                    let shown = if is_shown { statements.shown(position) } else { None };
                    let begin = shown.map(|shown| StatementBegin::of(recording, &shown));
                    let before = self.commit.as_ref().map(|commit| commit.timestamp);
                    let outcome = self.run_one(changing, position, id, statements);
                    self.has_only_found = self.commit.as_ref().map(|commit| commit.timestamp) == before;
                    if let (Some(begin), Some(shown)) = (begin, statements.shown(position)) {
                        begin.ended(recording, &shown, outcome.as_ref().err());
                    }
                    outcome
                }
            };
            if let Err(error) = outcome {
                self.fail(changing, position, error)?;
                if self.order == StatementOrder::Ordered || changing.reading.is_in_transaction() {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Runs a statement; again, when it has done nothing yet and would find something else.
    fn run_one(
        &mut self,
        changing: &Changing<'_>,
        position: usize,
        id: i32,
        statements: &mut dyn Statements,
    ) -> Result<()> {
        for _ in 1..STATEMENT_ATTEMPTS {
            let before = statements.progress();
            match statements.run(changing, position, id, &mut self.commit) {
                Err(error) if statements.progress() == before && statements.may_try_again(changing, &error) => {
                    changing.operation.check_interrupt()?;
                }
                outcome => return outcome,
            }
        }
        statements.run(changing, position, id, &mut self.commit)
    }

    /// The number of the statement at a position.
    pub(crate) fn id(&self, position: usize) -> i32 {
        self.ids.of(position)
    }

    /// A statement that an earlier try has executed.
    pub(crate) fn add_retried(&mut self, id: i32) {
        self.retried.push(id);
    }

    /// How many statements an earlier try has executed.
    pub(crate) fn retried(&self) -> u64 {
        self.retried.count()
    }

    /// Keeps the newest commit.
    pub(crate) fn set_commit(&mut self, commit: Option<CommitInfo>) {
        self.commit = commit;
    }

    /// A statement has failed.
    ///
    /// # Errors
    /// The error, if it is not the statement's own but ends the command.
    pub(crate) fn fail(&mut self, changing: &Changing<'_>, position: usize, error: CommandError) -> Result<()> {
        let error = changing.operation.name_interruption(error);
        changing.session.check_failure(&error)?;
        changing.noting.notes.write_errors.add(1);
        self.has_only_found = true;
        self.errors.push(position, error);
        Ok(())
    }

    /// The errors so far, by position, for who tells of them in his own way.
    pub(crate) fn take_errors(&mut self) -> Vec<(usize, CommandError)> {
        std::mem::take(&mut self.errors.0)
    }

    /// Writes the end of the reply, once what was written is as safe as was asked for.
    pub(crate) fn finish(self, with: &Acknowledging<'_>, concern: &WriteConcern, reply: &mut DocumentWriter<'_>) {
        self.errors.write(reply);
        self.retried.write(reply);
        write_concern_error(self.wait(concern, with), reply);
    }

    fn wait(&self, concern: &WriteConcern, with: &Acknowledging<'_>) -> Result<()> {
        self.retried.wait(concern, with, self.commit.as_ref())?;
        match self.has_only_found {
            true => concern.wait_for_all_of(with),
            false => Ok(()),
        }
    }
}

/// Refuses empty commands and ones with too many operations.
fn check_count(count: usize) -> Result<()> {
    if (1..=OPERATIONS_MAX).contains(&count) {
        return Ok(());
    }
    Err(CommandError::named(
        "InvalidLength",
        format!("Write batch sizes must be between 1 and {OPERATIONS_MAX}. Got {count} operations."),
    ))
}

/// Documents of a sequence come unchecked.
pub(crate) fn validated(statement: &RawDocument) -> Result<()> {
    Ok(validate_document(statement.as_bytes(), &STATEMENT_LIMITS)?)
}

/// A statement that changes all documents that match can not be retried: nobody knows which were changed before.
/// `field` is what says so.
pub(crate) fn check_retryable(changing: &Changing<'_>, is_single: bool, field: &str) -> Result<()> {
    if is_single || !changing.session.is_retryable_write() {
        return Ok(());
    }
    Err(CommandError::named("InvalidOptions", format!("Cannot use (or request) retryable writes with {field}")))
}

/// Whether an upsert that has failed so would find other circumstances.
pub(crate) fn may_try_upsert_again(changing: &Changing<'_>, error: &CommandError) -> bool {
    error.code_name == "DuplicateKey" || is_dropped_outside(changing, error)
}

/// Whether the collection was dropped meanwhile, outside of transactions, where what is there then can be used.
pub(crate) fn is_dropped_outside(changing: &Changing<'_>, error: &CommandError) -> bool {
    error.code_name == "QueryPlanKilled" && !changing.reading.is_in_transaction()
}

/// Errors of single operations of a write command, by their position in the request.
#[derive(Debug, Default)]
struct WriteErrors(Vec<(usize, CommandError)>);

impl WriteErrors {
    fn push(&mut self, position: usize, error: CommandError) {
        self.0.push((position, error));
    }

    /// Writes `writeErrors`, if there are any.
    fn write(&self, reply: &mut DocumentWriter<'_>) {
        if self.0.is_empty() {
            return;
        }
        reply.array("writeErrors", |list| {
            for (position, error) in &self.0 {
                list.push_document(|item| {
                    item.count("index", *position as u64);
                    item.int32("code", error.code);
                    error.write_details(item);
                    item.string("errmsg", &error.message);
                });
            }
        });
    }
}

/// The statements of a retryable write that an earlier try has executed.
#[derive(Debug, Default)]
pub(super) struct RetriedStatements(Vec<i32>);

impl RetriedStatements {
    pub(super) fn push(&mut self, statement: i32) {
        self.0.push(statement);
    }

    fn count(&self) -> u64 {
        self.0.len() as u64
    }

    /// Writes `retriedStmtIds`, if there are any.
    pub(super) fn write(&self, reply: &mut DocumentWriter<'_>) {
        if !self.0.is_empty() {
            reply.array("retriedStmtIds", |list| self.0.iter().for_each(|statement| list.push_int32(*statement)));
        }
    }

    /// Waits for the write concern: after a retry for everything committed so far, because nobody knows which commit it
    /// was.
    pub(super) fn wait(
        &self,
        concern: &WriteConcern,
        with: &Acknowledging<'_>,
        commit: Option<&CommitInfo>,
    ) -> Result<()> {
        concern.wait(with, commit)?;
        if self.0.is_empty() { Ok(()) } else { concern.wait_for_all_of(with) }
    }
}
