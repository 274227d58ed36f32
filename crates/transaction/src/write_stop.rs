//! Whether writes have stopped for good, and why: what an operator is told.
//!
//! After a failed write or sync, a commit that could not be applied, or when the data directory was taken away, nothing is written until the server is
//! started again (invariant I9). `watch_writes` is called by the checkpointer's thread all the time, and by the simulator: it looks whether the directory is
//! still there, and says once in the log what has stopped and what to do. `writes_stopped` is for whoever shows it: `hello`, `serverStatus`.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use crate::store::Store;

/// From one look at the names of all files to the next. Each sync looks at the file that it syncs, too.
const PRESENCE_INTERVAL: Duration = Duration::from_secs(1);

/// What is to be done about it, in every case.
pub const WRITES_STOPPED_ADVICE: &str = "nothing is written until the server is started again; everything that was acknowledged before is in the data \
directory. Look at the disk and at the directory first, then restart. Until then reads are answered, so that what is in memory can be copied away";

/// What was last seen.
#[derive(Debug, Default)]
pub(crate) struct WriteStop {
    is_told: AtomicBool,
    looked_at: Mutex<Duration>,
}

impl Store {
    /// Why nothing is written any more; `None`: writes are accepted, or refused for a reason that heals.
    pub fn writes_stopped(&self) -> Option<String> {
        self.check_writable().err().map(|error| error.to_string())
    }

    /// Looks whether the data directory is there, and says when writes have stopped. Background work. `false`: they have.
    pub fn watch_writes(&self) -> bool {
        self.note_set_aside();
        if self.check_writable().is_ok() {
            self.look_for_directory();
        }
        let Some(reason) = self.writes_stopped() else { return true };
        if !self.write_stop.is_told.swap(true, Ordering::AcqRel) {
            tracing::error!(reason, advice = WRITES_STOPPED_ADVICE, "writes have stopped");
        }
        false
    }

    fn look_for_directory(&self) {
        let now = self.clock.monotonic();
        let mut looked_at = self.write_stop.looked_at.lock();
        if now.saturating_sub(*looked_at) < PRESENCE_INTERVAL {
            return;
        }
        *looked_at = now;
        if let Err(error) = self.space.disk().check_presence() {
            self.oplog.close_for_writing(error);
        }
    }
}

#[cfg(test)]
mod tests {
    use bson::rawdoc;

    use super::*;
    use crate::tests::fixture::Fixture;

    #[test]
    fn a_directory_that_is_taken_away_stops_writes_and_loses_nothing_that_was_durable() {
        let mut fixture = Fixture::new();
        let collection = fixture.collection("db.c");
        fixture.insert(&collection, rawdoc! { "_id": 1 }).unwrap();
        fixture.clock.advance(PRESENCE_INTERVAL);
        assert!(fixture.store.watch_writes());
        assert_eq!(fixture.store.writes_stopped(), None);
        fixture.disk.take_directory_away();
        fixture.clock.advance(PRESENCE_INTERVAL);
        assert!(!fixture.store.watch_writes());
        let reason = fixture.store.writes_stopped().unwrap();
        assert!(reason.contains("the directory is not there any more"), "{reason}");
        assert!(fixture.insert(&collection, rawdoc! { "_id": 2 }).is_err());
        assert!(fixture.store.requested_checkpoint().is_err(), "fsync is no acknowledgement");
        // Reads go on.
        assert!(fixture.store.read_view().record_cursor(&collection).next().unwrap().is_some());
    }
}
