//! The backup that is being made, for `currentOp`; the last one and the archive, for `serverStatus`.
//!
//! Used by `plimsollBackup`, which makes it, by `currentOp` and by `serverStatus`. There is one at a time.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use backup::Progress;
use bson::DateTime;
use parking_lot::Mutex;
use platform::OuterKey;

use crate::DocumentWriter;

/// What makes one.
pub(crate) const COMMAND_NAME: &str = "plimsollBackup";

/// What backups are made with.
#[derive(Debug, Clone, Default)]
pub struct BackupFacts {
    /// The key that they are encrypted with, if they are.
    pub key: Option<OuterKey>,
    /// The data directory, from which they have to be apart.
    pub data: Option<PathBuf>,
}

/// How far the archive of the oplog is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ArchiveFigures {
    /// Where it is. It has no secrets in it.
    pub place: String,
    /// What is archived, once the place was reached.
    pub reached: Option<ArchiveReached>,
    /// For how long there has been something that is not archived: how much would be lost with the machine.
    pub lag: Duration,
    /// Why it cannot be archived at present, and since when, in milliseconds since 1970.
    pub trouble: Option<(String, i64)>,
    /// The newest backup of this server that was in the same place at the start: its name, and when it ended.
    pub backup_before: Option<(String, i64)>,
}

/// See `ArchiveFigures`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ArchiveReached {
    /// The time of the newest entry that is archived, in seconds since 1970; 0: there is none.
    pub seconds: u32,
    /// Bytes of the oplog that are not.
    pub bytes_behind: u64,
}

/// One that ended.
#[derive(Clone)]
pub(crate) struct EndedBackup {
    pub(crate) to: String,
    pub(crate) ended_millis: i64,
    /// Its name and the bytes that were stored for it; or why there is none.
    pub(crate) outcome: Result<(String, u64), String>,
}

/// See the module's head.
#[derive(Default)]
pub(crate) struct Backups {
    running: Mutex<Option<Arc<Progress>>>,
    /// The last one that became whole, and the last one if it did not.
    ended: Mutex<(Option<EndedBackup>, Option<EndedBackup>)>,
}

/// While it lives, a backup is being made.
pub(crate) struct RunningBackup<'a> {
    backups: &'a Backups,
    pub(crate) progress: Arc<Progress>,
}

impl Backups {
    /// `None`: one is being made.
    pub(crate) fn begin(&self) -> Option<RunningBackup<'_>> {
        let mut running = self.running.lock();
        if running.is_some() {
            return None;
        }
        let progress = Arc::new(Progress::default());
        *running = Some(Arc::clone(&progress));
        Some(RunningBackup { backups: self, progress })
    }

    /// One has ended.
    pub(crate) fn note(&self, backup: EndedBackup) {
        let mut ended = self.ended.lock();
        match backup.outcome.is_ok() {
            true => *ended = (Some(backup), None),
            false => ended.1 = Some(backup),
        }
    }

    /// The archive, the last backup, and whether one is being made, for `serverStatus`.
    pub(crate) fn write_status(&self, archive: Option<&ArchiveFigures>, section: &mut DocumentWriter<'_>) {
        if let Some(archive) = archive {
            section.document("archive", |fields| write_archive(archive, fields));
        }
        let (last, failed) = self.ended.lock().clone();
        let before = archive.and_then(|archive| Some((archive.place.as_str(), archive.backup_before.as_ref()?)));
        if let Some(EndedBackup { to, ended_millis, outcome: Ok((id, bytes)) }) = &last {
            section.document("last", |fields| {
                write_last(fields, id, to, *ended_millis);
                fields.size("storedBytes", *bytes);
            });
        } else if let Some((place, (id, ended_millis))) = before {
            section.document("last", |fields| write_last(fields, id, place, *ended_millis));
        }
        if let Some(EndedBackup { to, ended_millis, outcome: Err(reason) }) = &failed {
            section.document("lastFailed", |fields| {
                fields.string("to", to);
                fields.date("ended", DateTime::from_millis(*ended_millis));
                fields.string("reason", reason);
            });
        }
        section.boolean("isRunning", self.running.lock().is_some());
    }

    /// How far it is.
    pub(crate) fn write(&self, entry: &mut DocumentWriter<'_>) {
        let Some(progress) = self.running.lock().clone() else { return };
        let (phase, done, total) = progress.look();
        let percent = done * 100 / total.max(1);
        entry.string("msg", &format!("Backup: {}: {done}/{total} {percent}%", phase.name()));
        entry.document("progress", |progress| {
            progress.size("done", done);
            progress.size("total", total);
        });
    }
}

fn write_archive(archive: &ArchiveFigures, fields: &mut DocumentWriter<'_>) {
    fields.string("place", &archive.place);
    if let Some(reached) = archive.reached {
        if reached.seconds > 0 {
            fields.date("upTo", DateTime::from_millis(i64::from(reached.seconds) * 1000));
        }
        fields.size("bytesBehind", reached.bytes_behind);
    }
    fields.double("lagSeconds", archive.lag.as_secs_f64());
    if let Some((reason, since)) = &archive.trouble {
        fields.string("error", reason);
        fields.date("errorSince", DateTime::from_millis(*since));
    }
}

fn write_last(fields: &mut DocumentWriter<'_>, id: &str, to: &str, ended_millis: i64) {
    fields.string("id", id);
    fields.string("to", to);
    fields.date("ended", DateTime::from_millis(ended_millis));
}

impl Drop for RunningBackup<'_> {
    fn drop(&mut self) {
        *self.backups.running.lock() = None;
    }
}
