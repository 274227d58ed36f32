//! Whether the command that this thread works for is to stop.
//!
//! Told by `commands` at the begin of a command, asked by searches that take long: what is in a document is examined by pure
//! functions, which know of no command.

use std::cell::RefCell;
use std::sync::Arc;

use crate::error::QueryError;

/// What a command's thread can be asked.
pub trait Watch {
    /// An error of kind `Interrupted` when the command is to stop.
    ///
    /// # Errors
    /// Why it is to stop.
    fn check(&self) -> Result<(), QueryError>;
}

thread_local! {
    static WATCH: RefCell<Option<Arc<dyn Watch>>> = const { RefCell::new(None) };
}

/// The time during which a watch is asked; what was asked before is asked again afterwards.
pub struct Watching {
    before: Option<Arc<dyn Watch>>,
}

/// Has this thread's long searches ask `watch`.
#[must_use]
pub fn watch(watch: Arc<dyn Watch>) -> Watching {
    Watching { before: WATCH.replace(Some(watch)) }
}

impl Drop for Watching {
    fn drop(&mut self) {
        WATCH.set(self.before.take());
    }
}

/// Asks. Without a watch nothing is to stop.
pub(crate) fn check() -> Result<(), QueryError> {
    WATCH.with_borrow(|watch| watch.as_ref().map_or(Ok(()), |watch| watch.check()))
}
