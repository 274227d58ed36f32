//! The version history: before-images of changed entries, in the order they were replaced.
//!
//! Called by `btree` (append), by readers that need an older version (read) and by the background (trim, spill). Knows
//! nothing of pages. Invariant I5: old versions never live on pages' time.
//!
//! The history is a ring of chunks. A record is appended when an entry's state is replaced and says what the state was.
//! It is needed by snapshots older than the commit that replaced it and by nobody else, so a chunk whose newest
//! replacement every snapshot sees is dropped whole: dropping history is moving the tail. Chunks beyond the memory
//! budget are written to a spill file, one after the other. The file is scratch: it is emptied when the engine opens,
//! because no snapshot outlives the process.
//!
//! Life of a chunk: `filling` → `sealed in memory` → (`spilled`) → `dropped`.
//!
//! ```text
//! record: length u32 | presence u8 | version kind u8 | overflow u8 | 0 | since u64 | position u64 | value
//! ```

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;

use parking_lot::RwLock;
use platform::{Disk, File, OpenMode};

use crate::error::{EngineError, Result};
use crate::node::{Presence, Version};
use crate::page_store::PageId;

#[cfg(test)]
mod tests;

/// Bytes of a chunk.
const CHUNK_BYTES: usize = 256 * 1024;
const RECORD_HEADER_BYTES: usize = 24;
const SPILL_FILE: &str = "history.spill";

/// The state of an entry as of some commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct EntryState {
    pub(crate) presence: Presence,
    pub(crate) version: Version,
    /// Whether the value is a reference to overflow pages.
    pub(crate) overflow: bool,
}

enum Place {
    Memory(Arc<Vec<u8>>),
    /// In the spill file, at this slot.
    Spilled(u64),
}

struct Chunk {
    place: Place,
    length: usize,
    /// Commit timestamp of the newest replacement in it.
    replaced_at_max: u64,
    overflow_heads: Vec<PageId>,
}

#[derive(Default)]
struct Ring {
    sealed: VecDeque<Chunk>,
    /// Number of the first sealed chunk (of `filling` when none is sealed).
    first: u64,
    filling: Vec<u8>,
    filling_replaced_at_max: u64,
    filling_overflow_heads: Vec<PageId>,
    free_slots: Vec<u64>,
    slots: u64,
    spilled_bytes: u64,
    sealed_bytes: u64,
}

/// The version history of one engine.
pub(crate) struct History {
    ring: RwLock<Ring>,
    disk: Arc<dyn Disk>,
    file: RwLock<Option<Arc<dyn File>>>,
    memory_bytes: usize,
    quota_bytes: u64,
}

/// Bytes held by the history.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct HistoryStatistics {
    /// Bytes in memory.
    pub memory_bytes: u64,
    /// Bytes in the spill file.
    pub spilled_bytes: u64,
}

impl History {
    /// An empty history that keeps about `memory_bytes` in memory and at most `quota_bytes` in all.
    pub(crate) fn new(disk: Arc<dyn Disk>, memory_bytes: usize, quota_bytes: u64) -> Result<Self> {
        let path = Path::new(SPILL_FILE);
        if disk.exists(path).map_err(file_error)? {
            disk.remove(path).map_err(file_error)?;
        }
        Ok(Self { ring: RwLock::default(), disk, file: RwLock::new(None), memory_bytes, quota_bytes })
    }

    /// Records the state that a commit at `replaced_at` replaces; returns its position. A value that refers to overflow
    /// pages gives its chain to the history, which hands it to [`History::trim`]'s caller when nobody needs it any more.
    pub(crate) fn append(&self, state: EntryState, value: &[u8], chain: Option<PageId>, replaced_at: u64) -> u64 {
        let mut ring = self.ring.write();
        if ring.filling.len() + RECORD_HEADER_BYTES + value.len() > CHUNK_BYTES {
            ring.seal();
        }
        if ring.filling.capacity() == 0 {
            ring.filling.reserve_exact(CHUNK_BYTES);
        }
        let position = ring.filling_number() * CHUNK_BYTES as u64 + ring.filling.len() as u64;
        let (kind, chained) = match state.version {
            Version::Settled => (0, 0),
            Version::Implied { .. } => (1, 0),
            Version::Chained { position, .. } => (2, position),
        };
        let filling = &mut ring.filling;
        filling.extend_from_slice(&(value.len() as u32).to_le_bytes());
        filling.extend_from_slice(&[u8::from(state.presence == Presence::Live), kind, u8::from(state.overflow), 0]);
        filling.extend_from_slice(&state.version.since().to_le_bytes());
        filling.extend_from_slice(&chained.to_le_bytes());
        filling.extend_from_slice(value);
        ring.filling_replaced_at_max = ring.filling_replaced_at_max.max(replaced_at);
        ring.filling_overflow_heads.extend(chain);
        position
    }

    /// Reads the record at a position; its value replaces what is in `value`.
    ///
    /// # Errors
    /// `SnapshotTooOld` when the record was dropped, or a failed read of the spill file.
    pub(crate) fn read(&self, position: u64, value: &mut Vec<u8>) -> Result<EntryState> {
        let number = position / CHUNK_BYTES as u64;
        let offset = (position % CHUNK_BYTES as u64) as usize;
        let ring = self.ring.read();
        if number == ring.filling_number() {
            return decode(&ring.filling, offset, value).ok_or(EngineError::SnapshotTooOld);
        }
        let index = number.checked_sub(ring.first).ok_or(EngineError::SnapshotTooOld)?;
        let chunk = ring.sealed.get(index as usize).ok_or(EngineError::SnapshotTooOld)?;
        match &chunk.place {
            Place::Memory(bytes) => decode(bytes, offset, value).ok_or(EngineError::SnapshotTooOld),
            Place::Spilled(slot) => {
                // The lock is kept: it keeps the slot from being given to another chunk while it is read.
                let mut bytes = vec![0; chunk.length - offset.min(chunk.length)];
                let file = self.file.read().clone().ok_or(EngineError::SnapshotTooOld)?;
                let at = slot * CHUNK_BYTES as u64 + offset as u64;
                file.read_exact_at(&mut bytes, at).map_err(file_error)?;
                decode(&bytes, 0, value).ok_or(EngineError::SnapshotTooOld)
            }
        }
    }

    /// Drops the chunks that no snapshot at or after `oldest` needs; the overflow chains they held are pushed to `chains`.
    pub(crate) fn trim(&self, oldest: u64, chains: &mut Vec<PageId>) {
        let needs_it = {
            let ring = self.ring.read();
            let front = ring.sealed.front().map_or(ring.filling_replaced_at_max, |chunk| chunk.replaced_at_max);
            ring.bytes() > 0 && front <= oldest
        };
        if !needs_it {
            return;
        }
        let mut ring = self.ring.write();
        while ring.sealed.front().is_some_and(|chunk| chunk.replaced_at_max <= oldest) {
            let Some(chunk) = ring.sealed.pop_front() else { break };
            ring.first += 1;
            ring.sealed_bytes -= chunk.length as u64;
            chains.extend(chunk.overflow_heads);
            if let Place::Spilled(slot) = chunk.place {
                ring.free_slots.push(slot);
                ring.spilled_bytes -= chunk.length as u64;
            }
        }
        if ring.sealed.is_empty() && !ring.filling.is_empty() && ring.filling_replaced_at_max <= oldest {
            ring.first += 1;
            ring.filling.clear();
            chains.append(&mut ring.filling_overflow_heads);
        }
    }

    /// Writes one chunk to the spill file when more is in memory than budgeted; `true` when it did. Background only.
    pub(crate) fn spill_step(&self) -> Result<bool> {
        let (number, bytes, slot) = {
            let mut ring = self.ring.write();
            if ring.memory_bytes() <= self.memory_bytes as u64 {
                return Ok(false);
            }
            let in_memory = ring.sealed.iter().enumerate().find_map(|(index, chunk)| match &chunk.place {
                Place::Memory(bytes) => Some((index as u64, bytes.clone())),
                Place::Spilled(_) => None,
            });
            let Some((index, bytes)) = in_memory else { return Ok(false) };
            let slot = ring.free_slots.pop().unwrap_or_else(|| {
                ring.slots += 1;
                ring.slots - 1
            });
            (ring.first + index, bytes, slot)
        };
        let written =
            self.spill_file().and_then(|file| file.write_all_at(&bytes, slot * CHUNK_BYTES as u64).map_err(file_error));
        let mut ring = self.ring.write();
        let first = ring.first;
        match (written, number.checked_sub(first)) {
            (Ok(()), Some(index)) => {
                if let Some(chunk) = ring.sealed.get_mut(index as usize) {
                    chunk.place = Place::Spilled(slot);
                    ring.spilled_bytes += bytes.len() as u64;
                }
                Ok(true)
            }
            // Trimmed meanwhile, or not written: the slot is free again.
            (written, _) => {
                ring.free_slots.push(slot);
                written.map(|()| true)
            }
        }
    }

    fn spill_file(&self) -> Result<Arc<dyn File>> {
        if let Some(file) = self.file.read().clone() {
            return Ok(file);
        }
        let file = self.disk.open(Path::new(SPILL_FILE), OpenMode::Create).map_err(file_error)?;
        *self.file.write() = Some(file.clone());
        Ok(file)
    }

    /// Whether more is held than the quota allows.
    pub(crate) fn is_over_quota(&self) -> bool {
        self.ring.read().bytes() > self.quota_bytes
    }

    /// Share of the memory budget in use; above 1 the background is behind with spilling.
    pub(crate) fn memory_share(&self) -> f64 {
        self.ring.read().memory_bytes() as f64 / self.memory_bytes.max(1) as f64
    }

    /// The overflow chains that the history holds, for the checkpoint to free if this process dies.
    pub(crate) fn overflow_heads(&self) -> Vec<PageId> {
        let ring = self.ring.read();
        let sealed = ring.sealed.iter().flat_map(|chunk| chunk.overflow_heads.iter());
        sealed.chain(&ring.filling_overflow_heads).copied().collect()
    }

    /// What is held where.
    pub(crate) fn statistics(&self) -> HistoryStatistics {
        let ring = self.ring.read();
        HistoryStatistics { memory_bytes: ring.memory_bytes(), spilled_bytes: ring.spilled_bytes }
    }
}

impl Ring {
    fn filling_number(&self) -> u64 {
        self.first + self.sealed.len() as u64
    }

    fn bytes(&self) -> u64 {
        self.sealed_bytes + self.filling.len() as u64
    }

    fn memory_bytes(&self) -> u64 {
        self.bytes() - self.spilled_bytes
    }

    fn seal(&mut self) {
        let bytes = std::mem::take(&mut self.filling);
        self.sealed_bytes += bytes.len() as u64;
        self.sealed.push_back(Chunk {
            length: bytes.len(),
            place: Place::Memory(Arc::new(bytes)),
            replaced_at_max: std::mem::take(&mut self.filling_replaced_at_max),
            overflow_heads: std::mem::take(&mut self.filling_overflow_heads),
        });
    }
}

fn file_error(error: std::io::Error) -> EngineError {
    EngineError::HistoryFile(Arc::new(error))
}

fn decode(bytes: &[u8], offset: usize, value: &mut Vec<u8>) -> Option<EntryState> {
    let header: &[u8; RECORD_HEADER_BYTES] = bytes.get(offset..)?.first_chunk()?;
    let number = |at: usize| header[at..at + 8].iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte));
    let length = (number(0) as u32) as usize;
    let start = offset + RECORD_HEADER_BYTES;
    value.clear();
    value.extend_from_slice(bytes.get(start..start + length)?);
    let (since, position) = (number(8), number(16));
    let version = match header[5] {
        0 => Version::Settled,
        1 => Version::Implied { since },
        _ => Version::Chained { since, position },
    };
    let presence = if header[4] == 1 { Presence::Live } else { Presence::Ghost };
    Some(EntryState { presence, version, overflow: header[6] == 1 })
}
