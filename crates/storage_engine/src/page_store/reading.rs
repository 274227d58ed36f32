//! Reading a page: one read of exactly its stored length, checked and decompressed.
//!
//! For a thread that goes from block to block through the file, as a scan of what was loaded in order does, the operating system is asked
//! to read what lies ahead, in pieces that nobody else waits for long behind. It does so by itself, too, but in pieces of a size that some administrator
//! set, and beside blocks that happen to be cached it would read several times what is asked for: so it is told not to.
//! Merging and cleaning, which go through the file in order and pass over most of it, ask for no more than they read.

use std::cell::RefCell;
use std::io;
use std::ops::Range;

use super::address::{PageAddress, PageId};
use super::block::read_block;
use super::error::{PageStoreError, Result};
use super::superblock::PAGE_FILE_NAME;
use super::{PageStore, statistics::count};

thread_local! {
    /// The stored bytes of the block being read.
    static STORED: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
    /// Where the thread is in the file.
    static COURSE: RefCell<Course> = const { RefCell::new(Course::NOWHERE) };
}

/// A read that begins at most this far behind the thread's last one goes on through the file.
const GOING_ON_BYTES: u64 = 128 << 10;
/// So much is asked for ahead of a read at most, and again when half of it has been read: twice that, so that a read that
/// goes on is within it.
const AHEAD_BYTES: u64 = 2 * GOING_ON_BYTES;

/// Reads of a thread that go on through the file, in bytes of it.
#[derive(Debug)]
struct Course {
    began: u64,
    last_end: u64,
    /// What was asked for ahead ends here.
    asked_until: u64,
}

impl Course {
    /// No read goes on from here.
    const NOWHERE: Course = Course { began: 0, last_end: u64::MAX, asked_until: 0 };

    /// Notes a read of `begin..end`; what is to be asked for ahead of it: twice as much as was gone on for so far.
    fn read(&mut self, begin: u64, end: u64) -> Option<Range<u64>> {
        if begin.checked_sub(self.last_end).is_none_or(|gap| gap > GOING_ON_BYTES) {
            *self = Course { began: begin, last_end: end, asked_until: end };
            return None;
        }
        self.last_end = end;
        let ahead = (2 * (end - self.began)).min(AHEAD_BYTES);
        let from = self.asked_until.max(begin);
        if from > end + ahead / 2 {
            return None;
        }
        self.asked_until = end + ahead;
        Some(from..self.asked_until)
    }
}

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
        let end = begin + address.length_bytes() as u64;
        if let Some(ahead) = COURSE.with_borrow_mut(|course| course.read(begin, end)) {
            self.file.begin_read(ahead.start, ahead.end - ahead.start);
        }
        self.read_scattered(page, address, image)
    }

    /// As `read`, for a thread that passes over most of the file: nothing is read ahead.
    ///
    /// # Errors
    /// As `read`.
    pub fn read_scattered(&self, page: PageId, address: PageAddress, image: &mut [u8]) -> Result<()> {
        STORED.with_borrow_mut(|stored| {
            stored.resize(address.length_bytes(), 0);
            self.read_stored(page, address, stored)?;
            let corrupt = |reason| PageStoreError::Corrupt { page, address, reason };
            read_block(stored, page, image).map_err(corrupt)?;
            Ok(())
        })
    }

    /// Begins to read a page that `read_scattered` will be asked for.
    pub fn begin_read(&self, address: PageAddress) {
        self.file.begin_read(address.offset_bytes(), address.length_bytes() as u64);
    }

    /// Fills `stored` with a block's bytes as they are on disk, unchecked.
    fn read_stored(&self, page: PageId, address: PageAddress, stored: &mut [u8]) -> Result<()> {
        let corrupt = |reason: &str| PageStoreError::Corrupt { page, address, reason: reason.to_owned() };
        if address.is_none() {
            return Err(corrupt("it has no address"));
        }
        self.file.read_exact_unverified_at(stored, address.offset_bytes()).map_err(|cause| match cause.kind() {
            io::ErrorKind::UnexpectedEof => corrupt("the file ends before it"),
            _ => PageStoreError::Io { operation: "read", file: PAGE_FILE_NAME.to_owned(), cause },
        })?;
        count(&self.counters.blocks_read, 1);
        count(&self.counters.bytes_read, stored.len() as u64);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BLOCK: u64 = 12 << 10;

    /// What is asked for ahead of reads of blocks that begin there.
    fn asked(begins: impl IntoIterator<Item = u64>) -> Vec<Range<u64>> {
        let mut course = Course::NOWHERE;
        begins.into_iter().filter_map(|begin| course.read(begin, begin + BLOCK)).collect()
    }

    #[test]
    fn nothing_is_asked_for_ahead_of_scattered_reads() {
        assert_eq!(asked([0, 10 << 20, 5 << 20, 20 << 20]), []);
        // Nor backwards.
        assert_eq!(asked((0..100).rev().map(|number| number * BLOCK)), []);
    }

    #[test]
    fn who_goes_on_is_ahead_of_by_more_and_more() {
        let asked = asked((0..1000).map(|number| (1 << 30) + number * BLOCK));
        assert_eq!(asked[0], (1 << 30) + BLOCK..(1 << 30) + 6 * BLOCK);
        for (earlier, later) in asked.iter().zip(&asked[1..]) {
            assert_eq!(earlier.end, later.start, "nothing twice, and no gap");
        }
        let last = asked.last().unwrap();
        assert!((AHEAD_BYTES / 2..AHEAD_BYTES / 2 + 2 * BLOCK).contains(&(last.end - last.start)), "{last:?}");
        assert!(asked.len() < 110, "{}", asked.len());
    }

    #[test]
    fn a_gap_is_passed_over_and_a_leap_begins_anew() {
        let gap = GOING_ON_BYTES;
        let second = BLOCK + gap;
        assert_eq!(asked([0, second]), [Range { start: second, end: second + BLOCK + AHEAD_BYTES }]);
        assert_eq!(asked([0, BLOCK + gap + 1]), []);
        assert_eq!(asked([0, BLOCK, 1 << 30, (1 << 30) + BLOCK]).len(), 2);
    }
}
