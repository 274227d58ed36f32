//! What the commands with queries share: variables, filters, hints, the clock of updates, and the executor's interruption.

use std::sync::Arc;
use std::time::Duration;

use aggregation::AggregationError;
use bson::{DateTime, RawDocument, Timestamp};
use document::EmptyTimestamps;
use executor::{ExecutorError, Interrupt, Interruption};
use planner::{CanonicalQuery, Hint, PlanError};
use platform::Clock;
use query_language::expression::{EvaluationContext, Expression, ParseContext, Variables, check_bound};
use query_language::filter::{Filter, FilterOptions};
use query_language::update::UpdateClock;
use transaction::Waiting;

use super::query_memory::check_memory_for;
use crate::request::arguments::Field;
use crate::request::error::{CommandError, Result};
use crate::state::issued_timestamps::IssuedTimestamps;
use crate::state::operations::{Operation, OperationSlot, check_memory};
use crate::state::reading::Reading;

impl Interrupt for Operation<'_> {
    fn check(&self) -> std::result::Result<(), Interruption> {
        Operation::check(self).map_err(interruption)
    }
}

impl From<PlanError> for CommandError {
    fn from(error: PlanError) -> Self {
        match error {
            PlanError::BadValue(message) => Self::bad_value(message),
            PlanError::NoQueryExecutionPlans(message) => Self::named("NoQueryExecutionPlans", message),
            PlanError::Query(error) => error.into(),
            PlanError::Location(number, message) => Self::numbered(number, message),
            PlanError::FailedToParse(message) => Self::failed_to_parse(message),
            PlanError::NotImplemented(message) => Self::named("NotImplemented", message),
        }
    }
}

impl From<ExecutorError> for CommandError {
    fn from(error: ExecutorError) -> Self {
        let message = error.to_string();
        match error {
            ExecutorError::Plan(error) => error.into(),
            ExecutorError::Transaction(error) => error.into(),
            ExecutorError::Query(error) => error.into(),
            ExecutorError::Interrupted(interruption) => Self::named(interruption.code_name, interruption.message),
            ExecutorError::MemoryLimit(_) => Self::named("QueryExceededMemoryLimitNoDiskUseAllowed", message),
            ExecutorError::DistinctTooBig => Self::numbered(17217, message),
            ExecutorError::TemporaryFile(error) => temporary_file_error(&error),
            ExecutorError::Damaged(_) => Self::named("InternalError", message),
        }
    }
}

/// The error for a temporary file that cannot be written or read.
pub(crate) fn temporary_file_error(error: &std::io::Error) -> CommandError {
    let name = if platform::is_disk_full(error) { "OutOfDiskSpace" } else { "InternalError" };
    CommandError::named(name, format!("a temporary file cannot be used: {error}"))
}

/// The interruption of a command for things that outlive its first batch: they are asked to end when the command that
/// uses them is.
#[derive(Clone)]
pub(crate) struct OwnedInterrupt {
    slot: Arc<OperationSlot>,
    deadline: Option<Duration>,
}

impl OwnedInterrupt {
    pub(crate) fn of(operation: &Operation<'_>) -> Self {
        Self { slot: operation.slot().clone(), deadline: operation.deadline() }
    }

    pub(crate) fn check_command(&self) -> Result<()> {
        self.slot.check(self.deadline)?;
        check_memory()
    }
}

impl OwnedInterrupt {
    /// How long its writes wait for transactions.
    pub(crate) fn waiting(&self) -> Waiting {
        Waiting::Until { interrupt: self.slot.clone(), deadline: self.deadline }
    }
}

impl Interrupt for OwnedInterrupt {
    fn check(&self) -> std::result::Result<(), Interruption> {
        self.check_command().map_err(interruption)
    }
}

fn interruption(error: CommandError) -> Interruption {
    let code_name = match error.code_name {
        std::borrow::Cow::Borrowed(name) => name,
        std::borrow::Cow::Owned(_) => "Interrupted",
    };
    Interruption { code: error.code, code_name, message: error.message }
}

/// An error of the server, for who runs a pipeline.
pub(crate) fn host_error(error: CommandError) -> AggregationError {
    AggregationError::Host(Box::new(error))
}

/// Where updates read the time.
#[derive(Debug)]
pub(crate) struct CommandClock {
    millis: i64,
    timestamps: Arc<IssuedTimestamps>,
}

impl CommandClock {
    /// The time of a command, fixed when it began.
    pub(crate) fn of(clock: &dyn Clock, timestamps: &Arc<IssuedTimestamps>) -> Self {
        Self { millis: clock.wall_millis(), timestamps: timestamps.clone() }
    }
}

impl UpdateClock for CommandClock {
    fn now(&self) -> DateTime {
        DateTime::from_millis(self.millis)
    }

    fn next_timestamp(&self) -> Timestamp {
        self.timestamps.next(self.millis)
    }
}

/// The variables of a command: `$$NOW` and those of `let`.
pub(crate) fn variables(reading: Reading<'_>, declared: Option<&RawDocument>) -> Result<Arc<Variables>> {
    let now = DateTime::from_millis(reading.clock.wall_millis());
    let seed = reading.clock.monotonic().as_nanos() as u64;
    let mut variables = Variables::new(now, None, seed);
    let Some(declared) = declared else { return Ok(Arc::new(variables)) };
    let empty = bson::RawDocumentBuf::new();
    // What a value reads: not the variables beside it.
    let builtin = variables.clone();
    for element in document::elements(declared) {
        let expression = Expression::parse(element.value(), &ParseContext::new())?;
        let value = expression.evaluate(&EvaluationContext::new(&empty, &builtin))?;
        check_bound(&value)?;
        variables.define(element.name(), value.into_raw_bson())?;
    }
    Ok(Arc::new(variables))
}

/// Parses a filter; none means all documents.
pub(crate) fn filter(source: Option<&RawDocument>, variables: &Arc<Variables>) -> Result<Filter> {
    let empty = bson::RawDocumentBuf::new();
    check_memory_for(source.into_iter())?;
    let options = FilterOptions::new(variables.clone()).with_scripts().with_nearness().with_texts();
    Ok(Filter::parse(source.unwrap_or(&empty), &options)?)
}

/// A query with a filter and its variables.
pub(crate) fn query(source: Option<&RawDocument>, variables: &Arc<Variables>) -> Result<CanonicalQuery> {
    let mut query = CanonicalQuery::new(filter(source, variables)?);
    query.variables = variables.clone();
    Ok(query)
}

/// Parses a hint.
pub(crate) fn hint(field: Field<'_>) -> Result<Hint> {
    Ok(Hint::parse(field.value())?)
}

/// Reads `bypassEmptyTsReplacement`.
pub(crate) fn empty_timestamps(field: Field<'_>) -> Result<EmptyTimestamps> {
    Ok(if field.boolean()? { EmptyTimestamps::Keep } else { EmptyTimestamps::Replace })
}
