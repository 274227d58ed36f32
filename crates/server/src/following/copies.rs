//! A new member gets the data of another one: by a backup in the directory of the log, which all members see. A log in Kafka has one if `copies` names it.
//!
//! ```text
//! new member:  copies/wanted-NODE ──> waits ──> restores copies/backups ──> takes up the giver's standing ──> joins as any other
//! giver:       sees what is wanted ──> makes a backup ──> copies/given-NODE: the standing from which the log has to be read, and the backup
//! operator:    `plimsoll log copy` wants one, too; `log trim` (`log_care`) goes by copies/standing-BACKUP and notes copies/verified-BACKUP
//! ```
//!
//! Needed where the log does not have everything since the set's oplog was empty (the set was begun from a server that had data, or the log was trimmed), and better where the log is long. A
//! secondary gives, and the primary only when there is none. Nobody waits for a copy but the new member; the giver makes it as any backup.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use backup::{BackupOptions, Extent, ObjectStore, Packing, Place, RestoreOptions, Target, UNFINISHED_NOTE};
use commands::SetMembers;
use platform::{Clock, Disk, OpenMode, OuterKey, RealDisk, SystemClock, SystemRandom, replace_file, spawn_named};
use replication::StandingFile;
use shared_log::{Effect, Leader, Notice, Offset, Place as OplogPlace, Reading, Rule, SharedLog, Standing};

use super::set_state::SetState;
use crate::configuration::{KeySource, LogPlace};
use crate::data_disk::{self, Unencrypted};
use crate::progress_lines::with_progress_lines;

/// In the directory of the log.
const COPIES: &str = "copies";
const BACKUPS: &str = "backups";
const WANTED: &str = "wanted-";
const GIVEN: &str = "given-";
/// From where on the log has to be read with a copy; that it was verified.
const STANDING: &str = "standing-";
const VERIFIED: &str = "verified-";
/// What is being written ends so.
const NEW: &str = ".new";
/// How often a giver looks whether a copy is wanted, and a new member whether it is there.
const LOOK: Duration = Duration::from_millis(500);
/// How often a new member says that it waits.
const TELL_EVERY: Duration = Duration::from_secs(10);
/// A log with more of the oplog than this is not read from its beginning where another member can give a copy: that has less to do.
const READ_BYTES_MAX: u64 = 64 << 20;
/// Members that have told nothing new for so long give no copy.
const SILENT_AFTER: Duration = Duration::from_secs(30);
/// Longest content of a file of ours.
const BYTES_MAX: u64 = 64 << 10;

/// The copies beside a log.
#[derive(Clone)]
pub(super) struct Copies {
    directory: PathBuf,
    /// Of the data directories, and of the copies.
    key: Option<KeySource>,
}

impl Copies {
    /// `key`: that of an encrypted set. `None`: beside this log is no directory that all members see.
    pub(super) fn of_log(place: &LogPlace, key: Option<KeySource>) -> Option<Copies> {
        place.shared_directory().map(|directory| Copies { directory: directory.join(COPIES), key })
    }

    fn outer_key(&self) -> Result<Option<OuterKey>, String> {
        self.key.as_ref().map(KeySource::read).transpose()
    }

    fn disk(&self) -> io::Result<RealDisk> {
        RealDisk::new(&self.directory)
    }

    pub(super) fn place(&self) -> Place {
        Place::Directory(self.directory.join(BACKUPS))
    }

    /// The names in the directory; none if there is none.
    fn names(&self) -> io::Result<Vec<String>> {
        #[allow(clippy::disallowed_methods, reason = "opening a RealDisk would make the directory")]
        let is_there = self.directory.is_dir();
        if is_there { self.disk()?.list(Path::new("")) } else { Ok(Vec::new()) }
    }

    /// The copies from which a member can go on, oldest first.
    pub(super) fn kept(&self) -> io::Result<Vec<KeptCopy>> {
        let names = self.names()?;
        let mut kept = Vec::new();
        for id in names.iter().filter_map(|name| name.strip_prefix(STANDING)).filter(|id| !id.ends_with(NEW)) {
            let content = read(&self.disk()?, &format!("{STANDING}{id}"))?.unwrap_or_default();
            if let Ok(standing) = Standing::decode(&content) {
                let is_verified = names.iter().any(|name| name.strip_prefix(VERIFIED) == Some(id));
                kept.push(KeptCopy { id: id.to_owned(), standing, is_verified });
            }
        }
        kept.sort_by_key(|copy| copy.standing.next);
        Ok(kept)
    }

    /// The copies that members restore.
    pub(super) fn given(&self) -> io::Result<Vec<GivenCopy>> {
        let mut given = Vec::new();
        for name in self.names()?.iter().filter(|name| !name.ends_with(NEW)) {
            let Some(node) = name.strip_prefix(GIVEN) else { continue };
            if let Some((id, standing)) = read(&self.disk()?, name)?.as_deref().and_then(parse_given) {
                let file = self.directory.join(name).display().to_string();
                given.push(GivenCopy { node: node.to_owned(), id, standing, file });
            }
        }
        Ok(given)
    }

    /// Who waits for a copy.
    fn waiting(&self) -> io::Result<Vec<String>> {
        let mut waiting = Vec::new();
        for name in self.names()?.iter().filter(|name| name.starts_with(WANTED) && !name.ends_with(NEW)) {
            let who = read(&self.disk()?, name)?.unwrap_or_default();
            waiting.push(String::from_utf8_lossy(&who).into_owned());
        }
        Ok(waiting)
    }

    pub(super) fn note_verified(&self, id: &str) -> io::Result<()> {
        put(&self.disk()?, &format!("{VERIFIED}{id}"), b"")
    }

    /// The copy was removed.
    pub(super) fn forget(&self, id: &str) -> io::Result<()> {
        let disk = self.disk()?;
        for name in [format!("{VERIFIED}{id}"), format!("{STANDING}{id}")] {
            match disk.remove(Path::new(&name)) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                removed => removed?,
            }
        }
        Ok(())
    }

    /// Has a member make a copy, in a name of its own; the backup's name.
    pub(super) fn ask(&self, number: u64, patience: Duration) -> Result<String, String> {
        let told = |error: io::Error| error.to_string();
        let disk = self.disk().map_err(told)?;
        let (wanted, given) = (format!("{WANTED}{number:016x}"), format!("{GIVEN}{number:016x}"));
        put(&disk, &wanted, b"plimsoll log copy").map_err(told)?;
        let (clock, mut content) = (SystemClock::new(), None);
        while content.is_none() && clock.monotonic() < patience {
            clock.sleep(LOOK);
            content = read(&disk, &given).map_err(told)?;
        }
        for name in [&wanted, &given] {
            // One that stays is a copy more, or is asked for by name.
            let _ = disk.remove(Path::new(name));
        }
        let content = content.ok_or("no member has made a copy: does one run?")?;
        let (id, standing) = parse_given(&content).ok_or("what the giver says makes no sense")?;
        standing
            .map(|_| id)
            .ok_or_else(|| "the member that has made it does not know how far it has read the log".to_owned())
    }
}

/// A copy from which a member can go on.
pub(super) struct KeptCopy {
    /// The backup's name.
    pub(super) id: String,
    /// From where on it has to read the log.
    pub(super) standing: Standing,
    /// It was restored once, and its collections were valid.
    pub(super) is_verified: bool,
}

/// A copy that a member restores.
pub(super) struct GivenCopy {
    /// Its number, in hexadecimal.
    pub(super) node: String,
    pub(super) id: String,
    pub(super) standing: Option<Standing>,
    /// The file that says so.
    pub(super) file: String,
}

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
    let told = |error: &dyn std::fmt::Display| format!("cannot get a copy of another member's data: {error}");
    let notes = RealDisk::new(data).map_err(|error| told(&error))?;
    let has = |name: &str| notes.exists(Path::new(name)).map_err(|error| told(&error));
    let is_begun = has(UNFINISHED_NOTE)?;
    if has("oplog")? && !is_begun {
        return Ok(());
    }
    let node = Leader::node_at(address);
    let need = match need_of(log, node).map_err(|error| told(&error))? {
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
    let disk = copies.disk().map_err(|error| told(&error))?;
    let (wanted, given) = (format!("{WANTED}{node:016x}"), format!("{GIVEN}{node:016x}"));
    put(&disk, &wanted, address.as_bytes()).map_err(|error| told(&error))?;
    tracing::info!(target: "replication", why = need.in_words(), "waits for another member to copy its data");
    let mut others = Others::new(log, node);
    // What is begun is finished: the directory is empty otherwise.
    let gives_up = || need == Need::Shorter && !is_begun && others.are_silent();
    let Some(content) = wait_for(&disk, &given, gives_up).map_err(|error| told(&error))? else {
        tracing::info!(target: "replication", "nobody is there who copies its data: reads the log from its beginning");
        return disk.remove(Path::new(&wanted)).map_err(|error| told(&error));
    };
    let (id, standing) = parse_given(&content).ok_or_else(|| told(&"what the giver says makes no sense"))?;
    let objects = copies.place().open_existing().map_err(|error| told(&error))?;
    let (target, key, from) = (Target::Newest, copies.outer_key()?, copies.place().to_string());
    let options = RestoreOptions { backup: Some(id), target, key, from };
    let real = RealDisk::new(data).map_err(|error| told(&error))?;
    let disk_of_data = data_disk::open(real, data, copies.key.as_ref(), Unencrypted::Encrypt)?;
    let restored = with_progress_lines("copy", |progress| {
        backup::restore(&*objects, (&disk_of_data, &notes), (&SystemClock::new(), &SystemRandom), &options, progress)
    });
    let restored = restored.map_err(|error| told(&error))?;
    if let Some(standing) = standing {
        StandingFile::open(disk_of_data).and_then(|mut file| file.store(standing)).map_err(|error| told(&error))?;
    }
    for name in [&wanted, &given] {
        // It is asked for again, and given again.
        let _ = disk.remove(Path::new(name));
    }
    tracing::info!(target: "replication", until = restored.until, "has another member's data");
    Ok(())
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

/// The content of a file once it is there; `None` if whoever waits gives up.
fn wait_for(disk: &dyn Disk, name: &str, mut gives_up: impl FnMut() -> bool) -> io::Result<Option<Vec<u8>>> {
    let clock = SystemClock::new();
    let mut told = Duration::ZERO;
    loop {
        if let Some(content) = read(disk, name)? {
            return Ok(Some(content));
        }
        if gives_up() {
            return Ok(None);
        }
        if clock.monotonic().saturating_sub(told) >= TELL_EVERY {
            told = clock.monotonic();
            tracing::info!(target: "replication", waited_seconds = told.as_secs(), "still waits for a copy");
        }
        clock.sleep(LOOK);
    }
}

/// The backup's name, a line break, and the standing.
fn parse_given(content: &[u8]) -> Option<(String, Option<Standing>)> {
    let end = content.iter().position(|byte| *byte == b'\n')?;
    let id = String::from_utf8(content[..end].to_vec()).ok()?;
    let standing = &content[end + 1..];
    if standing.is_empty() {
        return Some((id, None));
    }
    Standing::decode(standing).ok().map(|standing| (id, Some(standing)))
}

fn put(disk: &dyn Disk, name: &str, content: &[u8]) -> io::Result<()> {
    replace_file(disk, Path::new(name), Path::new(&format!("{name}.new")), content)
}

fn read(disk: &dyn Disk, name: &str) -> io::Result<Option<Vec<u8>>> {
    let file = match disk.open(Path::new(name), OpenMode::Read) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        file => file?,
    };
    let mut content = vec![0; file.length()?.min(BYTES_MAX) as usize];
    file.read_exact_at(&mut content, 0)?;
    Ok(Some(content))
}

/// Starts the thread that gives copies to those who want them. `disk`: this member's data directory.
pub(super) fn begin_giving(
    copies: Copies,
    state: Arc<SetState>,
    disk: Arc<dyn Disk>,
    stop: Arc<AtomicBool>,
) -> io::Result<JoinHandle<()>> {
    spawn_named("copy-giver", move || {
        let clock = SystemClock::new();
        while !stop.load(Ordering::Acquire) {
            // What cannot be read is told by what follows.
            state.set_wait_for_copy(copies.waiting().unwrap_or_default());
            if let Err(error) = give_what_is_wanted(&copies, &state, &disk) {
                tracing::warn!(target: "replication", error, "a copy for a new member could not be made");
            }
            clock.sleep(LOOK);
        }
    })
}

fn give_what_is_wanted(copies: &Copies, state: &SetState, disk: &Arc<dyn Disk>) -> Result<(), String> {
    let told = |error: &dyn std::fmt::Display| error.to_string();
    // Nobody has ever wanted one.
    #[allow(clippy::disallowed_methods, reason = "opening a RealDisk would make the directory")]
    if !copies.directory.is_dir() || state.is_closing() || !gives(state) {
        return Ok(());
    }
    let board = copies.disk().map_err(|error| told(&error))?;
    let names = board.list(Path::new("")).map_err(|error| told(&error))?;
    for name in names.iter().filter(|name| !name.ends_with(".new")) {
        let Some(node) = name.strip_prefix(WANTED) else { continue };
        let given = format!("{GIVEN}{node}");
        if names.contains(&given) {
            continue;
        }
        // What is stored now is in the backup that begins now.
        let standing = StandingFile::open(disk.clone()).map_err(|error| told(&error))?;
        let objects: Arc<dyn ObjectStore> = copies.place().open(None).map_err(|error| told(&error))?;
        let options = BackupOptions {
            packing: Packing { compresses_pages: false, key: copies.outer_key()? },
            bytes_per_second: None,
            extent: Extent::Changed,
            server: env!("CARGO_PKG_VERSION"),
        };
        tracing::info!(target: "replication", node, "copies its data for a new member");
        let is_stopped = || state.is_closing();
        let progress = backup::Progress::default();
        let made = backup::make(&state.store, &objects, &SystemRandom, &options, &progress, &is_stopped);
        let id = made.map_err(|error| told(&error))?.id;
        let standing = standing.stored().map(Standing::encode).unwrap_or_default();
        if !standing.is_empty() {
            // For those who come later, and for whoever trims the log.
            put(&board, &format!("{STANDING}{id}"), &standing).map_err(|error| told(&error))?;
        }
        let mut content = id.into_bytes();
        content.push(b'\n');
        content.extend(standing);
        put(&board, &given, &content).map_err(|error| told(&error))?;
    }
    Ok(())
}

/// Whether this member is the one that gives: the first secondary that is there, or the primary if there is none.
fn gives(state: &SetState) -> bool {
    let look = state.look();
    let alive = || look.members.iter().filter(|member| member.is_alive);
    let giver = alive().find(|member| !member.leads).or_else(|| alive().next());
    giver.is_some_and(|giver| giver.is_self)
}
