//! What of a ring is not in its file yet: contiguous pieces, oldest first.
//!
//! Filled by inserts, emptied by the background (`writing`), read by whoever reads near the tail. Lives behind the ring's lock.

use std::collections::VecDeque;
use std::sync::Arc;

/// A piece is not extended beyond this.
const CHUNK_BYTES: usize = 256 << 10;

/// A piece of the ring.
#[derive(Debug, Clone)]
pub(super) struct Chunk {
    /// Position of the first byte.
    pub(super) start: u64,
    /// Where it goes in the region.
    pub(super) offset: u64,
    pub(super) bytes: Arc<Vec<u8>>,
}

impl Chunk {
    pub(super) fn end(&self) -> u64 {
        self.start + self.bytes.len() as u64
    }
}

/// The pieces.
#[derive(Debug, Default)]
pub(super) struct Buffer {
    chunks: VecDeque<Chunk>,
}

impl Buffer {
    /// Appends what `write` writes at a position. Returns how many bytes that were.
    pub(super) fn append(&mut self, start: u64, offset: u64, write: impl FnOnce(&mut Vec<u8>)) -> u64 {
        if let Some(chunk) = self.chunks.back_mut()
            && chunk.end() == start
            && chunk.offset + chunk.bytes.len() as u64 == offset
            && chunk.bytes.len() < CHUNK_BYTES
            && let Some(bytes) = Arc::get_mut(&mut chunk.bytes)
        {
            let before = bytes.len();
            write(bytes);
            return (bytes.len() - before) as u64;
        }
        let mut bytes = Vec::new();
        write(&mut bytes);
        let count = bytes.len() as u64;
        self.chunks.push_back(Chunk { start, offset, bytes: Arc::new(bytes) });
        count
    }

    /// The oldest piece.
    pub(super) fn front(&self) -> Option<&Chunk> {
        self.chunks.front()
    }

    /// The oldest piece is in the file. Returns its length.
    pub(super) fn pop_front(&mut self) -> u64 {
        self.chunks.pop_front().map_or(0, |chunk| chunk.bytes.len() as u64)
    }

    /// The piece that holds a position.
    pub(super) fn find(&self, position: u64) -> Option<&Chunk> {
        let after = self.chunks.partition_point(|chunk| chunk.start <= position);
        self.chunks.get(after.checked_sub(1)?).filter(|chunk| position < chunk.end())
    }

    /// Where the first piece begins.
    pub(super) fn first(&self) -> Option<u64> {
        self.front().map(|chunk| chunk.start)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.chunks.is_empty()
    }
}
