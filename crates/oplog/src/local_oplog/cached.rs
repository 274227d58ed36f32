//! Keeping the operating system from holding the whole log in its memory.
//!
//! Called by the flusher after each sync. What is read again is the log's end: by change streams, tailing cursors and replicas that are a little behind. The
//! rest would stay in memory until its segment is removed, and then be freed by tens of MiB at once. On a virtual machine that gives free memory back to its
//! host, everybody stops for a part of a second after that; let go a little at a time, the same memory holds what is written next.

use std::collections::BTreeSet;

use platform::OpenMode;

use super::Shared;
use super::segment::file_offset;

/// Bytes at the log's end that stay in memory.
const HELD_BYTES: u64 = 16 << 20;
/// Let go at a time.
const STEP_BYTES: u64 = 2 << 20;
/// Memory is let go in whole blocks of the operating system's, so that what was cut in two last time is asked for again. They have at most so many bytes.
const BLOCK_BYTES: u64 = 2 << 20;

/// Up to where the log has been let go.
#[derive(Debug)]
pub(super) struct LetGo {
    until: u64,
}

/// A part of one segment, in positions of the log.
#[derive(Debug, PartialEq, Eq)]
struct Part {
    segment: u64,
    from: u64,
    until: u64,
}

impl LetGo {
    /// Of a log that has been opened: what earlier lives wrote is not gone through.
    pub(super) fn opened_at(end: u64) -> Self {
        Self { until: end.saturating_sub(HELD_BYTES) }
    }

    /// The parts of segments that need not stay in memory any more, now that the log is durable up to a position.
    fn next_parts(&mut self, durable: u64, segments: &BTreeSet<u64>) -> Vec<Part> {
        let until = durable.saturating_sub(HELD_BYTES);
        if until < self.until + STEP_BYTES {
            return Vec::new();
        }
        let from = self.until.saturating_sub(BLOCK_BYTES);
        self.until = until;
        let ends = segments.iter().skip(1).copied().chain([u64::MAX]);
        let parts = segments.iter().zip(ends).map(|(start, end)| Part {
            segment: *start,
            from: from.max(*start),
            until: until.min(end),
        });
        parts.filter(|part| part.from < part.until).collect()
    }
}

impl Shared {
    /// Nothing depends on it, so a failure is none.
    pub(super) fn let_go_of_cached(&self, let_go: &mut LetGo, durable: u64) {
        let parts = let_go.next_parts(durable, &self.segments.lock());
        for part in parts {
            // One that was removed meanwhile is not there any more.
            if let Ok(file) = self.store.open(part.segment, OpenMode::Read) {
                file.forget_cached(file_offset(part.segment, part.from), part.until - part.from);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn all_but_the_end_is_let_go_in_steps_that_overlap() {
        let segments = BTreeSet::from([0, 10 * MIB, 64 * MIB]);
        let mut let_go = LetGo::opened_at(0);
        assert_eq!(let_go.next_parts(HELD_BYTES + STEP_BYTES - 1, &segments), []);
        let first = let_go.next_parts(HELD_BYTES + 12 * MIB, &segments);
        assert_eq!(
            first,
            [
                Part { segment: 0, from: 0, until: 10 * MIB },
                Part { segment: 10 * MIB, from: 10 * MIB, until: 12 * MIB }
            ]
        );
        assert_eq!(let_go.next_parts(HELD_BYTES + 13 * MIB, &segments), []);
        let second = let_go.next_parts(HELD_BYTES + 15 * MIB, &segments);
        assert_eq!(second, [Part { segment: 10 * MIB, from: 10 * MIB, until: 15 * MIB }]);
        let third = let_go.next_parts(HELD_BYTES + 70 * MIB, &BTreeSet::from([64 * MIB]));
        assert_eq!(
            third,
            [Part { segment: 64 * MIB, from: 64 * MIB, until: 70 * MIB }],
            "removed segments are left out"
        );
    }
}
