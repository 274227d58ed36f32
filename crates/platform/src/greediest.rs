//! Whose idle things go first where something has to go so that others can be kept: the oldest of whoever holds most.
//!
//! Called by `commands` for cursors and by `transaction` for open transactions, when there is no memory for another one.

use std::collections::HashMap;
use std::time::Duration;

/// Something that was used within this time is not forgotten.
pub const IDLE_MIN: Duration = Duration::from_secs(1);
/// So much is made free at once, so that not every new thing looks for another one to end.
const FREED_BYTES_MIN: u64 = 1 << 20;

/// An idle thing that may be ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Idle<Id> {
    /// Which.
    pub id: Id,
    /// Of which connection.
    pub connection: u64,
    /// What it holds.
    pub bytes: u64,
    /// Since when it has not been used.
    pub since: Duration,
}

/// The oldest forgotten ones of whoever holds most at that moment, one by one, until so many bytes are free; none of who holds less than `connection`,
/// for which there is to be room.
pub fn choose<Id: Copy + Ord>(mut all: Vec<Idle<Id>>, now: Duration, bytes: u64, connection: u64) -> Vec<Idle<Id>> {
    let wanted = bytes.max(FREED_BYTES_MIN);
    let mut held: HashMap<u64, u64> = HashMap::new();
    all.iter().for_each(|idle| *held.entry(idle.connection).or_default() += idle.bytes);
    let least = held.get(&connection).copied().unwrap_or_default();
    all.retain(|idle| now.saturating_sub(idle.since) >= IDLE_MIN);
    // The oldest is the last.
    all.sort_by_key(|idle| std::cmp::Reverse((idle.since, idle.id)));
    let mut of_connection: HashMap<u64, Vec<Idle<Id>>> = HashMap::new();
    all.into_iter().for_each(|idle| of_connection.entry(idle.connection).or_default().push(idle));
    let (mut chosen, mut freed) = (Vec::new(), 0);
    while freed < wanted {
        let holds = |connection: &u64| held.get(connection).copied().unwrap_or_default();
        let has_some = of_connection.iter().filter(|(_, idle)| !idle.is_empty());
        let oldest = |idle: &[Idle<Id>]| idle.last().map(|idle| (idle.since, idle.id));
        // Of equals, who has the oldest.
        let greediest =
            has_some.map(|(connection, idle)| (holds(connection), std::cmp::Reverse(oldest(idle)), *connection)).max();
        let Some((_, _, greediest)) = greediest.filter(|(holds, ..)| *holds >= least) else { break };
        let Some(idle) = of_connection.get_mut(&greediest).and_then(Vec::pop) else { break };
        freed += idle.bytes;
        *held.entry(greediest).or_default() -= idle.bytes;
        chosen.push(idle);
    }
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_of_the_greediest_go_first() {
        let idle = |id, connection, kibibytes: u64, seconds| {
            let (bytes, since) = (kibibytes << 10, Duration::from_secs(seconds));
            Idle { id, connection, bytes, since }
        };
        let now = Duration::from_secs(6) + IDLE_MIN / 2;
        let all = vec![
            idle(1, 1, 1000, 1),
            idle(2, 2, 1000, 5),
            idle(3, 2, 1000, 4),
            idle(4, 2, 1000, 6),
            idle(5, 3, 1500, 3),
        ];
        let ids = |kibibytes: u64, connection| {
            choose(all.clone(), now, kibibytes << 10, connection).iter().map(|idle| idle.id).collect::<Vec<_>>()
        };
        assert_eq!(ids(1, 9), [3, 2], "not the fourth, which was just used");
        assert_eq!(ids(3500, 9), [3, 2, 5]);
        assert_eq!(ids(10_000, 9), [3, 2, 5, 1]);
        assert_eq!(ids(10_000, 2), [3], "nobody's go for one who holds more");
    }
}
