//! Cursors that are closed so that others can be kept: the oldest idle ones of the client that holds most.
//!
//! Called when there is no memory for another cursor. Clients forget cursors, and those live for ten minutes; whoever goes on with one that was closed
//! is told CursorNotFound, as after these.

use platform::greediest::{Idle, choose};
use platform::{MemoryReservation, MemoryUse, OverBudget};

use super::{ClientCursors, Entry};

impl ClientCursors {
    /// Counts `bytes` for a cursor, within what all of them may hold.
    pub(super) fn cover(&self, memory: &mut MemoryReservation, bytes: u64) -> Result<(), OverBudget> {
        let more = bytes.saturating_sub(memory.bytes());
        let held = self.budget.used_for(MemoryUse::Cursors);
        if more > 0 && held.saturating_add(more) > self.bytes_max {
            return Err(OverBudget { wanted: more, free: self.bytes_max.saturating_sub(held) });
        }
        memory.cover(bytes)
    }

    /// Closes idle cursors that hold so many bytes, of clients that hold no less than the one that needs them, if there are any.
    pub(super) fn make_room(&self, bytes: u64, connection: u64) {
        let now = self.clock.monotonic();
        let mut entries = self.entries.lock();
        let idle = entries.iter().filter_map(|(id, entry)| match entry {
            Entry::Idle(idle) => Some(Idle {
                id: *id,
                connection: idle.cursor.connection,
                bytes: idle.cursor.memory.as_ref().map_or(0, MemoryReservation::bytes),
                since: idle.since,
            }),
            Entry::InUse { .. } => None,
        });
        let chosen = choose(idle.collect(), now, bytes, connection);
        let closed: Vec<Entry> = chosen.iter().filter_map(|idle| entries.remove(&idle.id)).collect();
        drop(entries);
        if !closed.is_empty() {
            tracing::warn!(target: "command", closed = closed.len(), "idle cursors were closed: there was no memory for others");
        }
    }
}
