//! How a new member gets another one's data (`copies`): it asks, restores while the copy is being made, and takes up the giver's standing.
//!
//! A copy that was made lately is restored again (`recent_copy`). A member that was away for too long is a new one (`set_aside`).
//!
//! Called before the data directory is used. Whatever ends this process, the next start begins the restore again: what was asked for stays asked for, and a copy that
//! was given stays. When the giver ends, another one makes a copy of its own, or the same one goes on with its: either has another name, and is restored from its
//! beginning. Where the log has everything and nobody is there who copies, the log is read instead.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use backup::{EarlyPages, ObjectStore, Progress, RestoreOptions, Restored, SET_ASIDE, Target, UNFINISHED_NOTE};
use platform::{Clock, DirectoryLock, Disk, OuterKey, RealDisk, SystemClock, SystemRandom, WorkClass, WorkScope};
use shared_log::{
    ARRIVES_WITHIN, Effect, Leader, Notice, Offset, Place as OplogPlace, Reading, Rule, SharedLog, Standing,
};

use super::copies::Copies;
use super::recent_copy::{READ_BYTES_MAX, Reach};
use super::set_aside::{self, Gone};
use crate::configuration::KeySource;
use crate::data_disk::{self, Unencrypted};
use crate::progress_lines::with_progress_lines;

/// How often a new member looks whether more of its copy is there.
const LOOK: Duration = Duration::from_millis(10);
/// How often it says that it waits.
const TELL_EVERY: Duration = Duration::from_secs(10);
/// How often it looks whether others are there.
const LOOK_FOR_OTHERS: Duration = Duration::from_secs(1);
/// Members that have told nothing new for so long give no copy.
const SILENT_AFTER: Duration = Duration::from_secs(30);

/// Fills an empty data directory with another member's data, if the log alone is not enough. One with data of which the log lacks what comes next counts as empty.
///
/// # Errors
/// What could not be done, for the operator.
pub(super) fn fetch_if_needed(
    copies: Option<Copies>,
    log: &dyn SharedLog,
    directory: (&Path, Option<&KeySource>),
    address: &str,
) -> Result<(), String> {
    let (data, _) = directory;
    let notes = Arc::new(RealDisk::new(data).map_err(told)?);
    let Some(_lock) = empty(&notes, log, directory, copies.is_some())? else { return Ok(()) };
    let has = |name: &str| notes.exists(Path::new(name)).map_err(told);
    let node = Leader::node_at(address);
    let need = match need_of(log, node).map_err(told)? {
        // Half a copy is no directory to begin with.
        Need::None if has(UNFINISHED_NOTE)? => Need::Shorter,
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
    let recent = copies.recent(log, Reach::Short).unwrap_or_else(|why| {
        tracing::warn!(target: "replication", why, "whether an earlier copy would do is not known");
        None
    });
    match recent {
        Some(copy) if copies.given_to(node).map_err(told)?.is_none() => {
            tracing::info!(target: "replication", copy = copy.id, why = need.in_words(), "restores a copy that was made lately");
            copies.take(node, &copy).map_err(told)?;
        }
        _ => {
            copies.want(node, address).map_err(told)?;
            tracing::info!(target: "replication", why = need.in_words(), "waits for another member to copy its data");
        }
    }
    let real = RealDisk::new(data).map_err(told)?;
    let disk = data_disk::open(real, data, copies.key.as_ref(), Unencrypted::Encrypt)?;
    let key = copies.outer_key()?;
    let fetching = Fetching { copies: &copies, log, need, member: (node, address), disk, notes: &notes, key };
    // Who wakes up beside it goes first.
    let _long = WorkScope::begin(WorkClass::Long);
    match with_progress_lines("copy", |progress| fetching.fetch(progress))? {
        Some(restored) => {
            tracing::info!(target: "replication", until = restored.until, "has another member's data");
        }
        None => {
            if has(UNFINISHED_NOTE)? {
                backup::undo(&*fetching.disk, &*notes).map_err(told)?;
            }
            tracing::info!(target: "replication", "nobody is there who copies its data: reads the log from its beginning");
        }
    }
    if has(SET_ASIDE)? {
        set_aside::remove(&notes, data).map_err(told)?;
    }
    // If it is asked for again, it is given again.
    copies.want_nothing(node).map_err(told)
}

/// Has the directory empty, or with what an unfinished restore has left, and locked; `None`: it has data with which its member goes on.
fn empty(
    notes: &Arc<RealDisk>,
    log: &dyn SharedLog,
    directory: (&Path, Option<&KeySource>),
    has_copies: bool,
) -> Result<Option<DirectoryLock>, String> {
    let has = |name: &str| notes.exists(Path::new(name)).map_err(told);
    let (is_begun, is_aside) = (has(UNFINISHED_NOTE)?, has(SET_ASIDE)?);
    let lock = || DirectoryLock::acquire(directory.0).map_err(told).map(Some);
    if is_begun || !(has(set_aside::OPLOG)? || is_aside) {
        return lock();
    }
    if has(set_aside::OPLOG)? {
        if is_aside {
            let _lock = lock()?;
            set_aside::remove(notes, directory.0).map_err(told)?;
        }
        let Some(gone) = set_aside::is_gone(log, directory)? else { return Ok(None) };
        let Gone { needs, first } = gone;
        if !has_copies {
            return Err(format!(
                "the shared log begins with record {first}, and this member needs it from record {needs} on: it was away for longer than the log is kept. There is no place for \
                 a copy of another member's data: name a directory that all members see, by the option copies in the URL of --log, on all members"
            ));
        }
        tracing::warn!(target: "replication", needs = needs.0, first = first.0, "was away for longer than the shared log is kept: gets another member's data in place of its own");
    }
    let locked = lock()?;
    set_aside::set_aside(notes).map_err(told)?;
    Ok(locked)
}

fn told(error: impl std::fmt::Display) -> String {
    format!("cannot get a copy of another member's data: {error}")
}

/// What a new member gets its data with.
struct Fetching<'a> {
    copies: &'a Copies,
    log: &'a dyn SharedLog,
    need: Need,
    /// Its number and its address.
    member: (u64, &'a str),
    disk: Arc<dyn Disk>,
    /// The same directory as people read it.
    notes: &'a RealDisk,
    key: Option<OuterKey>,
}

impl Fetching<'_> {
    /// `None` if whoever waits gives up.
    fn fetch(&self, progress: &Progress) -> Result<Option<Restored>, String> {
        let (clock, mut others) = (SystemClock::new(), Others::new(self.log, self.member.0));
        let (mut told_at, mut looked_at) = (Duration::ZERO, Duration::ZERO);
        let mut early: Option<(EarlyPages, Arc<dyn ObjectStore>)> = None;
        let mut may_ask_again = true;
        loop {
            if let Some((id, standing)) = self.copies.given_to(self.member.0).map_err(told)? {
                match self.restore(id, standing, early.take().map(|(pages, _)| pages), progress) {
                    // It was removed meanwhile, or is damaged.
                    Err(why) if may_ask_again => self.ask_again(&why)?,
                    restored => return restored.map(Some),
                }
                may_ask_again = false;
            }
            if self.goes_on_early(&mut early, progress)? {
                continue;
            }
            let now = clock.monotonic();
            if now.saturating_sub(looked_at) >= LOOK_FOR_OTHERS {
                looked_at = now;
                if others.are_silent() {
                    match self.need {
                        Need::Shorter | Need::None => return Ok(None),
                        Need::Only => self.take_any()?,
                    }
                }
            }
            if now.saturating_sub(told_at) >= TELL_EVERY {
                told_at = now;
                tracing::info!(target: "replication", waited_seconds = now.as_secs(), "still waits for a copy");
            }
            clock.sleep(LOOK);
        }
    }

    /// A copy could not be restored: another one is asked for.
    fn ask_again(&self, why: &str) -> Result<(), String> {
        tracing::warn!(target: "replication", why, "asks for another copy");
        backup::undo(&*self.disk, self.notes).map_err(told)?;
        let (node, address) = self.member;
        self.copies.want_nothing(node).and_then(|()| self.copies.want(node, address)).map_err(told)
    }

    /// Nobody is there who makes a copy: one that is beside the log does, whatever has to be read behind it.
    fn take_any(&self) -> Result<(), String> {
        let Some(copy) = self.copies.recent(self.log, Reach::Any)? else { return Ok(()) };
        tracing::warn!(target: "replication", copy = copy.id, "nobody is there who copies its data: restores an earlier copy");
        self.copies.take(self.member.0, &copy).map_err(told)
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
            standing: standing.map(|standing| standing.encode()),
        };
        let times = (&SystemClock::new() as &dyn Clock, &SystemRandom as &dyn platform::Random);
        let restored = match early {
            Some(early) => early.go_on(&*objects, self.notes, times, &options, progress),
            None => backup::restore(&*objects, (&self.disk, self.notes), times, &options, progress),
        };
        restored.map_err(told)
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
    let bounds = log.bounds()?;
    if bounds.first > Offset(0) {
        return Ok(Need::Only);
    }
    if bounds.end == Offset(0) {
        return Ok(Need::None);
    }
    let Some(record) = log.read(Offset(0), 1, ARRIVES_WITHIN)?.into_iter().next() else { return Ok(Need::None) };
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

#[cfg(test)]
mod tests {
    use platform::SimulatedDisk;
    use replication::StandingFile;

    use super::*;

    #[test]
    fn a_restored_standing_is_where_the_member_looks() {
        let disk: Arc<dyn Disk> = Arc::new(SimulatedDisk::new(1));
        let log = shared_log::MemoryLog::new(1).connect();
        let standing = Reading::new(log.identity().unwrap(), OplogPlace::default()).standing();
        StandingFile::open(disk.clone()).unwrap().store(standing).unwrap();
        assert!(disk.exists(Path::new(backup::STANDING_FILE)).unwrap());
    }
}
