//! A new member gets the data of another one: by a backup in the directory of the log, which all members see. A log in Kafka has one if `copies` names it.
//!
//! ```text
//! new member:  copies/wanted-NODE ──> restores what there is of copies/making ──> the rest ──> takes up the giver's standing ──> joins as any other
//! giver:       sees what is wanted ──> copies/making: the backup's name ──> makes it ──> copies/given-NODE: the standing from which the log has to be read, and
//!              the backup, for all who want one by then
//! operator:    `plimsoll log copy` wants one, too; `log trim` (`log_care`) goes by copies/standing-BACKUP and notes copies/verified-BACKUP
//! primary:     wants one now and then, reads it back and notes copies/read-BACKUP: then the log can be trimmed (`log_trimming`)
//! ```
//!
//! Needed where the log does not have everything since the set's oplog was empty (the set was begun from a server that had data, or the log was trimmed), and better where the log is long. A
//! secondary gives, and the primary only when there is none. Nobody waits for a copy but the new member (`fetching`); the giver makes it as any backup.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use backup::{BackupError, BackupOptions, Extent, Manifest, ObjectStore, Packing, Place};
use commands::SetMembers;
use platform::{Clock, Disk, OpenMode, OuterKey, RealDisk, SystemClock, SystemRandom, replace_file, spawn_named};
use replication::StandingFile;
use shared_log::Standing;

use super::set_state::SetState;
use crate::configuration::{KeySource, LogPlace};

/// In the directory of the log.
const COPIES: &str = "copies";
const BACKUPS: &str = "backups";
const WANTED: &str = "wanted-";
const GIVEN: &str = "given-";
/// The name of the copy that is being made, or of one that was left unfinished.
const MAKING: &str = "making";
/// From where on the log has to be read with a copy; that it was verified, or read back.
const STANDING: &str = "standing-";
const VERIFIED: &str = "verified-";
const READ_BACK: &str = "read-";
/// That it is of no use: neither for members nor for later copies.
const DAMAGED: &str = "damaged-";
/// What is being written ends so.
const NEW: &str = ".new";
/// How often a giver looks whether a copy is wanted, and who waits whether it is there: a directory on another machine tells nobody.
const LOOK: Duration = Duration::from_millis(50);
/// Pause after a copy that could not be made.
const ERROR_PAUSE: Duration = Duration::from_secs(1);
/// Longest content of a file of ours.
const BYTES_MAX: u64 = 64 << 10;

/// The copies beside a log.
#[derive(Clone)]
pub(super) struct Copies {
    directory: PathBuf,
    /// Of the data directories, and of the copies.
    pub(super) key: Option<KeySource>,
}

impl Copies {
    /// `key`: that of an encrypted set. `None`: beside this log is no directory that all members see.
    pub(super) fn of_log(place: &LogPlace, key: Option<KeySource>) -> Option<Copies> {
        place.shared_directory().map(|directory| Copies { directory: directory.join(COPIES), key })
    }

    pub(super) fn outer_key(&self) -> Result<Option<OuterKey>, String> {
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

    /// How much room there is for more.
    pub(super) fn available_bytes(&self) -> io::Result<u64> {
        self.disk()?.available_bytes()
    }

    /// Whether anything is beside the log.
    pub(super) fn is_there(&self) -> bool {
        self.names().is_ok_and(|names| !names.is_empty())
    }

    pub(super) fn note_damaged(&self, id: &str) -> io::Result<()> {
        put(&self.disk()?, &format!("{DAMAGED}{id}"), b"")
    }

    /// What a copy says of itself, if it is whole.
    ///
    /// # Errors
    /// What cannot be read.
    pub(super) fn manifest(&self, id: &str) -> Result<Option<Manifest>, BackupError> {
        let (whole, _) = backup::list(&*self.place().open_existing()?)?;
        Ok(whole.into_iter().find(|manifest| manifest.id == id))
    }

    /// The copies from which a member can go on, oldest first.
    pub(super) fn kept(&self) -> io::Result<Vec<KeptCopy>> {
        let names = self.names()?;
        let mut kept = Vec::new();
        for id in names.iter().filter_map(|name| name.strip_prefix(STANDING)).filter(|id| !id.ends_with(NEW)) {
            let content = read(&self.disk()?, &format!("{STANDING}{id}"))?.unwrap_or_default();
            let is_noted = |what: &str| names.iter().any(|name| name.strip_prefix(what) == Some(id));
            if let Ok(standing) = Standing::decode(&content)
                && !is_noted(DAMAGED)
            {
                let proof = match (is_noted(VERIFIED), is_noted(READ_BACK)) {
                    (true, _) => Proof::Restored,
                    (false, true) => Proof::ReadBack,
                    (false, false) => Proof::None,
                };
                kept.push(KeptCopy { id: id.to_owned(), standing, proof });
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

    /// The addresses of those who wait for a copy, where these are the names in the directory.
    fn waiting(&self, names: &[String]) -> io::Result<Vec<String>> {
        let mut waiting = Vec::new();
        for name in names.iter().filter(|name| name.starts_with(WANTED) && !name.ends_with(NEW)) {
            let who = read(&self.disk()?, name)?.unwrap_or_default();
            waiting.push(String::from_utf8_lossy(&who).into_owned());
        }
        Ok(waiting)
    }

    /// Removes what is there of some files.
    fn remove<const COUNT: usize>(&self, names: [String; COUNT]) -> io::Result<()> {
        let disk = self.disk()?;
        for name in names {
            match disk.remove(Path::new(&name)) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                removed => removed?,
            }
        }
        Ok(())
    }

    /// The copy was restored, or read back.
    pub(super) fn note_proof(&self, id: &str, proof: Proof) -> io::Result<()> {
        let what = match proof {
            Proof::None => return Ok(()),
            Proof::ReadBack => READ_BACK,
            Proof::Restored => VERIFIED,
        };
        put(&self.disk()?, &format!("{what}{id}"), b"")
    }

    /// The copy was removed.
    pub(super) fn forget(&self, id: &str) -> io::Result<()> {
        self.remove([
            format!("{VERIFIED}{id}"),
            format!("{READ_BACK}{id}"),
            format!("{DAMAGED}{id}"),
            format!("{STANDING}{id}"),
        ])
    }

    /// Asks for a copy for a member; of its address only people read.
    pub(super) fn want(&self, node: u64, address: &str) -> io::Result<()> {
        put(&self.disk()?, &format!("{WANTED}{node:016x}"), address.as_bytes())
    }

    /// Takes a copy for a member that is there already: it stays until the member has it.
    pub(super) fn take(&self, node: u64, copy: &KeptCopy) -> io::Result<()> {
        put(&self.disk()?, &format!("{GIVEN}{node:016x}"), &given(&copy.id, &copy.standing.encode()))
    }

    /// The copy that is being made for somebody, if any.
    pub(super) fn being_made(&self) -> io::Result<Option<String>> {
        Ok(read(&self.disk()?, MAKING)?.and_then(|name| String::from_utf8(name).ok()))
    }

    /// What a member was given, once it was: a backup's name, and from where on the log has to be read.
    pub(super) fn given_to(&self, node: u64) -> io::Result<Option<(String, Option<Standing>)>> {
        let Some(content) = read(&self.disk()?, &format!("{GIVEN}{node:016x}"))? else { return Ok(None) };
        let makes_no_sense = || io::Error::new(io::ErrorKind::InvalidData, "what the giver says makes no sense");
        parse_given(&content).map(Some).ok_or_else(makes_no_sense)
    }

    /// Nobody of that number wants one any longer.
    pub(super) fn want_nothing(&self, node: u64) -> io::Result<()> {
        self.remove([format!("{WANTED}{node:016x}"), format!("{GIVEN}{node:016x}")])
    }

    /// Has a member make a copy, in a name of its own; the backup's name.
    pub(super) fn ask(&self, number: u64, patience: Duration) -> Result<String, String> {
        let told = |error: io::Error| error.to_string();
        self.want(number, "plimsoll log copy").map_err(told)?;
        let (clock, mut given) = (SystemClock::new(), None);
        while given.is_none() && clock.monotonic() < patience {
            clock.sleep(LOOK);
            given = self.given_to(number).map_err(told)?;
        }
        // One that stays is a copy more, or is asked for by name.
        let _ = self.want_nothing(number);
        let (id, standing) = given.ok_or("no member has made a copy: does one run?")?;
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
    /// How well it is known to be good.
    pub(super) proof: Proof,
}

/// How well a copy is known to be good, from the least on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Proof {
    /// Nobody has looked.
    None,
    /// All of it was read, and is what its checksums say.
    ReadBack,
    /// It was restored once, and its collections were valid.
    Restored,
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

/// The backup's name, a line break, and the standing.
fn given(id: &str, standing: &[u8]) -> Vec<u8> {
    [id.as_bytes(), b"\n", standing].concat()
}

/// What that says.
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
            let pause = match look_for_wishes(&copies, &state, &disk) {
                Ok(()) => LOOK,
                Err(error) => {
                    tracing::warn!(target: "replication", error, "a copy for a new member could not be made");
                    ERROR_PAUSE
                }
            };
            clock.sleep(pause);
        }
    })
}

/// Says who waits for a copy, and makes one if that is this member's to do.
fn look_for_wishes(copies: &Copies, state: &SetState, disk: &Arc<dyn Disk>) -> Result<(), String> {
    let names = copies.names();
    // What cannot be read is told by who gives.
    let waiting = names.as_deref().ok().and_then(|names| copies.waiting(names).ok());
    state.set_wait_for_copy(waiting.unwrap_or_default());
    if state.is_closing() || !gives(state) {
        return Ok(());
    }
    match wanted(&names.map_err(|error| error.to_string())?) {
        wanted if wanted.is_empty() => Ok(()),
        wanted => give(copies, state, disk, &wanted),
    }
}

/// Makes one copy for all who want one by the time it is made: what is asked for meanwhile begins before that, too.
fn give(copies: &Copies, state: &SetState, disk: &Arc<dyn Disk>, wanted: &[String]) -> Result<(), String> {
    let told = |error: &dyn std::fmt::Display| error.to_string();
    let board = copies.disk().map_err(|error| told(&error))?;
    // What is stored now is in the backup that begins now.
    let standing = StandingFile::open(disk.clone()).map_err(|error| told(&error))?;
    let objects: Arc<dyn ObjectStore> = copies.place().open(None).map_err(|error| told(&error))?;
    objects.expect_readers();
    let name = backup::new_name(&SystemClock::new(), &SystemRandom);
    let names = copies.names().map_err(|error| told(&error))?;
    // It would be built upon, and be damaged as well.
    let is_one_damaged = names.iter().any(|name| name.starts_with(DAMAGED));
    let options = BackupOptions {
        name: Some(name.clone()),
        packing: Packing { compresses_pages: false, key: copies.outer_key()? },
        bytes_per_second: None,
        extent: if is_one_damaged { Extent::Full } else { Extent::Changed },
        server: env!("CARGO_PKG_VERSION"),
    };
    tracing::info!(target: "replication", nodes = wanted.join(" "), copy = name, "copies its data for a new member");
    put(&board, MAKING, name.as_bytes()).map_err(|error| told(&error))?;
    let is_stopped = || state.is_closing();
    let progress = backup::Progress::default();
    let made = backup::make(&state.store, &objects, &SystemRandom, &options, &progress, &is_stopped);
    let id = made.map_err(|error| told(&error))?.id;
    let standing = standing.stored().map(Standing::encode).unwrap_or_default();
    if !standing.is_empty() {
        // For those who come later, and for whoever trims the log.
        put(&board, &format!("{STANDING}{id}"), &standing).map_err(|error| told(&error))?;
    }
    tracing::info!(target: "replication", copy = id, "has copied its data");
    let content = given(&id, &standing);
    for node in self::wanted(&copies.names().map_err(|error| told(&error))?) {
        put(&board, &format!("{GIVEN}{node}"), &content).map_err(|error| told(&error))?;
    }
    // Nobody follows it any more; one that stays is of a copy that is made.
    let _ = board.remove(Path::new(MAKING));
    Ok(())
}

/// The numbers of those who want a copy, and were given none.
fn wanted(names: &[String]) -> Vec<String> {
    let wanted = names.iter().filter(|name| !name.ends_with(NEW)).filter_map(|name| name.strip_prefix(WANTED));
    wanted.filter(|node| !names.contains(&format!("{GIVEN}{node}"))).map(str::to_owned).collect()
}

/// Whether this member is the one that gives: the first secondary that is there, or the primary if there is none.
fn gives(state: &SetState) -> bool {
    let look = state.look();
    let alive = || look.members.iter().filter(|member| member.is_alive);
    let giver = alive().find(|member| !member.leads).or_else(|| alive().next());
    giver.is_some_and(|giver| giver.is_self)
}
