//! What a connection takes of the memory budget. Used by `exchange`, `connection`, `read_buffer` and `listener`.
//!
//! ```text
//!   Idle: a task, a socket, the commands' state ─── bytes arrive ──▶ a thread, if it fits ──▶ its stack, buffers
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
/// All connections together may have so much, whatever else takes: a server that is full can still be asked, and has some threads to answer.
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
    /// A thread: its stack as far as it is touched, and small buffers.
    Thread,
}

impl Holding {
    fn bytes(self) -> u64 {
        match self {
            Holding::Idle => 4 << 10,
            Holding::Handshake => 20 << 10,
            Holding::Member => 6 << 10,
            Holding::Thread => 64 << 10,
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

    /// Whether there is room for this; counted from now on, if so.
    pub(crate) fn try_hold(&mut self, holding: Holding) -> bool {
        let budget = self.reservation.budget();
        let always = match holding {
            Holding::Thread => ALWAYS_BYTES,
            Holding::Idle | Holding::Handshake | Holding::Member => ALWAYS_BYTES.max(budget.limit() / ALWAYS_SHARE),
        };
        if budget.used_for(MemoryUse::Connections) + self.bytes(holding) <= always {
            self.hold(holding);
            return true;
        }
        // The last is for what cannot share.
        if holding == Holding::Thread && self.is_short() {
            return false;
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
        let budget = self.reservation.budget();
        budget.free() < budget.limit() / SHORT_SHARE && budget.used_for(MemoryUse::Connections) > ALWAYS_BYTES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_that_do_not_fit_are_refused_and_some_always_fit() {
        let budget = MemoryBudget::new(6 << 20);
        let other = budget.reserve_fixed(MemoryUse::Frames, 6 << 20);
        let mut threads: Vec<ConnectionMemory> = Vec::new();
        while let Some(mut memory) = ConnectionMemory::accept(&budget).filter(|_| threads.len() < 10_000) {
            memory.try_hold(Holding::Thread);
            threads.push(memory);
        }
        assert_eq!(threads.iter().filter(|memory| memory.holding == Holding::Thread).count(), 63);
        assert!(budget.used_for(MemoryUse::Connections) <= ALWAYS_BYTES);
        drop(other);
        let mut more = ConnectionMemory::accept(&budget).unwrap();
        assert!(more.try_hold(Holding::Thread) && !more.is_short());
        assert_eq!(more.reservation.bytes(), 64 << 10);
        more.count_buffers(2 << 20);
        assert_eq!(more.reservation.bytes(), (2 << 20) + (64 << 10));
        assert!(more.is_short());
        assert!(!threads.last_mut().unwrap().try_hold(Holding::Thread));
        more.hold(Holding::Idle);
        assert_eq!(more.reservation.bytes(), 4 << 10);
        drop((threads, more));
        assert_eq!(budget.used(), 0);
    }
}
