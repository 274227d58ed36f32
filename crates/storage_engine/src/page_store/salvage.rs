//! What can be read of a store that may be damaged: for repair, into another directory.
//!
//! Called by `salvage` of the engine. Writes nothing. With a page table that can be read, the pages are those of the last published
//! checkpoint. Otherwise they are found by their blocks: of each page the newest whole one, which may be of a page that was
//! freed since.

use std::collections::BTreeMap;
use std::sync::Arc;

use platform::{Disk, File, OpenMode};

use super::address::{PageAddress, PageId, UNIT_BYTES};
use super::block::{check_block, read_block};
use super::cleaning::possible_blocks;
use super::error::{PageStoreError, Result};
use super::recovery::{current_superblock, list_table_files, load_table, open_page_file};
use super::superblock::{SUPERBLOCK_BYTES, SUPERBLOCK_COUNT};

/// Bytes of the page file looked at together.
const WINDOW_BYTES: usize = 4 << 20;
/// Longer than any block.
const OVERLAP_BYTES: usize = 32 << 10;

/// A store opened for salvage.
pub struct SalvagedStore {
    file: Arc<dyn File>,
    /// Pages and where they are, with the epoch where that was found out; oldest first.
    pub pages: Vec<(PageId, PageAddress)>,
    /// What the engine kept with the checkpoint; `None` when there is no page table.
    pub mark: Option<Vec<u8>>,
    /// What could not be read.
    pub problems: Vec<String>,
}

impl SalvagedStore {
    /// Opens what is there.
    ///
    /// # Errors
    /// When there is no page file.
    pub fn open(disk: &dyn Disk) -> Result<SalvagedStore> {
        let file = open_page_file(disk, OpenMode::Read)?;
        let loaded = current_superblock(&*file).and_then(|superblock| {
            let numbers = list_table_files(disk)?;
            load_table(disk, &numbers, &superblock, OpenMode::Read)
        });
        let mut problems = Vec::new();
        let (pages, mark) = match loaded {
            Ok(loaded) => (loaded.durable.pages().collect(), (loaded.number > 0).then_some(loaded.mark)),
            Err(error) => {
                problems.push(format!(
                    "{error}; pages were searched for in the whole file, and some may be older than the last checkpoint"
                ));
                (find_pages(&*file, &mut problems), None)
            }
        };
        Ok(SalvagedStore { file, pages, mark, problems })
    }

    /// Fills `image` with a page; what is wrong when that is not possible. Returns the epoch the image was first written in.
    ///
    /// # Errors
    /// `Corrupt`.
    pub fn read(&self, page: PageId, address: PageAddress, image: &mut [u8]) -> Result<u64> {
        let corrupt = |reason| PageStoreError::Corrupt { page, address, reason };
        let mut stored = vec![0; address.length_bytes()];
        let read = self.file.read_exact_unverified_at(&mut stored, address.offset_bytes());
        read.map_err(|cause| corrupt(format!("it cannot be read: {cause}")))?;
        read_block(&stored, page, image).map_err(corrupt)
    }
}

/// The newest whole block of every page in the file, those of older epochs first.
fn find_pages(file: &dyn File, problems: &mut Vec<String>) -> Vec<(PageId, PageAddress)> {
    let mut newest: BTreeMap<PageId, (u64, PageAddress)> = BTreeMap::new();
    let length = file.length().unwrap_or_default();
    let mut window = vec![0; WINDOW_BYTES];
    let mut offset = SUPERBLOCK_COUNT * SUPERBLOCK_BYTES as u64;
    while offset < length {
        let filled = read_window(file, &mut window, offset, problems);
        for (header, address) in possible_blocks(&window[..filled], offset) {
            let start = (address.offset_bytes() - offset) as usize;
            if check_block(&window[start..start + address.length_bytes()]).is_err() {
                continue;
            }
            let known = newest.entry(header.page).or_insert((header.epoch, address));
            if header.epoch >= known.0 {
                *known = (header.epoch, address);
            }
        }
        offset += (WINDOW_BYTES - OVERLAP_BYTES) as u64;
    }
    let mut found: Vec<_> = newest.into_iter().map(|(page, (epoch, address))| (epoch, page, address)).collect();
    found.sort_unstable_by_key(|(epoch, page, _)| (*epoch, *page));
    found.into_iter().map(|(_, page, address)| (page, address)).collect()
}

/// Reads as much of the window as there is, in whole units; what cannot be read is zeros.
fn read_window(file: &dyn File, window: &mut [u8], offset: u64, problems: &mut Vec<String>) -> usize {
    window.fill(0);
    let mut filled = 0;
    while filled < window.len() {
        match file.read_unverified_at(&mut window[filled..], offset + filled as u64) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(cause) => {
                let at = offset + filled as u64;
                problems.push(format!("4096 bytes of the page file at {at} cannot be read: {cause}"));
                filled = (filled + 4096).min(window.len());
            }
        }
    }
    filled / UNIT_BYTES * UNIT_BYTES
}
