//! Sends the oplog to the archive (`--archive`) every few seconds, and knows what backups are made with.
//!
//! Called by `database`. A place that cannot be reached is tried again and again, and told of in the log; the oplog is kept until
//! it is archived. `serverStatus` looks through `ArchiveWatch`, which never waits for the place.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::configuration::Configuration;
use backup::{Archive, BackupError, Place};
use commands::{ArchiveFigures, ArchiveReached, BackupFacts};
use parking_lot::Mutex;
use platform::SystemRandom;
use transaction::Store;

/// Between two looks at the oplog.
const INTERVAL: Duration = Duration::from_secs(3);
/// Between two looks at whether to end.
const LOOK: Duration = Duration::from_millis(50);

/// What backups of this server are made with.
pub(crate) fn facts(configuration: &Configuration) -> Result<BackupFacts, String> {
    let source = configuration.backup_key.as_ref().or(configuration.encryption_key.as_ref());
    let key = source.map(|source| source.read()).transpose()?;
    let data = configuration.ephemeral_bytes.is_none().then(|| configuration.data.clone());
    Ok(BackupFacts { key, data })
}

/// What is known of the archive.
pub(crate) struct ArchiveWatch {
    place: String,
    store: Arc<Store>,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    archive: Option<Arc<Archive>>,
    /// When everything was archived for the last time, by the clock that does not jump.
    complete: Duration,
    trouble: Option<(String, i64)>,
    backup_before: Option<(String, i64)>,
}

impl ArchiveWatch {
    /// For `serverStatus`.
    pub(crate) fn figures(&self) -> ArchiveFigures {
        let known = self.known.lock();
        let status = known.archive.as_ref().map(|archive| archive.status());
        let since = self.store.clock().monotonic().saturating_sub(known.complete);
        ArchiveFigures {
            place: self.place.clone(),
            reached: status.map(|status| ArchiveReached {
                seconds: status.timestamp.seconds(),
                bytes_behind: status.bytes_behind,
            }),
            lag: if status.is_some_and(|status| status.bytes_behind == 0) { Duration::ZERO } else { since },
            trouble: known.trouble.clone(),
            backup_before: known.backup_before.clone(),
        }
    }

    /// A step that began then has ended. Trouble is told when it begins, becomes another, and ends.
    fn note(&self, began: Duration, outcome: Result<(), BackupError>) {
        let mut known = self.known.lock();
        let before = known.trouble.as_ref().map(|(text, _)| text.clone());
        match outcome {
            Ok(()) => {
                (known.complete, known.trouble) = (began, None);
                if before.is_some() {
                    tracing::info!(target: "control", "the oplog is archived again");
                }
            }
            Err(error) => {
                let text = error.to_string();
                if before.as_ref() != Some(&text) {
                    tracing::error!(
                        target: "control", error = text,
                        "the oplog cannot be archived; it is kept here until it is, and takes space"
                    );
                }
                let since = known.trouble.take().map_or_else(|| self.store.clock().wall_millis(), |(_, since)| since);
                known.trouble = Some((text, since));
            }
        }
    }
}

/// The thread that archives.
pub(crate) struct Archiving {
    watch: Arc<ArchiveWatch>,
    stop: Arc<AtomicBool>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Archiving {
    /// Begins, if there is to be an archive.
    pub(crate) fn begin(
        configuration: &Configuration,
        store: &Arc<Store>,
        facts: &BackupFacts,
    ) -> Result<Option<Archiving>, String> {
        let Some(place) = configuration.archive.clone() else { return Ok(None) };
        let stop = Arc::new(AtomicBool::new(false));
        let known = Known { complete: store.clock().monotonic(), ..Known::default() };
        let watch = ArchiveWatch { place: place.to_string(), store: store.clone(), known: Mutex::new(known) };
        let watch = Arc::new(watch);
        let archiver = Archiver { place, watch: watch.clone(), facts: facts.clone(), stop: stop.clone() };
        let thread = platform::spawn_named("archive", move || archiver.run());
        let thread = thread.map_err(|error| format!("cannot start the thread of the archive: {error}"))?;
        Ok(Some(Archiving { watch, stop, thread: Mutex::new(Some(thread)) }))
    }

    /// What is known of it.
    pub(crate) fn watch(&self) -> Arc<ArchiveWatch> {
        self.watch.clone()
    }

    /// Archives what is left and ends.
    pub(crate) fn stop(&self) {
        self.stop.store(true, Ordering::Release);
        if let Some(thread) = self.thread.lock().take() {
            // It panicked: that is in the log.
            let _ = thread.join();
        }
    }
}

struct Archiver {
    place: Place,
    watch: Arc<ArchiveWatch>,
    facts: BackupFacts,
    stop: Arc<AtomicBool>,
}

impl Archiver {
    fn run(self) {
        let clock = self.watch.store.clock().clone();
        // From before the first checkpoint of this life on, also while the archive cannot be reached.
        let hold = self.watch.store.hold_everything();
        let mut archive = None;
        loop {
            // Looked at before the last step, which then has everything.
            let is_last = self.stop.load(Ordering::Acquire);
            let began = clock.monotonic();
            let outcome = self.step(&mut archive, is_last);
            if archive.is_some() {
                hold.advance_to_end();
            }
            self.watch.note(began, outcome);
            if is_last {
                return;
            }
            let until = clock.monotonic() + INTERVAL;
            while !self.stop.load(Ordering::Acquire) && clock.monotonic() < until {
                clock.sleep(LOOK);
            }
        }
    }

    fn step(&self, archive: &mut Option<Arc<Archive>>, is_last: bool) -> Result<(), BackupError> {
        let archive = match archive {
            Some(archive) => archive,
            none => none.insert(self.open()?),
        };
        match is_last {
            true => archive.finish(),
            false => archive.step().map(|_| ()),
        }
    }

    fn open(&self) -> Result<Arc<Archive>, BackupError> {
        let objects = self.place.open(self.facts.data.as_deref())?;
        let archive =
            Archive::begin(self.watch.store.clone(), objects, Arc::new(SystemRandom), self.facts.key.clone())?;
        // Told only; a backup that cannot be read ends no archive.
        let backup_before = archive.newest_backup().ok().flatten();
        let archive = Arc::new(archive);
        let mut known = self.watch.known.lock();
        (known.archive, known.backup_before) = (Some(archive.clone()), backup_before);
        Ok(archive)
    }
}
