//! Keeps the C library's allocator from holding much more than is in use.
//!
//! Called by `main` before other threads are there. The GNU allocator gives threads up to eight heaps for each processor, and
//! what one heap has freed is of no use to the others: with a thread for each busy connection that was a fifth of a small memory
//! budget. Threads have caches of their own, so that few heaps are no bottleneck.
//!
//! `unsafe` because `mallopt` and `malloc_trim` are C functions.
#![allow(unsafe_code)]

use std::time::Duration;

use platform::{Clock, SystemClock};

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

/// How often it is looked whether the process has more memory than it may.
const LOOK_INTERVAL: Duration = Duration::from_millis(500);
/// Longest time between two trials when the last gave nothing.
const TRIM_INTERVAL_MAX: Duration = Duration::from_secs(60);

/// Gives what the allocator holds and nobody uses back to the system, when the process is about to exceed its budget: an index build or a
/// large sort leaves holes between what stays. On a thread of its own, as it takes milliseconds.
pub(crate) fn keep_within(limit_bytes: u64) {
    let thread = platform::spawn_named("allocator", move || {
        let clock = SystemClock::new();
        let mut pause = LOOK_INTERVAL;
        loop {
            clock.sleep(pause);
            pause = match resident_bytes() {
                Some(before) if before > limit_bytes - limit_bytes / 16 => {
                    trim();
                    let freed = before.saturating_sub(resident_bytes().unwrap_or(before));
                    let is_worth_it = freed > limit_bytes / 64;
                    if is_worth_it { LOOK_INTERVAL } else { (pause * 2).min(TRIM_INTERVAL_MAX) }
                }
                _ => LOOK_INTERVAL,
            };
        }
    });
    if let Err(error) = thread {
        tracing::warn!(target: "control", %error, "what the allocator holds is not given back");
    }
}

fn resident_bytes() -> Option<u64> {
    platform::process_memory().map(|memory| memory.resident_bytes)
}

fn trim() {
    #[cfg(target_env = "gnu")]
    // SAFETY: it takes an integer, and locks the heaps itself.
    unsafe {
        libc::malloc_trim(0);
    }
}
