//! Blocks of pages as an object holds them, and the lists that say which blocks there are.
//!
//! Written by `making`, read by `restore` and `known_blocks`. A chunk's content is the blocks' bytes one behind the other, its
//! index a list of them; the table of a backup is such a list of all its blocks.

use storage_engine::page_store::{CopiedBlock, PageAddress, PageId};

use crate::error::{BackupError, Result};

/// A chunk is closed when it has so many bytes.
pub(crate) const CHUNK_BYTES: usize = 4 << 20;
const ROW_BYTES: usize = 32;

/// A list of blocks: page, address, epoch and checksum of each, 8 bytes little-endian.
pub(crate) fn push_row(list: &mut Vec<u8>, block: CopiedBlock) {
    for number in [block.page.0, block.address.0, block.epoch, u64::from(block.checksum)] {
        list.extend_from_slice(&number.to_le_bytes());
    }
}

/// The blocks of a list.
pub(crate) fn rows(name: &str, list: &[u8]) -> Result<Vec<CopiedBlock>> {
    let (rows, rest) = list.as_chunks::<ROW_BYTES>();
    let number =
        |row: &[u8; ROW_BYTES], at: usize| row[at..].first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
    let block = |row| CopiedBlock {
        page: PageId(number(row, 0)),
        address: PageAddress(number(row, 8)),
        epoch: number(row, 16),
        checksum: number(row, 24) as u32,
    };
    match rest.is_empty() {
        true => Ok(rows.iter().map(block).collect()),
        false => Err(BackupError::damaged(name, "it is no list of blocks")),
    }
}
