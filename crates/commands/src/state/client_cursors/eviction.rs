//! Cursors that are closed so that others can be kept: the oldest idle ones of the client that holds most.
//!
//! Called when there is no memory for another cursor. Clients forget cursors, and those live for ten minutes; whoever goes on with one that was closed
//! is told CursorNotFound, as after these.

use std::collections::HashMap;
use std::time::Duration;

use platform::{MemoryReservation, MemoryUse, OverBudget};

use super::{ClientCursors, Entry};

/// A cursor that was used within this time is not forgotten.
const IDLE_MIN: Duration = Duration::from_secs(1);
/// So much is made free at once, so that not every new cursor looks for another one to close.
const FREED_BYTES_MIN: u64 = 1 << 20;

/// An idle cursor that may be closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Candidate {
    id: i64,
    connection: u64,
    bytes: u64,
    since: Duration,
}

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
        let candidates = entries.iter().filter_map(|(id, entry)| match entry {
            Entry::Idle(idle) => Some(Candidate {
                id: *id,
                connection: idle.cursor.connection,
                bytes: idle.cursor.memory.as_ref().map_or(0, MemoryReservation::bytes),
                since: idle.since,
            }),
            Entry::InUse { .. } => None,
        });
        let is_forgotten = |candidate: &Candidate| now.saturating_sub(candidate.since) >= IDLE_MIN;
        let chosen = choose(candidates.collect(), is_forgotten, bytes.max(FREED_BYTES_MIN), connection);
        let closed: Vec<Entry> = chosen.iter().filter_map(|candidate| entries.remove(&candidate.id)).collect();
        drop(entries);
        if !closed.is_empty() {
            tracing::warn!(target: "command", closed = closed.len(), "idle cursors were closed: there was no memory for others");
        }
    }
}

/// The oldest of whoever holds most at that moment, one by one, until they are enough.
fn choose(
    mut candidates: Vec<Candidate>,
    is_forgotten: impl Fn(&Candidate) -> bool,
    bytes: u64,
    connection: u64,
) -> Vec<Candidate> {
    let mut held: HashMap<u64, u64> = HashMap::new();
    candidates.iter().for_each(|candidate| *held.entry(candidate.connection).or_default() += candidate.bytes);
    let least = held.get(&connection).copied().unwrap_or_default();
    candidates.retain(is_forgotten);
    // The oldest is the last.
    candidates.sort_by_key(|candidate| std::cmp::Reverse((candidate.since, candidate.id)));
    let (mut chosen, mut freed) = (Vec::new(), 0);
    while freed < bytes && !candidates.is_empty() {
        let holds = |candidate: &Candidate| held.get(&candidate.connection).copied().unwrap_or_default();
        // Of equals, the last.
        let greediest = candidates.iter().enumerate().max_by_key(|(_, candidate)| holds(candidate));
        let Some(position) = greediest.filter(|(_, candidate)| holds(candidate) >= least).map(|(position, _)| position)
        else {
            break;
        };
        let candidate = candidates.remove(position);
        freed += candidate.bytes;
        *held.entry(candidate.connection).or_default() -= candidate.bytes;
        chosen.push(candidate);
    }
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_of_the_greediest_go_first() {
        let candidate =
            |id, connection, bytes, seconds| Candidate { id, connection, bytes, since: Duration::from_secs(seconds) };
        let all = vec![
            candidate(1, 1, 100, 1),
            candidate(2, 2, 100, 5),
            candidate(3, 2, 100, 4),
            candidate(4, 2, 100, 6),
            candidate(5, 3, 150, 3),
        ];
        let ids = |bytes, connection| {
            let chosen = choose(all.clone(), |candidate| candidate.id != 4, bytes, connection);
            chosen.iter().map(|candidate| candidate.id).collect::<Vec<_>>()
        };
        assert_eq!(ids(1, 9), [3]);
        assert_eq!(ids(200, 9), [3, 2]);
        assert_eq!(ids(350, 9), [3, 2, 5]);
        assert_eq!(ids(10_000, 9), [3, 2, 5, 1]);
        // Nobody's go for one who holds more.
        assert_eq!(ids(10_000, 2), [3]);
    }
}
