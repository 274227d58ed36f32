//! Where the audit log goes: a file with one JSON object a line, or the diagnostics log. Made by `database`, written by `commands`.
//!
//! ```text
//! relaxed ─ a bounded queue ─ a thread that writes; what finds the queue full, or the disk, is counted and told
//! strict ── prepare: room is taken from the disk before a command runs ── write: before its reply
//! ```
//!
//! A file that has become long enough is put aside, and a new one begun.
//!
//! So a full disk refuses commands where the log is strict, in place of letting them go on untold. A line is in the operating
//! system's hands then; it outlasts the server, not the machine's power.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use crate::configuration::{AuditConfiguration, AuditDestination, AuditMode};
use crate::rotated_file::{put_aside, put_back};
use bson::{Bson, Document, RawDocument};
use commands::{AuditFilter, AuditSettings, AuditSink};
use parking_lot::Mutex;
use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;

const QUEUE_LINES: usize = 4096;
/// What a strict log takes from the disk before it is needed: the events of all commands that run at once.
const ROOM_BYTES: u64 = 1 << 20;
/// For the server's user alone.
const PERMISSIONS: u32 = 0o600;
const ROTATION_WAIT: Duration = Duration::from_secs(5);

/// See the module's head.
pub(crate) struct AuditLog {
    sink: Sink,
    /// Taken once, by the commands.
    settings: Mutex<Option<AuditSettings>>,
    counts: Arc<Counts>,
}

enum Sink {
    Strict(Mutex<AuditFile>),
    Relaxed(SyncSender<Job>),
    Diagnostics,
}

#[derive(Default)]
struct Counts {
    written: AtomicU64,
    lost: AtomicU64,
}

enum Job {
    Line(String),
    Rotate(SyncSender<Result<(), String>>),
}

impl AuditLog {
    /// Opens it as it is configured.
    ///
    /// # Errors
    /// The filter is no query, or the file cannot be opened.
    pub(crate) fn open(configuration: &AuditConfiguration) -> Result<Self, String> {
        let filter = configuration.filter.as_deref().map(parse_filter).transpose()?;
        let settings = AuditSettings { filter, tells_success: configuration.tells_success };
        let counts = Arc::<Counts>::default();
        let sink = match &configuration.destination {
            AuditDestination::Diagnostics => Sink::Diagnostics,
            AuditDestination::File(path) => {
                let failed = |error: io::Error| format!("cannot open the audit log {}: {error}", path.display());
                let file = AuditFile::open(path, configuration.file_bytes).map_err(failed)?;
                match configuration.mode {
                    AuditMode::Strict => Sink::Strict(Mutex::new(file)),
                    AuditMode::Relaxed => Sink::Relaxed(start_writer(file, counts.clone()).map_err(failed)?),
                }
            }
        };
        Ok(Self { sink, settings: Mutex::new(Some(settings)), counts })
    }

    /// What it takes.
    pub(crate) fn take_settings(&self) -> Option<AuditSettings> {
        self.settings.lock().take()
    }
}

fn parse_filter(text: &str) -> Result<AuditFilter, String> {
    let wrong = |reason: &dyn std::fmt::Display| format!("--audit-filter {text}: {reason}");
    let value: serde_json::Value = serde_json::from_str(text).map_err(|error| wrong(&error))?;
    let Bson::Document(query) = Bson::try_from(value).map_err(|error| wrong(&error))? else {
        return Err(wrong(&"it is no JSON object"));
    };
    let query = bson::RawDocumentBuf::try_from(&query).map_err(|error| wrong(&error))?;
    AuditFilter::parse(&query).map_err(|error| wrong(&error.message))
}

impl AuditSink for AuditLog {
    fn prepare(&self) -> Result<(), String> {
        match &self.sink {
            Sink::Strict(file) => {
                let mut file = file.lock();
                file.rotate_if_long();
                file.take_room().map_err(|error| error.to_string())
            }
            Sink::Relaxed(_) | Sink::Diagnostics => Ok(()),
        }
    }

    fn write(&self, event: &RawDocument) -> Result<(), String> {
        let event = Document::try_from(event).map_err(|error| error.to_string())?;
        let json = Bson::Document(event).into_relaxed_extjson().to_string();
        match &self.sink {
            Sink::Strict(file) => file.lock().write(&(json + "\n")).map_err(|error| error.to_string())?,
            Sink::Relaxed(queue) => {
                if queue.try_send(Job::Line(json)).is_err() {
                    self.counts.lost.fetch_add(1, Ordering::Relaxed);
                }
                return Ok(());
            }
            Sink::Diagnostics => tracing::info!(target: "audit", event = json, "audit"),
        }
        self.counts.written.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    fn has_file(&self) -> bool {
        !matches!(self.sink, Sink::Diagnostics)
    }

    fn rotate(&self) -> Result<(), String> {
        match &self.sink {
            Sink::Strict(file) => file.lock().rotate(),
            Sink::Relaxed(queue) => {
                let busy = || "the audit log is too busy".to_owned();
                let (done, rotated) = sync_channel(1);
                queue.try_send(Job::Rotate(done)).map_err(|_| busy())?;
                rotated.recv_timeout(ROTATION_WAIT).map_err(|_| busy())?
            }
            Sink::Diagnostics => Err("the audit log goes to no file of its own".to_owned()),
        }
    }

    fn figures(&self) -> (u64, u64) {
        (self.counts.written.load(Ordering::Relaxed), self.counts.lost.load(Ordering::Relaxed))
    }
}

fn start_writer(file: AuditFile, counts: Arc<Counts>) -> io::Result<SyncSender<Job>> {
    let (queue, jobs) = sync_channel(QUEUE_LINES);
    platform::spawn_named("audit-writer", move || write_lines(file, &jobs, &counts))?;
    Ok(queue)
}

fn write_lines(mut file: AuditFile, jobs: &Receiver<Job>, counts: &Counts) {
    let (mut told, problem) = (0, OnceLock::new());
    while let Ok(job) = jobs.recv() {
        match job {
            Job::Rotate(done) => drop(done.send(file.rotate())),
            Job::Line(line) => match file.write_to_current(&(line + "\n")) {
                Ok(()) => drop(counts.written.fetch_add(1, Ordering::Relaxed)),
                Err(error) => {
                    counts.lost.fetch_add(1, Ordering::Relaxed);
                    problem.get_or_init(|| error.to_string());
                }
            },
        }
        let lost = counts.lost.load(Ordering::Relaxed);
        // Each time as many again are lost, so that a full disk does not fill the log.
        if lost >= told * 2 && lost > told {
            told = lost;
            let problem = problem.get().map_or("it is too slow", String::as_str);
            tracing::error!(target: "control", lost, problem, "events are missing in the audit log");
        }
    }
}

/// A file that only grows, and that ends with a whole line.
struct AuditFile {
    path: PathBuf,
    file: File,
    length: u64,
    /// How long it becomes before the next one is begun.
    length_max: Option<u64>,
    /// Up to which length the next one is not tried, as it could not be begun.
    tried: u64,
    /// Up to here the disk has given room.
    taken: u64,
}

impl AuditFile {
    fn open(path: &Path, length_max: Option<u64>) -> io::Result<Self> {
        let file = open_file(path)?;
        let mut opened = Self { path: path.to_owned(), file, length: 0, length_max, tried: 0, taken: 0 };
        opened.length = opened.file.seek(SeekFrom::End(0))?;
        if opened.length > 0 {
            let mut last = [0; 1];
            opened.file.seek(SeekFrom::Start(opened.length - 1))?;
            opened.file.read_exact(&mut last)?;
            // The server, or the machine, has ended in the midst of a line.
            if last != *b"\n" {
                opened.write("\n")?;
            }
        }
        Ok(opened)
    }

    /// Has the disk give room for what is to come.
    fn take_room(&mut self) -> io::Result<()> {
        if self.taken.saturating_sub(self.length) >= ROOM_BYTES / 2 {
            return Ok(());
        }
        match fallocate(&self.file, FallocateFlags::KEEP_SIZE, self.length, ROOM_BYTES) {
            Ok(()) => self.taken = self.length + ROOM_BYTES,
            // Here room is had by writing alone.
            Err(Errno::OPNOTSUPP | Errno::NODEV | Errno::SPIPE | Errno::NOSYS | Errno::INVAL) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    /// Writes a whole line, or nothing.
    fn write(&mut self, line: &str) -> io::Result<()> {
        if let Err(error) = self.file.write_all(line.as_bytes()) {
            // A part of it may be there. What cannot be cut off is ended with the next line.
            let _ = self.file.set_len(self.length);
            self.taken = 0;
            return Err(error);
        }
        self.length += line.len() as u64;
        Ok(())
    }

    fn write_to_current(&mut self, line: &str) -> io::Result<()> {
        self.rotate_if_long();
        self.write(line)
    }

    /// Begins a new file if this one is long enough. If that fails this one goes on, and is told of.
    fn rotate_if_long(&mut self) {
        let Some(length_max) = self.length_max else { return };
        if self.length < length_max.max(self.tried) {
            return;
        }
        if let Err(reason) = self.rotate() {
            self.tried = self.length + length_max;
            tracing::error!(target: "control", reason, "the audit log is long enough, and no new file can be begun");
        }
    }

    /// Renames the file, with the time behind its name, and begins a new one.
    fn rotate(&mut self) -> Result<(), String> {
        let failed = |error: io::Error| format!("cannot rotate {}: {error}", self.path.display());
        let aside = put_aside(&self.path).map_err(failed)?;
        match Self::open(&self.path, self.length_max) {
            Ok(new) => {
                *self = new;
                Ok(())
            }
            Err(error) => {
                // What is written goes on where it went.
                let _ = aside.map(|aside| put_back(&aside, &self.path));
                Err(failed(error))
            }
        }
    }
}

#[allow(clippy::disallowed_methods, reason = "the operator's file, beside the data")]
fn open_file(path: &Path) -> io::Result<File> {
    File::options().read(true).append(true).create(true).mode(PERMISSIONS).open(path)
}

#[cfg(test)]
mod tests {
    use bson::rawdoc;
    use platform::{Clock, SystemClock};

    use super::*;

    fn configured(path: &Path, mode: AuditMode) -> AuditConfiguration {
        let destination = AuditDestination::File(path.to_owned());
        AuditConfiguration { destination, mode, file_bytes: None, filter: None, tells_success: false }
    }

    fn log(path: &Path, mode: AuditMode, filter: Option<&str>) -> Result<AuditLog, String> {
        AuditLog::open(&AuditConfiguration { filter: filter.map(str::to_owned), ..configured(path, mode) })
    }

    #[test]
    #[allow(clippy::disallowed_methods, reason = "a test")]
    fn a_long_file_is_put_aside_and_no_line_is_lost() {
        for mode in [AuditMode::Strict, AuditMode::Relaxed] {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("audit.json");
            let configuration = AuditConfiguration { file_bytes: Some(1000), ..configured(&path, mode) };
            let audit = AuditLog::open(&configuration).unwrap();
            for number in 0..100 {
                audit.prepare().unwrap();
                audit.write(&rawdoc! { "number": number, "text": "x".repeat(30) }).unwrap();
            }
            while audit.figures().0 < 100 {
                SystemClock::new().sleep(Duration::from_millis(1));
            }
            let files: Vec<_> = std::fs::read_dir(folder.path()).unwrap().map(|file| file.unwrap().path()).collect();
            let texts: Vec<_> = files.iter().map(|file| std::fs::read_to_string(file).unwrap()).collect();
            assert!(files.len() >= 5 && texts.iter().all(|text| text.len() < 1100), "{files:?}");
            let mut lines: Vec<&str> = texts.iter().flat_map(|text| text.lines()).collect();
            lines.sort_unstable();
            lines.dedup();
            assert_eq!(lines.len(), 100);
        }
    }

    #[test]
    #[allow(clippy::disallowed_methods, reason = "a test")]
    fn where_no_file_can_be_put_aside_the_old_one_goes_on() {
        let gone = tempfile::tempdir().unwrap();
        let path = gone.path().join("audit.json");
        let audit = AuditLog::open(&AuditConfiguration { file_bytes: Some(1), ..configured(&path, AuditMode::Strict) });
        let audit = audit.unwrap();
        audit.write(&rawdoc! { "a": 1 }).unwrap();
        std::fs::remove_dir_all(gone.path()).unwrap();
        audit.prepare().unwrap();
        audit.write(&rawdoc! { "a": 1 }).unwrap();
        assert_eq!(audit.figures(), (2, 0));
    }

    #[test]
    #[allow(clippy::disallowed_methods, reason = "a test")]
    fn lines_are_whole_after_an_interrupted_one_and_files_are_rotated() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit.json");
        std::fs::write(&path, "{\"half").unwrap();
        let audit = log(&path, AuditMode::Strict, None).unwrap();
        audit.prepare().unwrap();
        audit.write(&rawdoc! { "atype": "x", "result": 0 }).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "{\"half\n{\"atype\":\"x\",\"result\":0}\n");
        for _ in 0..3 {
            audit.rotate().unwrap();
        }
        audit.write(&rawdoc! { "atype": "y" }).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "{\"atype\":\"y\"}\n");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 4);
        assert_eq!(audit.figures(), (2, 0));
    }

    #[test]
    fn a_full_device_is_an_error_where_it_is_strict_and_counted_where_it_is_not() {
        let full = Path::new("/dev/full");
        let strict = log(full, AuditMode::Strict, None).unwrap();
        assert!(strict.write(&rawdoc! { "atype": "x" }).unwrap_err().contains("space"));
        let relaxed = log(full, AuditMode::Relaxed, None).unwrap();
        relaxed.write(&rawdoc! { "atype": "x" }).unwrap();
        while relaxed.figures() != (0, 1) {
            SystemClock::new().sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn what_is_no_query_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit.json");
        assert!(log(&path, AuditMode::Strict, Some(r#"{"atype": {"$in": ["createUser", "dropUser"]}}"#)).is_ok());
        for wrong in ["{", "[]", "5", r#"{"atype": {"$nothing": 1}}"#] {
            assert!(log(&path, AuditMode::Strict, Some(wrong)).is_err_and(|error| error.contains("--audit-filter")));
        }
    }
}
