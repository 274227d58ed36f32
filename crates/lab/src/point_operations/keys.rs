//! Which `_id` each operation of a connection uses: random among existing ones, or the next of its share of a range.

/// A connection's supply of `_id`s.
#[derive(Debug, Clone)]
pub(super) enum Keys {
    /// Uniform in `0..count`, by xorshift64*.
    Random { state: u64, count: u32 },
    /// Every `step`-th from `next`, up to `end`.
    Sequence { next: u32, step: u32, end: u32, used: u32 },
}

impl Keys {
    pub(super) fn random(count: u32, connection: u32) -> Self {
        // Any seed but 0; connections must differ, runs need not.
        Self::Random { state: (u64::from(connection) + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15), count }
    }

    /// The share of one of `connections` in `first..first + count`.
    pub(super) fn sequence(first: u32, count: u32, connection: u32, connections: u32) -> Self {
        Self::Sequence {
            next: first.saturating_add(connection),
            step: connections,
            end: first.saturating_add(count),
            used: 0,
        }
    }

    /// The next `_id`, or none when the share is used up.
    pub(super) fn next(&mut self) -> Option<u32> {
        match self {
            Self::Random { state, count } => {
                *state ^= *state >> 12;
                *state ^= *state << 25;
                *state ^= *state >> 27;
                let random = state.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 32;
                Some(((random * u64::from(*count)) >> 32) as u32)
            }
            Self::Sequence { next, step, end, used } => {
                let id = *next;
                if id >= *end {
                    return None;
                }
                *next = next.saturating_add(*step);
                *used += 1;
                Some(id)
            }
        }
    }

    /// How many of the sequence were given out.
    pub(super) fn used(&self) -> u32 {
        match self {
            Self::Random { .. } => 0,
            Self::Sequence { used, .. } => *used,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_share_a_range_without_overlap() {
        let mut all: Vec<u32> = Vec::new();
        for connection in 0..3 {
            let mut keys = Keys::sequence(100, 10, connection, 3);
            all.extend(std::iter::from_fn(|| keys.next()));
        }
        all.sort_unstable();
        assert_eq!(all, (100..110).collect::<Vec<_>>());
    }

    #[test]
    fn random_keys_cover_the_range_evenly() {
        let mut keys = Keys::random(10, 3);
        let mut counts = [0_u32; 10];
        for _ in 0..10_000 {
            counts[keys.next().unwrap() as usize] += 1;
        }
        assert!(counts.iter().all(|count| (850..1150).contains(count)), "{counts:?}");
    }
}
