//! Checkpoints: freezing an epoch, and making it durable.
//!
//! Driven by the engine's checkpoint thread: `freeze_epoch` under its barrier, then all pages of that epoch are
//! written, then `publish`.

use std::sync::atomic::Ordering;

use super::error::{PageStoreError, Result};
use super::ledger::Delta;
use super::page_table_file::{PageTableFile, file_path};
use super::page_table_record::{CheckpointKind, MARK_BYTES_MAX};
use super::statistics::count;
use super::superblock::PAGE_FILE_NAME;
use super::{PageStore, RecoveredCheckpoint};

/// Changes of the ledger made at a time, so that no lock that clients take is held for long.
pub(super) const CHANGES_AT_ONCE: usize = 512;
/// While a checkpoint is pinned each of them may copy 32 KiB of the map.
const PINNED_CHANGES_AT_ONCE: usize = CHANGES_AT_ONCE / 16;

impl PageStore {
    /// Ends the open epoch and returns its number; from now on changes belong to the next. Constant time.
    ///
    /// # Errors
    /// `CheckpointOrder` while the epoch frozen before is not published.
    pub fn freeze_epoch(&self) -> Result<u64> {
        let mut ledger = self.ledger.lock();
        let frozen = ledger
            .freeze()
            .ok_or(PageStoreError::CheckpointOrder { reason: "an epoch is frozen and not yet published" })?;
        self.epoch.store(ledger.open_epoch(), Ordering::Release);
        Ok(frozen)
    }

    /// Makes the frozen epoch the last published checkpoint. All its pages must have been written. `mark` is kept with
    /// it and found again in `recovered` (at most 256 KiB).
    ///
    /// Frees the blocks that the checkpoint replaces and the ids of the pages it deletes.
    ///
    /// # Errors
    /// `DiskFull`: nothing has changed; call it again when there is space. `CheckpointOrder` without a frozen epoch.
    /// `Io`, `Poisoned`: nothing is written any more, and it is unknown whether the checkpoint is durable.
    pub fn publish(&self, mark: &[u8]) -> Result<()> {
        if mark.len() > MARK_BYTES_MAX {
            return Err(PageStoreError::Argument { reason: format!("a mark of {} bytes", mark.len()) });
        }
        let mut table = self.table.lock();
        self.check_poison()?;
        let frozen = self.ledger.lock().begin_publish();
        let (number, delta) = frozen.ok_or(PageStoreError::CheckpointOrder { reason: "no epoch is frozen" })?;
        if let Err(error) = self.make_durable(&mut table, number, &delta, mark) {
            drop(delta);
            self.ledger.lock().abort_publish();
            return Err(error);
        }
        self.superblock.lock().checkpoint_floor = number;
        *self.published.lock() = Some(RecoveredCheckpoint { number, mark: mark.to_vec() });
        self.apply(&delta);
        count(&self.counters.checkpoints, 1);
        // The checkpoint is published whatever happens to the tidying; a failure of that shows at the next write.
        let _ = self.start_next_table_file(&mut table, number, mark);
        drop(table);
        let _ = self.reclaim();
        Ok(())
    }

    fn make_durable(&self, table: &mut PageTableFile, number: u64, delta: &Delta, mark: &[u8]) -> Result<()> {
        self.file.sync_data().map_err(|cause| self.poison_with("sync", PAGE_FILE_NAME, cause))?;
        match self.append_delta(table, number, delta, mark) {
            Err(PageStoreError::DiskFull { .. }) if self.release_reserved_extent()? => {
                self.append_delta(table, number, delta, mark)?;
            }
            result => result?,
        }
        table.sync().map_err(|cause| self.poison_with("sync", &table_name(table), cause))
    }

    fn append_delta(&self, table: &mut PageTableFile, number: u64, delta: &Delta, mark: &[u8]) -> Result<()> {
        let entries = delta.iter().map(|(page, address)| (*page, *address));
        let before = table.length();
        let Err(cause) = table.append(CheckpointKind::Delta, number, mark, entries) else {
            count(&self.counters.table_bytes_written, table.length() - before);
            return Ok(());
        };
        table.roll_back().map_err(|cause| self.poison_with("cut", &table_name(table), cause))?;
        Err(self.write_failed("appending a checkpoint", &table_name(table), cause))
    }

    fn apply(&self, delta: &Delta) {
        let portion = if self.ledger.lock().is_pinned() { PINNED_CHANGES_AT_ONCE } else { CHANGES_AT_ONCE };
        in_portions(portion, delta.iter().map(|(page, address)| (*page, *address)), |changes| {
            self.ledger.lock().apply(changes);
        });
        self.ledger.lock().finish_publish();
        let freed = delta.iter().filter(|(_, address)| address.is_none());
        in_portions(CHANGES_AT_ONCE, freed.map(|(page, _)| *page), |pages| self.page_ids.lock().release(pages));
    }

    /// When the changes have outgrown the base: writes all pages of checkpoint `number`, which has just been published,
    /// as the base of a new file, and removes the old one.
    fn start_next_table_file(&self, table: &mut PageTableFile, number: u64, mark: &[u8]) -> Result<()> {
        if !table.has_outgrown_base(self.options.page_table_bytes_min) {
            return Ok(());
        }
        let next = table.number + 1;
        let uuid = self.superblock.lock().uuid;
        let created = PageTableFile::create(&*self.disk, &uuid, next, number, mark, self.durable_pages());
        let created = match created {
            Ok(created) => created,
            Err(cause) => {
                let error =
                    self.write_failed("starting a page-table file", &file_path(next).display().to_string(), cause);
                // What is there of it would be in the way of the next attempt.
                self.remove_table_file(next)?;
                return Err(error);
            }
        };
        count(&self.counters.table_bytes_written, created.length());
        let old = std::mem::replace(table, created);
        self.remove_table_file(old.number)
    }

    fn remove_table_file(&self, number: u32) -> Result<()> {
        let path = file_path(number);
        let removed = self.disk.exists(&path).and_then(|there| if there { self.disk.remove(&path) } else { Ok(()) });
        removed.map_err(|cause| self.poison_with("remove", &path.display().to_string(), cause))
    }
}

/// Calls `each` with some of the items at a time.
fn in_portions<T>(most: usize, mut items: impl Iterator<Item = T>, mut each: impl FnMut(&[T])) {
    let mut portion = Vec::with_capacity(most);
    loop {
        portion.extend(items.by_ref().take(most));
        if portion.is_empty() {
            return;
        }
        each(&portion);
        portion.clear();
    }
}

fn table_name(table: &PageTableFile) -> String {
    file_path(table.number).display().to_string()
}
