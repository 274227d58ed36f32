//! Whether the command that this thread works for is to stop.
//!
//! Told by `commands` at the begin of a command, asked by what takes long inside of a document, which is searches for patterns and
//! expressions that are evaluated for each element of an array: these are pure functions, which know of no command.

use std::cell::{Cell, RefCell};
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

/// Steps between two questions.
const STEPS_PER_CHECK: u32 = 256;

thread_local! {
    static WATCH: RefCell<Option<Arc<dyn Watch>>> = const { RefCell::new(None) };
    static STEPS: Cell<u32> = const { Cell::new(0) };
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

/// One step of work of which there may be millions in a document; asks at every so many.
///
/// # Errors
/// The command is to stop.
pub(crate) fn step() -> Result<(), QueryError> {
    let steps = STEPS.get().wrapping_add(1);
    STEPS.set(steps);
    if steps.is_multiple_of(STEPS_PER_CHECK) { check() } else { Ok(()) }
}
