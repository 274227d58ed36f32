//! One ring of before-images: chunks that are filled, sealed, perhaps spilled, and dropped at the tail.
//!
//! Used by `history`, which has two. Chunks beyond the memory budget are written to a spill file, one after the other. The file is scratch: `history`
//! removes it when the engine opens, because no snapshot outlives the process.
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

use super::{EntryState, HistoryStatistics};
use crate::error::{EngineError, Result};
use crate::node::{Presence, Version};
use crate::page_store::PageId;

/// Bytes of a chunk.
pub(super) const CHUNK_BYTES: usize = 256 * 1024;
const RECORD_HEADER_BYTES: usize = 24;

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
struct Chunks {
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

/// See the module's head.
pub(super) struct ChunkRing {
    chunks: RwLock<Chunks>,
    disk: Arc<dyn Disk>,
    spill_file: &'static str,
    file: RwLock<Option<Arc<dyn File>>>,
}

impl ChunkRing {
    /// An empty ring that spills into the file of this name, which it creates.
    pub(super) fn new(disk: Arc<dyn Disk>, spill_file: &'static str) -> Self {
        Self { chunks: RwLock::default(), disk, spill_file, file: RwLock::new(None) }
    }

    /// See [`History::append`](super::History::append).
    pub(super) fn append(&self, state: EntryState, value: &[u8], chain: Option<PageId>, replaced_at: u64) -> u64 {
        let mut chunks = self.chunks.write();
        if chunks.filling.len() + RECORD_HEADER_BYTES + value.len() > CHUNK_BYTES {
            chunks.seal();
        }
        if chunks.filling.capacity() == 0 {
            chunks.filling.reserve_exact(CHUNK_BYTES);
        }
        let position = chunks.filling_number() * CHUNK_BYTES as u64 + chunks.filling.len() as u64;
        let (kind, chained) = match state.version {
            Version::Settled => (0, 0),
            Version::Implied { .. } => (1, 0),
            Version::Chained { position, .. } => (2, position),
        };
        let filling = &mut chunks.filling;
        filling.extend_from_slice(&(value.len() as u32).to_le_bytes());
        filling.extend_from_slice(&[u8::from(state.presence == Presence::Live), kind, u8::from(state.overflow), 0]);
        filling.extend_from_slice(&state.version.since().to_le_bytes());
        filling.extend_from_slice(&chained.to_le_bytes());
        filling.extend_from_slice(value);
        chunks.filling_replaced_at_max = chunks.filling_replaced_at_max.max(replaced_at);
        chunks.filling_overflow_heads.extend(chain);
        position
    }

    /// See [`History::read`](super::History::read).
    pub(super) fn read(&self, position: u64, value: &mut Vec<u8>) -> Result<EntryState> {
        let number = position / CHUNK_BYTES as u64;
        let offset = (position % CHUNK_BYTES as u64) as usize;
        let chunks = self.chunks.read();
        if number == chunks.filling_number() {
            return decode(&chunks.filling, offset, value).ok_or(EngineError::SnapshotTooOld);
        }
        let index = number.checked_sub(chunks.first).ok_or(EngineError::SnapshotTooOld)?;
        let chunk = chunks.sealed.get(index as usize).ok_or(EngineError::SnapshotTooOld)?;
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
    pub(super) fn trim(&self, oldest: u64, chains: &mut Vec<PageId>) {
        let needs_it = {
            let chunks = self.chunks.read();
            let front = chunks.sealed.front().map_or(chunks.filling_replaced_at_max, |chunk| chunk.replaced_at_max);
            chunks.bytes() > 0 && front <= oldest
        };
        if !needs_it {
            return;
        }
        let mut chunks = self.chunks.write();
        while chunks.sealed.front().is_some_and(|chunk| chunk.replaced_at_max <= oldest) {
            let Some(chunk) = chunks.sealed.pop_front() else { break };
            chunks.first += 1;
            chunks.sealed_bytes -= chunk.length as u64;
            chains.extend(chunk.overflow_heads);
            if let Place::Spilled(slot) = chunk.place {
                chunks.free_slots.push(slot);
                chunks.spilled_bytes -= chunk.length as u64;
            }
        }
        if chunks.sealed.is_empty() && !chunks.filling.is_empty() && chunks.filling_replaced_at_max <= oldest {
            chunks.first += 1;
            chunks.filling.clear();
            chains.append(&mut chunks.filling_overflow_heads);
        }
    }

    /// Writes the oldest chunk that is in memory and full to the spill file; `false` when there is none. Background only.
    pub(super) fn spill_step(&self) -> Result<bool> {
        let (number, bytes, slot) = {
            let mut chunks = self.chunks.write();
            let in_memory = chunks.sealed.iter().enumerate().find_map(|(index, chunk)| match &chunk.place {
                Place::Memory(bytes) => Some((index as u64, bytes.clone())),
                Place::Spilled(_) => None,
            });
            let Some((index, bytes)) = in_memory else { return Ok(false) };
            let slot = chunks.free_slots.pop().unwrap_or_else(|| {
                chunks.slots += 1;
                chunks.slots - 1
            });
            (chunks.first + index, bytes, slot)
        };
        let written =
            self.spill_file().and_then(|file| file.write_all_at(&bytes, slot * CHUNK_BYTES as u64).map_err(file_error));
        let mut chunks = self.chunks.write();
        let first = chunks.first;
        match (written, number.checked_sub(first)) {
            (Ok(()), Some(index)) => {
                if let Some(chunk) = chunks.sealed.get_mut(index as usize) {
                    chunk.place = Place::Spilled(slot);
                    chunks.spilled_bytes += bytes.len() as u64;
                }
                Ok(true)
            }
            // Trimmed meanwhile, or not written: the slot is free again.
            (written, _) => {
                chunks.free_slots.push(slot);
                written.map(|()| true)
            }
        }
    }

    fn spill_file(&self) -> Result<Arc<dyn File>> {
        if let Some(file) = self.file.read().clone() {
            return Ok(file);
        }
        let file = self.disk.open(Path::new(self.spill_file), OpenMode::Create).map_err(file_error)?;
        *self.file.write() = Some(file.clone());
        Ok(file)
    }

    /// Bytes held, in memory and in the file.
    pub(super) fn bytes(&self) -> u64 {
        self.chunks.read().bytes()
    }

    /// Bytes held in memory.
    pub(super) fn memory_bytes(&self) -> u64 {
        self.chunks.read().memory_bytes()
    }

    /// What is held where.
    pub(super) fn statistics(&self) -> HistoryStatistics {
        let chunks = self.chunks.read();
        HistoryStatistics { memory_bytes: chunks.memory_bytes(), spilled_bytes: chunks.spilled_bytes }
    }

    /// The overflow chains that its records hold.
    pub(super) fn overflow_heads(&self, heads: &mut Vec<PageId>) {
        let chunks = self.chunks.read();
        let sealed = chunks.sealed.iter().flat_map(|chunk| chunk.overflow_heads.iter());
        heads.extend(sealed.chain(&chunks.filling_overflow_heads));
    }
}

impl Chunks {
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

pub(super) fn file_error(error: std::io::Error) -> EngineError {
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
