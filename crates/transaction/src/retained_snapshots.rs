//! Points in time that clients were told of and may read from again (`atClusterTime`).
//!
//! Called by reads with the concern `snapshot`. A snapshot that was handed out is kept for a while; as long as one is kept, every later point in time can be
//! read, too. It costs version history, as any open snapshot does, and is given up like any other when that has outgrown its quota.

use std::collections::VecDeque;
use std::time::Duration;

use parking_lot::Mutex;
use storage_engine::{Snapshot, Timestamp};

use crate::read_view::ReadView;
use crate::store::Store;

/// Most that are kept; beyond it the oldest is let go.
const RETAINED_MAX: usize = 1_000;

/// Those that are kept, the oldest first.
#[derive(Default)]
pub(crate) struct RetainedSnapshots(Mutex<VecDeque<Retained>>);

struct Retained {
    snapshot: Snapshot,
    since: Duration,
}

impl Store {
    /// A view of the point in time `at`, or of now, which can be read from again for a while. `None`: it is too long ago.
    pub fn retained_view(&self, at: Option<Timestamp>) -> Option<ReadView> {
        let snapshot = match at {
            Some(timestamp) => self.engine.begin_snapshot_at(timestamp)?,
            None => self.engine.begin_snapshot(),
        };
        if at.is_none() {
            self.retain(&snapshot);
        }
        Some(ReadView::at(self.engine.clone(), snapshot))
    }

    fn retain(&self, snapshot: &Snapshot) {
        let since = self.clock.monotonic();
        let mut retained = self.retained.0.lock();
        match retained.back_mut() {
            Some(last) if last.snapshot.timestamp() == snapshot.timestamp() => last.since = since,
            _ => retained.push_back(Retained { snapshot: snapshot.clone(), since }),
        }
        let surplus = retained.len().saturating_sub(RETAINED_MAX);
        retained.drain(..surplus);
    }

    /// Lets go of what was kept for longer than `window`. Background work.
    pub fn release_snapshots(&self, window: Duration) {
        let now = self.clock.monotonic();
        self.retained.0.lock().retain(|retained| now.saturating_sub(retained.since) <= window);
    }
}
