//! The backup that is being made, for `currentOp`.
//!
//! Used by `plimsollBackup`, which makes it, and by `currentOp`. There is one at a time.

use std::path::PathBuf;
use std::sync::Arc;

use backup::Progress;
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

/// See the module's head.
#[derive(Default)]
pub(crate) struct Backups {
    running: Mutex<Option<Arc<Progress>>>,
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

impl Drop for RunningBackup<'_> {
    fn drop(&mut self) {
        *self.backups.running.lock() = None;
    }
}
