//! Page images compressed and checksummed, waiting to be written together.
//!
//! Filled by the engine's background threads under a page's latch, so that the image is done with when `push` returns;
//! emptied by `PageStore::write`.

use super::address::{PAGE_BYTES, PageAddress, PageId, UNIT_BYTES};
use super::block::BlockEncoder;
use super::slot_differences::SlotArray;

/// One page version in a batch.
#[derive(Clone, Copy, Debug)]
pub(super) struct BatchEntry {
    pub(super) page: PageId,
    pub(super) epoch: u64,
    pub(super) length_units: u64,
    pub(super) room_units: u64,
}

/// A page version that has been written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written {
    /// The page.
    pub page: PageId,
    /// Where it is now; `NONE` when the image was not kept: the page had been freed in that epoch, or nobody wanted it any more.
    pub address: PageAddress,
    /// The epoch it was pushed with.
    pub epoch: u64,
}

/// What is to be known of an image beside its bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ImageNotes {
    /// Its address will say that it has so much room, or a little less.
    pub room_bytes: usize,
    /// Where it has slots.
    pub slots: SlotArray,
}

/// Blocks to be written together. About 1 MiB a batch is enough for the disk.
pub struct WriteBatch {
    encoder: BlockEncoder,
    pub(super) blocks: Vec<u8>,
    pub(super) entries: Vec<BatchEntry>,
}

impl WriteBatch {
    pub(super) fn new(encoder: BlockEncoder) -> WriteBatch {
        WriteBatch { encoder, blocks: Vec::new(), entries: Vec::new() }
    }

    /// Adds a page's image as it is to be in checkpoint `epoch`: the open one or the frozen one.
    ///
    /// # Panics
    /// In debug builds, when the image is not `PAGE_BYTES` long.
    pub fn push(&mut self, page: PageId, image: &[u8], epoch: u64, notes: ImageNotes) {
        debug_assert_eq!(image.len(), PAGE_BYTES);
        let length_units = self.encoder.append(&mut self.blocks, page, epoch, image, notes.slots);
        let room_units = PageAddress::room_units_of(notes.room_bytes);
        self.entries.push(BatchEntry { page, epoch, length_units, room_units });
    }

    /// Pages in the batch.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether it has no pages.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Bytes that writing it will write.
    pub fn bytes(&self) -> usize {
        self.blocks.len()
    }

    /// Forgets the pages behind the first `count`.
    pub fn truncate(&mut self, count: usize) {
        self.entries.truncate(count);
        let units: u64 = self.entries.iter().map(|entry| entry.length_units).sum();
        self.blocks.truncate(units as usize * UNIT_BYTES);
    }

    /// Forgets all pages and keeps the buffers.
    pub fn clear(&mut self) {
        self.blocks.clear();
        self.entries.clear();
    }
}
