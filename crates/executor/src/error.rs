//! The one error type of this crate. MongoDB's numbers are attached in `commands`.

use planner::PlanError;
use query_language::QueryError;
use transaction::TransactionError;

use crate::interrupt::Interruption;

/// Shorthand for results of this crate.
pub type Result<T> = std::result::Result<T, ExecutorError>;

/// What can go wrong with running a query.
#[derive(Debug, thiserror::Error)]
pub enum ExecutorError {
    /// There is no plan.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// From reading: also a dropped collection or index (QueryPlanKilled), and a snapshot too old.
    #[error(transparent)]
    Transaction(#[from] TransactionError),
    /// From evaluating filters and projections.
    #[error(transparent)]
    Query(#[from] QueryError),
    /// Killed, or out of time.
    #[error("{0}")]
    Interrupted(Interruption),
    /// QueryExceededMemoryLimitNoDiskUseAllowed (292).
    #[error("{0}")]
    MemoryLimit(String),
    /// The values of `distinct` do not fit into a reply (17217).
    #[error("distinct too big, 16mb cap")]
    DistinctTooBig,
    /// The disk failed, or is full, where temporary files are.
    #[error("a temporary file cannot be used: {0}")]
    TemporaryFile(std::io::Error),
    /// What is stored does not make sense.
    #[error("stored data is damaged: {0}")]
    Damaged(String),
}

impl From<document::Interruption> for ExecutorError {
    fn from(interruption: document::Interruption) -> ExecutorError {
        ExecutorError::Query(interruption.into())
    }
}

impl From<index_key::KeyError> for ExecutorError {
    fn from(error: index_key::KeyError) -> ExecutorError {
        match error {
            index_key::KeyError::Interrupted(interruption) => interruption.into(),
            other => ExecutorError::Damaged(format!("index key: {other}")),
        }
    }
}

impl From<bson::error::Error> for ExecutorError {
    fn from(error: bson::error::Error) -> ExecutorError {
        ExecutorError::Damaged(format!("record: {error}"))
    }
}
