//! What an operator does with a shared log: examine it, have a copy of the data made beside it, trim it.
//!
//! Called by the command `plimsoll log`. It is done beside the members, which may run or not: what they need of the log they say in their notices.
//!
//! The log is trimmed to the older of two places: from where a member with the newest verified copy has to read on, and where what was logged within the promised time
//! begins. It is not trimmed while a member of the set, or one that restores a copy, needs something from before that.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use backup::{Manifest, ObjectStore, Pruned};
use oplog::{OplogPosition, peek_canonical};
use platform::{Clock, Disk, Random, RealDisk, SystemClock, SystemRandom};
use shared_log::{
    DirectoryLog, Examined, KeyAmongNotices, Notice, Offset, SharedLog, Window, WindowBegin, examine, window_begins,
};

use super::copies::{Copies, KeptCopy, Proof};
use super::log_objects::open_in_objects;
use super::log_opening::{open_kafka, sealed, with_key_among_notices};
use crate::configuration::{KeySource, LogPlace};

/// Copies that stay: the newest, and one more should that be damaged.
pub const COPIES_KEPT: u32 = 2;
/// A member that is not listed counts if it has shown itself within so long.
const RECENT: Duration = Duration::from_secs(60);

/// A shared log that is looked after.
pub struct LogCare {
    place: LogPlace,
    log: Arc<dyn SharedLog>,
    key: Option<KeySource>,
    range: Range<Offset>,
    gaps: Vec<Range<Offset>>,
}

/// What `LogCare::check` has found.
pub struct Checked {
    /// What is known of the log beside its records, a line each.
    pub settings: Vec<String>,
    /// The records.
    pub records: Range<Offset>,
    /// What they say.
    pub examined: Examined,
    /// What the members have said last, a line each.
    pub members: Vec<String>,
    /// Copies beside the log: the backup's name, from which record on they have to read, and whether they were verified.
    pub copies: Vec<(String, Offset, bool)>,
}

fn told(error: &dyn std::fmt::Display) -> String {
    error.to_string()
}

/// A log in a directory, its records, and which of them are missing.
type Opened = (DirectoryLog, Range<Offset>, Vec<Range<Offset>>);

fn open(directory: &Path) -> Result<Opened, String> {
    #[allow(clippy::disallowed_methods, reason = "opening a RealDisk would make the directory")]
    if !directory.is_dir() {
        return Err(format!("there is no directory {}", directory.display()));
    }
    let disk: Arc<dyn Disk> = Arc::new(RealDisk::new(directory).map_err(|error| told(&error))?);
    let opened = DirectoryLog::open_to_examine(disk, Arc::new(SystemClock::new()), Arc::new(SystemRandom));
    opened.map_err(|error| told(&error))
}

/// Wraps the key of an encrypted log by another one, with which its members are started from now on. No record is written.
///
/// # Errors
/// `from` is not the key, or the log is not encrypted.
pub fn rotate_key(url: &str, from: &KeySource, to: &KeySource) -> Result<(), String> {
    let (from, to) = (from.read()?, to.read()?);
    let rotated = match url.parse()? {
        LogPlace::Directory(directory) => open(&directory)?.0.rotate_key(&from, &to),
        LogPlace::Objects { place, .. } => open_in_objects(&place).and_then(|log| log.rotate_key(&from, &to)),
        LogPlace::Kafka(topic) => open_kafka(&topic)
            .and_then(|log| KeyAmongNotices::new(&*log, &SystemClock::new()).rotate((&from, &to), &SystemRandom)),
    };
    rotated.map_err(|error| told(&error))
}

impl LogCare {
    /// The log that the URL names, with the key of its members if they are encrypted.
    ///
    /// # Errors
    /// It is none, or is not there; the key does not fit.
    pub fn of_url(url: &str, key: Option<KeySource>) -> Result<LogCare, String> {
        let place: LogPlace = url.parse()?;
        let outer = key.as_ref().map(KeySource::read).transpose()?;
        let (log, range, gaps) = match &place {
            LogPlace::Directory(directory) => open(directory)?,
            LogPlace::Kafka(topic) => {
                let log = open_kafka(topic).and_then(|log| with_key_among_notices(log, outer.as_ref()));
                return LogCare::of_whole(place, log.map_err(|error| told(&error))?, key);
            }
            LogPlace::Objects { place: objects, .. } => {
                let opened = open_in_objects(objects).and_then(|log| Ok((log.key(outer.as_ref())?, log)));
                let log = opened.and_then(|(key, log)| sealed(Box::new(log), key));
                return LogCare::of_whole(place, log.map_err(|error| told(&error))?, key);
            }
        };
        let inner = log.key(outer.as_ref()).and_then(|key| sealed(Box::new(log), key));
        let log = inner.map_err(|error| told(&error))?;
        Ok(LogCare { place, log, key, range, gaps })
    }

    /// One that opens only if it has all its records.
    fn of_whole(place: LogPlace, log: Arc<dyn SharedLog>, key: Option<KeySource>) -> Result<LogCare, String> {
        let bounds = log.bounds().map_err(|error| told(&error))?;
        Ok(LogCare { place, log, key, range: bounds.first..bounds.end, gaps: Vec::new() })
    }

    /// One that a member has opened, as it is now.
    pub(super) fn of_member(
        place: LogPlace,
        log: Arc<dyn SharedLog>,
        key: Option<KeySource>,
    ) -> Result<LogCare, String> {
        LogCare::of_whole(place, log, key)
    }

    /// Where it begins and ends.
    pub(super) fn range(&self) -> Range<Offset> {
        self.range.clone()
    }

    pub(super) fn copies(&self) -> Result<Copies, String> {
        let none = "no directory is named for copies of the data: the option copies in the URL of the log does so";
        Copies::of_log(&self.place, self.key.clone()).ok_or_else(|| none.to_owned())
    }

    /// The copies from which a member can go on in this log, oldest first.
    pub(super) fn kept(&self) -> Result<Vec<KeptCopy>, String> {
        let identity = self.log.identity().map_err(|error| told(&error))?;
        let Ok(copies) = self.copies() else { return Ok(Vec::new()) };
        let mut kept = copies.kept().map_err(|error| told(&error))?;
        kept.retain(|copy| copy.standing.log == identity);
        Ok(kept)
    }

    fn notices(&self) -> Result<Vec<Notice>, String> {
        let notices = self.log.notices().map_err(|error| told(&error))?;
        let mut notices: Vec<_> = notices.iter().filter_map(|notice| Notice::decode(notice)).collect();
        notices.sort_by(|one, other| one.address.cmp(&other.address));
        Ok(notices)
    }

    /// Reads the whole log.
    ///
    /// # Errors
    /// It cannot be read. What is wrong with what was read is in the result.
    pub fn check(&self) -> Result<Checked, String> {
        let kept = self.kept()?;
        let standings: Vec<_> = kept.iter().map(|copy| copy.standing.clone()).collect();
        let examined = examine(&*self.log, self.range.clone(), (&standings, &self.gaps));
        let mut examined = examined.map_err(|error| told(&error))?;
        if self.gaps.is_empty() {
            examined.problems.extend(self.log.check().map_err(|error| told(&error))?);
        }
        let named = match &self.place {
            LogPlace::Directory(directory) => format!("directory      {}", directory.display()),
            LogPlace::Kafka(topic) => format!("topic          {topic}"),
            LogPlace::Objects { place, .. } => format!("objects        {place}"),
        };
        let identity = self.log.identity().map_err(|error| told(&error))?;
        let mut settings = vec![named, format!("identity       {identity}")];
        if let LogPlace::Directory(directory) = &self.place
            && let Some(mount) = mount_of(directory)
        {
            settings.push(format!("file system    {}", mount.line));
            examined.problems.extend(mount.complaint);
        }
        let members =
            self.notices()?.iter().map(|notice| described(notice, SystemClock::new().wall_millis())).collect();
        let copies =
            kept.into_iter().map(|copy| (copy.id, copy.standing.next, copy.proof == Proof::Restored)).collect();
        Ok(Checked { settings, records: self.range.clone(), examined, members, copies })
    }

    /// Has a member copy its data; the name of the backup.
    ///
    /// # Errors
    /// Nobody has given one within `patience`.
    pub fn have_copied(&self, patience: Duration) -> Result<String, String> {
        self.copies()?.ask(SystemRandom.next_u64(), patience)
    }

    /// The newest copy, if there is one.
    ///
    /// # Errors
    /// The directory cannot be read.
    pub fn newest_copy(&self) -> Result<Option<(String, bool)>, String> {
        Ok(self.kept()?.pop().map(|copy| (copy.id, copy.proof == Proof::Restored)))
    }

    /// The URL of the copies.
    ///
    /// # Errors
    /// There is no place for them.
    pub fn copies_url(&self) -> Result<String, String> {
        Ok(self.copies()?.place().to_string())
    }

    /// A copy was restored and validated.
    ///
    /// # Errors
    /// That cannot be noted.
    pub fn note_verified(&self, id: &str) -> Result<(), String> {
        self.copies()?.note_proof(id, Proof::Restored).map_err(|error| told(&error))
    }

    /// To which record the log may be trimmed.
    ///
    /// # Errors
    /// Why it must not be.
    pub fn trim_target(&self, keep: Duration) -> Result<Offset, String> {
        if !self.gaps.is_empty() {
            return Err("the log lacks records: `plimsoll log check` says which".to_owned());
        }
        let now = SystemClock::new().wall_millis();
        let is_member = |notice: &Notice| notice.is_listed || age(notice, now) <= RECENT.as_millis() as i64;
        let window = self.window_begins(since(keep, now))?;
        let rule = TrimRule { window, proof: Proof::Restored, is_waited_for: &is_member };
        let needs = self.needs(&rule)?;
        let target = needs
            .target
            .ok_or("there is no verified copy of the data beside the log: `plimsoll log copy` has one made")?;
        let examined = examine(&*self.log, self.range.clone(), (&[], &[])).map_err(|error| told(&error))?;
        if let Some(problem) = examined.problems.first() {
            return Err(format!("the log is damaged: {problem}"));
        }
        if !needs.behind.is_empty() {
            let behind = needs.behind.iter().map(|behind| &*behind.why).collect::<Vec<_>>().join("; ");
            return Err(format!(
                "{behind}. Members may catch up; one that is gone for good is to be left out with rs.reconfig"
            ));
        }
        for given in self.copies()?.given().map_err(|error| told(&error))? {
            if given.standing.as_ref().is_none_or(|standing| standing.next < target) {
                return Err(format!(
                    "the member {} restores the copy {}, and needs the log from there on. If it is gone for good, remove {}",
                    given.node, given.id, given.file
                ));
            }
        }
        Ok(target)
    }

    /// What is needed of the log: the one rule of trimming.
    pub(super) fn needs(&self, rule: &TrimRule<'_>) -> Result<Needs, String> {
        let now = SystemClock::new().wall_millis();
        let window = rule.window;
        let good = self.kept()?.into_iter().rfind(|copy| copy.proof >= rule.proof);
        let target = good.as_ref().map(|copy| copy.standing.next.min(window.first));
        let notices = self.notices()?;
        let waited_for = notices.iter().filter(|notice| (rule.is_waited_for)(notice));
        let behind = waited_for.filter_map(|notice| Behind::of(notice, target.unwrap_or(window.first), now));
        Ok(Needs { window, copy: good, target, behind: behind.collect() })
    }

    /// Where the window begins in this log.
    pub(super) fn window_begins(&self, window: Window) -> Result<WindowBegin, String> {
        let peek = |bytes: &[u8], position| {
            peek_canonical(bytes, OplogPosition(position)).map(|(timestamp, length)| (timestamp.0, length))
        };
        window_begins(&*self.log, self.range.clone(), window, &peek).map_err(|error| told(&error))
    }

    /// Trims the log; where it begins then.
    ///
    /// # Errors
    /// It could not be trimmed.
    pub fn trim(&self, target: Offset) -> Result<Offset, String> {
        self.log.trim_before(target).map_err(|error| told(&error))
    }

    /// Removes copies: the newest ones that were verified stay, so many of them, and those that are newer, or are being restored.
    ///
    /// # Errors
    /// Some could not be removed.
    pub fn prune_copies(&self, keep: usize) -> Result<Pruned, String> {
        self.prune(keep, Proof::Restored)
    }

    /// The same where those count that are known to be as good as that.
    pub(super) fn prune(&self, keep: usize, proof: Proof) -> Result<Pruned, String> {
        let copies = self.copies()?;
        let kept = self.kept()?;
        let good: Vec<_> = kept.iter().filter(|copy| copy.proof >= proof).map(|copy| copy.id.clone()).collect();
        let Some(place) = good.len().checked_sub(keep.max(1)) else { return Ok(Pruned::default()) };
        let stays = &good[place..];
        let read: Vec<_> = copies.given().map_err(|error| told(&error))?.into_iter().map(|given| given.id).collect();
        let objects: Arc<dyn ObjectStore> = copies.place().open_existing().map_err(|error| told(&error))?;
        let (whole, _) = backup::list(&*objects).map_err(|error| told(&error))?;
        let newest =
            whole.iter().filter(|manifest| stays.contains(&manifest.id)).map(|manifest| manifest.began_millis).max();
        let is_kept = |_, manifest: &Manifest| {
            let is_newer = newest.is_none_or(|newest| manifest.began_millis >= newest);
            is_newer || stays.contains(&manifest.id) || read.contains(&manifest.id)
        };
        let pruned =
            backup::prune_but(&*objects, &is_kept, SystemClock::new().wall_millis()).map_err(|error| told(&error))?;
        pruned.backups.iter().try_for_each(|id| copies.forget(id)).map_err(|error| told(&error))?;
        Ok(pruned)
    }
}

/// How much of the log is kept.
pub(super) struct TrimRule<'r> {
    /// Where it begins what members find that are away.
    pub(super) window: WindowBegin,
    /// How good a copy must be to stand for what is removed.
    pub(super) proof: Proof,
    /// Whether what a member needs is kept, however old it is.
    pub(super) is_waited_for: &'r dyn Fn(&Notice) -> bool,
}

/// What is needed of the log.
pub(super) struct Needs {
    /// Where the window begins.
    pub(super) window: WindowBegin,
    /// The newest copy that is good enough.
    pub(super) copy: Option<KeptCopy>,
    /// To where it may be trimmed as far as window and copies go; `None`: no copy is good enough.
    pub(super) target: Option<Offset>,
    /// Members that need what is before that.
    pub(super) behind: Vec<Behind>,
}

/// A member that needs more of the log than others.
pub(super) struct Behind {
    /// From which record on; `None`: its build does not say.
    pub(super) needs: Option<Offset>,
    /// In words.
    pub(super) why: String,
}

impl Behind {
    /// `None` if the member needs nothing before `target`.
    fn of(notice: &Notice, target: Offset, now: i64) -> Option<Behind> {
        let needed = match notice.needs {
            Some(needs) if needs >= target => return None,
            Some(needs) => format!("needs the log from record {needs} on"),
            None => "does not say from where on it needs the log, as its build is too old".to_owned(),
        };
        let age = age(notice, now);
        let seen = if age > 10_000 { format!(", and was last seen {} seconds ago", age / 1000) } else { String::new() };
        Some(Behind { needs: notice.needs, why: format!("{} {needed}{seen}", notice.address) })
    }
}

/// How old a notice is, by its member's clock.
fn age(notice: &Notice, now: i64) -> i64 {
    now.saturating_sub(notice.wall_millis)
}

/// The window of what was logged in the last so long.
pub(super) fn since(longest: Duration, now: i64) -> Window {
    let since = (now / 1000).saturating_sub(longest.as_secs().min(i64::MAX as u64) as i64).max(0) as u64;
    Window::Since(since << 32)
}

fn described(notice: &Notice, now: i64) -> String {
    let role = match (notice.leads, notice.is_listed) {
        (true, _) => "leads",
        (false, true) => "follows",
        (false, false) => "not listed",
    };
    let needs = notice.needs.map_or_else(|| "does not say what it needs".to_owned(), |needs| format!("needs {needs}"));
    let age = now.saturating_sub(notice.wall_millis).max(0) / 1000;
    format!("{:<24} {role:<12} {needs}, seen {age} seconds ago", notice.address)
}

struct Mount {
    line: String,
    complaint: Option<String>,
}

/// The file system of a directory, by the kernel's list of mounts.
fn mount_of(directory: &Path) -> Option<Mount> {
    #[allow(clippy::disallowed_methods, reason = "a file of the kernel's")]
    let (mounts, directory) = (std::fs::read_to_string("/proc/self/mounts").ok()?, directory.canonicalize().ok()?);
    let fields = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    let found = fields.filter(|fields| fields.len() > 3 && directory.starts_with(fields[1].replace("\\040", " ")));
    let mount = found.max_by_key(|fields| fields[1].len())?;
    let (kind, options) = (mount[2], mount[3]);
    let looks_up_anew = options.split(',').any(|option| ["lookupcache=none", "actimeo=0", "noac"].contains(&option));
    let complaint = (kind.starts_with("nfs") && !looks_up_anew).then(|| {
        "the file system is mounted without lookupcache=none or actimeo=0: members would not see each other's records".to_owned()
    });
    Some(Mount { line: format!("{kind} at {}, {options}", mount[1]), complaint })
}
