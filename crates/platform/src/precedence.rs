//! Which work goes first: what others may be given before a thread.
//!
//! Called by `commands` (a write comes after a read, as it is paced anyway; what has worked for long gives way), by background
//! work that lasts, and by `storage_engine`, which leaves the last free frames to what goes first.
//!
//! ```text
//!   First ─── a read, health, background that others wait for ──▶ the thread's own slice: short if it is interactive
//!   Write ─── a command that writes ─────────────────────────────▶ the same; may not take the last free frames
//!   Long ──── has worked for long, or will ──────────────────────▶ long slice: whoever wakes up goes first; as Write
//! ```
//!
//! A long slice is not a lower priority: the thread keeps its share of the processors, but under EEVDF a thread that wakes up
//! with an earlier deadline runs at once, and not after the slices of those that compute. So a thread that holds a latch is not starved,
//! which a nice value would do, and every user may go back, which a nice value does not allow. A short slice is the same in the other direction: an
//! interactive thread interrupts those that compute, whose slices are the kernel's, as soon as somebody asks it something.

use std::cell::Cell;
use std::marker::PhantomData;
use std::time::{Duration, Instant};

use crate::schedule::{Slice, set_slice};

/// From one offer of the processor to the next.
const OFFERED_EVERY: Duration = Duration::from_micros(200);

/// See the module's head.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Precedence {
    /// Somebody waits for it and it is short.
    #[default]
    First,
    /// It may wait a little when frames are short.
    Write,
    /// It gives way to everything else.
    Long,
}

thread_local! {
    static PRECEDENCE: Cell<Precedence> = const { Cell::new(Precedence::First) };
    static OTHERS_WAIT: Cell<bool> = const { Cell::new(false) };
    static INTERACTIVE: Cell<bool> = const { Cell::new(false) };
    static OFFERED_AT: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// Says of the calling thread whether it mostly sleeps until somebody asks it something, who then waits for it: then it has a short
/// slice. Costs a thread-local word if that was known already.
pub fn set_interactive(is_interactive: bool) {
    if INTERACTIVE.replace(is_interactive) != is_interactive && PRECEDENCE.get() != Precedence::Long {
        set_slice(own_slice());
    }
}

/// Lets whoever waits for this processor run first, if anybody does and the thread has not done so for a fifth of a millisecond. For work that goes on without a pause, in the
/// background or for many clients in turn, after each small piece of it and with nothing locked that others need. Costs a look at the clock.
///
/// Where processors are short, who yields comes again when all others have had their slice: after 1.6 ms beside one thread that computes, after 3.0 beside two (Linux 6.18).
/// So a thread that others wait for must not do it.
///
/// Whoever wakes up interrupts at once, but a thread that has just used more than its share waits until it may run again, and only the kernel's clock,
/// every 4 ms on usual kernels, or the end of what runs looks whether that is so.
#[allow(
    clippy::disallowed_methods,
    reason = "the processor's own time, which no simulated run sees: yielding changes no outcome"
)]
pub fn offer_processor() {
    if OFFERED_AT.get().is_none_or(|at| at.elapsed() >= OFFERED_EVERY) {
        std::thread::yield_now();
        OFFERED_AT.set(Some(Instant::now()));
    }
}

fn own_slice() -> Slice {
    if INTERACTIVE.get() { Slice::Short } else { Slice::Usual }
}

/// The precedence of what the calling thread does.
pub fn precedence() -> Precedence {
    if OTHERS_WAIT.get() { Precedence::First } else { PRECEDENCE.get() }
}

/// Everybody waits for what the calling thread does just now, so it goes first, whatever it is part of. A commit is from its place in
/// the oplog on: no later one becomes visible before it is applied.
#[must_use]
#[derive(Debug)]
pub struct OthersWait {
    before: bool,
    _thread_bound: PhantomData<*const ()>,
}

impl OthersWait {
    /// Until it is dropped.
    pub fn begin() -> OthersWait {
        OthersWait { before: OTHERS_WAIT.replace(true), _thread_bound: PhantomData }
    }
}

impl Drop for OthersWait {
    fn drop(&mut self) {
        OTHERS_WAIT.set(self.before);
    }
}

/// The calling thread's work is of this precedence at most until the scope is dropped.
#[must_use]
#[derive(Debug)]
pub struct PrecedenceScope {
    before: Precedence,
    /// Scopes end on the thread on which they began.
    _thread_bound: PhantomData<*const ()>,
}

impl PrecedenceScope {
    /// Begins a scope. Costs a thread-local word, and a system call only for long work.
    pub fn begin(precedence: Precedence) -> PrecedenceScope {
        let before = PRECEDENCE.get();
        change(before, before.max(precedence));
        PrecedenceScope { before, _thread_bound: PhantomData }
    }
}

impl Drop for PrecedenceScope {
    fn drop(&mut self) {
        change(PRECEDENCE.get(), self.before);
    }
}

fn change(from: Precedence, to: Precedence) {
    PRECEDENCE.set(to);
    match (from == Precedence::Long, to == Precedence::Long) {
        (false, true) => set_slice(Slice::Long),
        (true, false) => set_slice(own_slice()),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scopes_nest_and_end() {
        let write = PrecedenceScope::begin(Precedence::Write);
        assert_eq!(precedence(), Precedence::Write);
        let commit = OthersWait::begin();
        assert_eq!(precedence(), Precedence::First);
        drop(commit);
        {
            let _long = PrecedenceScope::begin(Precedence::Long);
            assert_eq!(precedence(), Precedence::Long);
            // What is inside something long does not go before it.
            let _inner = PrecedenceScope::begin(Precedence::Write);
            assert_eq!(precedence(), Precedence::Long);
        }
        assert_eq!(precedence(), Precedence::Write);
        drop(write);
        assert_eq!(precedence(), Precedence::First);
    }
}
