//! Moments in the midst of an operation at which the simulator runs other work, as other threads might.
//!
//! `StoreOptions::interleaving` is set by the simulator alone; in a server it is empty and costs one comparison a commit.

use std::fmt;
use std::sync::Arc;

use collection::LoggedEntry;
use oplog::OplogPosition;
use platform::Timestamp;

/// Where an operation is.
#[derive(Clone, Copy, Debug)]
pub enum Moment<'a> {
    /// A commit is in the oplog and is not applied. Its record, its unique keys and its collection's gate are locked; for a change of
    /// definitions the definition lock is held, too. So are the entries of a large transaction logged, and, while the store is being opened, commits
    /// that recovery completes.
    Logged {
        /// The commit's.
        timestamp: Timestamp,
        /// The payload of its oplog entry.
        entry: &'a [u8],
    },
    /// Somebody waits until the shared log has everything before a position. What was logged may be shipped; nothing else is to run.
    Unconfirmed {
        /// The position.
        end: OplogPosition,
    },
    /// While the store is being opened: the oplog is replayed, and ends here. Nothing is locked, nothing is to run.
    Recovered {
        /// Of the last commit in it.
        timestamp: Timestamp,
    },
    /// An index build is between two records and holds nothing.
    IndexBuild,
    /// A large transaction is applied, and waits for space on the disk to say so. The same is locked as for the next.
    LargeCommitOnFullDisk,
    /// A large transaction is decided, and is about to apply one more of its changes. Its records, its unique keys and its collections' gates are locked.
    LargeCommit,
}

/// What runs at these moments.
#[derive(Clone, Default)]
pub struct Interleaving(Option<Arc<Run>>);

type Run = dyn Fn(Moment<'_>) + Send + Sync;

impl Interleaving {
    /// Has `run` called at every moment.
    pub fn new(run: impl Fn(Moment<'_>) + Send + Sync + 'static) -> Interleaving {
        Interleaving(Some(Arc::new(run)))
    }

    #[inline]
    pub(crate) fn at(&self, moment: Moment<'_>) {
        if let Some(run) = &self.0 {
            run(moment);
        }
    }

    #[inline]
    pub(crate) fn at_logged(&self, timestamp: Timestamp, entry: &LoggedEntry<'_>) {
        if let Some(run) = &self.0 {
            run(Moment::Logged { timestamp, entry: &entry.to_vec() });
        }
    }
}

impl fmt::Debug for Interleaving {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(if self.0.is_some() { "Interleaving(simulator)" } else { "Interleaving(none)" })
    }
}
