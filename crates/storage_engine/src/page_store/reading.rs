//! Reading a page: one read of exactly its stored length, checked and decompressed.
//!
//! A thread that goes from block to block through the file, as a scan of what was loaded in order does, reads by a handle for which the
//! operating system reads ahead. Everybody else reads by one for which it does not: beside blocks that happen to be cached it would
//! otherwise read several times what is asked for. So do merging and cleaning, which go through the file in order and pass over most of it.

use std::cell::{Cell, RefCell};
use std::io;

use platform::File;

use super::address::{PageAddress, PageId};
use super::block::read_block;
use super::error::{PageStoreError, Result};
use super::superblock::PAGE_FILE_NAME;
use super::{PageStore, statistics::count};

thread_local! {
    /// The stored bytes of the block being read.
    static STORED: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
    /// Where the thread's last read ended.
    static LAST_END: Cell<u64> = const { Cell::new(u64::MAX) };
}

/// A read that begins at most this far behind the thread's last one goes on through the file.
const GOING_ON_BYTES: u64 = 128 << 10;

impl PageStore {
    /// Fills `image` (`PAGE_BYTES` long) with the version of `page` at `address`.
    ///
    /// The address must be the page's current one for as long as the read takes: a superseded block may be overwritten
    /// at any time, and is then found `Corrupt`. The engine ensures that by its `Loading` state, in which it refuses
    /// relocation and does not free the page.
    ///
    /// # Errors
    /// `Corrupt` when the block there is not whole or not of that page; `Io`. Neither poisons the store.
    pub fn read(&self, page: PageId, address: PageAddress, image: &mut [u8]) -> Result<()> {
        let begin = address.offset_bytes();
        let last_end = LAST_END.replace(begin + address.length_bytes() as u64);
        let goes_on = begin.checked_sub(last_end).is_some_and(|gap| gap <= GOING_ON_BYTES);
        self.read_by(if goes_on { &*self.file } else { &*self.scattered }, page, address, image)
    }

    /// As `read`, for a thread that passes over most of the file: nothing is read ahead.
    ///
    /// # Errors
    /// As `read`.
    pub fn read_scattered(&self, page: PageId, address: PageAddress, image: &mut [u8]) -> Result<()> {
        self.read_by(&*self.scattered, page, address, image)
    }

    /// Begins to read a page that `read_scattered` will be asked for.
    pub fn begin_read(&self, address: PageAddress) {
        self.scattered.begin_read(address.offset_bytes(), address.length_bytes() as u64);
    }

    fn read_by(&self, file: &dyn File, page: PageId, address: PageAddress, image: &mut [u8]) -> Result<()> {
        STORED.with_borrow_mut(|stored| {
            stored.resize(address.length_bytes(), 0);
            self.read_stored(file, page, address, stored)?;
            let corrupt = |reason| PageStoreError::Corrupt { page, address, reason };
            read_block(stored, page, image).map_err(corrupt)?;
            Ok(())
        })
    }

    /// Fills `stored` with a block's bytes as they are on disk, unchecked.
    fn read_stored(&self, file: &dyn File, page: PageId, address: PageAddress, stored: &mut [u8]) -> Result<()> {
        let corrupt = |reason: &str| PageStoreError::Corrupt { page, address, reason: reason.to_owned() };
        if address.is_none() {
            return Err(corrupt("it has no address"));
        }
        file.read_exact_at(stored, address.offset_bytes()).map_err(|cause| match cause.kind() {
            io::ErrorKind::UnexpectedEof => corrupt("the file ends before it"),
            _ => PageStoreError::Io { operation: "read", file: PAGE_FILE_NAME.to_owned(), cause },
        })?;
        count(&self.counters.blocks_read, 1);
        count(&self.counters.bytes_read, stored.len() as u64);
        Ok(())
    }
}
