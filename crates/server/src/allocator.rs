//! Keeps the C library's allocator from holding much more than is in use.
//!
//! Called by `main` before other threads are there. The GNU allocator gives threads up to eight heaps for each processor, and
//! what one heap has freed is of no use to the others: with a thread for each busy connection that was a fifth of a small memory
//! budget. Threads have caches of their own, so that few heaps are no bottleneck.
//!
//! `unsafe` because `mallopt` is a C function.
#![allow(unsafe_code)]

/// Heaps in all.
#[cfg(target_env = "gnu")]
const HEAPS: libc::c_int = 2;

/// Limits the number of heaps.
pub(crate) fn limit_heaps() {
    #[cfg(target_env = "gnu")]
    // SAFETY: it takes two integers and touches only the allocator's own settings; no other thread is there yet.
    let is_accepted = unsafe { libc::mallopt(libc::M_ARENA_MAX, HEAPS) } == 1;
    #[cfg(target_env = "gnu")]
    if !is_accepted {
        tracing::debug!(target: "control", "the allocator keeps its number of heaps");
    }
}
