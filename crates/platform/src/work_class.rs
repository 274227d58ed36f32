//! What a thread's work is to others: which class it has, and what the kernel and the page frames are told of it.
//!
//! Threads that serve clients say it once, scopes say it for a while. Read by `storage_engine`, which leaves the last free
//! frames to what goes first. How much work takes is `work_budget`'s part.
//!
//! ```text
//!                may take the last frames    slice of the kernel
//!   Background ─ yes, others wait for it ─── usual
//!   Interactive  yes ─────────────────────── short: it interrupts those that compute, as somebody waits
//!   Write ────── no, it is paced anyway ──── its thread's
//!   LongWriting  no ──────────────────────── short: interrupted in the midst of a commit it would keep all later ones
//!   Long ─────── no ──────────────────────── long: whoever wakes up goes first
//!   Commit ───── yes, everybody waits ────── as what it is part of
//! ```
//!
//! A long slice is not a lower priority. The thread keeps its share of the processors, but under EEVDF a thread that wakes up
//! with an earlier deadline runs at once. So who holds a latch is not starved, which a nice value would do, and every user may
//! go back, which a nice value does not allow.
//!
//! Which processors a thread runs on is the kernel's choice: nothing is bound to any.

use std::cell::Cell;
use std::marker::PhantomData;

use crate::schedule::{Slice, set_slice};

/// See the module's head. What is further down gives way to what is above it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum WorkClass {
    /// It goes on without a pause, behind the clients or for many of them in turn. Every thread begins so.
    Background,
    /// The thread mostly sleeps until somebody asks it something, who then waits for it.
    Interactive,
    /// A command that changes something.
    Write,
    /// It lasts, and commits now and then.
    LongWriting,
    /// It lasts.
    Long,
    /// A commit from its place in the oplog on: no later one becomes visible before it is applied. Whatever it is part of.
    Commit,
}

thread_local! {
    /// What the thread is when it does nothing else.
    static CLASS: Cell<WorkClass> = const { Cell::new(WorkClass::Background) };
    /// As the kernel was told.
    static SLICE: Cell<Slice> = const { Cell::new(Slice::Usual) };
}

impl WorkClass {
    /// Of what the calling thread does.
    pub fn of_thread() -> WorkClass {
        CLASS.get()
    }

    /// Says what the calling thread is while no scope says otherwise. Costs a thread-local word if that was known already.
    pub fn set_for_thread(self) {
        CLASS.set(self);
        self.take_slice();
    }

    /// Whether it lasts.
    pub fn is_long(self) -> bool {
        matches!(self, WorkClass::LongWriting | WorkClass::Long)
    }

    /// Whether it may have the last free page frames.
    pub fn goes_first(self) -> bool {
        matches!(self, WorkClass::Background | WorkClass::Interactive | WorkClass::Commit)
    }

    fn take_slice(self) {
        let slice = match self {
            WorkClass::Background => Slice::Usual,
            WorkClass::Interactive | WorkClass::LongWriting => Slice::Short,
            WorkClass::Long => Slice::Long,
            WorkClass::Write | WorkClass::Commit => return,
        };
        if SLICE.replace(slice) != slice {
            set_slice(slice);
        }
    }

    /// What is inside something long does not go before it, but for a commit.
    fn inside(self, outer: WorkClass) -> WorkClass {
        match (outer, self) {
            (WorkClass::Commit, _) | (_, WorkClass::Commit) => WorkClass::Commit,
            (outer, _) if outer.is_long() => outer,
            (outer, inner) => outer.max(inner),
        }
    }
}

/// The calling thread's work is of a class until the scope is dropped, unless it is part of something that gives way more.
#[must_use]
#[derive(Debug)]
pub struct WorkScope {
    before: (WorkClass, Slice),
    /// Scopes end on the thread on which they began.
    _thread_bound: PhantomData<*const ()>,
}

impl WorkScope {
    /// Begins a scope. Costs a thread-local word, and a system call only for long work.
    pub fn begin(class: WorkClass) -> WorkScope {
        let before = (CLASS.get(), SLICE.get());
        let class = class.inside(before.0);
        CLASS.set(class);
        if class != before.0 {
            class.take_slice();
        }
        WorkScope { before, _thread_bound: PhantomData }
    }
}

impl Drop for WorkScope {
    fn drop(&mut self) {
        let (class, slice) = self.before;
        CLASS.set(class);
        if SLICE.replace(slice) != slice {
            set_slice(slice);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state() -> (WorkClass, bool, Slice) {
        (CLASS.get(), CLASS.get().goes_first(), SLICE.get())
    }

    #[test]
    fn scopes_nest_and_end() {
        assert_eq!(state(), (WorkClass::Background, true, Slice::Usual));
        WorkClass::Interactive.set_for_thread();
        let write = WorkScope::begin(WorkClass::Write);
        assert_eq!(state(), (WorkClass::Write, false, Slice::Short));
        {
            let _commit = WorkScope::begin(WorkClass::Commit);
            let _inner = WorkScope::begin(WorkClass::Write);
            assert_eq!(state(), (WorkClass::Commit, true, Slice::Short));
        }
        {
            let _long = WorkScope::begin(WorkClass::Long);
            assert_eq!(state(), (WorkClass::Long, false, Slice::Long));
            let _inner = WorkScope::begin(WorkClass::Write);
            assert_eq!(state(), (WorkClass::Long, false, Slice::Long));
            let _commit = WorkScope::begin(WorkClass::Commit);
            assert_eq!(state(), (WorkClass::Commit, true, Slice::Long));
        }
        assert_eq!(state(), (WorkClass::Write, false, Slice::Short));
        {
            let _writing = WorkScope::begin(WorkClass::LongWriting);
            let _inner = WorkScope::begin(WorkClass::Long);
            assert_eq!(state(), (WorkClass::LongWriting, false, Slice::Short));
        }
        drop(write);
        assert_eq!(state(), (WorkClass::Interactive, true, Slice::Short));
        WorkClass::Background.set_for_thread();
        assert_eq!(state(), (WorkClass::Background, true, Slice::Usual));
    }
}
