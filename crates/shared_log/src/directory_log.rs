//! A shared log that is a directory: for tests, and for several machines on one file system. The format is in `docs/file-format.md`,
//! "Directory log".
//!
//! A record is a file, and its offset is the file's name. Appending is giving a file that is whole and durable the next name, which only one can do:
//! no locks, so nobody waits for a process that was stopped, and no torn tails. What the file system must give:
//!
//! - of several who rename to one name that nobody has, one succeeds (or of several who make it a second name);
//! - whoever looks after that sees the name, on every machine, with what was written before;
//! - a synced file, and a name in a synced directory, survive whatever fails.
//!
//! Local file systems do. NFS does when it is mounted with `lookupcache=none`, or `actimeo=0`, and exported with `sync`. `check` tries what one
//! machine can try.
//!
//! A name that was trimmed away could be given again by somebody who has slept. So trimming first says, durably, where the log begins,
//! and whoever has appended or read looks there afterwards: then what he did counts, or the log began behind it.

mod key_file;
mod names;
mod notice_board;

use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use platform::{Clock, Disk, OpenMode, OuterKey, Random};

use self::key_file::KeyFile;
pub(crate) use self::names::{IDENTITY_BYTES, identity_bytes, parse_identity};
use self::names::{
    IDENTITY_FILE, NEW_IDENTITY_FILE, RECORDS, SENDING, TRIMMED, numbered, record_path, sending_path, trimmed_path,
};
use crate::log_key;
use crate::record::STORED_BYTES_MAX;
use crate::{
    AppendOutcome, Bounds, LogIdentity, Offset, Refused, Result, Sending, SharedLog, SharedLogError, StoredRecord,
};

/// How often somebody who waits at the end of the log looks.
const LOOK_EVERY: Duration = Duration::from_millis(3);

/// A handle on a log in a directory.
pub struct DirectoryLog {
    disk: Arc<dyn Disk>,
    clock: Arc<dyn Clock>,
    random: Arc<dyn Random>,
    /// All records before this have been seen.
    end: AtomicU64,
    /// All records before this are durable.
    durable: AtomicU64,
    outcomes: Mutex<Vec<AppendOutcome>>,
}

impl DirectoryLog {
    /// Makes the log in an empty directory, the root of `disk`.
    ///
    /// # Errors
    /// `Exists`; what goes wrong with files.
    pub fn create(disk: &dyn Disk, random: &dyn Random) -> Result<LogIdentity> {
        let failed = SharedLogError::io;
        for directory in [RECORDS, SENDING, TRIMMED] {
            disk.create_directory(Path::new(directory)).map_err(failed("create its directories"))?;
        }
        let mut identity = [0; 16];
        random.fill(&mut identity);
        let identity = LogIdentity(identity);
        let mut number = [0; 8];
        random.fill(&mut number);
        let new = format!("{NEW_IDENTITY_FILE}{:016x}", u64::from_le_bytes(number));
        let write = || {
            write_new(disk, Path::new(&new), &identity_bytes(identity))?;
            disk.rename_new(Path::new(&new), Path::new(IDENTITY_FILE))?;
            disk.sync_directory(Path::new(""))
        };
        match write() {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                let _ = disk.remove(Path::new(&new));
                Err(SharedLogError::Exists)
            }
            result => result.map(|()| identity).map_err(failed("write its identity")),
        }
    }

    /// Opens the log at the root of `disk`.
    ///
    /// # Errors
    /// `Absent`; `Damaged` when records are missing; what goes wrong with files.
    pub fn open(disk: Arc<dyn Disk>, clock: Arc<dyn Clock>, random: Arc<dyn Random>) -> Result<DirectoryLog> {
        let (end, durable, outcomes) = (AtomicU64::new(0), AtomicU64::new(0), Mutex::default());
        let log = DirectoryLog { disk, clock, random, end, durable, outcomes };
        log.identity()?;
        let first = log.first()?;
        log.note_end(log.listed_end(first)?.0);
        Ok(log)
    }

    /// The key of the log, which `outer` opens. If there is none and the log has no record, it is made; `None`: the log is not encrypted, nor is that wanted.
    ///
    /// # Errors
    /// `Key` when log and key do not fit.
    pub fn key(&self, outer: Option<&OuterKey>) -> Result<Option<OuterKey>> {
        log_key::of_log(self, &KeyFile::new(&*self.disk, &*self.random), outer, &*self.random)
    }

    /// Wraps the key of the log by another outer key. Its members are started with that from now on.
    ///
    /// # Errors
    /// `Key` when `from` is not the key.
    pub fn rotate_key(&self, from: &OuterKey, to: &OuterKey) -> Result<()> {
        log_key::rotate(self, &KeyFile::new(&*self.disk, &*self.random), (from, to), &*self.random)
    }

    /// Opens a log that may lack records, to examine it: which ones are missing, and which there are.
    ///
    /// # Errors
    /// `Absent`; what goes wrong with files.
    pub fn open_to_examine(
        disk: Arc<dyn Disk>,
        clock: Arc<dyn Clock>,
        random: Arc<dyn Random>,
    ) -> Result<(DirectoryLog, Range<Offset>, Vec<Range<Offset>>)> {
        let (end, durable, outcomes) = (AtomicU64::new(0), AtomicU64::new(u64::MAX), Mutex::default());
        let log = DirectoryLog { disk, clock, random, end, durable, outcomes };
        log.identity()?;
        let names = log.disk.list(Path::new(RECORDS)).map_err(SharedLogError::io("list its records"))?;
        let mut numbers: Vec<u64> = names.iter().filter_map(|name| numbered(name, names::RECORD_SUFFIX)).collect();
        numbers.sort_unstable();
        let first = log.first()?;
        let (mut end, mut gaps) = (first.0, Vec::new());
        for number in numbers.into_iter().filter(|number| *number >= first.0) {
            // Names that are given while others are listed may be left out.
            while end < number && log.has(end)? {
                end += 1;
            }
            if end < number {
                gaps.push(Offset(end)..Offset(number));
            }
            end = number + 1;
        }
        if gaps.is_empty() {
            log.note_end(end);
        }
        Ok((log, first..Offset(end), gaps))
    }

    /// Where the log begins.
    fn first(&self) -> Result<Offset> {
        let names = self.disk.list(Path::new(TRIMMED)).map_err(SharedLogError::io("list where it begins"))?;
        Ok(Offset(names.iter().filter_map(|name| numbered(name, "")).max().unwrap_or(0)))
    }

    /// Behind the last record, by all names; none may be missing.
    fn listed_end(&self, first: Offset) -> Result<Offset> {
        let names = self.disk.list(Path::new(RECORDS)).map_err(SharedLogError::io("list its records"))?;
        let mut end = first.0;
        for offset in names.iter().filter_map(|name| numbered(name, names::RECORD_SUFFIX)) {
            while offset > end {
                // A name that is given while the names are listed may be left out, though a later one is not.
                if self.has(end)? {
                    end += 1;
                    continue;
                }
                // Trimmed meanwhile, or missing.
                let first = self.first()?.0;
                if first <= end {
                    return Err(missing(Offset(end)));
                }
                end = first;
            }
            end = end.max(offset + 1);
        }
        Ok(Offset(end))
    }

    fn note_end(&self, end: u64) {
        self.end.fetch_max(end, Ordering::Relaxed);
    }

    fn has(&self, offset: u64) -> Result<bool> {
        self.disk.exists(&record_path(Offset(offset))).map_err(SharedLogError::io("look for a record"))
    }

    /// Makes the names of all records that were seen durable: nobody may build on what a failing power takes away.
    fn sync_names(&self, end: u64) -> Result<()> {
        if self.durable.load(Ordering::Relaxed) < end {
            self.disk.sync_directory(Path::new(RECORDS)).map_err(SharedLogError::io("sync its directory"))?;
            self.durable.fetch_max(end, Ordering::Relaxed);
        }
        Ok(())
    }

    /// The number that the next record gets, if nobody is faster.
    fn next_number(&self) -> Result<u64> {
        let mut next = self.end.load(Ordering::Relaxed).max(self.first()?.0);
        while self.has(next)? {
            next += 1;
        }
        self.check_end(Offset(next))?;
        self.note_end(next);
        Ok(next)
    }

    fn append(&self, bytes: &[u8]) -> std::result::Result<Offset, Refused> {
        if bytes.len() > STORED_BYTES_MAX || bytes.is_empty() {
            let (bytes, bytes_max) = (bytes.len(), STORED_BYTES_MAX);
            return Err(Refused::NotAppended(SharedLogError::TooLarge { bytes, bytes_max }));
        }
        let begun_at = Offset(self.next_number().map_err(Refused::NotAppended)?);
        let sending = sending_path(begun_at, self.random.next_u64());
        let written = write_new(&*self.disk, &sending, bytes).map_err(SharedLogError::io("write a record"));
        let result = written.map_err(Refused::NotAppended).and_then(|()| self.publish(&sending));
        if let Err(Refused::NotAppended(_)) = &result {
            // What cannot be removed lies there until the log is trimmed.
            let _ = self.disk.remove(&sending);
        }
        result
    }

    /// Gives the file `sending` the next name.
    fn publish(&self, sending: &Path) -> std::result::Result<Offset, Refused> {
        loop {
            let next = self.next_number().map_err(Refused::NotAppended)?;
            // So that no record survives without the one before it.
            self.sync_names(next).map_err(Refused::NotAppended)?;
            match self.disk.rename_new(sending, &record_path(Offset(next))) {
                Ok(()) => return self.settle(Offset(next)),
                // Somebody else was faster. If it was us, and a file server's answer was lost, the record will be there twice.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(Refused::Unknown(SharedLogError::io("name a record")(error))),
            }
        }
    }

    /// Makes the name of what was appended durable, and sees whether the log still has that place.
    fn settle(&self, offset: Offset) -> std::result::Result<Offset, Refused> {
        self.sync_names(offset.0 + 1).map_err(Refused::Unknown)?;
        let first = self.first().map_err(Refused::Unknown)?;
        if offset < first {
            return Err(Refused::NotAppended(SharedLogError::Trimmed { offset, first }));
        }
        self.note_end(offset.0 + 1);
        Ok(offset)
    }

    /// The records that are there now, without waiting.
    fn read_now(&self, from: Offset, bytes_max: usize) -> Result<Vec<StoredRecord>> {
        let mut found = Vec::new();
        let (mut offset, mut bytes) = (from, 0);
        while bytes < bytes_max.max(1) {
            let Some(record) = self.read_record(offset)? else { break };
            bytes += record.len();
            found.push(StoredRecord { offset, bytes: record });
            offset = offset.following();
        }
        if !found.is_empty() {
            self.sync_names(offset.0)?;
            self.note_end(offset.0);
        }
        let first = self.first()?;
        if from < first {
            return Err(SharedLogError::Trimmed { offset: from, first });
        }
        Ok(found)
    }

    fn read_record(&self, offset: Offset) -> Result<Option<Arc<[u8]>>> {
        let failed = SharedLogError::io;
        let file = match self.disk.open(&record_path(offset), OpenMode::Read) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(failed("open a record")(error)),
        };
        let length = file.length().map_err(failed("read a record"))?;
        if length == 0 || length > STORED_BYTES_MAX as u64 {
            return Err(SharedLogError::Damaged { offset, reason: "its file has a length that no record has" });
        }
        let mut bytes = vec![0; length as usize];
        file.read_exact_at(&mut bytes, 0).map_err(failed("read a record"))?;
        Ok(Some(bytes.into()))
    }

    /// Nothing was at `from`: is that the end? Others append and trim meanwhile, so what looks wrong is looked at again.
    fn check_end(&self, from: Offset) -> Result<()> {
        if self.has(from.0.saturating_add(1))? && !self.has(from.0)? && self.first()? <= from {
            return Err(missing(from));
        }
        let has_before = from.0.checked_sub(1).map_or(Ok(true), |before| self.has(before))?;
        let first = self.first()?;
        if has_before || from <= first {
            return Ok(());
        }
        Err(SharedLogError::Shorter { offset: from, end: self.listed_end(first)? })
    }

    fn remove_before(&self, first: Offset) -> io::Result<()> {
        for (directory, suffix) in [(RECORDS, names::RECORD_SUFFIX), (SENDING, names::SENDING_SUFFIX), (TRIMMED, "")] {
            let directory = Path::new(directory);
            for name in self.disk.list(directory)? {
                if numbered(&name, suffix).is_some_and(|offset| offset < first.0) {
                    match self.disk.remove(&directory.join(&name)) {
                        // Another member trims, too.
                        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                        result => result?,
                    }
                }
            }
            self.disk.sync_directory(directory)?;
        }
        Ok(())
    }

    /// Whether a name can be given twice: what everything here relies on.
    fn is_exclusive(&self) -> io::Result<bool> {
        let number = self.random.next_u64();
        let paths = [0_u64, 1, 2].map(|part| sending_path(Offset(0), number.wrapping_add(part)));
        let [one, other, name] = &paths;
        let result = [one, other]
            .into_iter()
            .try_for_each(|path| write_new(&*self.disk, path, b"check"))
            .and_then(|()| self.disk.rename_new(one, name))
            .map(|()| {
                let again = self.disk.rename_new(other, name);
                again.is_err_and(|error| error.kind() == io::ErrorKind::AlreadyExists)
            });
        for path in &paths {
            let _ = self.disk.remove(path);
        }
        result
    }
}

impl SharedLog for DirectoryLog {
    fn identity(&self) -> Result<LogIdentity> {
        let failed = SharedLogError::io;
        let file = match self.disk.open(Path::new(IDENTITY_FILE), OpenMode::Read) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(SharedLogError::Absent),
            Err(error) => return Err(failed("open its identity")(error)),
        };
        let mut bytes = [0; IDENTITY_BYTES];
        let damaged = SharedLogError::Damaged { offset: Offset(0), reason: "the file of the log's identity" };
        match file.read_exact_at(&mut bytes, 0) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Err(damaged),
            Err(error) => Err(failed("read its identity")(error)),
            Ok(()) => parse_identity(&bytes).ok_or(damaged),
        }
    }

    fn begin_append(&self, batch: &[Sending]) {
        for Sending { ticket, bytes } in batch {
            let outcome = AppendOutcome { ticket: *ticket, result: self.append(bytes) };
            self.outcomes.lock().push(outcome);
        }
    }

    fn outcomes(&self, _longest: Duration) -> Vec<AppendOutcome> {
        // Each append has its outcome when it returns.
        std::mem::take(&mut self.outcomes.lock())
    }

    fn read(&self, from: Offset, bytes_max: usize, longest: Duration) -> Result<Vec<StoredRecord>> {
        let begin = self.clock.monotonic();
        loop {
            let found = self.read_now(from, bytes_max)?;
            if !found.is_empty() {
                return Ok(found);
            }
            self.check_end(from)?;
            let left = longest.saturating_sub(self.clock.monotonic().saturating_sub(begin));
            if left.is_zero() {
                return Ok(found);
            }
            self.clock.sleep(LOOK_EVERY.min(left));
        }
    }

    fn bounds(&self) -> Result<Bounds> {
        let end = Offset(self.next_number()?);
        self.sync_names(end.0)?;
        Ok(Bounds { first: self.first()?, end })
    }

    fn answers(&self, _longest: Duration) -> Result<()> {
        self.bounds().map(|_| ())
    }

    fn trim_before(&self, offset: Offset) -> Result<Offset> {
        let bounds = self.bounds()?;
        if !bounds.has_before(offset)? {
            return Ok(bounds.first);
        }
        let failed = SharedLogError::io;
        self.disk.open(&trimmed_path(offset), OpenMode::Create).map_err(failed("say where it begins"))?;
        self.disk.sync_directory(Path::new(TRIMMED)).map_err(failed("say where it begins"))?;
        let first = self.first()?;
        self.remove_before(first).map_err(failed("remove records"))?;
        Ok(first)
    }

    fn post(&self, node: u64, notice: &[u8]) -> Result<()> {
        notice_board::post(&*self.disk, node, self.random.next_u64(), notice)
            .map_err(SharedLogError::io("put up a notice"))
    }

    fn notices(&self) -> Result<Vec<Vec<u8>>> {
        notice_board::notices(&*self.disk).map_err(SharedLogError::io("read notices"))
    }

    fn withdraw(&self, node: u64) -> Result<()> {
        notice_board::withdraw(&*self.disk, node).map_err(SharedLogError::io("take a notice down"))
    }

    fn check(&self) -> Result<Vec<String>> {
        let mut complaints = Vec::new();
        if !self.is_exclusive().map_err(SharedLogError::io("try its file system"))? {
            complaints.push("the file system lets two files be given one name: it cannot hold a shared log".to_owned());
        }
        self.listed_end(self.first()?)?;
        Ok(complaints)
    }
}

/// Writes a file that nobody has, durably.
fn write_new(disk: &dyn Disk, path: &Path, bytes: &[u8]) -> io::Result<()> {
    let file = disk.open(path, OpenMode::CreateNew)?;
    file.write_all_at(bytes, 0)?;
    file.sync_data()
}

fn missing(offset: Offset) -> SharedLogError {
    SharedLogError::Damaged { offset, reason: "its file is missing, and there are later ones" }
}

#[cfg(test)]
mod tests;
