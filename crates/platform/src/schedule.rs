//! What the kernel's scheduler is told of the calling thread.
//!
//! Called by `work_class` and `work_budget`; optimistic loops sleep here for an instant. Relies on Linux 6.12 or later, where a thread of the usual policy may ask for the length of its slice
//! (`sched_setattr(2)`); older kernels take the call and change nothing. No privilege is needed, and the way back is open to everybody.
//!
//! `unsafe` because the C library has no function for the system call.
#![allow(unsafe_code)]

use std::cell::Cell;
use std::time::Duration;

/// How long the thread wants to compute at a stretch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Slice {
    /// So short that the thread, when it wakes up, interrupts those that have another.
    Short,
    /// As the kernel has it.
    Usual,
    /// As long as the kernel allows.
    Long,
}

/// Well below the usual ones (0.7 ms and more), and above what a short request takes.
pub(crate) const SHORT_SLICE: Duration = Duration::from_micros(300);
/// The longest that the kernel allows.
#[cfg(all(target_os = "linux", not(miri)))]
const LONG_SLICE: Duration = Duration::from_millis(100);
/// See [`sleep_an_instant`].
const INSTANT: Duration = Duration::from_micros(20);

thread_local! {
    static PRECISE: Cell<bool> = const { Cell::new(false) };
}

/// Sleeps until somebody lets go of what is never held for long.
#[allow(clippy::disallowed_methods, reason = "real time, which no simulated run sees: it changes no outcome")]
pub fn sleep_an_instant() {
    take_precise_timers();
    std::thread::sleep(INSTANT);
}

/// From now on the calling thread's sleeps end when they are over. Costs a thread-local word if they do already.
pub(crate) fn take_precise_timers() {
    if !PRECISE.replace(true) {
        set_precise_timers();
    }
}

/// `struct sched_attr` of the kernel in its first version.
#[cfg(all(target_os = "linux", not(miri)))]
#[repr(C)]
#[derive(Default)]
struct Attributes {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    runtime: u64,
    deadline: u64,
    period: u64,
}

/// Tells the kernel; a kernel that refuses it leaves the thread as it was.
#[cfg(all(target_os = "linux", not(miri)))]
pub(crate) fn set_slice(slice: Slice) {
    // Set with the slice: the nice value stays what it is.
    let nice = rustix::process::getpriority_process(None).unwrap_or(0);
    let attributes = Attributes {
        size: size_of::<Attributes>() as u32,
        policy: libc::SCHED_OTHER as u32,
        nice,
        runtime: match slice {
            Slice::Short => SHORT_SLICE.as_nanos() as u64,
            Slice::Usual => 0,
            Slice::Long => LONG_SLICE.as_nanos() as u64,
        },
        ..Attributes::default()
    };
    let (this_thread, no_flags): (libc::pid_t, libc::c_uint) = (0, 0);
    // SAFETY: the kernel reads `size` bytes of a structure that lives until the call returns, and writes none of it.
    unsafe {
        libc::syscall(libc::SYS_sched_setattr, this_thread, &raw const attributes, no_flags);
    }
}

/// Usually the kernel adds up to 50 us.
#[cfg(all(target_os = "linux", not(miri)))]
fn set_precise_timers() {
    // Where it is refused, sleeps are longer.
    let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1_000));
}

/// Elsewhere there is nothing to tell.
#[cfg(any(not(target_os = "linux"), miri))]
fn set_precise_timers() {}

/// Elsewhere there is nothing to tell.
#[cfg(any(not(target_os = "linux"), miri))]
pub(crate) fn set_slice(_slice: Slice) {}
