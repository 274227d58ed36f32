//! The one error type of this crate.

use std::fmt;

use document::Interruption;
use query_language::{ErrorKind, QueryError};

/// Why a pipeline cannot be parsed or run.
#[derive(Debug)]
pub enum AggregationError {
    /// The pipeline or a document is at fault; the kind gives MongoDB's code.
    Query(QueryError),
    /// The host failed: storage, an interruption, a missing privilege. The host knows the type.
    Host(Box<dyn std::error::Error + Send + Sync>),
}

/// Shorthand for results of this crate.
pub type Result<T> = std::result::Result<T, AggregationError>;

impl AggregationError {
    /// An error of `kind` saying `message`.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self::Query(QueryError::new(kind, message))
    }

    /// An error with one of MongoDB's numbers.
    pub(crate) fn numbered(number: u32, message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Location(number), message)
    }

    /// The same error with MongoDB's note of where it comes from.
    pub(crate) fn within(self, what: &str) -> Self {
        match self {
            Self::Query(error) if !matches!(error.kind, ErrorKind::Interrupted(_)) => {
                Self::new(error.kind, format!("Invalid {what} :: caused by :: {}", error.message))
            }
            other => other,
        }
    }
}

impl fmt::Display for AggregationError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Query(error) => error.fmt(formatter),
            Self::Host(error) => error.fmt(formatter),
        }
    }
}

impl std::error::Error for AggregationError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Query(error) => Some(error),
            Self::Host(error) => Some(error.as_ref()),
        }
    }
}

impl From<Interruption> for AggregationError {
    fn from(interruption: Interruption) -> Self {
        Self::Query(interruption.into())
    }
}

impl From<QueryError> for AggregationError {
    fn from(error: QueryError) -> Self {
        Self::Query(error)
    }
}

/// Bytes that do not hold the BSON they announce; documents are validated when they come in, so this is corruption.
impl From<bson::error::Error> for AggregationError {
    fn from(error: bson::error::Error) -> Self {
        Self::Query(error.into())
    }
}
