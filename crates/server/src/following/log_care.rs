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
use shared_log::{DirectoryLog, Examined, NewerThan, Notice, Offset, SealedLog, SharedLog, examine};

use super::copies::{Copies, KeptCopy};
use super::log_objects::open_in_objects;
use super::log_opening::open_kafka;
use crate::configuration::{KeySource, LogPlace};

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
    let LogPlace::Directory(directory) = url.parse()? else {
        return Err("a log that is in no directory is not encrypted, so there is no key to change".to_owned());
    };
    let (log, ..) = open(&directory)?;
    log.rotate_key(&from.read()?, &to.read()?).map_err(|error| told(&error))
}

impl LogCare {
    /// The log that the URL names, with the key of its members if they are encrypted.
    ///
    /// # Errors
    /// It is none, or is not there; the key does not fit.
    pub fn of_url(url: &str, key: Option<KeySource>) -> Result<LogCare, String> {
        let place: LogPlace = url.parse()?;
        let (log, range, gaps) = match &place {
            LogPlace::Directory(directory) => open(directory)?,
            LogPlace::Kafka(topic) => {
                let log = open_kafka(topic).map_err(|error| told(&error))?;
                return LogCare::of_whole(place, log, key);
            }
            LogPlace::Objects { place: objects, .. } => {
                let log = open_in_objects(objects).map_err(|error| told(&error))?;
                return LogCare::of_whole(place, log, key);
            }
        };
        let outer = key.as_ref().map(KeySource::read).transpose()?;
        let log: Arc<dyn SharedLog> = match log.key(outer.as_ref()).map_err(|error| told(&error))? {
            Some(key) => {
                let sealed = SealedLog::new(Box::new(log), key, Arc::new(SystemRandom));
                Arc::new(sealed.map_err(|error| told(&error))?)
            }
            None => Arc::new(log),
        };
        Ok(LogCare { place, log, key, range, gaps })
    }

    /// One that opens only if it has all its records.
    fn of_whole(place: LogPlace, log: Arc<dyn SharedLog>, key: Option<KeySource>) -> Result<LogCare, String> {
        let bounds = log.bounds().map_err(|error| told(&error))?;
        Ok(LogCare { place, log, key, range: bounds.first..bounds.end, gaps: Vec::new() })
    }

    fn copies(&self) -> Result<Copies, String> {
        let none = "no directory is named for copies of the data: the option copies in the URL of the log does so";
        Copies::of_log(&self.place, self.key.clone()).ok_or_else(|| none.to_owned())
    }

    fn kept(&self) -> Result<Vec<KeptCopy>, String> {
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
        let examined = examine(&*self.log, self.range.clone(), (&standings, &self.gaps), &mut |_, _| {});
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
        let copies = kept.into_iter().map(|copy| (copy.id, copy.standing.next, copy.is_verified)).collect();
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
        Ok(self.kept()?.pop().map(|copy| (copy.id, copy.is_verified)))
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
        self.copies()?.note_verified(id).map_err(|error| told(&error))
    }

    /// To which record the log may be trimmed.
    ///
    /// # Errors
    /// Why it must not be.
    pub fn trim_target(&self, keep: Duration) -> Result<Offset, String> {
        if !self.gaps.is_empty() {
            return Err("the log lacks records: `plimsoll log check` says which".to_owned());
        }
        let verified = self.kept()?.into_iter().rfind(|copy| copy.is_verified);
        let copy =
            verified.ok_or("there is no verified copy of the data beside the log: `plimsoll log copy` has one made")?;
        let now = SystemClock::new().wall_millis();
        let since = (now / 1000).saturating_sub(keep.as_secs() as i64).max(0) as u64;
        let mut newer = NewerThan::new(since << 32);
        let peek = |bytes: &[u8], position| {
            peek_canonical(bytes, OplogPosition(position)).map(|(timestamp, length)| (timestamp.0, length))
        };
        let read = &mut |offset: Offset, record: &shared_log::Record<'_>| newer.take(offset, record, &peek);
        let examined = examine(&*self.log, self.range.clone(), (&[], &[]), read).map_err(|error| told(&error))?;
        if let Some(problem) = examined.problems.first() {
            return Err(format!("the log is damaged: {problem}"));
        }
        let target = copy.standing.next.min(newer.first().unwrap_or(self.range.end));
        self.check_needs(target, now)?;
        Ok(target)
    }

    fn check_needs(&self, target: Offset, now: i64) -> Result<(), String> {
        let notices = self.notices()?;
        let behind: Vec<_> = notices.iter().filter_map(|notice| complaint(notice, target, now)).collect();
        if !behind.is_empty() {
            let behind = behind.join("; ");
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
        Ok(())
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
        let copies = self.copies()?;
        let kept = self.kept()?;
        let verified: Vec<_> = kept.iter().filter(|copy| copy.is_verified).map(|copy| copy.id.clone()).collect();
        let Some(place) = verified.len().checked_sub(keep.max(1)) else { return Ok(Pruned::default()) };
        let stays = &verified[place..];
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

/// Why the log cannot be trimmed to a record, if the member needs what is before that.
fn complaint(notice: &Notice, target: Offset, now: i64) -> Option<String> {
    let age = now.saturating_sub(notice.wall_millis);
    if !notice.is_listed && age > RECENT.as_millis() as i64 {
        return None;
    }
    let needed = match notice.needs {
        Some(needs) if needs >= target => return None,
        Some(needs) => format!("needs the log from record {needs} on"),
        None => "does not say from where on it needs the log, as its build is too old".to_owned(),
    };
    let seen = if age > 10_000 { format!(", and was last seen {} seconds ago", age / 1000) } else { String::new() };
    Some(format!("{} {needed}{seen}", notice.address))
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
