//! What a handler asks of the layers above it: which commands there are, and that another one is run.
//!
//! Implemented by `dispatcher`, so that nothing below imports it.

use bson::RawDocument;

use crate::request::declaration::Declaration;
use crate::request::error::{CommandError, Result};
use crate::state::operations::Operation;

/// See the module's head.
pub(crate) trait CommandTable {
    /// What the command of a name, or alias, declares.
    fn declaration(&self, name: &str) -> Option<&'static Declaration>;

    /// What all commands declare, sorted by name.
    fn declarations(&self) -> Vec<&'static Declaration>;

    /// The error for a name that no command has.
    fn refusal(&self, name: &str) -> CommandError;

    /// Runs a command as a part of another one, for the same client and outside of its session; its reply is not
    /// wanted. Whoever calls this waits for the write concern.
    ///
    /// # Errors
    /// The command's own.
    fn run_inside(&self, operation: &Operation<'_>, database: &str, command: &RawDocument) -> Result<()>;
}
