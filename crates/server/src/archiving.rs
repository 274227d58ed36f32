//! Sends the oplog to the archive (`--archive`) every few seconds, and knows what backups are made with.
//!
//! Called by `main`. A place that cannot be reached is tried again and again, and told of in the log; the oplog is kept until
//! it is archived.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use backup::{Archive, BackupError, Place};
use commands::BackupFacts;
use parking_lot::Mutex;
use platform::{Clock, SystemClock, SystemRandom};
use server::configuration::Configuration;
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

/// The thread that archives.
pub(crate) struct Archiving {
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
        let archiver = Archiver { place, store: store.clone(), facts: facts.clone(), stop: stop.clone() };
        let thread = platform::spawn_named("archive", move || archiver.run());
        let thread = thread.map_err(|error| format!("cannot start the thread of the archive: {error}"))?;
        Ok(Some(Archiving { stop, thread: Mutex::new(Some(thread)) }))
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
    store: Arc<Store>,
    facts: BackupFacts,
    stop: Arc<AtomicBool>,
}

impl Archiver {
    fn run(self) {
        let clock = SystemClock::new();
        // From before the first checkpoint of this life on, also while the archive cannot be reached.
        let hold = self.store.hold_everything();
        let (mut archive, mut trouble) = (None, String::new());
        loop {
            // Looked at before the last step, which then has everything.
            let is_last = self.stop.load(Ordering::Acquire);
            let outcome = self.step(&mut archive, is_last);
            if archive.is_some() {
                hold.advance_to_end();
            }
            tell(&mut trouble, outcome.err());
            if is_last {
                return;
            }
            let until = clock.monotonic() + INTERVAL;
            while !self.stop.load(Ordering::Acquire) && clock.monotonic() < until {
                clock.sleep(LOOK);
            }
        }
    }

    fn step(&self, archive: &mut Option<Archive>, is_last: bool) -> Result<(), BackupError> {
        let archive = match archive {
            Some(archive) => archive,
            none => none.insert(self.open()?),
        };
        match is_last {
            true => archive.finish(),
            false => archive.step().map(|_| ()),
        }
    }

    fn open(&self) -> Result<Archive, BackupError> {
        let objects = self.place.open(self.facts.data.as_deref())?;
        Archive::begin(self.store.clone(), objects, Arc::new(SystemRandom), self.facts.key.clone())
    }
}

/// Tells of trouble when it begins, becomes another, and ends.
fn tell(trouble: &mut String, error: Option<BackupError>) {
    let now = error.map(|error| error.to_string()).unwrap_or_default();
    if now == *trouble {
        return;
    }
    match now.is_empty() {
        true => tracing::info!(target: "control", "the oplog is archived again"),
        false => tracing::error!(
            target: "control", error = now,
            "the oplog cannot be archived; it is kept here until it is, and takes space"
        ),
    }
    *trouble = now;
}
