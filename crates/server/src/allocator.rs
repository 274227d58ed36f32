//! The C library's allocator: what each thread takes from it is counted, and it is kept from holding much more than is in use.
//!
//! [`CountingAllocator`] tells `platform::command_memory` of every allocation: one addition to a figure of the thread's own. Large blocks are the
//! system's, not a heap's, so that they are gone when they are freed.
//!
//! The limits are set by `main` before other threads are there. The GNU allocator gives threads up to eight heaps for each processor, and
//! what one heap has freed is of no use to the others: with a thread for each busy connection that was a fifth of a small memory
//! budget. Threads have caches of their own, so that few heaps are no bottleneck.
//!
//! `unsafe` because allocators are, and because `mallopt` and `malloc_trim` are C functions.
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::time::Duration;

use platform::command_memory::{note_allocated, note_freed};
use platform::{Clock, IdlePause, SystemClock};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

/// The system's allocator, with what each thread takes counted.
struct CountingAllocator;

// SAFETY: every call goes to the system's allocator as it came; counting touches figures of the thread that have no destructor and allocate nothing.
unsafe impl GlobalAlloc for CountingAllocator {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note_allocated(layout.size());
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        note_allocated(layout.size());
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc_zeroed(layout) }
    }

    #[inline]
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        note_freed(layout.size());
        // SAFETY: the caller's promises are passed on.
        unsafe { System.dealloc(pointer, layout) }
    }

    #[inline]
    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        note_freed(layout.size());
        note_allocated(size);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

/// Heaps in all.
#[cfg(target_env = "gnu")]
const HEAPS: libc::c_int = 2;

/// Blocks of this size and above are mapped by themselves. Left alone, the allocator would take ever larger ones from its heaps, where holes stay.
#[cfg(target_env = "gnu")]
const MAPPED_BYTES: libc::c_int = 256 << 10;
/// What may stay free at a heap's end.
#[cfg(target_env = "gnu")]
const KEPT_AT_END_BYTES: libc::c_int = 2 << 20;

/// Limits the number of heaps, and what goes into them.
pub(crate) fn limit_heaps() {
    #[cfg(target_env = "gnu")]
    // SAFETY: it takes two integers and touches only the allocator's own settings; no other thread is there yet.
    let is_accepted = [
        (libc::M_ARENA_MAX, HEAPS),
        (libc::M_MMAP_THRESHOLD, MAPPED_BYTES),
        (libc::M_TRIM_THRESHOLD, KEPT_AT_END_BYTES),
    ]
    .into_iter()
    .all(|(setting, value)| unsafe { libc::mallopt(setting, value) } == 1);
    #[cfg(target_env = "gnu")]
    if !is_accepted {
        tracing::debug!(target: "control", "the allocator keeps its own settings");
    }
}

/// How often it is looked whether the process has more memory than it may, and while it takes no more than before.
const LOOK_INTERVAL: Duration = Duration::from_millis(500);
const LOOK_INTERVAL_MAX: Duration = LOOK_INTERVAL.saturating_mul(4);
/// Longest time between two trials when the last gave nothing.
const TRIM_INTERVAL_MAX: Duration = Duration::from_secs(60);

/// Gives what the allocator holds and nobody uses back to the system, when the process is about to exceed its budget: an index build or a
/// large sort leaves holes between what stays. On a thread of its own, as it takes milliseconds.
pub(crate) fn keep_within(limit_bytes: u64) {
    let thread = platform::spawn_named("allocator", move || {
        let clock = SystemClock::new();
        let mut pause = LOOK_INTERVAL;
        let (mut calm, mut seen) = (IdlePause::new(LOOK_INTERVAL, LOOK_INTERVAL_MAX), 0);
        loop {
            clock.sleep(pause);
            let resident = resident_bytes().unwrap_or_default();
            let has_grown = resident > std::mem::replace(&mut seen, resident);
            pause = match resident {
                before if before > limit_bytes - limit_bytes / 16 => {
                    trim();
                    let freed = before.saturating_sub(resident_bytes().unwrap_or(before));
                    let is_worth_it = freed > limit_bytes / 64;
                    if is_worth_it { LOOK_INTERVAL } else { (pause * 2).min(TRIM_INTERVAL_MAX) }
                }
                _ => calm.after(has_grown),
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
