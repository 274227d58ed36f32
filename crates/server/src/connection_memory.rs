//! What connections and their threads take of the memory budget.
//!
//! Used by `exchange`, `connection`, `connection_threads`, `read_buffer` and `listener`.
//!
//! ```text
//!   Idle: a task, a socket, the commands' state ─── bytes arrive ──▶ a thread, if it fits ──▶ its buffers
//!                        │                                                     │ it does not
//!                        └── not even that fits: refused                       ▼
//!                                                        one of the crowd: small buffers
//! ```
//!
//! So many clients that come at once do not take more than the budget has: they share threads. Figures: `docs/decisions/0002-execution-model.md`.

use std::sync::Arc;
use std::time::Duration;

use platform::{Clock, MemoryBudget, MemoryReservation, MemoryUse, OverBudget, SystemClock};

/// Buffers up to this size are kept for the next request.
pub(crate) const BUFFER_KEPT_BYTES: usize = 1024 * 1024;
/// Smaller buffers are not counted one by one.
pub(crate) const BUFFER_COUNTED_BYTES: usize = 64 * 1024;
/// How often, and after what time each, memory for a large message is asked for again.
const MEMORY_ATTEMPTS: u32 = 100;
const MEMORY_WAIT: Duration = Duration::from_millis(20);
/// A thread that has served: its stack as far as it is touched, and what the allocator keeps for it. Measured as what is
/// resident after a thousand have served, by thread.
pub(crate) const THREAD_BYTES: u64 = 112 << 10;
/// All connections and their threads may have so much, whatever else takes: a server that is full can still be asked, and has some threads to answer.
const ALWAYS_BYTES: u64 = 4 << 20;
/// And such a part of the budget without a thread for each: refusing connections is the last resort.
const ALWAYS_SHARE: u64 = 6;
/// Memory is short when less than such a part of the budget is free.
const SHORT_SHARE: u64 = 16;

/// What a TLS session takes as long as nothing is read or written: keys, and the client's certificate.
const ENCRYPTION_BYTES: u64 = 6 << 10;

/// What one connection needs, and what it is counted for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Holding {
    /// Its task and its socket.
    Idle,
    /// In addition a TLS session whose handshake is not through.
    Handshake,
    /// One of the crowd: in addition a request and a reply of usual size.
    Member,
    /// In addition small buffers: a thread serves it.
    Active,
}

impl Holding {
    fn bytes(self) -> u64 {
        match self {
            Holding::Idle => 4 << 10,
            Holding::Handshake => 20 << 10,
            Holding::Member => 6 << 10,
            Holding::Active => 16 << 10,
        }
    }
}

/// Reserves memory for a message, giving others some time to give theirs back.
pub(crate) fn wait_for_memory(reservation: &mut MemoryReservation, bytes: u64) -> Result<(), OverBudget> {
    for _ in 0..MEMORY_ATTEMPTS {
        if bytes <= reservation.bytes() || reservation.resize_leaving_some(bytes).is_ok() {
            return Ok(());
        }
        SystemClock::new().sleep(MEMORY_WAIT);
    }
    reservation.resize_leaving_some(bytes)
}

/// Of one connection.
pub(crate) struct ConnectionMemory {
    reservation: MemoryReservation,
    holding: Holding,
    encryption_bytes: u64,
}

impl ConnectionMemory {
    /// Of an idle connection; none when there is no room for another.
    pub(crate) fn accept(budget: &Arc<MemoryBudget>) -> Option<Self> {
        let mut memory = Self {
            reservation: budget.reservation(MemoryUse::Connections),
            holding: Holding::Idle,
            encryption_bytes: 0,
        };
        memory.try_hold(Holding::Idle).then_some(memory)
    }

    /// Whether there is room for this without a thread; counted from now on, if so.
    pub(crate) fn try_hold(&mut self, holding: Holding) -> bool {
        let budget = self.reservation.budget();
        let always = ALWAYS_BYTES.max(budget.limit() / ALWAYS_SHARE);
        if budget.used_for(MemoryUse::Connections) + self.bytes(holding) <= always {
            self.hold(holding);
            return true;
        }
        let fits = self.reservation.resize(self.bytes(holding)).is_ok();
        if fits {
            self.holding = holding;
        }
        fits
    }

    /// Counts this, whether there is room or not: the connection has it already, or cannot go on without.
    pub(crate) fn hold(&mut self, holding: Holding) {
        self.holding = holding;
        self.reservation.resize_unchecked(self.bytes(holding));
    }

    /// Its handshake is through: there are keys from now on.
    pub(crate) fn is_encrypted(&mut self) {
        self.encryption_bytes = ENCRYPTION_BYTES;
        self.hold(Holding::Idle);
    }

    fn bytes(&self, holding: Holding) -> u64 {
        holding.bytes() + self.encryption_bytes
    }

    /// Counts large buffers, which are there already, so nothing is refused; whoever asks next sees them.
    pub(crate) fn count_buffers(&mut self, bytes: usize) {
        self.reservation
            .resize_unchecked(self.bytes(self.holding) + if bytes > BUFFER_COUNTED_BYTES { bytes as u64 } else { 0 });
    }

    /// Whether buffers that are not needed just now should be given back.
    pub(crate) fn is_short(&self) -> bool {
        is_short(self.reservation.budget(), 0)
    }

    /// Whether a thread that serves it alone would find room.
    pub(crate) fn may_have_thread(&self) -> bool {
        !is_short(self.reservation.budget(), THREAD_BYTES + self.bytes(Holding::Active))
    }
}

/// Whether the last of the budget, which is for what cannot share, would have to be taken for so many bytes more.
fn is_short(budget: &MemoryBudget, more: u64) -> bool {
    let taken = budget.used_for(MemoryUse::Connections) + budget.used_for(MemoryUse::Threads);
    budget.free() < more.saturating_add(budget.limit() / SHORT_SHARE) && taken + more > ALWAYS_BYTES
}

/// Of one thread that serves connections.
pub(crate) struct ThreadMemory(MemoryReservation);

impl ThreadMemory {
    /// Counted for nothing yet.
    pub(crate) fn new(budget: &Arc<MemoryBudget>) -> Self {
        Self(budget.reservation(MemoryUse::Threads))
    }

    /// Counts the thread if it finds room and is not counted yet. False: memory is short, and the thread should end when it can.
    pub(crate) fn try_count(&mut self) -> bool {
        let more = THREAD_BYTES - self.0.bytes();
        let has_room = !is_short(self.0.budget(), more);
        if has_room {
            self.0.resize_unchecked(THREAD_BYTES);
        }
        has_room
    }

    /// Gives it back: the thread ends.
    pub(crate) fn uncount(&mut self) {
        self.0.resize_unchecked(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_that_do_not_fit_are_refused_and_some_always_fit() {
        let budget = MemoryBudget::new(6 << 20);
        let other = budget.reserve_fixed(MemoryUse::Frames, 6 << 20);
        let mut threads = Vec::new();
        let mut accepted: Vec<ConnectionMemory> = Vec::new();
        while let Some(mut memory) = ConnectionMemory::accept(&budget).filter(|_| accepted.len() < 10_000) {
            if memory.may_have_thread() {
                let mut thread = ThreadMemory::new(&budget);
                assert!(thread.try_count());
                memory.hold(Holding::Active);
                threads.push(thread);
            }
            accepted.push(memory);
        }
        assert_eq!(threads.len(), 31);
        assert!(budget.used_for(MemoryUse::Connections) <= ALWAYS_BYTES);
        assert!(!ThreadMemory::new(&budget).try_count());
        assert!(accepted[0].is_short() && !accepted[0].may_have_thread());
        drop(other);
        threads.truncate(10);
        accepted.truncate(100);
        let mut more = ConnectionMemory::accept(&budget).unwrap();
        assert!(more.may_have_thread() && !more.is_short());
        more.hold(Holding::Active);
        assert_eq!(more.reservation.bytes(), 16 << 10);
        more.count_buffers(4 << 20);
        assert_eq!(more.reservation.bytes(), (4 << 20) + (16 << 10));
        assert!(more.is_short() && !more.may_have_thread());
        assert!(!accepted[0].may_have_thread());
        more.hold(Holding::Idle);
        assert_eq!(more.reservation.bytes(), 4 << 10);
        drop((threads, accepted, more));
        assert_eq!(budget.used(), 0);
    }
}
