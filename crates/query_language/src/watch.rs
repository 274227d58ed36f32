//! Whether the command that this thread works for is to stop, as this crate's error.
//!
//! Asked by searches for patterns, and counted by everything that works for each element of an array, each field of a document or each
//! node of a tree (`document::work`).

use document::Interruption;
use document::work;

use crate::error::{ErrorKind, QueryError};

impl From<Interruption> for QueryError {
    fn from(interruption: Interruption) -> QueryError {
        QueryError::new(ErrorKind::Interrupted(interruption.name), interruption.message)
    }
}

/// For filters, whose errors are boxed.
impl From<Interruption> for Box<QueryError> {
    fn from(interruption: Interruption) -> Box<QueryError> {
        Box::new(interruption.into())
    }
}

/// Asks. Without a watch nothing is to stop.
///
/// # Errors
/// The command is to stop.
pub(crate) fn check() -> Result<(), QueryError> {
    Ok(work::check()?)
}

/// One step of work of which there may be millions in a document; asks at every so many.
///
/// # Errors
/// The command is to stop.
#[inline]
pub(crate) fn step() -> Result<(), Interruption> {
    work::step()
}

#[cfg(test)]
mod tests;
