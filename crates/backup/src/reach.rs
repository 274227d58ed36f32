//! How far a backup and the archive behind it go, so that a moment which they do not reach is refused before anything is restored.
//!
//! Noted by `archive`, looked up by `restore`. Entries say it by their timestamps. Where nothing was written for a while they cannot:
//! so the archive has a note that says at what time it had everything.

use platform::{OuterKey, Random, Timestamp};
use serde::{Deserialize, Serialize};

use crate::archive::{folder_of, list};
use crate::error::{BackupError, Result};
use crate::manifest::{Manifest, time_of};
use crate::object::{pack, unpack};
use crate::object_store::ObjectStore;
use crate::oplog_object;
use crate::target::Target;

/// Name of the note, in the folder of an archive.
const NOTE: &str = "reached";

/// At this time, everything before this position was in the archive, and there was nothing behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ReachedNote {
    pub(crate) millis: i64,
    pub(crate) position: u64,
}

impl ReachedNote {
    /// Stores it in the folder of an archive.
    pub(crate) fn store(self, objects: &dyn ObjectStore, folder: &str, random: &dyn Random) -> Result<()> {
        let name = format!("{folder}/{NOTE}");
        let content = serde_json::to_vec(&self).map_err(|error| BackupError::damaged(&name, error))?;
        let packed = pack(&name, &content, false, None, random)?;
        objects.put(&name, &packed).map_err(BackupError::io(&name, "written"))
    }

    /// Missing in archives of earlier builds.
    fn read(objects: &dyn ObjectStore, folder: &str) -> Result<Option<ReachedNote>> {
        let name = format!("{folder}/{NOTE}");
        let content = match objects.get(&name).map_err(BackupError::io(&name, "read")) {
            Err(BackupError::Missing(_)) => return Ok(None),
            found => unpack(&name, found?, None)?,
        };
        serde_json::from_slice(&content).map(Some).map_err(|error| BackupError::damaged(&name, error))
    }
}

/// See the module's head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reach {
    /// The newest entry that there is.
    last: Timestamp,
    /// Everything from before this second is there.
    seconds: u32,
}

impl Reach {
    /// Of a backup and the archive of its store.
    pub(crate) fn of(objects: &dyn ObjectStore, manifest: &Manifest, key: Option<&OuterKey>) -> Result<Reach> {
        // The end of its oplog was looked up after that.
        let mut reach = Reach { last: manifest.last_timestamp(), seconds: seconds(manifest.began_millis) };
        let (folder, mut end) = (folder_of(&manifest.store), manifest.oplog_end);
        let pieces = list(objects, &folder)?;
        // The newest that can be read: who wants an earlier moment needs no later one.
        for named in pieces.iter().rev().filter(|piece| piece.2 > manifest.oplog_end) {
            match oplog_object::read(objects, &folder, *named, key) {
                Ok(piece) => {
                    (reach.last, end) = (reach.last.max(piece.last_timestamp), named.2);
                    break;
                }
                Err(error) if error.is_unreadable() => {}
                Err(error) => return Err(error),
            }
        }
        if let Some(note) = ReachedNote::read(objects, &folder)?.filter(|note| note.position <= end) {
            reach.seconds = reach.seconds.max(seconds(note.millis));
        }
        reach.seconds = reach.seconds.max(reach.last.seconds());
        Ok(reach)
    }

    /// Whether a moment is reached.
    ///
    /// # Errors
    /// `Unreachable`: with what is reached, and how to get there.
    pub(crate) fn check(&self, target: &Target) -> Result<()> {
        let wanted = match target {
            Target::Before(seconds) if *seconds > self.seconds => time_of(i64::from(*seconds) * 1000),
            Target::Through(timestamp) if *timestamp > self.last => {
                format!("{}:{}", timestamp.seconds(), timestamp.increment())
            }
            _ => return Ok(()),
        };
        let last = format!("{}:{}", self.last.seconds(), self.last.increment());
        Err(BackupError::Unreachable(format!(
            "{wanted} is not reached: backup and archive have everything from before {}, and {last} is the last operation. \
             To restore up to there: --timestamp {last}",
            time_of(i64::from(self.seconds) * 1000)
        )))
    }
}

fn seconds(millis: i64) -> u32 {
    u32::try_from(millis.div_euclid(1000)).unwrap_or(0)
}
