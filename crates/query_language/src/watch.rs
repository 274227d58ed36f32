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

    /// Fails when the command may not hold so many bytes beside what it holds already.
    ///
    /// # Errors
    /// They do not fit.
    fn before_allocating(&self, _bytes: usize) -> Result<(), QueryError> {
        Ok(())
    }
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

/// Asks before something large is allocated, so many bytes of it; or, with 0, whether what is there already may be.
///
/// # Errors
/// `ExceededMemoryLimit`.
pub fn before_allocating(bytes: usize) -> Result<(), QueryError> {
    WATCH.with_borrow(|watch| watch.as_ref().map_or(Ok(()), |watch| watch.before_allocating(bytes)))
}

/// What is smaller is not asked for: every command may hold some of it.
const LARGE_BYTES: usize = 64 << 10;

/// The same for what is small as a rule.
///
/// # Errors
/// `ExceededMemoryLimit`.
#[inline]
pub fn before_allocating_if_large(bytes: usize) -> Result<(), QueryError> {
    if bytes > LARGE_BYTES { before_allocating(bytes) } else { Ok(()) }
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
