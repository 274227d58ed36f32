//! How a new member gets another one's data (`copies`): it asks, restores while the copy is being made, and takes up the giver's standing.
//!
//! Called before the data directory is used. Whatever ends this process, the next start begins the restore again: what was asked for stays asked for, and a copy that
//! was given stays. When the giver ends, another one makes a copy of its own, or the same one goes on with its: either has another name, and is restored from its
//! beginning. Where the log has everything and nobody is there who copies, the log is read instead.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use backup::{EarlyPages, ObjectStore, Progress, RestoreOptions, Restored, Target, UNFINISHED_NOTE};
use platform::{Clock, Disk, OuterKey, RealDisk, SystemClock, SystemRandom, WorkClass, WorkScope};
use replication::StandingFile;
use shared_log::{Effect, Leader, Notice, Offset, Place as OplogPlace, Reading, Rule, SharedLog, Standing};

use super::copies::Copies;
use crate::data_disk::{self, Unencrypted};
use crate::progress_lines::with_progress_lines;

/// How often a new member looks whether more of its copy is there.
const LOOK: Duration = Duration::from_millis(10);
/// How often it says that it waits.
const TELL_EVERY: Duration = Duration::from_secs(10);
/// How often it looks whether others are there.
const LOOK_FOR_OTHERS: Duration = Duration::from_secs(1);
/// A log with more of the oplog than this is not read from its beginning where another member can give a copy: that has less to do.
const READ_BYTES_MAX: u64 = 64 << 20;
/// Members that have told nothing new for so long give no copy.
const SILENT_AFTER: Duration = Duration::from_secs(30);

/// Fills an empty data directory with another member's data, if the log alone is not enough.
///
/// # Errors
/// What could not be done, for the operator.
pub(super) fn fetch_if_needed(
    copies: Option<Copies>,
    log: &dyn SharedLog,
    data: &Path,
    address: &str,
) -> Result<(), String> {
    let notes = RealDisk::new(data).map_err(told)?;
    let has = |name: &str| notes.exists(Path::new(name)).map_err(told);
    let is_begun = has(UNFINISHED_NOTE)?;
    if has("oplog")? && !is_begun {
        return Ok(());
    }
    let node = Leader::node_at(address);
    let need = match need_of(log, node).map_err(told)? {
        // Half a copy is no directory to begin with.
        Need::None if is_begun => Need::Shorter,
        need => need,
    };
    let copies = match (need, copies) {
        (Need::None, _) | (Need::Shorter, None) => return Ok(()),
        (Need::Only, None) => {
            let missing = "the log does not have everything, and there is no place for a copy of another member's data: \
                 name a directory that all members see, by the option copies in the URL of --log, on all members";
            return Err(missing.to_owned());
        }
        (Need::Shorter | Need::Only, Some(copies)) => copies,
    };
    copies.want(node, address).map_err(told)?;
    tracing::info!(target: "replication", why = need.in_words(), "waits for another member to copy its data");
    let real = RealDisk::new(data).map_err(told)?;
    let disk = data_disk::open(real, data, copies.key.as_ref(), Unencrypted::Encrypt)?;
    let fetching = Fetching { copies: &copies, node, disk, notes: &notes, key: copies.outer_key()? };
    // Who wakes up beside it goes first.
    let _long = WorkScope::begin(WorkClass::Long);
    let mut others = Others::new(log, node);
    let gives_up = || need == Need::Shorter && others.are_silent();
    match with_progress_lines("copy", |progress| fetching.fetch(progress, gives_up))? {
        Some(restored) => {
            tracing::info!(target: "replication", until = restored.until, "has another member's data");
        }
        None => {
            if has(UNFINISHED_NOTE)? {
                backup::undo(&*fetching.disk, &notes).map_err(told)?;
            }
            tracing::info!(target: "replication", "nobody is there who copies its data: reads the log from its beginning");
        }
    }
    // If it is asked for again, it is given again.
    copies.want_nothing(node).map_err(told)
}

fn told(error: impl std::fmt::Display) -> String {
    format!("cannot get a copy of another member's data: {error}")
}

/// What a new member gets its data with.
struct Fetching<'a> {
    copies: &'a Copies,
    node: u64,
    disk: Arc<dyn Disk>,
    /// The same directory as people read it.
    notes: &'a RealDisk,
    key: Option<OuterKey>,
}

impl Fetching<'_> {
    /// `None` if whoever waits gives up.
    fn fetch(&self, progress: &Progress, mut gives_up: impl FnMut() -> bool) -> Result<Option<Restored>, String> {
        let clock = SystemClock::new();
        let (mut told_at, mut looked_at) = (Duration::ZERO, Duration::ZERO);
        let mut early: Option<(EarlyPages, Arc<dyn ObjectStore>)> = None;
        loop {
            if let Some((id, standing)) = self.copies.given_to(self.node).map_err(told)? {
                return self.restore(id, standing, early.map(|(pages, _)| pages), progress).map(Some);
            }
            if self.goes_on_early(&mut early, progress)? {
                continue;
            }
            let now = clock.monotonic();
            if now.saturating_sub(looked_at) >= LOOK_FOR_OTHERS {
                looked_at = now;
                if gives_up() {
                    return Ok(None);
                }
            }
            if now.saturating_sub(told_at) >= TELL_EVERY {
                told_at = now;
                tracing::info!(target: "replication", waited_seconds = now.as_secs(), "still waits for a copy");
            }
            clock.sleep(LOOK);
        }
    }

    /// Restores more of the copy that is being made. `false`: there is no more of it yet.
    fn goes_on_early(
        &self,
        early: &mut Option<(EarlyPages, Arc<dyn ObjectStore>)>,
        progress: &Progress,
    ) -> Result<bool, String> {
        let Some(name) = self.copies.being_made().map_err(told)? else { return Ok(false) };
        if early.as_ref().is_none_or(|(pages, _)| pages.id() != name) {
            // Gives up the page file of an earlier one.
            early.take();
            let objects: Arc<dyn ObjectStore> = self.copies.place().open_existing().map_err(told)?;
            let pages = EarlyPages::begin((&self.disk, self.notes), name.clone()).map_err(told)?;
            tracing::info!(target: "replication", copy = name, "restores a copy that is being made");
            *early = Some((pages, objects));
        }
        match early {
            Some((pages, objects)) => pages.step(&**objects, self.key.as_ref(), progress).map_err(told),
            None => Ok(false),
        }
    }

    /// Restores a copy that is made, or the rest of it.
    fn restore(
        &self,
        id: String,
        standing: Option<Standing>,
        early: Option<EarlyPages>,
        progress: &Progress,
    ) -> Result<Restored, String> {
        let objects = self.copies.place().open_existing().map_err(told)?;
        let early = early.filter(|early| early.id() == id);
        let options = RestoreOptions {
            backup: Some(id),
            target: Target::Newest,
            key: self.key.clone(),
            from: self.copies.place().to_string(),
        };
        let times = (&SystemClock::new() as &dyn Clock, &SystemRandom as &dyn platform::Random);
        let restored = match early {
            Some(early) => early.go_on(&*objects, self.notes, times, &options, progress),
            None => backup::restore(&*objects, (&self.disk, self.notes), times, &options, progress),
        };
        let restored = restored.map_err(told)?;
        if let Some(standing) = standing {
            StandingFile::open(self.disk.clone()).and_then(|mut file| file.store(standing)).map_err(told)?;
        }
        Ok(restored)
    }
}

/// What a new member needs a copy for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Need {
    /// The log has everything, and is soon read.
    None,
    /// The log has everything, and takes longer to be read.
    Shorter,
    /// The log lacks the beginning of the set's oplog.
    Only,
}

impl Need {
    fn in_words(self) -> &'static str {
        match self {
            Need::None => "",
            Need::Shorter => "the log is long",
            Need::Only => "the log does not have everything",
        }
    }
}

fn need_of(log: &dyn SharedLog, node: u64) -> shared_log::Result<Need> {
    if log.bounds()?.first > Offset(0) {
        return Ok(Need::Only);
    }
    let Some(record) = log.read(Offset(0), 1, Duration::ZERO)?.into_iter().next() else { return Ok(Need::None) };
    let mut reading = Reading::new(log.identity()?, OplogPlace::default());
    let first = reading.step(record.offset, &record.bytes)?;
    if matches!(first, Effect::Claimed { cut_at, .. } | Effect::Restored { cut_at, .. } if cut_at > 0) {
        return Ok(Need::Only);
    }
    let notices = log.notices()?;
    let others = notices.iter().filter_map(|notice| Notice::decode(notice)).filter(|notice| notice.node != node);
    let is_long = others.into_iter().any(|notice| notice.is_listed && notice.applied > READ_BYTES_MAX);
    Ok(if is_long { Need::Shorter } else { Need::None })
}

/// Whether any other member is there: who is tells of itself again and again.
struct Others<'l> {
    log: &'l dyn SharedLog,
    node: u64,
    clock: SystemClock,
    told: Vec<(u64, u64, u64)>,
    heard: Duration,
}

impl<'l> Others<'l> {
    fn new(log: &'l dyn SharedLog, node: u64) -> Others<'l> {
        Others { log, node, clock: SystemClock::new(), told: Vec::new(), heard: Duration::ZERO }
    }

    /// Nobody has told anything new for long. What cannot be read says nothing.
    fn are_silent(&mut self) -> bool {
        let notices = self.log.notices().unwrap_or_default();
        let notices = notices.iter().filter_map(|notice| Notice::decode(notice));
        let mut told: Vec<_> = notices
            .filter(|notice| notice.node != self.node)
            .map(|notice| (notice.node, notice.incarnation, notice.number))
            .collect();
        told.sort_unstable();
        let now = self.clock.monotonic();
        if told != self.told {
            (self.told, self.heard) = (told, now);
        }
        now.saturating_sub(self.heard) > SILENT_AFTER
    }
}
