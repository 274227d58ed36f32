//! Opening and closing a store: creation, finding the last published checkpoint, and the superblocks.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use platform::{Clock, Disk, File, OpenMode, is_disk_full};

use super::cleaning::Cleaner;
use super::durable_map::DurableMap;
use super::error::{PageStoreError, Result};
use super::extents::Extents;
use super::ledger::Ledger;
use super::page_ids::PageIds;
use super::page_table_file::{PAGE_TABLE_DIRECTORY, PageTableFile, file_numbers, file_path};
use super::page_table_scan::{ScannedFile, read_entries, scan_file};
use super::statistics::Counters;
use super::superblock::{PAGE_FILE_NAME, SUPERBLOCK_BYTES, SUPERBLOCK_COUNT, Superblock, check_extent_bytes};
use super::{PageStore, PageStoreOptions};

/// Name of the page file while it is being created.
pub(super) const NEW_PAGE_FILE_NAME: &str = "pages.plimsoll.new";

/// The last published checkpoint, as it was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecoveredCheckpoint {
    /// Its number.
    pub number: u64,
    /// What the engine gave to `publish` with it.
    pub mark: Vec<u8>,
}

impl PageStore {
    /// Opens the store in `disk`, or creates one if there is none.
    ///
    /// # Errors
    /// `CorruptFile`, `Corrupt` when what is there cannot be trusted; `Format` when it is of another version; `Io`.
    pub fn open(disk: Arc<dyn Disk>, clock: &dyn Clock, options: PageStoreOptions) -> Result<PageStore> {
        let exists =
            disk.exists(Path::new(PAGE_FILE_NAME)).map_err(|cause| io_error("look-up", PAGE_FILE_NAME, cause))?;
        if !exists {
            create(&*disk, clock, &options)?;
        }
        let file = open_page_file(&*disk, OpenMode::ReadWrite)?;
        file.read_nothing_ahead();
        let found = current_superblock(&*file)?;
        // If an earlier sync had failed, this one may be in the system's memory only, and the other slot's is all there is.
        write_superblock(&*file, &found)?;
        let numbers = list_table_files(&*disk)?;
        let loaded = load_table(&*disk, &numbers, &found, OpenMode::ReadWrite)?;
        let (last_number, extents) = (loaded.number, load_extents(&*file, &found, &loaded.durable)?);
        let table = settle_table_files(&*disk, &numbers, &found, &loaded)?;
        let superblock = Superblock {
            sequence: found.sequence + 1,
            open_count: found.open_count + 1,
            clean_shutdown: false,
            checkpoint_floor: last_number,
            ..found.clone()
        };
        write_superblock(&*file, &superblock)?;
        let recovered = (last_number > 0).then_some(RecoveredCheckpoint { number: last_number, mark: loaded.mark });
        let store = PageStore {
            disk,
            file,
            superblock: Mutex::new(superblock),
            published: Mutex::new(recovered.clone()),
            recovered,
            clean_shutdown: found.clean_shutdown,
            table: Mutex::new(table),
            cleaner: Mutex::new(Cleaner::default()),
            file_end: Mutex::new(()),
            page_ids: Mutex::new(PageIds::of_checkpoint(&loaded.durable, options.page_ids_max)),
            ledger: Mutex::new(Ledger::new(loaded.durable, extents, last_number + 1)),
            epoch: AtomicU64::new(last_number + 1),
            poison: OnceLock::new(),
            punching_unsupported: AtomicBool::new(false),
            kept_free_extents: AtomicUsize::new(options.kept_free_extents),
            recovering: AtomicBool::new(false),
            counters: Counters::default(),
            options,
        };
        store.fill_reserve()?;
        Ok(store)
    }

    /// Notes in the superblock that the store was closed in order. Nothing is written afterwards; reads still work.
    /// What was not published is lost.
    ///
    /// # Errors
    /// `Poisoned`, when an earlier failure leaves nothing to be closed in order; `Io`.
    pub fn close(&self) -> Result<()> {
        let _table = self.table.lock();
        self.check_poison()?;
        let mut superblock = self.superblock.lock();
        superblock.sequence += 1;
        superblock.clean_shutdown = true;
        let written = write_superblock(&*self.file, &superblock);
        let cause = if written.is_ok() { "the store is closed" } else { "closing failed" };
        let _ = self.poison.set(cause.to_owned());
        written
    }
}

/// Creates an empty store: the page-table file first and the page file's name last, so that a store that has its name
/// is complete.
fn create(disk: &dyn Disk, clock: &dyn Clock, options: &PageStoreOptions) -> Result<()> {
    let refused = |reason| PageStoreError::Argument { reason };
    check_extent_bytes(options.extent_bytes).map_err(refused)?;
    remove_unfinished_creation(disk)?;
    let failed = |cause| io_error("creation", PAGE_FILE_NAME, cause);
    disk.create_directory(Path::new(PAGE_TABLE_DIRECTORY)).map_err(failed)?;
    PageTableFile::create(disk, &options.uuid, 1, 0, &[], std::iter::empty()).map_err(failed)?;
    let file = disk.open(Path::new(NEW_PAGE_FILE_NAME), OpenMode::Create).map_err(failed)?;
    let first = Superblock {
        sequence: 0,
        uuid: options.uuid,
        created_millis: clock.wall_millis(),
        extent_bytes: options.extent_bytes,
        open_count: 0,
        clean_shutdown: true,
        checkpoint_floor: 0,
    };
    file.set_length(SUPERBLOCK_COUNT * SUPERBLOCK_BYTES as u64).map_err(failed)?;
    write_superblock(&*file, &first)?;
    // The page file must not have its name while the directory of the page table may still be lost.
    disk.sync_directory(Path::new("")).map_err(failed)?;
    disk.rename(Path::new(NEW_PAGE_FILE_NAME), Path::new(PAGE_FILE_NAME)).map_err(failed)?;
    disk.sync_directory(Path::new("")).map_err(failed)
}

/// Removes page-table files left by a creation that did not get to its end; refuses if they hold a checkpoint.
fn remove_unfinished_creation(disk: &dyn Disk) -> Result<()> {
    let numbers = list_table_files(disk)?;
    if let Some(number) = numbers.iter().find(|number| **number != 1) {
        return Err(corrupt_file(&file_path(*number), "there is a page table, but no page file"));
    }
    if numbers.is_empty() {
        return Ok(());
    }
    let path = file_path(1);
    let failed = |cause| io_error("removal of an unfinished creation", &path.display().to_string(), cause);
    let file = disk.open(&path, OpenMode::Read).map_err(failed)?;
    if !is_zero_from(&*file, super::page_table_file::EMPTY_FILE_BYTES).map_err(failed)? {
        return Err(corrupt_file(&path, "there is a page table, but no page file"));
    }
    disk.remove(&path).map_err(failed)
}

/// Whether nothing but zeros is in a file from there on. A failed write may leave an encrypted file longer than it was to
/// become: by the rest of a sector.
fn is_zero_from(file: &dyn File, from: u64) -> std::io::Result<bool> {
    let (mut bytes, mut offset) = ([0; 4096], from);
    loop {
        match file.read_unverified_at(&mut bytes, offset)? {
            0 => return Ok(true),
            count if bytes[..count].iter().any(|byte| *byte != 0) => return Ok(false),
            count => offset += count as u64,
        }
    }
}

/// Opens the page file of a store that exists.
pub(super) fn open_page_file(disk: &dyn Disk, mode: OpenMode) -> Result<Arc<dyn File>> {
    disk.open(Path::new(PAGE_FILE_NAME), mode).map_err(|cause| io_error("open", PAGE_FILE_NAME, cause))
}

/// The numbers of the page-table files, ascending.
pub(super) fn list_table_files(disk: &dyn Disk) -> Result<Vec<u32>> {
    file_numbers(disk).map_err(|cause| io_error("listing", PAGE_TABLE_DIRECTORY, cause))
}

/// Both superblock slots.
pub(super) fn read_superblocks(file: &dyn File) -> Result<Vec<Result<Superblock>>> {
    let mut slots = Vec::new();
    for slot in 0..SUPERBLOCK_COUNT {
        let offset = slot * SUPERBLOCK_BYTES as u64;
        let mut bytes = vec![0; SUPERBLOCK_BYTES];
        match file.read_exact_unverified_at(&mut bytes, offset) {
            Err(cause) if cause.kind() != std::io::ErrorKind::UnexpectedEof => {
                return Err(io_error("read", PAGE_FILE_NAME, cause));
            }
            _ => slots.push(Superblock::decode(&bytes, offset)),
        }
    }
    Ok(slots)
}

/// The valid superblock with the highest sequence.
pub(super) fn current_superblock(file: &dyn File) -> Result<Superblock> {
    let (valid, mut errors): (Vec<_>, Vec<_>) = read_superblocks(file)?.into_iter().partition(Result::is_ok);
    // A slot of another version is in force, even beside an older one that we can read.
    if let Some(format) = errors.iter().position(|slot| matches!(slot, Err(PageStoreError::Format { .. }))) {
        return errors.swap_remove(format);
    }
    match valid.into_iter().flatten().max_by_key(|superblock| superblock.sequence) {
        Some(superblock) => Ok(superblock),
        None => Err(corrupt_file(Path::new(PAGE_FILE_NAME), "no superblock is whole")),
    }
}

pub(super) fn write_superblock(file: &dyn File, superblock: &Superblock) -> Result<()> {
    let written = file.write_all_at(&superblock.encode(), superblock.slot_offset()).and_then(|()| file.sync_data());
    written.map_err(|cause| io_error("writing the superblock", PAGE_FILE_NAME, cause))
}

/// A page-table file and the state it describes.
pub(super) struct LoadedTable {
    pub(super) file: Arc<dyn File>,
    pub(super) scanned: ScannedFile,
    pub(super) durable: DurableMap,
    /// The last published checkpoint; 0 when there has been none.
    pub(super) number: u64,
    pub(super) mark: Vec<u8>,
}

/// Loads the newest page-table file with a whole base.
pub(super) fn load_table(
    disk: &dyn Disk,
    numbers: &[u32],
    superblock: &Superblock,
    mode: OpenMode,
) -> Result<LoadedTable> {
    for number in numbers.iter().rev() {
        let path = file_path(*number);
        let opened = disk.open(&path, mode);
        let file = opened.map_err(|cause| io_error("open", &path.display().to_string(), cause))?;
        let scanned = scan_file(&*file, *number, &superblock.uuid)?;
        let Some(last) = scanned.checkpoints.last() else { continue };
        if last.number < superblock.checkpoint_floor {
            let reason =
                format!("it ends with checkpoint {}, but {} was published", last.number, superblock.checkpoint_floor);
            return Err(corrupt_file(&path, &reason));
        }
        let (number, mark) = (last.number, last.mark.clone());
        let mut durable = DurableMap::default();
        read_entries(&*file, &scanned, |page, address| {
            durable.set(page, address);
        })?;
        return Ok(LoadedTable { file, scanned, durable, number, mark });
    }
    Err(corrupt_file(Path::new(PAGE_TABLE_DIRECTORY), "no page-table file has a whole base"))
}

/// Counts the blocks of a checkpoint into extents; refuses addresses that cannot be.
pub(super) fn load_extents(file: &dyn File, superblock: &Superblock, durable: &DurableMap) -> Result<Extents> {
    let file_bytes = file.length().map_err(|cause| io_error("length", PAGE_FILE_NAME, cause))?;
    let mut extents = Extents::new(superblock.extent_bytes, file_bytes);
    for (page, address) in durable.pages() {
        let inside = address.offset_bytes() + address.length_bytes() as u64 <= file_bytes;
        if !inside || !extents.load(address) {
            let reason = "the page table places it where no block can be".to_owned();
            return Err(PageStoreError::Corrupt { page, address, reason });
        }
    }
    Ok(extents)
}

/// The page-table file to go on with. After a clean shutdown that is the one that was loaded. Otherwise it is a new one:
/// if a sync had failed, what was read may be in the system's memory only, and no later sync of that file would tell.
fn settle_table_files(
    disk: &dyn Disk,
    numbers: &[u32],
    superblock: &Superblock,
    loaded: &LoadedTable,
) -> Result<PageTableFile> {
    let current = loaded.scanned.number;
    remove_table_files(disk, numbers.iter().filter(|number| **number > current))?;
    let table = match superblock.clean_shutdown {
        true => continue_table_file(loaded)?,
        false => match rewrite_table_file(disk, superblock, loaded) {
            // With no space for a copy, going on with the file itself is the second best.
            Err(PageStoreError::DiskFull { .. }) => continue_table_file(loaded)?,
            rewritten => rewritten?,
        },
    };
    remove_table_files(disk, numbers.iter().filter(|number| **number <= current && **number != table.number))?;
    Ok(table)
}

fn continue_table_file(loaded: &LoadedTable) -> Result<PageTableFile> {
    let scanned = &loaded.scanned;
    if scanned.file_bytes != scanned.valid_bytes {
        let cut = loaded.file.set_length(scanned.valid_bytes).and_then(|()| loaded.file.sync_data());
        let path = file_path(scanned.number).display().to_string();
        cut.map_err(|cause| io_error("cutting the torn tail", &path, cause))?;
    }
    Ok(PageTableFile::continue_after(Arc::clone(&loaded.file), scanned))
}

fn rewrite_table_file(disk: &dyn Disk, superblock: &Superblock, loaded: &LoadedTable) -> Result<PageTableFile> {
    let number = loaded.scanned.number + 1;
    let pages = loaded.durable.pages();
    PageTableFile::create(disk, &superblock.uuid, number, loaded.number, &loaded.mark, pages).map_err(|cause| {
        if !is_disk_full(&cause) {
            return io_error("rewriting the page table", &file_path(number).display().to_string(), cause);
        }
        match remove_table_files(disk, [number].iter()) {
            Ok(()) => PageStoreError::DiskFull { operation: "rewriting the page table" },
            Err(error) => error,
        }
    })
}

fn remove_table_files<'a>(disk: &dyn Disk, numbers: impl Iterator<Item = &'a u32>) -> Result<()> {
    for number in numbers {
        let path = file_path(*number);
        match disk.remove(&path) {
            Err(cause) if cause.kind() != std::io::ErrorKind::NotFound => {
                return Err(io_error("remove", &path.display().to_string(), cause));
            }
            _ => {}
        }
    }
    Ok(())
}

/// An error of input or output outside an open store.
pub(super) fn io_error(operation: &'static str, file: &str, cause: std::io::Error) -> PageStoreError {
    let file = file.to_owned();
    match cause.kind() {
        // The disk knows: the headers of an encrypted file, say.
        std::io::ErrorKind::InvalidData => PageStoreError::CorruptFile { file, offset: 0, reason: cause.to_string() },
        _ => PageStoreError::Io { operation, file, cause },
    }
}

fn corrupt_file(path: &Path, reason: &str) -> PageStoreError {
    PageStoreError::CorruptFile { file: path.display().to_string(), offset: 0, reason: reason.to_owned() }
}
