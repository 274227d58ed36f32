//! The bytes of one file in memory: sparse blocks, so that holes and reservations can be counted against a capacity.
//!
//! Called by the simulated disk, for the durable image and for the one that reads see, and by the disk in memory. Knows nothing of faults or names.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

/// The unit in which space is taken.
pub(crate) const BLOCK_BYTES: u64 = 4096;

type Block = [u8; BLOCK_BYTES as usize];

/// What is taken and not written: one block for all of them, so that it costs no memory.
static UNWRITTEN: LazyLock<Arc<Block>> = LazyLock::new(zero_block);

/// Contents of a file. Blocks are shared between images until one of them changes.
#[derive(Clone, Default)]
pub(crate) struct Image {
    blocks: BTreeMap<u64, Arc<Block>>,
    length: u64,
}

/// The part of a byte range that falls into one block.
struct Piece {
    block: u64,
    from: usize,
    count: usize,
}

impl Image {
    pub(crate) fn length(&self) -> u64 {
        self.length
    }

    pub(crate) fn allocated_bytes(&self) -> u64 {
        self.blocks.len() as u64 * BLOCK_BYTES
    }

    pub(crate) fn read(&self, bytes: &mut [u8], offset: u64) -> usize {
        let count = self.length.saturating_sub(offset).min(bytes.len() as u64);
        let mut done = 0;
        for piece in pieces(offset, count) {
            let target = &mut bytes[done..done + piece.count];
            match self.blocks.get(&piece.block) {
                Some(block) => target.copy_from_slice(&block[piece.from..piece.from + piece.count]),
                None => target.fill(0),
            }
            done += piece.count;
        }
        done
    }

    /// Nothing written changes nothing: the file does not reach to there.
    pub(crate) fn write(&mut self, bytes: &[u8], offset: u64) {
        if bytes.is_empty() {
            return;
        }
        let mut done = 0;
        for piece in pieces(offset, bytes.len() as u64) {
            let block = Arc::make_mut(self.blocks.entry(piece.block).or_insert_with(zero_block));
            block[piece.from..piece.from + piece.count].copy_from_slice(&bytes[done..done + piece.count]);
            done += piece.count;
        }
        self.length = self.length.max(offset + bytes.len() as u64);
    }

    pub(crate) fn set_length(&mut self, length: u64) {
        if length < self.length {
            self.zero(length, self.length - length);
            self.blocks.split_off(&length.div_ceil(BLOCK_BYTES));
        }
        self.length = length;
    }

    /// Frees whole blocks of the range and clears the rest; never changes the length.
    pub(crate) fn punch_hole(&mut self, offset: u64, length: u64) {
        self.zero(offset, length);
        let (first, end) = (offset.div_ceil(BLOCK_BYTES), (offset + length) / BLOCK_BYTES);
        if first < end {
            let mut behind = self.blocks.split_off(&first);
            self.blocks.append(&mut behind.split_off(&end));
        }
    }

    pub(crate) fn allocate(&mut self, offset: u64, length: u64) {
        for piece in pieces(offset, length) {
            self.blocks.entry(piece.block).or_insert_with(|| Arc::clone(&UNWRITTEN));
        }
        self.length = self.length.max(offset + length);
    }

    /// How many bytes of the range can be written when `free_blocks` more blocks may be taken.
    pub(crate) fn bytes_that_fit(&self, offset: u64, length: u64, free_blocks: u64) -> u64 {
        let (mut left, mut fitting) = (free_blocks, 0);
        for piece in pieces(offset, length) {
            if !self.blocks.contains_key(&piece.block) {
                if left == 0 {
                    return fitting;
                }
                left -= 1;
            }
            fitting += piece.count as u64;
        }
        fitting
    }

    pub(crate) fn flip_bit(&mut self, offset: u64, bit: u8) {
        let mut byte = [0];
        if self.read(&mut byte, offset) == 1 {
            self.write(&[byte[0] ^ (1 << (bit & 7))], offset);
        }
    }

    /// How many blocks a write to the range takes.
    pub(crate) fn absent_blocks(&self, offset: u64, length: u64) -> u64 {
        let all = offset / BLOCK_BYTES..(offset + length).div_ceil(BLOCK_BYTES);
        if length == 0 { 0 } else { all.end - all.start - self.blocks.range(all).count() as u64 }
    }

    fn zero(&mut self, offset: u64, length: u64) {
        let end = offset + length;
        // Of what was never written there may be far more than of blocks.
        for (number, block) in self.blocks.range_mut(offset / BLOCK_BYTES..end.div_ceil(BLOCK_BYTES)) {
            let begin = number * BLOCK_BYTES;
            let (from, to) = (offset.max(begin) - begin, end.min(begin + BLOCK_BYTES) - begin);
            Arc::make_mut(block)[from as usize..to as usize].fill(0);
        }
    }
}

fn zero_block() -> Arc<Block> {
    Arc::new([0; BLOCK_BYTES as usize])
}

fn pieces(offset: u64, length: u64) -> impl Iterator<Item = Piece> {
    let end = offset + length;
    let mut at = offset;
    std::iter::from_fn(move || {
        if at >= end {
            return None;
        }
        let from = at % BLOCK_BYTES;
        let count = (BLOCK_BYTES - from).min(end - at);
        let piece = Piece { block: at / BLOCK_BYTES, from: from as usize, count: count as usize };
        at += count;
        Some(piece)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn contents(image: &Image) -> Vec<u8> {
        let mut bytes = vec![1; image.length() as usize];
        assert_eq!(image.read(&mut bytes, 0), bytes.len());
        bytes
    }

    #[test]
    fn agrees_with_a_plain_vector() {
        let mut image = Image::default();
        let mut model: Vec<u8> = Vec::new();
        for (offset, length, value) in [(0, 10, 1), (4090, 20, 2), (20_000, 5_000, 3), (4096, 4096, 4)] {
            image.write(&vec![value; length], offset as u64);
            model.resize(model.len().max(offset + length), 0);
            model[offset..offset + length].fill(value);
            assert_eq!(contents(&image), model);
        }
        image.punch_hole(4_000, 10_000);
        model[4_000..14_000].fill(0);
        assert_eq!(contents(&image), model);
        image.set_length(22_000);
        image.set_length(30_000);
        model.resize(22_000, 0);
        model.resize(30_000, 0);
        assert_eq!(contents(&image), model);
    }

    #[test]
    fn space_is_counted_in_blocks() {
        let mut image = Image::default();
        image.allocate(0, 3 * BLOCK_BYTES);
        assert_eq!(image.allocated_bytes(), 3 * BLOCK_BYTES);
        assert_eq!(image.bytes_that_fit(0, 5 * BLOCK_BYTES, 1), 4 * BLOCK_BYTES);
        image.punch_hole(10, 2 * BLOCK_BYTES);
        assert_eq!(image.allocated_bytes(), 2 * BLOCK_BYTES);
        image.set_length(1);
        assert_eq!(image.allocated_bytes(), BLOCK_BYTES);
    }
}
