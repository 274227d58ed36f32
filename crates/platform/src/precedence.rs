//! Which work goes first: what others may be given before a thread.
//!
//! Called by `commands` (a write comes after a read, as it is paced anyway; what has worked for long gives way), by background
//! work that lasts, and by `storage_engine`, which leaves the last free frames to what goes first.
//!
//! ```text
//!   First ─── a read, health, background that others wait for ──▶ the thread's own slice: short if it is interactive
//!   Write ─── a command that writes ─────────────────────────────▶ the same; may not take the last free frames
//!   Long ──── has worked for long, or will ──────────────────────▶ long slice: whoever wakes up goes first; as Write
//!             and commits now and then ──────────────────────────▶ short slice
//! ```
//!
//! A long slice is not a lower priority: the thread keeps its share of the processors, but under EEVDF a thread that wakes up
//! with an earlier deadline runs at once, and not after the slices of those that compute. So a thread that holds a latch is not starved,
//! which a nice value would do, and every user may go back, which a nice value does not allow. A short slice is the same in the other direction: an
//! interactive thread interrupts those that compute, whose slices are the kernel's, as soon as somebody asks it something.
//!
//! Long work that commits has a short slice, too, and works for less than that between two rests: in the midst of a commit, for which all later ones
//! wait, it would otherwise be interrupted by everything that runs in the background, and come again after all of that.
//!
//! While there is long work beside short commands, what runs in the background has the long slice, too, if nobody waits for it.
//! Which processors a thread runs on is the kernel's choice: nothing is bound to any.

use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::schedule::{Slice, set_precise_timers, set_slice};

/// From one offer of the processor to the next.
const OFFERED_EVERY: Duration = Duration::from_micros(200);
/// See [`rest_briefly`].
const BRIEF: Duration = Duration::from_micros(20);

/// Threads whose long work leaves room.
static LONG_WORK: AtomicUsize = AtomicUsize::new(0);

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
    static PRECISE: Cell<bool> = const { Cell::new(false) };
    static LEAVES_ROOM: Cell<bool> = const { Cell::new(false) };
    static SLICE: Cell<Slice> = const { Cell::new(Slice::Usual) };
    static OFFERED_AT: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// Says of the calling thread whether it mostly sleeps until somebody asks it something, who then waits for it: then it has a short
/// slice. Costs a thread-local word if that was known already.
pub fn set_interactive(is_interactive: bool) {
    if INTERACTIVE.replace(is_interactive) != is_interactive && PRECEDENCE.get() != Precedence::Long {
        take_slice(own_slice());
    }
}

/// Whether the calling thread, whose work is long, works beside others, until the scope that it is in ends. Costs a thread-local word if
/// that was known already.
pub fn leave_room(leaves: bool) {
    if LEAVES_ROOM.replace(leaves) != leaves {
        match leaves {
            true => LONG_WORK.fetch_add(1, Ordering::Relaxed),
            false => LONG_WORK.fetch_sub(1, Ordering::Relaxed),
        };
    }
}

/// The calling thread works in the background, and nobody waits for it at once: while there is long work that leaves room, whoever wakes up goes first.
/// Only meanwhile: beside clients that overload the machine a thread with a long slice comes last again and again, and reads wait for what it holds.
/// Called between small pieces of its work; costs a shared word that hardly ever changes.
pub fn give_way_beside_long_work() {
    let gives_way = is_beside_long_work();
    take_slice(if gives_way { Slice::Long } else { own_slice() });
}

fn is_beside_long_work() -> bool {
    LEAVES_ROOM.get() || LONG_WORK.load(Ordering::Relaxed) > 0
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

/// Sleeps for an instant: until somebody lets go of what is never held for long.
#[allow(clippy::disallowed_methods, reason = "real time, which no simulated run sees: it changes no outcome")]
pub fn rest_briefly() {
    take_precise_timers();
    std::thread::sleep(BRIEF);
}

fn take_precise_timers() {
    if !PRECISE.replace(true) {
        set_precise_timers();
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
    before: (Precedence, Slice, bool),
    /// Scopes end on the thread on which they began.
    _thread_bound: PhantomData<*const ()>,
}

impl PrecedenceScope {
    /// Begins a scope. Costs a thread-local word, and a system call only for long work.
    pub fn begin(precedence: Precedence) -> PrecedenceScope {
        PrecedenceScope::begin_with(precedence, Slice::Long)
    }

    /// Begins long work that commits now and then. It must rest before a short slice is over.
    pub fn begin_committing() -> PrecedenceScope {
        take_precise_timers();
        PrecedenceScope::begin_with(Precedence::Long, Slice::Short)
    }

    fn begin_with(precedence: Precedence, long: Slice) -> PrecedenceScope {
        let before = (PRECEDENCE.get(), SLICE.get(), LEAVES_ROOM.get());
        PRECEDENCE.set(before.0.max(precedence));
        if precedence == Precedence::Long && before.0 != Precedence::Long {
            take_slice(long);
        }
        PrecedenceScope { before, _thread_bound: PhantomData }
    }
}

impl Drop for PrecedenceScope {
    fn drop(&mut self) {
        let (precedence, slice, leaves_room) = self.before;
        PRECEDENCE.set(precedence);
        take_slice(slice);
        leave_room(leaves_room);
    }
}

fn take_slice(slice: Slice) {
    if SLICE.replace(slice) != slice {
        set_slice(slice);
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
        {
            let _committing = PrecedenceScope::begin_committing();
            assert_eq!((precedence(), SLICE.get()), (Precedence::Long, Slice::Short));
            let _inner = PrecedenceScope::begin(Precedence::Long);
            assert_eq!(SLICE.get(), Slice::Short);
            leave_room(true);
            let background = std::thread::scope(|scope| {
                let background = scope.spawn(|| {
                    give_way_beside_long_work();
                    SLICE.get()
                });
                background.join().unwrap()
            });
            assert_eq!(background, Slice::Long);
        }
        assert_eq!((precedence(), SLICE.get(), LEAVES_ROOM.get()), (Precedence::Write, Slice::Usual, false));
        assert_eq!(LONG_WORK.load(Ordering::Relaxed), 0);
        drop(write);
        assert_eq!(precedence(), Precedence::First);
    }
}
