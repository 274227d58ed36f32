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
    /// Up to the entry that is being replayed.
    entry_bytes: u64,
    /// Of parts of transactions, which may be before `from`.
    part_bytes: u64,
    next: u64,
}

impl Progress {
    /// Of a replay of the entries between two positions.
    pub(super) fn new(from: OplogPosition, end: OplogPosition) -> Progress {
        Progress { from, end, entry_bytes: 0, part_bytes: 0, next: STEP_BYTES }
    }

    /// The replay has come to the entry at a position.
    pub(super) fn at(&mut self, position: OplogPosition) {
        self.entry_bytes = position.0.saturating_sub(self.from.0);
        self.tell();
    }

    /// So many bytes of a large transaction were read.
    pub(super) fn read_part(&mut self, bytes: usize) {
        self.part_bytes += bytes as u64;
        self.tell();
    }

    fn tell(&mut self) {
        let done = self.entry_bytes + self.part_bytes;
        if done < self.next {
            return;
        }
        self.next = done + STEP_BYTES;
        tracing::info!(
            mib = self.entry_bytes >> 20,
            of_mib = self.end.0.saturating_sub(self.from.0) >> 20,
            mib_of_large_transactions = self.part_bytes >> 20,
            "the oplog is being replayed; connections are accepted when that is done"
        );
    }
}
