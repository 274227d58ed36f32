//! Giving space back to the file system, and keeping the reserve filled.
//!
//! Called at the end of `publish`, when what was opened is recovered, and by the engine's background again and again; a
//! write that found no space gives back what it had taken. Each call gives back a little: a checkpoint may free gigabytes, and while
//! the file system takes a part of a file back, nobody reads or writes that file. The engine's background rests between two calls.

use std::io;
use std::sync::atomic::Ordering;

use platform::is_disk_full;

use super::PageStore;
use super::error::Result;
use super::extents::ExtentState;
use super::superblock::PAGE_FILE_NAME;

/// Given back at once: what most file systems take back in less than a millisecond.
pub(crate) const PUNCHED_BYTES: u64 = 2 << 20;

impl PageStore {
    /// Punches some free extents out of the file, but not those that are kept, cuts holes off its end, and allocates
    /// extents for the reserve.
    pub(super) fn reclaim(&self) -> Result<()> {
        self.give_space_back(PUNCHED_BYTES).map(|_| ())
    }

    /// From now on about so much of what is free keeps its space on the disk.
    pub fn keep_free(&self, bytes: u64) {
        let extents = bytes / self.ledger.lock().extents.extent_bytes();
        self.kept_free_extents.store(extents as usize, Ordering::Relaxed);
    }

    /// Gives back about `bytes` of what is free beyond what is kept; whether it gave anything.
    ///
    /// # Errors
    /// `Io`, `Poisoned`.
    pub fn give_space_back(&self, bytes: u64) -> Result<bool> {
        if self.recovering.load(Ordering::Acquire) {
            return Ok(false);
        }
        let most = (bytes / self.ledger.lock().extents.extent_bytes()).max(1);
        let punched = self.punch_free_extents(self.kept_free_extents.load(Ordering::Relaxed), most as usize)?;
        self.cut_file()?;
        self.fill_reserve()?;
        Ok(punched > 0)
    }

    /// Punches free extents out of the file: all into which a write failed, and of the others but the first `kept` the last `most`.
    /// Returns how many.
    pub(super) fn punch_free_extents(&self, kept: usize, most: usize) -> Result<usize> {
        let kept = if self.punching_unsupported.load(Ordering::Relaxed) { usize::MAX } else { kept };
        let taken = self.ledger.lock().extents.take_reclaimable(kept, most);
        let mut result = Ok(());
        for index in &taken {
            let state = match result.is_ok() {
                true => self.punch(*index).unwrap_or_else(|error| {
                    result = Err(error);
                    ExtentState::Backed
                }),
                false => ExtentState::Backed,
            };
            self.ledger.lock().extents.put_back(*index, state);
        }
        result.map(|()| taken.len())
    }

    /// Gives the space of an extent back; returns what it is then.
    fn punch(&self, index: usize) -> Result<ExtentState> {
        let (offset, extent_bytes) = self.extent_place(index);
        match self.file.punch_hole(offset, extent_bytes) {
            Ok(()) => Ok(ExtentState::Hole),
            Err(cause) if cause.kind() == io::ErrorKind::Unsupported => {
                self.punching_unsupported.store(true, Ordering::Relaxed);
                Ok(ExtentState::Backed)
            }
            Err(cause) => Err(self.poison_with("punching a hole", PAGE_FILE_NAME, cause)),
        }
    }

    fn cut_file(&self) -> Result<()> {
        let _file_end = self.file_end.lock();
        let Some(length) = self.ledger.lock().extents.drop_trailing_holes() else { return Ok(()) };
        self.file.set_length(length).map_err(|cause| self.poison_with("cutting", PAGE_FILE_NAME, cause))
    }

    pub(super) fn fill_reserve(&self) -> Result<()> {
        loop {
            let index = {
                let _file_end = self.file_end.lock();
                self.ledger.lock().extents.take_for_reserve(self.options.reserve_extents)
            };
            let Some(index) = index else { return Ok(()) };
            let (offset, extent_bytes) = self.extent_place(index);
            let allocated = self.file.allocate(offset, extent_bytes);
            let state = if allocated.is_ok() { ExtentState::Reserved } else { ExtentState::Spoiled };
            self.ledger.lock().extents.put_back(index, state);
            match allocated {
                Ok(()) => {}
                Err(cause) if is_disk_full(&cause) => return Ok(()),
                Err(cause) => return Err(self.poison_with("allocating", PAGE_FILE_NAME, cause)),
            }
        }
    }

    /// Gives an extent that takes space, from the reserve if there is no other, back to the file system, so that
    /// another file can grow. `false` when there is none.
    pub(super) fn release_reserved_extent(&self) -> Result<bool> {
        let Some(index) = self.ledger.lock().extents.take_backed_or_reserved() else { return Ok(false) };
        let punched = self.punch(index);
        let state = punched.as_ref().copied().unwrap_or(ExtentState::Backed);
        self.ledger.lock().extents.put_back(index, state);
        punched.map(|state| state == ExtentState::Hole)
    }

    /// Where an extent begins and how long it is, in bytes.
    fn extent_place(&self, index: usize) -> (u64, u64) {
        let ledger = self.ledger.lock();
        (ledger.extents.offset_bytes(index), ledger.extents.extent_bytes())
    }
}
