//! A page file that is put together from copied blocks: what a restore writes.
//!
//! Called by `backup`. Blocks go where they were, with holes between them. The page file gets its name last, so a directory
//! in which that did not happen has no store. The identity is a new one: what is written from here on is another history.

use std::path::Path;
use std::sync::Arc;

use platform::{Disk, File, OpenMode};

use super::address::{PageAddress, PageId};
use super::error::{PageStoreError, Result};
use super::page_table_file::{PAGE_TABLE_DIRECTORY, PageTableFile};
use super::recovery::{NEW_PAGE_FILE_NAME, io_error, write_superblock};
use super::superblock::{PAGE_FILE_NAME, Superblock, check_extent_bytes};

/// A store that is being put together.
pub struct RestoredStore {
    disk: Arc<dyn Disk>,
    file: Arc<dyn File>,
}

impl RestoredStore {
    /// Begins, in a directory without a store.
    ///
    /// # Errors
    /// `Argument` when there is one; `Io`.
    pub fn begin(disk: Arc<dyn Disk>) -> Result<RestoredStore> {
        let failed = |cause| io_error("creation", NEW_PAGE_FILE_NAME, cause);
        if disk.exists(Path::new(PAGE_FILE_NAME)).map_err(failed)? {
            return Err(PageStoreError::Argument { reason: "there is a page file already".to_owned() });
        }
        let file = disk.open(Path::new(NEW_PAGE_FILE_NAME), OpenMode::Create).map_err(failed)?;
        file.keep_written(false);
        Ok(RestoredStore { disk, file })
    }

    /// Writes a run of blocks that lie one behind the other, the first at `offset`.
    ///
    /// # Errors
    /// `Io`, `DiskFull`.
    pub fn write(&self, bytes: &[u8], offset: u64) -> Result<()> {
        self.file.write_all_at(bytes, offset).map_err(failed_write)?;
        self.file.begin_write_back(offset, bytes.len() as u64);
        Ok(())
    }

    /// Makes it the store in which `checkpoint` is the last one published.
    ///
    /// # Errors
    /// `Argument` when the extents are no extents; `Io`, `DiskFull`.
    pub fn finish(
        self,
        store: RestoredIdentity,
        mark: &[u8],
        pages: impl Iterator<Item = (PageId, PageAddress)>,
    ) -> Result<()> {
        check_extent_bytes(store.extent_bytes).map_err(|reason| PageStoreError::Argument { reason })?;
        if self.file.length().map_err(failed_write)? < store.file_bytes {
            self.file.set_length(store.file_bytes).map_err(failed_write)?;
        }
        let superblock = Superblock {
            sequence: 0,
            uuid: store.uuid,
            created_millis: store.created_millis,
            extent_bytes: store.extent_bytes,
            open_count: 0,
            clean_shutdown: true,
            checkpoint_floor: store.checkpoint,
        };
        self.disk.create_directory(Path::new(PAGE_TABLE_DIRECTORY)).map_err(failed_write)?;
        self.remove_earlier_table()?;
        PageTableFile::create(&*self.disk, &store.uuid, 1, store.checkpoint, mark, pages).map_err(failed_write)?;
        write_superblock(&*self.file, &superblock)?;
        self.disk.sync_directory(Path::new("")).map_err(failed_write)?;
        self.disk.rename(Path::new(NEW_PAGE_FILE_NAME), Path::new(PAGE_FILE_NAME)).map_err(failed_write)?;
        self.disk.sync_directory(Path::new("")).map_err(failed_write)
    }

    /// That of a restore which did not get to its end.
    fn remove_earlier_table(&self) -> Result<()> {
        let names = self.disk.list(Path::new(PAGE_TABLE_DIRECTORY)).map_err(failed_write)?;
        names
            .iter()
            .try_for_each(|name| self.disk.remove(&Path::new(PAGE_TABLE_DIRECTORY).join(name)))
            .map_err(failed_write)
    }
}

/// What a restored store is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RestoredIdentity {
    /// A new identity.
    pub uuid: [u8; 16],
    /// When the copied one was created.
    pub created_millis: i64,
    /// Bytes of its extents.
    pub extent_bytes: u32,
    /// The checkpoint that was copied.
    pub checkpoint: u64,
    /// The length of the page file.
    pub file_bytes: u64,
}

fn failed_write(cause: std::io::Error) -> PageStoreError {
    match platform::is_disk_full(&cause) {
        true => PageStoreError::DiskFull { operation: "a restore" },
        false => io_error("writing", NEW_PAGE_FILE_NAME, cause),
    }
}
