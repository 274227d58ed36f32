//! Whether the command that this thread works for may hold more memory.
//!
//! Told by `commands` at the begin of a command, asked before something large is made of what is in documents: these are pure functions, which know of no
//! memory budget.

use std::cell::RefCell;
use std::sync::Arc;

use crate::error::QueryError;

/// What a command's thread can be asked.
pub trait MemoryLimit {
    /// Fails when the command may not hold so many bytes beside what it holds already.
    ///
    /// # Errors
    /// They do not fit.
    fn before_allocating(&self, bytes: usize) -> Result<(), QueryError>;
}

thread_local! {
    static LIMIT: RefCell<Option<Arc<dyn MemoryLimit>>> = const { RefCell::new(None) };
}

/// The time during which a limit is asked; what was asked before is asked again afterwards.
#[must_use]
pub struct LimitedMemory {
    before: Option<Arc<dyn MemoryLimit>>,
}

/// Has this thread ask `limit`.
pub fn limit_memory(limit: Arc<dyn MemoryLimit>) -> LimitedMemory {
    LimitedMemory { before: LIMIT.replace(Some(limit)) }
}

impl Drop for LimitedMemory {
    fn drop(&mut self) {
        LIMIT.set(self.before.take());
    }
}

/// Asks before something large is allocated, so many bytes of it; or, with 0, whether what is there already may be. Without a limit everything may.
///
/// # Errors
/// `ExceededMemoryLimit`.
pub fn before_allocating(bytes: usize) -> Result<(), QueryError> {
    LIMIT.with_borrow(|limit| limit.as_ref().map_or(Ok(()), |limit| limit.before_allocating(bytes)))
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
