//! A published checkpoint that stays on disk while it is copied: what an online backup reads.
//!
//! Called by `transaction` when a copy begins, by `backup` for the blocks. The hold is the smallest there is: later
//! checkpoints are published as ever, and of the blocks that they replace only those are kept that the copy has yet to read
//! (rule 8 of `page_store`). One checkpoint is pinned at a time. A crash forgets it.

use std::ops::Range;
use std::sync::Arc;

use super::address::{PageAddress, PageId, UNIT_BYTES};
use super::block::check_block;
use super::checkpoint::CHANGES_AT_ONCE;
use super::durable_map::DurableMap;
use super::error::{PageStoreError, Result};
use super::recovery::io_error;
use super::superblock::{PAGE_FILE_NAME, Superblock, read_u32};
use super::{PageStore, RecoveredCheckpoint};

/// Blocks are read together when they are not longer than this ...
const READ_BYTES: u64 = 1 << 20;
/// ... and little of it is between them.
const GAP_BYTES: u64 = READ_BYTES / 32;

/// A block that was read for a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopiedBlock {
    /// Its page.
    pub page: PageId,
    /// Where it is in the page file.
    pub address: PageAddress,
    /// The epoch in which its image was first written: in one history, no block of this page and epoch at this place is another.
    pub epoch: u64,
    /// Its checksum: two copies of a directory that went on separately are two histories.
    pub checksum: u32,
}

/// See the module's head. Dropping it gives everything back.
pub struct PinnedCheckpoint {
    store: Arc<PageStore>,
    map: DurableMap,
    checkpoint: RecoveredCheckpoint,
    superblock: Superblock,
    file_bytes: u64,
}

impl PageStore {
    /// Pins the last published checkpoint. Waits for one that is being published.
    ///
    /// # Errors
    /// `CheckpointOrder` before the first checkpoint, and while another one is pinned; `Io`.
    pub fn pin(self: &Arc<Self>) -> Result<PinnedCheckpoint> {
        let _table = self.table.lock();
        let checkpoint = self.published.lock().clone();
        let checkpoint = checkpoint.ok_or(PageStoreError::CheckpointOrder { reason: "none was published yet" })?;
        let file_bytes = self.file.length().map_err(|cause| io_error("length", PAGE_FILE_NAME, cause))?;
        let superblock = self.superblock.lock().clone();
        let map = self.ledger.lock().pin();
        let map = map.ok_or(PageStoreError::CheckpointOrder { reason: "another copy of the pages is being made" })?;
        Ok(PinnedCheckpoint { store: Arc::clone(self), map, checkpoint, superblock, file_bytes })
    }
}

impl PinnedCheckpoint {
    /// Its number.
    pub fn number(&self) -> u64 {
        self.checkpoint.number
    }

    /// What the engine keeps with it.
    pub fn mark(&self) -> &[u8] {
        &self.checkpoint.mark
    }

    /// What the store says of itself.
    pub fn superblock(&self) -> &Superblock {
        &self.superblock
    }

    /// How long the page file was: all blocks are before.
    pub fn file_bytes(&self) -> u64 {
        self.file_bytes
    }

    /// Its pages and where they are, by page.
    pub fn pages(&self) -> impl Iterator<Item = (PageId, PageAddress)> + '_ {
        self.map.pages()
    }

    /// The blocks that begin in a range of the file, by place.
    pub fn blocks_in(&self, range: &Range<u64>) -> Vec<(PageId, PageAddress)> {
        let mut blocks: Vec<_> =
            self.map.pages().filter(|(_, address)| range.contains(&address.offset_bytes())).collect();
        blocks.sort_unstable_by_key(|(_, address)| address.place());
        blocks
    }

    /// Reads blocks, which come by place, and checks each: `each` gets them with their bytes.
    ///
    /// # Errors
    /// `Corrupt`, `Io`; what `each` returns.
    pub fn read_blocks<E: From<PageStoreError>>(
        &self,
        blocks: &[(PageId, PageAddress)],
        mut each: impl FnMut(CopiedBlock, &[u8]) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        let mut stored = Vec::new();
        let mut rest = blocks;
        while !rest.is_empty() {
            let (together, behind) = rest.split_at(read_together(rest));
            let begin = together[0].1.offset_bytes();
            let end = together.last().map_or(begin, |(_, last)| end_of(*last));
            stored.resize((end - begin) as usize, 0);
            self.read_range(together[0], &mut stored, begin)?;
            for (page, address) in together.iter().copied() {
                let from = (address.offset_bytes() - begin) as usize;
                let bytes = &stored[from..from + address.length_bytes()];
                each(check_copied_block(page, address, bytes)?, bytes)?;
            }
            rest = behind;
        }
        Ok(())
    }

    fn read_range(&self, first: (PageId, PageAddress), stored: &mut [u8], begin: u64) -> Result<()> {
        let (page, address) = first;
        self.store.file.read_exact_unverified_at(stored, begin).map_err(|cause| match cause.kind() {
            std::io::ErrorKind::UnexpectedEof => {
                PageStoreError::Corrupt { page, address, reason: "the file ends before it".to_owned() }
            }
            _ => PageStoreError::Io { operation: "read", file: PAGE_FILE_NAME.to_owned(), cause },
        })
    }

    /// All before this offset has been read: what is kept of it may go.
    pub fn passed(&self, offset: u64) {
        let units = (offset / UNIT_BYTES as u64).min(PageAddress::OFFSET_UNITS_LIMIT - 1);
        // No block there is shorter than one unit.
        let place = PageAddress::new(units, 1).map_or(0, PageAddress::place);
        while self.store.ledger.lock().advance_pin(place, CHANGES_AT_ONCE) {}
    }
}

impl Drop for PinnedCheckpoint {
    fn drop(&mut self) {
        self.passed(u64::MAX);
        self.store.ledger.lock().unpin();
    }
}

/// How many of the blocks are read at once: at least one.
fn read_together(blocks: &[(PageId, PageAddress)]) -> usize {
    let begin = blocks[0].1.offset_bytes();
    let is_near = |pair: &&[(PageId, PageAddress)]| {
        pair[1].1.offset_bytes() <= end_of(pair[0].1) + GAP_BYTES && end_of(pair[1].1) <= begin + READ_BYTES
    };
    1 + blocks.windows(2).take_while(is_near).count()
}

fn end_of(address: PageAddress) -> u64 {
    address.offset_bytes() + address.length_bytes() as u64
}

/// What a block is, if it is whole and that page's.
///
/// # Errors
/// `Corrupt`.
pub fn check_copied_block(page: PageId, address: PageAddress, bytes: &[u8]) -> Result<CopiedBlock> {
    let corrupt = |reason| PageStoreError::Corrupt { page, address, reason };
    let header = check_block(bytes).map_err(corrupt)?;
    match header.page == page {
        true => Ok(CopiedBlock { page, address, epoch: header.epoch, checksum: read_u32(bytes, 0) }),
        false => Err(corrupt(format!("it holds page {}", header.page))),
    }
}
