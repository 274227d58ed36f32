//! Whether the command that this thread works for may hold more memory.
//!
//! Asked before something large is made of what is in documents, by pure functions, which know of no memory budget; `commands` says once whom to ask.

use std::sync::OnceLock;

use crate::error::QueryError;

/// Fails when the command of this thread may not hold so many bytes beside what it holds already, with `ExceededMemoryLimit`.
pub type MemoryLimit = fn(usize) -> Result<(), QueryError>;

static LIMIT: OnceLock<MemoryLimit> = OnceLock::new();

/// Has every thread of the process ask `limit`. The first one that is given stays.
pub fn limit_memory(limit: MemoryLimit) {
    LIMIT.get_or_init(|| limit);
}

/// Asks before something large is allocated, so many bytes of it; or, with 0, whether what is there already may be. Without a limit everything may.
///
/// # Errors
/// `ExceededMemoryLimit`.
pub fn before_allocating(bytes: usize) -> Result<(), QueryError> {
    LIMIT.get().map_or(Ok(()), |limit| limit(bytes))
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
