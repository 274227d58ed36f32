//! How much memory the client's queues may take: what is to be sent, and what was fetched and not read.
//!
//! librdkafka has the queues, so they are counted in the server's budget as a whole from the start. `server` says how much there may be; `appending` and `reading`
//! tell the library.

use shared_log::STORED_BYTES_MAX;

/// More does not make it faster.
const SENT_BYTES_MAX: usize = 16 << 20;
const FETCHED_BYTES_MAX: usize = 8 << 20;
/// As many of the largest records as a primary has on their way at once.
const SENT_BYTES_MIN: usize = 5 * STORED_BYTES_MAX;
const FETCHED_BYTES_MIN: usize = 2 << 20;
/// A notice has some hundred bytes.
const NOTICES_BYTES: usize = 512 << 10;

/// See the module's head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientMemory {
    /// What is to be sent.
    pub sent_bytes: usize,
    /// Records that were fetched and not read.
    pub fetched_bytes: usize,
}

impl ClientMemory {
    /// About so much together, as far as that is enough and is of use.
    pub fn about(bytes: u64) -> ClientMemory {
        let part = |share: u64| usize::try_from(bytes / share).unwrap_or(usize::MAX);
        ClientMemory {
            sent_bytes: part(2).clamp(SENT_BYTES_MIN, SENT_BYTES_MAX),
            fetched_bytes: part(4).clamp(FETCHED_BYTES_MIN, FETCHED_BYTES_MAX),
        }
    }

    /// What all queues may have together. A queue takes one more answer when there is room for a byte.
    pub fn bytes(&self) -> u64 {
        let queues = self.sent_bytes + self.fetched_bytes + NOTICES_BYTES;
        (queues + self.answer_bytes() + self.of_notices().answer_bytes()) as u64
    }

    /// The same for the client that reads notices.
    pub(crate) fn of_notices(self) -> ClientMemory {
        ClientMemory { fetched_bytes: NOTICES_BYTES, ..self }
    }

    /// An answer to one request for records: half of the queue, or the largest record.
    pub(crate) fn answer_bytes(&self) -> usize {
        (self.fetched_bytes / 2).max(STORED_BYTES_MAX)
    }
}

impl Default for ClientMemory {
    /// As much as is of use.
    fn default() -> ClientMemory {
        ClientMemory::about(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_budget_has_small_queues_that_still_hold_the_largest_records() {
        let (small, middle, large) = (ClientMemory::about(0), ClientMemory::about(16 << 20), ClientMemory::default());
        assert!(small.sent_bytes >= 4 * STORED_BYTES_MAX && small.fetched_bytes >= STORED_BYTES_MAX);
        assert!(small.bytes() < middle.bytes() && middle.bytes() < large.bytes());
        assert!(small.bytes() < 12 << 20 && large.bytes() < 32 << 20, "{} {}", small.bytes(), large.bytes());
        assert_eq!((large.sent_bytes, large.fetched_bytes, large.answer_bytes()), (16 << 20, 8 << 20, 4 << 20));
        assert_eq!(large.of_notices().answer_bytes(), STORED_BYTES_MAX);
    }
}
