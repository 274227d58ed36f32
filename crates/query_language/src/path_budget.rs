//! What the paths of one filter or projection may take when each is written out.
//!
//! Used by the parsers of both. A path stands once in the client's document and may be that of many conditions or fields below it; plans, shapes and
//! dependencies write out each one. A message of a few MiB could so ask for all memory there is.

use std::cell::Cell;

use crate::error::{ErrorKind, QueryError, Result};

/// Bytes of all paths: four times what a document may have.
pub(crate) const PATH_BYTES_MAX: usize = 64 << 20;

/// Counts the paths.
#[derive(Debug, Default)]
pub(crate) struct PathBudget {
    bytes: Cell<usize>,
}

impl PathBudget {
    /// Counts one path.
    ///
    /// # Errors
    /// `BsonObjectTooLarge` when there is too much.
    pub(crate) fn add(&self, bytes: usize) -> Result<()> {
        self.bytes.set(self.bytes.get().saturating_add(bytes));
        if self.bytes.get() <= PATH_BYTES_MAX {
            return Ok(());
        }
        let message = format!(
            "the paths of a filter or projection take more than {PATH_BYTES_MAX} bytes when each is written out"
        );
        Err(QueryError::new(ErrorKind::BsonObjectTooLarge, message))
    }
}
