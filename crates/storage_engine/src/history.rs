//! The version history: before-images of changed entries, in the order they were replaced.
//!
//! Called by `btree` (append), by readers that need an older version (read) and by the background (trim, spill). Knows
//! nothing of pages. Invariant I5: old versions never live on pages' time.
//!
//! The history is a ring of chunks. A record is appended when an entry's state is replaced and says what the state was.
//! It is needed by snapshots older than the commit that replaced it and by nobody else, so a chunk whose newest
//! replacement every snapshot sees is dropped whole: dropping history is moving the tail. Chunks beyond the memory
//! budget are written to a spill file.
//!
//! What a concealed commit (`snapshot`) replaces is needed until it is revealed, by snapshots that are not older than it, too. It is in a ring of its
//! own, so that it does not keep what everybody else replaces meanwhile. The highest bit of a position says which ring it is in.

use std::path::Path;
use std::sync::{Arc, OnceLock};

use platform::Disk;

use self::chunk_ring::ChunkRing;
use crate::error::{EngineError, Result};
use crate::node::{Presence, Version};
use crate::page_store::PageId;

mod chunk_ring;
#[cfg(test)]
mod tests;

const SPILL_FILE: &str = "history.spill";
const CONCEALED_SPILL_FILE: &str = "history.concealed.spill";
const IN_CONCEALED: u64 = 1 << 63;
/// Of the memory budget, the share from which on chunks are spilled: a history that is spilled as fast as it grows slows nobody down (`pacing`).
const SPILLED_FROM: f64 = 0.75;

/// The state of an entry as of some commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct EntryState {
    pub(crate) presence: Presence,
    pub(crate) version: Version,
    /// Whether the value is a reference to overflow pages.
    pub(crate) overflow: bool,
}

/// The version history of one engine.
pub(crate) struct History {
    usual: ChunkRing,
    /// Of what concealed commits replace; made when there is one.
    concealed: OnceLock<ChunkRing>,
    disk: Arc<dyn Disk>,
    memory_bytes: u64,
    quota_bytes: u64,
}

/// Bytes held by the history.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct HistoryStatistics {
    /// Bytes in memory.
    pub memory_bytes: u64,
    /// Bytes in spill files.
    pub spilled_bytes: u64,
}

/// Which part of the history holds more than the quota.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OverQuota {
    /// What is needed by snapshots older than the commits that replaced it.
    Usual,
    /// What concealed commits have replaced.
    Concealed,
}

impl History {
    /// An empty history that keeps less than `memory_bytes` in memory, as long as it is spilled in time. `quota_bytes`: how much it may hold in all, and again as much
    /// for concealed commits.
    pub(crate) fn new(disk: Arc<dyn Disk>, memory_bytes: usize, quota_bytes: u64) -> Result<Self> {
        for left in [SPILL_FILE, CONCEALED_SPILL_FILE].map(Path::new) {
            if disk.exists(left).map_err(chunk_ring::file_error)? {
                disk.remove(left).map_err(chunk_ring::file_error)?;
            }
        }
        let usual = ChunkRing::new(disk.clone(), SPILL_FILE);
        Ok(Self { usual, concealed: OnceLock::new(), disk, memory_bytes: memory_bytes as u64, quota_bytes })
    }

    fn rings(&self) -> impl Iterator<Item = &ChunkRing> {
        std::iter::once(&self.usual).chain(self.concealed.get())
    }

    /// Records the state that a commit at `replaced_at` replaces; returns its position. A value that refers to overflow
    /// pages gives its chain to the history, which hands it to [`History::trim`]'s caller when nobody needs it any more.
    pub(crate) fn append(
        &self,
        state: EntryState,
        value: &[u8],
        chain: Option<PageId>,
        (replaced_at, is_concealed): (u64, bool),
    ) -> u64 {
        if !is_concealed {
            return self.usual.append(state, value, chain, replaced_at);
        }
        let ring = self.concealed.get_or_init(|| ChunkRing::new(self.disk.clone(), CONCEALED_SPILL_FILE));
        ring.append(state, value, chain, replaced_at) | IN_CONCEALED
    }

    /// Reads the record at a position; its value replaces what is in `value`.
    ///
    /// # Errors
    /// `SnapshotTooOld` when the record was dropped, or a failed read of the spill file.
    pub(crate) fn read(&self, position: u64, value: &mut Vec<u8>) -> Result<EntryState> {
        if position & IN_CONCEALED == 0 {
            return self.usual.read(position, value);
        }
        let ring = self.concealed.get().ok_or(EngineError::SnapshotTooOld)?;
        ring.read(position & !IN_CONCEALED, value)
    }

    /// Drops the chunks that no snapshot at or after `oldest` needs, and those of concealed commits in which everything replaced up to `settled`
    /// was; the overflow chains they held are pushed to `chains`.
    pub(crate) fn trim(&self, oldest: u64, settled: u64, chains: &mut Vec<PageId>) {
        self.usual.trim(oldest, chains);
        if let Some(concealed) = self.concealed.get() {
            concealed.trim(settled, chains);
        }
    }

    /// Writes one chunk to a spill file when much of the memory budget is used; `true` when it did. Background only.
    pub(crate) fn spill_step(&self) -> Result<bool> {
        if self.memory_share() <= SPILLED_FROM {
            return Ok(false);
        }
        let Some(concealed) = self.concealed.get() else { return self.usual.spill_step() };
        let (mut first, mut second) = (&self.usual, concealed);
        if concealed.memory_bytes() > self.usual.memory_bytes() {
            std::mem::swap(&mut first, &mut second);
        }
        Ok(first.spill_step()? || second.spill_step()?)
    }

    /// Whether more is held than the quota allows.
    pub(crate) fn over_quota(&self) -> Option<OverQuota> {
        if self.usual.bytes() > self.quota_bytes {
            return Some(OverQuota::Usual);
        }
        let concealed = self.concealed.get()?;
        (concealed.bytes() > self.quota_bytes).then_some(OverQuota::Concealed)
    }

    /// Share of the memory budget in use; above 1 the background is behind with spilling.
    pub(crate) fn memory_share(&self) -> f64 {
        let in_memory: u64 = self.rings().map(ChunkRing::memory_bytes).sum();
        in_memory as f64 / self.memory_bytes.max(1) as f64
    }

    /// The overflow chains that the history holds, for the checkpoint to free if this process dies.
    pub(crate) fn overflow_heads(&self) -> Vec<PageId> {
        let mut heads = Vec::new();
        self.rings().for_each(|ring| ring.overflow_heads(&mut heads));
        heads
    }

    /// What is held where.
    pub(crate) fn statistics(&self) -> HistoryStatistics {
        self.rings().map(ChunkRing::statistics).fold(HistoryStatistics::default(), |sum, ring| HistoryStatistics {
            memory_bytes: sum.memory_bytes + ring.memory_bytes,
            spilled_bytes: sum.spilled_bytes + ring.spilled_bytes,
        })
    }
}
