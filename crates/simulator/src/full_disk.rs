//! A disk that fills up, stays full for a while, and gets space again.
//!
//! Meanwhile every read must succeed, and so must deletes until the oplog's reserve is used up. Once there is space, a turn of the
//! background is all it takes.

use platform::Random;
use transaction::TransactionError;

use crate::simulation::{Health, Simulation};

impl Simulation {
    /// Fills the disk, or gives it space again.
    pub(crate) fn toggle_full_disk(&self) {
        if self.health() == Health::Full {
            return self.give_space_back();
        }
        let left = self.random.below(if self.chance(0.5) { 64 << 10 } else { 4 << 20 });
        let capacity = self.disk.used_bytes() + left;
        self.say(format_args!("the disk has {left} bytes left"));
        self.summary.lock().faults += 1;
        self.disk.set_capacity_bytes(Some(capacity));
        *self.health.lock() = Health::Full;
    }

    pub(crate) fn give_space_back(&self) {
        self.say(format_args!("the disk has space again"));
        self.disk.set_capacity_bytes(None);
        *self.health.lock() = Health::Good;
        self.flush_oplog();
        self.watch_space();
    }

    /// A delete was refused: only the end of the oplog's reserve, or of the frames, is a reason.
    pub(crate) fn note_refused_delete(&self, error: &TransactionError) {
        let store = self.store();
        let oplog_is_full = oplog::Oplog::statistics(store.oplog()).disk_full;
        let is_full_of_dirty_pages = store.engine().pressure().dirty > 0.4;
        if !oplog_is_full && !is_full_of_dirty_pages {
            self.fail(format_args!("a delete was refused: {error}"));
        }
    }
}
