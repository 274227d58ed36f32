//! The file in which a member keeps how far it has read the shared log. Its content is a `Standing` (`docs/file-format.md`, "Standing of a reader").
//!
//! Written only once the oplog has, durably, all that was read: what is read again after a start is compared with it, so an older standing costs time only.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use oplog::{LocalOplog, Oplog};
use platform::{Disk, OpenMode, replace_file};
use shared_log::{Reading, Rule, Standing};

use crate::error::{ReplicationError, Result};

const NAME: &str = "shared-log-standing";
const NEW_NAME: &str = "shared-log-standing.new";
/// More than any standing has.
const BYTES_MAX: u64 = 4096;
/// How often it is stored while the log is read.
const STORED_EVERY: Duration = Duration::from_secs(10);

/// See the module's head.
pub struct StandingFile {
    disk: Arc<dyn Disk>,
    stored: Option<Standing>,
    /// When it was looked at first, and then when it was stored last.
    stored_at: Option<Duration>,
}

fn failed(cause: io::Error) -> ReplicationError {
    ReplicationError::StandingFile { file: NAME, cause }
}

impl StandingFile {
    /// That of the store on `disk`.
    ///
    /// # Errors
    /// `StandingFile`; `Log` when it is damaged.
    pub fn open(disk: Arc<dyn Disk>) -> Result<StandingFile> {
        let path = Path::new(NAME);
        if !disk.exists(path).map_err(failed)? {
            return Ok(StandingFile { disk, stored: None, stored_at: None });
        }
        let file = disk.open(path, OpenMode::Read).map_err(failed)?;
        let length = file.length().map_err(failed)?.min(BYTES_MAX);
        let mut bytes = vec![0; length as usize];
        file.read_exact_at(&mut bytes, 0).map_err(failed)?;
        let stored = Some(Standing::decode(&bytes)?);
        Ok(StandingFile { disk, stored, stored_at: None })
    }

    /// What was stored last.
    pub fn stored(&self) -> Option<&Standing> {
        self.stored.as_ref()
    }

    /// Stores how far the log was read, now and then, if the oplog has all of that durably.
    ///
    /// # Errors
    /// As `store`.
    pub(crate) fn keep_up(&mut self, reading: &Reading, oplog: &LocalOplog, now: Duration) -> Result<()> {
        let is_here = reading.whole().position <= oplog.durable_position().0;
        let since = *self.stored_at.get_or_insert(now);
        if !is_here || now.saturating_sub(since) < STORED_EVERY {
            return Ok(());
        }
        self.stored_at = Some(now);
        self.store(reading.standing())
    }

    /// Stores it, if it is news. It is durable afterwards.
    ///
    /// # Errors
    /// `StandingFile`: it is what it was before.
    pub fn store(&mut self, standing: Standing) -> Result<()> {
        if self.stored.as_ref() == Some(&standing) {
            return Ok(());
        }
        replace_file(&*self.disk, Path::new(NAME), Path::new(NEW_NAME), &standing.encode()).map_err(failed)?;
        self.stored = Some(standing);
        Ok(())
    }
}
