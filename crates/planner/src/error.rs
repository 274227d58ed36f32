//! The one error type of this crate. MongoDB's numbers are attached in `commands`.

use document::Interruption;
use query_language::QueryError;

/// Shorthand for results of this crate.
pub type Result<T> = std::result::Result<T, PlanError>;

/// Why there is no plan.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// BadValue (2).
    #[error("{0}")]
    BadValue(String),
    /// FailedToParse (9).
    #[error("{0}")]
    FailedToParse(String),
    /// NoQueryExecutionPlans (291).
    #[error("{0}")]
    NoQueryExecutionPlans(String),
    /// NotImplemented (238).
    #[error("{0}")]
    NotImplemented(String),
    /// A numbered assertion.
    #[error("{1}")]
    Location(u32, String),
    /// From the query language.
    #[error(transparent)]
    Query(#[from] QueryError),
}

/// Of a loop over conditions.
impl From<Interruption> for PlanError {
    fn from(interruption: Interruption) -> Self {
        Self::Query(interruption.into())
    }
}
