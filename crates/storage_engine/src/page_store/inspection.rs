//! Looking at a store's files without opening it: nothing is written.
//!
//! Called by the `inspect` subcommand, on a stopped server's directory or a copy.

use std::sync::Arc;

use platform::{Disk, File, OpenMode};

use super::address::{PageAddress, PageId, UNIT_BYTES};
use super::block::{check_block, read_block};
use super::cleaning::{possible_blocks, read_to_end};
use super::compression::Codec;
use super::durable_map::DurableMap;
use super::error::{PageStoreError, Result};
use super::extents::Extents;
use super::page_table_file::file_path;
use super::page_table_scan::{CheckpointRecord, scan_file};
use super::recovery::{
    RecoveredCheckpoint, current_superblock, io_error, list_table_files, load_extents, load_table, open_page_file,
    read_superblocks,
};
use super::superblock::{PAGE_FILE_NAME, Superblock};

/// A store being looked at, as of its last published checkpoint.
pub struct Inspection {
    disk: Arc<dyn Disk>,
    file: Arc<dyn File>,
    superblock: Superblock,
    durable: DurableMap,
    checkpoint: RecoveredCheckpoint,
    extents: Extents,
}

/// One page-table file.
#[derive(Debug)]
pub struct PageTableFileDescription {
    /// Its number.
    pub number: u32,
    /// Its path relative to the data directory.
    pub path: String,
    /// Its length.
    pub bytes: u64,
    /// Where its valid part ends; the rest is a torn tail.
    pub valid_bytes: u64,
    /// The checkpoints in it; empty when it has no whole base.
    pub checkpoints: Vec<CheckpointRecord>,
}

/// One extent of the page file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExtentDescription {
    /// Its position among the extents.
    pub index: usize,
    /// Where it begins in the file.
    pub offset: u64,
    /// Its length.
    pub bytes: u64,
    /// Bytes of blocks that the checkpoint refers to.
    pub live_bytes: u64,
}

/// One block in an extent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockDescription {
    /// The page that it says it holds.
    pub page: PageId,
    /// Where it is.
    pub address: PageAddress,
    /// The epoch its image was written in.
    pub epoch: u64,
    /// How it is compressed.
    pub codec: Codec,
    /// Bytes of the compressed image.
    pub payload_bytes: usize,
    /// Whether the checkpoint refers to it.
    pub is_live: bool,
    /// What is wrong with it, if anything. Common for blocks that are not live: they are overwritten in part.
    pub damage: Option<String>,
}

impl Inspection {
    /// Reads the store in `disk`.
    ///
    /// # Errors
    /// As `PageStore::open`.
    pub fn open(disk: Arc<dyn Disk>) -> Result<Inspection> {
        let file = open_page_file(&*disk, OpenMode::Read)?;
        let superblock = current_superblock(&*file)?;
        let loaded = load_table(&*disk, &list_table_files(&*disk)?, &superblock, OpenMode::Read)?;
        let extents = load_extents(&*file, &superblock, &loaded.durable)?;
        let checkpoint = RecoveredCheckpoint { number: loaded.number, mark: loaded.mark };
        Ok(Inspection { disk, file, superblock, durable: loaded.durable, checkpoint, extents })
    }

    /// The superblock in force.
    pub fn superblock(&self) -> &Superblock {
        &self.superblock
    }

    /// Both superblock slots, the one that is not whole with its error.
    pub fn superblock_slots(&self) -> Result<Vec<Result<Superblock>>> {
        read_superblocks(&*self.file)
    }

    /// The last published checkpoint; number 0 when there has been none.
    pub fn checkpoint(&self) -> &RecoveredCheckpoint {
        &self.checkpoint
    }

    /// The page-table files with their checkpoints, or what is wrong with them.
    pub fn page_table_files(&self) -> Result<Vec<Result<PageTableFileDescription>>> {
        let numbers = list_table_files(&*self.disk)?;
        Ok(numbers.into_iter().map(|number| self.page_table_file(number)).collect())
    }

    fn page_table_file(&self, number: u32) -> Result<PageTableFileDescription> {
        let path = file_path(number);
        let opened = self.disk.open(&path, OpenMode::Read);
        let file = opened.map_err(|cause| io_error("open", &path.display().to_string(), cause))?;
        let scanned = scan_file(&*file, number, &self.superblock.uuid)?;
        Ok(PageTableFileDescription {
            number,
            path: path.display().to_string(),
            bytes: scanned.file_bytes,
            valid_bytes: scanned.valid_bytes,
            checkpoints: scanned.checkpoints,
        })
    }

    /// The pages of the checkpoint, ascending.
    pub fn pages(&self) -> impl Iterator<Item = (PageId, PageAddress)> + '_ {
        self.durable.pages()
    }

    /// Fills `image` (`PAGE_BYTES` long) with the checkpoint's version of a page, and says where it is.
    ///
    /// # Errors
    /// `Corrupt` when the checkpoint has no such page or its block is not whole; `Io`.
    pub fn read_page(&self, page: PageId, image: &mut [u8]) -> Result<PageAddress> {
        let address = self.durable.get(page);
        let corrupt = |reason: String| PageStoreError::Corrupt { page, address, reason };
        if address.is_none() {
            return Err(corrupt("the checkpoint has no such page".to_owned()));
        }
        let mut stored = vec![0; address.length_bytes()];
        let read = self.file.read_exact_unverified_at(&mut stored, address.offset_bytes());
        read.map_err(|cause| io_error("read", PAGE_FILE_NAME, cause))?;
        read_block(&stored, page, image).map_err(corrupt)?;
        Ok(address)
    }

    /// The extents, in order of offset.
    pub fn extents(&self) -> Vec<ExtentDescription> {
        let describe = |(index, extent): (usize, &super::extents::Extent)| ExtentDescription {
            index,
            offset: self.extents.offset_bytes(index),
            bytes: self.extents.extent_bytes(),
            live_bytes: u64::from(extent.live) * UNIT_BYTES as u64,
        };
        self.extents.all().iter().enumerate().map(describe).collect()
    }

    /// Whatever looks like a block in an extent, in order of offset.
    ///
    /// # Errors
    /// `Argument` when there is no such extent; `Io`.
    pub fn blocks(&self, extent: usize) -> Result<Vec<BlockDescription>> {
        if extent >= self.extents.all().len() {
            return Err(PageStoreError::Argument { reason: format!("there is no extent {extent}") });
        }
        let offset = self.extents.offset_bytes(extent);
        let mut bytes = vec![0; self.extents.extent_bytes() as usize];
        read_to_end(&*self.file, &mut bytes, offset)?;
        let mut blocks = Vec::new();
        for (header, address) in possible_blocks(&bytes, offset) {
            let start = (address.offset_bytes() - offset) as usize;
            blocks.push(BlockDescription {
                page: header.page,
                address,
                epoch: header.epoch,
                codec: header.codec,
                payload_bytes: header.payload_bytes,
                is_live: self.durable.get(header.page).is_at(address),
                damage: check_block(&bytes[start..start + address.length_bytes()]).err(),
            });
        }
        Ok(blocks)
    }
}
