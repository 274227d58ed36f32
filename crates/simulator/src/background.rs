//! Background work, one bounded piece at a time: what the store's threads do in a server.

use std::sync::atomic::Ordering;

use platform::Random;
use transaction::{CheckpointProgress, TransactionError, Urgency};

use crate::simulation::Simulation;

impl Simulation {
    /// One piece of background work.
    pub(crate) fn background_step(&self) {
        let store = self.store();
        let engine = store.engine().clone();
        if self.plan.has_rings() && self.chance(0.15) {
            return self.write_rings();
        }
        let (what, result) = match self.random.below(17) {
            16 => return self.watch_space(),
            0..3 => return self.flush_oplog(),
            3..8 => return self.advance_checkpoint(),
            8 => return self.whole_checkpoint(),
            9..12 => ("reclaim", engine.reclaim_step().map(u64::from)),
            12 => ("evict a batch", engine.evict_batch().map(|count| count as u64)),
            13 => ("write cold pages", engine.flush_batch().map(|count| count as u64)),
            14 => ("evict everything", engine.evict_all().map(|count| count as u64)),
            _ => ("clean", engine.clean_step().map(u64::from)),
        };
        match result {
            Ok(count) => self.say(format_args!("{what}: {count}")),
            Err(error) => {
                self.say(format_args!("{what}"));
                self.check_background_error(&error.into());
            }
        }
    }

    /// Looks whether there is space.
    pub(crate) fn watch_space(&self) {
        let has_room = self.store().watch_space();
        self.say(format_args!("watch the space: {}", if has_room { "enough" } else { "short" }));
        if !has_room && self.health() != crate::simulation::Health::Full && !self.disk.is_down() {
            self.fail(format_args!("short of space on a disk that is not full"));
        }
    }

    fn write_rings(&self) {
        match self.store().write_rings() {
            Ok(bytes) => self.say(format_args!("write the rings: {bytes} bytes")),
            Err(error) => {
                self.say(format_args!("write the rings"));
                self.check_background_error(&error);
            }
        }
    }

    pub(crate) fn flush_oplog(&self) {
        let before = self.model.lock().last_logged();
        match oplog::Oplog::flush_step(self.store().oplog()) {
            Ok(flushed) => {
                self.say(format_args!("flush the oplog: {} bytes", flushed.bytes));
                self.model.lock().set_durable(before);
                if self.segment_was_refused.swap(false, Ordering::Relaxed) {
                    self.segment_may_lack.store(false, Ordering::Relaxed);
                }
            }
            Err(error) => {
                self.say(format_args!("flush the oplog"));
                self.check_background_error(&TransactionError::Oplog(error));
            }
        }
    }

    fn advance_checkpoint(&self) {
        let urgency = if self.chance(0.3) { Urgency::Now } else { Urgency::IfDue };
        let before = self.model.lock().last_logged();
        let progress = self.store().advance_checkpoint(urgency);
        self.note_checkpoint(before, progress);
    }

    pub(crate) fn whole_checkpoint(&self) {
        loop {
            let before = self.model.lock().last_logged();
            let progress = self.store().advance_checkpoint(Urgency::Now);
            let goes_on = matches!(progress, Ok(CheckpointProgress::Going));
            self.note_checkpoint(before, progress);
            if !goes_on {
                return;
            }
        }
    }

    fn note_checkpoint(&self, before: platform::Timestamp, progress: transaction::Result<CheckpointProgress>) {
        match progress {
            Ok(progress) => {
                self.say(format_args!("checkpoint: {progress:?}"));
                if progress == CheckpointProgress::Published {
                    self.model.lock().set_durable(before);
                }
            }
            Err(error) => {
                self.say(format_args!("checkpoint"));
                self.check_background_error(&error);
            }
        }
    }
}
