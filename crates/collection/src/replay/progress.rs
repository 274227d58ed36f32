//! Says in the server's log how far a replay has come, when it is long.
//!
//! Called by `replay` for each entry and each part of a transaction. It goes by bytes and not by time, so that it says the same in every run.

use oplog::OplogPosition;

/// Bytes after which it is said again.
const STEP_BYTES: u64 = 256 << 20;

/// See the module's head.
pub(super) struct Progress {
    from: OplogPosition,
    end: OplogPosition,
    /// Of parts of transactions, which may be before `from`.
    part_bytes: u64,
    next: u64,
}

impl Progress {
    /// Of a replay of the entries between two positions.
    pub(super) fn new(from: OplogPosition, end: OplogPosition) -> Progress {
        Progress { from, end, part_bytes: 0, next: STEP_BYTES }
    }

    /// The replay has come to the entry at a position.
    pub(super) fn at(&mut self, position: OplogPosition) {
        let done = position.0.saturating_sub(self.from.0);
        if done + self.part_bytes >= self.next {
            self.next = done + self.part_bytes + STEP_BYTES;
            let (all, parts) = (self.end.0.saturating_sub(self.from.0) >> 20, self.part_bytes >> 20);
            tracing::info!(
                mib = done >> 20,
                of_mib = all,
                mib_of_large_transactions = parts,
                "the oplog is being replayed; connections are accepted when that is done"
            );
        }
    }

    /// So many bytes of a large transaction, of which the entry at `position` tells, were read.
    pub(super) fn read_part(&mut self, position: OplogPosition, bytes: usize) {
        self.part_bytes += bytes as u64;
        self.at(position);
    }
}
