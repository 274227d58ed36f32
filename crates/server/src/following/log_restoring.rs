//! A shared log made again from a member's data directory, for `plimsoll log restore`. The work is `replication::restore`'s; here are the directory, its lock and
//! the log.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use oplog::{LocalOplog, Oplog, OplogOptions};
use platform::{Clock, DirectoryLock, Disk, RealDisk, SystemClock, SystemRandom};
use replication::{RestoredLog, StandingFile};
use shared_log::Standing;

use super::log_opening::open_log;
use crate::configuration::{KeySource, LogPlace};
use crate::data_disk::{self, Unencrypted};

/// The data directory of a member that is stopped.
pub struct MemberData {
    oplog: LocalOplog,
    standing: Standing,
    _lock: DirectoryLock,
}

impl MemberData {
    /// Opens it.
    ///
    /// # Errors
    /// A server runs on it; it has never followed a log; it cannot be read.
    pub fn open(directory: &Path, key: Option<&KeySource>) -> Result<MemberData, String> {
        #[allow(clippy::disallowed_methods, reason = "opening a RealDisk would make the directory")]
        if !directory.is_dir() {
            return Err(format!("there is no directory {}", directory.display()));
        }
        let cannot = |error: &dyn std::fmt::Display| format!("{}: {error}", directory.display());
        let lock = DirectoryLock::acquire(directory).map_err(|error| error.to_string())?;
        let real = RealDisk::new(directory).map_err(|error| cannot(&error))?;
        let disk: Arc<dyn Disk> = data_disk::open(real, directory, key, Unencrypted::Read)?;
        let standing = StandingFile::open(disk.clone()).map_err(|error| cannot(&error))?;
        let none = "this server has never followed a shared log, so there is none to be restored from it";
        let standing = standing.stored().cloned().ok_or_else(|| cannot(&none))?;
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let options = OplogOptions { directory: PathBuf::from("oplog"), ..OplogOptions::default() };
        let oplog = LocalOplog::open(disk, clock, options).map_err(|error| cannot(&error))?;
        Ok(MemberData { oplog, standing, _lock: lock })
    }

    /// The newest term that it is known to have read of; it may have read of a later one in its last ten seconds.
    pub fn term(&self) -> u64 {
        self.standing.term
    }

    /// Where its oplog begins.
    pub fn begins(&self) -> u64 {
        self.oplog.first_position().0
    }

    /// Where it ends.
    pub fn ends(&self) -> u64 {
        self.oplog.end_position().0
    }
}

/// Makes the log at `url` from what the member has.
///
/// # Errors
/// There is a log with records; the member's data is not whole; the log cannot be reached.
pub fn restore(url: &str, member: &MemberData, key: Option<&KeySource>) -> Result<RestoredLog, String> {
    let place: LogPlace = url.parse().map_err(|why: String| format!("{url}: {why}"))?;
    let log = open_log(&place, true, key).map_err(|error| error.to_string())?;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    replication::restore(&*log, &member.oplog, &member.standing, (&clock, &SystemRandom))
        .map_err(|error| error.to_string())
}
