//! Memory for buffered changes: blocks of 64 bytes in frames that the cache lends.
//!
//! Called by `change_buffers`, one of these a shard, under the shard's lock. So the memory of all buffers is part of the
//! cache's frames and never more than was lent; a frame goes back when its last block is free.

use crate::frame_arena::{FrameId, LentFrame, PAGE_BYTES};

/// Bytes of a block.
pub(super) const BLOCK_BYTES: usize = 64;
/// Bytes of a block that hold changes; the rest names the block before.
pub(super) const BLOCK_PAYLOAD_BYTES: usize = BLOCK_BYTES - 4;
const FRAME_BLOCKS: usize = PAGE_BYTES / BLOCK_BYTES;
const BITMAP_WORDS: usize = FRAME_BLOCKS / 128;

/// A block, by its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct BlockId(u32);

struct BlockFrame {
    frame: LentFrame,
    /// A bit for each free block.
    free: [u128; BITMAP_WORDS],
    free_count: u16,
}

/// The blocks of a shard.
#[derive(Default)]
pub(super) struct ChangeBlocks {
    frames: Vec<Option<BlockFrame>>,
    /// Places in `frames` that may have free blocks.
    with_free: Vec<u32>,
    vacant: Vec<u32>,
}

impl ChangeBlocks {
    /// Frames that the blocks are in.
    pub(super) fn frames(&self) -> usize {
        self.frames.len() - self.vacant.len()
    }

    /// Takes a block, asking for a frame when none is free. `None`: there is no frame.
    pub(super) fn allocate(&mut self, lend: impl FnOnce() -> Option<LentFrame>) -> Option<BlockId> {
        while let Some(place) = self.with_free.last().copied() {
            if let Some(Some(frame)) = self.frames.get_mut(place as usize)
                && let Some(index) = frame.take_block()
            {
                return Some(BlockId::new(place, index));
            }
            self.with_free.pop();
        }
        let frame = lend()?;
        let mut frame = BlockFrame { frame, free: [u128::MAX; BITMAP_WORDS], free_count: FRAME_BLOCKS as u16 };
        let place = self.vacant.pop().unwrap_or(self.frames.len() as u32);
        let block = BlockId::new(place, frame.take_block()?);
        if place as usize == self.frames.len() {
            self.frames.push(Some(frame));
        } else {
            self.frames[place as usize] = Some(frame);
        }
        self.with_free.push(place);
        Some(block)
    }

    /// Gives a block back; a frame that it was the last of is no longer needed.
    pub(super) fn free(&mut self, block: BlockId) -> Option<FrameId> {
        let place = block.0 as usize / FRAME_BLOCKS;
        let entry = self.frames.get_mut(place)?;
        let frame = entry.as_mut()?;
        if frame.free_count == 0 {
            self.with_free.push(place as u32);
        }
        let index = block.0 as usize % FRAME_BLOCKS;
        frame.free[index / 128] |= 1 << (index % 128);
        frame.free_count += 1;
        if usize::from(frame.free_count) < FRAME_BLOCKS {
            return None;
        }
        let freed = entry.take()?.frame.id();
        self.vacant.push(place as u32);
        Some(freed)
    }

    fn range(block: BlockId) -> std::ops::Range<usize> {
        let start = block.0 as usize % FRAME_BLOCKS * BLOCK_BYTES;
        start..start + BLOCK_BYTES
    }

    /// A block's payload.
    pub(super) fn payload(&self, block: BlockId) -> &[u8] {
        let frame = self.frames.get(block.0 as usize / FRAME_BLOCKS).and_then(Option::as_ref);
        frame.map_or(&[], |frame| &frame.frame.bytes()[Self::range(block)][4..])
    }

    /// Writes a part of a block's payload, from a byte of it on.
    pub(super) fn write(&mut self, block: BlockId, at: usize, bytes: &[u8]) {
        debug_assert!(at + bytes.len() <= BLOCK_PAYLOAD_BYTES);
        self.put(block, 4 + at, bytes);
    }

    fn put(&mut self, block: BlockId, at: usize, bytes: &[u8]) {
        let frame = self.frames.get_mut(block.0 as usize / FRAME_BLOCKS).and_then(Option::as_mut);
        if let Some(frame) = frame {
            frame.frame.put(Self::range(block).start + at, bytes);
        }
    }

    /// The block before it in its chain.
    pub(super) fn before(&self, block: BlockId) -> BlockId {
        let frame = self.frames.get(block.0 as usize / FRAME_BLOCKS).and_then(Option::as_ref);
        let number = frame.and_then(|frame| frame.frame.bytes()[Self::range(block)].first_chunk::<4>());
        BlockId(number.map_or(0, |bytes| u32::from_le_bytes(*bytes)))
    }

    /// Says which block is before it.
    pub(super) fn set_before(&mut self, block: BlockId, before: BlockId) {
        self.put(block, 0, &before.0.to_le_bytes());
    }
}

impl BlockId {
    fn new(place: u32, index: usize) -> Self {
        Self(place * FRAME_BLOCKS as u32 + index as u32)
    }
}

impl BlockFrame {
    /// Takes a free block, if there is one.
    fn take_block(&mut self) -> Option<usize> {
        let word = self.free.iter().position(|word| *word != 0)?;
        let bit = self.free[word].trailing_zeros();
        self.free[word] &= self.free[word] - 1;
        self.free_count -= 1;
        Some(word * 128 + bit as usize)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::frame_arena::FrameArena;

    #[test]
    fn frames_are_lent_when_needed_and_given_back_when_empty() {
        let arena = Arc::new(FrameArena::new(3).unwrap());
        let mut blocks = ChangeBlocks::default();
        let mut lent = 0;
        let mut taken = Vec::new();
        for _ in 0..FRAME_BLOCKS + 1 {
            let lend = || {
                lent += 1;
                LentFrame::take(&arena, FrameId(lent - 1))
            };
            taken.push(blocks.allocate(lend).unwrap());
        }
        assert_eq!(lent, 2);
        assert!(arena.version(FrameId(0)).is_none(), "lent");
        for (number, block) in taken.iter().enumerate() {
            blocks.write(*block, 0, &[number as u8; BLOCK_PAYLOAD_BYTES]);
            blocks.set_before(*block, BlockId(number as u32 + 7));
        }
        for (number, block) in taken.iter().enumerate() {
            assert!(blocks.payload(*block).iter().all(|byte| *byte == number as u8));
            assert_eq!(blocks.before(*block), BlockId(number as u32 + 7));
        }
        let freed: Vec<_> = taken.into_iter().filter_map(|block| blocks.free(block)).collect();
        assert_eq!(freed, [FrameId(0), FrameId(1)]);
        assert!(arena.version(FrameId(0)).is_some(), "free again");
    }
}
