//! A shared log in an object store, for who wants neither brokers nor a file system that machines share. The format is in `docs/file-format.md`, "Object log".
//!
//! What was to be appended at once is one object, a batch, named by the offset of its first record. A store that makes an object only if there is none of that name
//! (`Objects::put_new`) decides who is first, so a batch has the next name or another one has it. A name is read until it is there. What the store must give:
//!
//! - of several who make one object, one succeeds, and is told so, or asks later and finds his own bytes;
//! - whoever asks after that gets all of it; what was answered stays, whatever fails.
//!
//! S3, Google's and Azure's do. `check` tries the first.
//!
//! A name that was trimmed away could be given again by somebody who has slept. So trimming first says where the log begins, and whoever has appended or read looks
//! there afterwards, as in a directory (`DirectoryLog`). Requests cost money and time: notices are put up and read no more than a few times a second, and the end is
//! looked at ten times a second.

mod batch;

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use platform::{Clock, OuterKey, Random};

use self::batch::{BATCH_BYTES_MAX, BATCH_RECORDS_MAX, Batch};
use crate::directory_log::{IDENTITY_BYTES, identity_bytes, parse_identity};
use crate::log_key::{self, KeyPlace};
use crate::record::STORED_BYTES_MAX;
use crate::{
    AppendOutcome, Bounds, LogIdentity, Offset, Refused, Result, Sending, SharedLog, SharedLogError, StoredRecord,
};

const IDENTITY: &str = "identity";
const RECORDS: &str = "records";
const TRIMMED: &str = "trimmed";
const MEMBERS: &str = "members";
const CHECK: &str = "check";
const KEY: &str = "key";
/// How often the end of the log is looked at, and notices.
const LOOK_EVERY: Duration = Duration::from_millis(100);
const NOTICES_EVERY: Duration = Duration::from_millis(400);
/// How often a reader who finds nothing looks where the log begins.
const BEGINNING_EVERY: Duration = Duration::from_secs(1);
/// Batches that are asked for at once.
const AHEAD: usize = 32;
/// Names that are listed at a time.
const LISTED: usize = 1_000;

/// Objects by their names, which are paths with slashes. All may be called from several threads and machines at once.
pub trait Objects: Send + Sync {
    /// Stores an object durably if there is none of that name. `false`: there is one.
    ///
    /// # Errors
    /// Whether it was stored is not known.
    fn put_new(&self, name: &str, bytes: &[u8]) -> io::Result<bool>;

    /// Stores an object durably, in the place of the last one.
    ///
    /// # Errors
    /// What the store says.
    fn put(&self, name: &str, bytes: &[u8]) -> io::Result<()>;

    /// All of an object, if it is there.
    ///
    /// # Errors
    /// What the store says.
    fn get(&self, name: &str) -> io::Result<Option<Vec<u8>>>;

    /// The same of several, which may be asked for side by side.
    ///
    /// # Errors
    /// What the store says.
    fn get_all(&self, names: &[String]) -> io::Result<Vec<Option<Vec<u8>>>> {
        names.iter().map(|name| self.get(name)).collect()
    }

    /// The last parts of the names in a folder that are behind `after`, sorted; so many at most.
    ///
    /// # Errors
    /// What the store says.
    fn list_after(&self, folder: &str, after: &str, count_max: usize) -> io::Result<Vec<String>>;

    /// Removes an object; fine if it is not there.
    ///
    /// # Errors
    /// What the store says.
    fn delete(&self, name: &str) -> io::Result<()>;
}

/// A handle on a log in an object store.
pub struct ObjectLog {
    objects: Arc<dyn Objects>,
    clock: Arc<dyn Clock>,
    random: Arc<dyn Random>,
    /// Behind the last batch that was seen: the name of the next one.
    end: AtomicU64,
    outcomes: Mutex<Vec<AppendOutcome>>,
    looked: Mutex<Looked>,
    board: Mutex<Board>,
}

/// When the end was last found, and the beginning.
#[derive(Default)]
struct Looked {
    end: Option<(Offset, Duration)>,
    beginning: Option<Duration>,
}

/// Notices as they were last put up and read.
#[derive(Default)]
struct Board {
    posted: Option<Duration>,
    read: Option<(Duration, Vec<Vec<u8>>)>,
}

impl ObjectLog {
    /// Makes the log.
    ///
    /// # Errors
    /// `Exists`; what the store says.
    pub fn create(objects: &dyn Objects, random: &dyn Random) -> Result<LogIdentity> {
        let mut identity = [0; 16];
        random.fill(&mut identity);
        let identity = LogIdentity(identity);
        let bytes = identity_bytes(identity);
        match objects.put_new(IDENTITY, &bytes).map_err(SharedLogError::io("write its identity"))? {
            true => Ok(identity),
            // An answer may have been lost.
            false if objects.get(IDENTITY).is_ok_and(|found| found.as_deref() == Some(&bytes)) => Ok(identity),
            false => Err(SharedLogError::Exists),
        }
    }

    /// Opens the log that is there.
    ///
    /// # Errors
    /// `Absent`, `Damaged`; what the store says.
    pub fn open(objects: Arc<dyn Objects>, clock: Arc<dyn Clock>, random: Arc<dyn Random>) -> Result<ObjectLog> {
        let (outcomes, looked, board) = (Mutex::default(), Mutex::default(), Mutex::default());
        let log = ObjectLog { objects, clock, random, end: AtomicU64::new(0), outcomes, looked, board };
        log.identity()?;
        log.bounds()?;
        Ok(log)
    }

    /// The key of the log, which `outer` opens. If there is none and the log has no record, it is made; `None`: the log is not encrypted, nor is that wanted.
    ///
    /// # Errors
    /// `Key` when log and key do not fit.
    pub fn key(&self, outer: Option<&OuterKey>) -> Result<Option<OuterKey>> {
        log_key::of_log(self, &KeyObject(&*self.objects), outer, &*self.random)
    }

    /// Wraps the key of the log by another outer key. Its members are started with that from now on.
    ///
    /// # Errors
    /// `Key` when `from` is not the key.
    pub fn rotate_key(&self, from: &OuterKey, to: &OuterKey) -> Result<()> {
        log_key::rotate(self, &KeyObject(&*self.objects), (from, to), &*self.random)
    }

    /// Where the log begins.
    fn first(&self) -> Result<Offset> {
        let names = self.list(TRIMMED, None, LISTED)?;
        Ok(Offset(names.last().copied().unwrap_or(0)))
    }

    /// The numbers of a folder's names from one on, in order.
    fn list(&self, folder: &'static str, from: Option<u64>, count_max: usize) -> Result<Vec<u64>> {
        let after = from.and_then(|from| from.checked_sub(1)).map(numbered).unwrap_or_default();
        let names =
            self.objects.list_after(folder, &after, count_max).map_err(SharedLogError::io("list its objects"))?;
        Ok(names.iter().filter_map(|name| name.parse().ok()).collect())
    }

    /// The batch that begins at `offset`.
    fn batch(&self, offset: Offset) -> Result<Option<Batch>> {
        let found = self.objects.get(&batch_name(offset)).map_err(SharedLogError::io("read records"))?;
        let parsed = found.map(|bytes| Batch::parse(offset, &bytes)).transpose()?;
        Ok(parsed)
    }

    /// The batch that has the record at `offset`; `None`: the log ends there.
    fn batch_with(&self, offset: Offset) -> Result<Option<Batch>> {
        if let Some(batch) = self.batch(offset)? {
            return Ok(Some(batch));
        }
        if offset.0 == self.end.load(Ordering::Relaxed) {
            return Ok(None);
        }
        let from = offset.0.saturating_sub(BATCH_RECORDS_MAX as u64);
        let names = self.list(RECORDS, Some(from), BATCH_RECORDS_MAX + 2)?;
        let before = names.iter().rfind(|first| **first <= offset.0);
        let batch = before.map(|first| self.batch(Offset(*first))).transpose()?.flatten();
        match batch {
            // What somebody has left who has slept lies before the log.
            Some(batch) if batch.end() > offset && batch.first >= self.first()? => Ok(Some(batch)),
            Some(batch) if batch.end() == offset => match self.batch(offset)? {
                // It has come meanwhile.
                Some(batch) => Ok(Some(batch)),
                None => self.judge_missing(offset, names.last().copied()),
            },
            _ => self.judge_missing(offset, names.last().copied()),
        }
    }

    /// There is no record at `offset`, and none before it nearby. `listed`: the last one that was seen nearby.
    fn judge_missing(&self, offset: Offset, listed: Option<u64>) -> Result<Option<Batch>> {
        let first = self.first()?;
        if offset < first {
            return Err(SharedLogError::Trimmed { offset, first });
        }
        if listed.is_some_and(|listed| listed > offset.0) {
            return Err(SharedLogError::Damaged { offset, reason: "its object is missing, and there are later ones" });
        }
        let end = self.find_end(first)?;
        match offset <= end {
            true => Ok(None),
            false => Err(SharedLogError::Shorter { offset, end }),
        }
    }

    /// Behind the last record. Asks for names far ahead, and then nearer: the log may have more than can be listed.
    fn find_end(&self, first: Offset) -> Result<Offset> {
        let mut known = self.end.load(Ordering::Relaxed).max(first.0);
        let near = BATCH_RECORDS_MAX as u64;
        let (mut step, mut grows) = (near, true);
        loop {
            match self.list(RECORDS, Some(known.saturating_add(step)), 1)?.first() {
                Some(found) => {
                    known = *found;
                    step = if grows { step.saturating_mul(4) } else { step };
                }
                None if step == near => break,
                None => (step, grows) = ((step / 4).max(near), false),
            }
        }
        // A batch begins there, or the log ends there.
        let names = self.list(RECORDS, Some(known), LISTED)?;
        let last = names.last().map(|last| self.batch(Offset(*last))).transpose()?.flatten();
        let end = last.map_or(Offset(known), |last| last.end());
        self.note_end(end);
        Ok(end)
    }

    fn note_end(&self, end: Offset) {
        self.end.fetch_max(end.0, Ordering::Relaxed);
    }

    /// Makes the records one object; where the first one is.
    fn append(&self, records: &[&[u8]]) -> std::result::Result<Offset, Refused> {
        let nonce = self.random.next_u64();
        loop {
            let offset = Offset(self.end.load(Ordering::Relaxed));
            let bytes = Batch::encode(nonce, records);
            let put = self.objects.put_new(&batch_name(offset), &bytes);
            if !put.map_err(|error| Refused::Unknown(SharedLogError::io("write records")(error)))? {
                let Some(other) = self.batch(offset).map_err(Refused::Unknown)? else { continue };
                // Otherwise the answer to an earlier request was lost.
                if other.nonce != nonce {
                    self.note_end(other.end());
                    continue;
                }
            }
            // Whoever has slept may have given a name again that was trimmed away: nobody reads that.
            let first = self.first().map_err(Refused::Unknown)?;
            if offset < first {
                self.note_end(first);
                continue;
            }
            self.note_end(Offset(offset.0 + records.len() as u64));
            return Ok(offset);
        }
    }

    /// Appends what goes into one object, and notes what became of it.
    fn append_all(&self, batch: &[&Sending]) {
        let records: Vec<&[u8]> = batch.iter().map(|sending| &*sending.bytes).collect();
        let result = self.append(&records);
        let mut outcomes = self.outcomes.lock();
        for (place, sending) in batch.iter().enumerate() {
            let result = result.clone().map(|first| Offset(first.0 + place as u64));
            outcomes.push(AppendOutcome { ticket: sending.ticket, result });
        }
    }

    /// The records that are there now, without waiting: all of a batch, so that the next read begins with one.
    fn read_now(&self, from: Offset, bytes_max: usize) -> Result<Vec<StoredRecord>> {
        let (mut found, mut bytes) = (Vec::new(), 0);
        let mut batches: VecDeque<Batch> = self.batch_with(from)?.into_iter().collect();
        while let Some(batch) = batches.pop_front() {
            let end = batch.end();
            for record in batch.into_records().filter(|record| record.offset >= from) {
                bytes += record.bytes.len();
                found.push(record);
            }
            self.note_end(end);
            if batches.is_empty() && bytes < bytes_max.max(1) {
                batches = self.batches_from(end)?;
            }
        }
        Ok(found)
    }

    /// Batches from an offset on, as many as can be asked for at once. Whoever has been away has many to read.
    fn batches_from(&self, offset: Offset) -> Result<VecDeque<Batch>> {
        let firsts = self.list(RECORDS, Some(offset.0), AHEAD)?;
        let names: Vec<String> = firsts.iter().map(|first| batch_name(Offset(*first))).collect();
        let read = if names.is_empty() { Ok(Vec::new()) } else { self.objects.get_all(&names) };
        let (mut batches, mut next) = (VecDeque::new(), offset);
        for (first, bytes) in firsts.into_iter().zip(read.map_err(SharedLogError::io("read records"))?) {
            // What is missing is asked for by itself, and judged then.
            let Some(bytes) = bytes.filter(|_| first == next.0) else { break };
            let batch = Batch::parse(next, &bytes)?;
            next = batch.end();
            batches.push_back(batch);
        }
        Ok(batches)
    }

    /// Whether the end was found there a moment ago.
    fn is_known_end(&self, from: Offset) -> bool {
        let now = self.clock.monotonic();
        let looked = self.looked.lock();
        looked.end.is_some_and(|(end, at)| end == from && now.saturating_sub(at) < LOOK_EVERY)
    }

    /// Nothing was found at `from`. Whether it is time to see where the log begins.
    fn note_nothing(&self, from: Offset) -> bool {
        let now = self.clock.monotonic();
        let mut looked = self.looked.lock();
        looked.end = Some((from, now));
        let is_due = looked.beginning.is_none_or(|at| now.saturating_sub(at) >= BEGINNING_EVERY);
        if is_due {
            looked.beginning = Some(now);
        }
        is_due
    }

    fn check_beginning(&self, from: Offset) -> Result<()> {
        let first = self.first()?;
        if from < first { Err(SharedLogError::Trimmed { offset: from, first }) } else { Ok(()) }
    }

    /// Removes batches before `first`, and what said before where the log begins.
    fn remove_before(&self, first: Offset) -> Result<()> {
        let delete = |name: String| self.objects.delete(&name).map_err(SharedLogError::io("remove records"));
        // The log begins with a batch.
        loop {
            let mut gone = self.list(RECORDS, None, LISTED)?;
            gone.retain(|offset| *offset < first.0);
            if gone.is_empty() {
                break;
            }
            gone.into_iter().try_for_each(|offset| delete(batch_name(Offset(offset))))?;
        }
        let former = self.list(TRIMMED, None, LISTED)?.into_iter().filter(|former| *former < first.0);
        former.into_iter().try_for_each(|former| delete(format!("{TRIMMED}/{}", numbered(former))))
    }
}

/// The object with the key of an encrypted log.
struct KeyObject<'o>(&'o dyn Objects);

impl KeyPlace for KeyObject<'_> {
    fn read(&self) -> Result<Option<Vec<u8>>> {
        self.0.get(KEY).map_err(SharedLogError::io("read its key"))
    }

    fn make(&self, wrapped: &[u8]) -> Result<()> {
        // Another member may be faster.
        self.0.put_new(KEY, wrapped).map(drop).map_err(SharedLogError::io("write its key"))
    }

    fn replace(&self, wrapped: &[u8]) -> Result<()> {
        self.0.put(KEY, wrapped).map_err(SharedLogError::io("write its key"))
    }
}

impl SharedLog for ObjectLog {
    fn identity(&self) -> Result<LogIdentity> {
        let found = self.objects.get(IDENTITY).map_err(SharedLogError::io("read its identity"))?;
        let damaged = SharedLogError::Damaged { offset: Offset(0), reason: "the object of the log's identity" };
        let bytes: [u8; IDENTITY_BYTES] =
            found.ok_or(SharedLogError::Absent)?.try_into().map_err(|_| damaged.clone())?;
        parse_identity(&bytes).ok_or(damaged)
    }

    fn begin_append(&self, batch: &[Sending]) {
        let (mut together, mut bytes) = (Vec::new(), 0);
        for sending in batch {
            let length = sending.bytes.len();
            if length > STORED_BYTES_MAX || length == 0 {
                let error = SharedLogError::TooLarge { bytes: length, bytes_max: STORED_BYTES_MAX };
                let result = Err(Refused::NotAppended(error));
                self.outcomes.lock().push(AppendOutcome { ticket: sending.ticket, result });
                continue;
            }
            if together.len() == BATCH_RECORDS_MAX || bytes + length > BATCH_BYTES_MAX {
                self.append_all(&std::mem::take(&mut together));
                bytes = 0;
            }
            together.push(sending);
            bytes += length;
        }
        if !together.is_empty() {
            self.append_all(&together);
        }
    }

    fn outcomes(&self, _longest: Duration) -> Vec<AppendOutcome> {
        // Each append has its outcome when it returns.
        std::mem::take(&mut self.outcomes.lock())
    }

    fn read(&self, from: Offset, bytes_max: usize, longest: Duration) -> Result<Vec<StoredRecord>> {
        let begin = self.clock.monotonic();
        loop {
            if !self.is_known_end(from) {
                let found = self.read_now(from, bytes_max)?;
                if !found.is_empty() {
                    return self.check_beginning(from).map(|()| found);
                }
                if self.note_nothing(from) {
                    self.check_beginning(from)?;
                }
            }
            let left = longest.saturating_sub(self.clock.monotonic().saturating_sub(begin));
            if left.is_zero() {
                return Ok(Vec::new());
            }
            self.clock.sleep(LOOK_EVERY.min(left));
        }
    }

    fn bounds(&self) -> Result<Bounds> {
        let first = self.first()?;
        Ok(Bounds { first, end: self.find_end(first)? })
    }

    fn answers(&self, _longest: Duration) -> Result<()> {
        self.bounds().map(|_| ())
    }

    fn trim_before(&self, offset: Offset) -> Result<Offset> {
        let bounds = self.bounds()?;
        if !bounds.has_before(offset)? {
            return Ok(bounds.first);
        }
        // The log begins with a batch: within one, somebody who has slept could begin another.
        let offset = self.batch_with(offset)?.map_or(offset, |batch| batch.first);
        if !bounds.has_before(offset)? {
            return Ok(bounds.first);
        }
        let name = format!("{TRIMMED}/{}", numbered(offset.0));
        self.objects.put(&name, b"The log begins here.\n").map_err(SharedLogError::io("say where it begins"))?;
        let first = self.first()?;
        self.remove_before(first)?;
        Ok(first)
    }

    fn post(&self, node: u64, notice: &[u8]) -> Result<()> {
        let now = self.clock.monotonic();
        let mut board = self.board.lock();
        // It may be late; the next one says the same, or more.
        if board.posted.is_some_and(|posted| now.saturating_sub(posted) < NOTICES_EVERY) {
            return Ok(());
        }
        self.objects.put(&notice_name(node), notice).map_err(SharedLogError::io("put up a notice"))?;
        board.posted = Some(now);
        Ok(())
    }

    fn notices(&self) -> Result<Vec<Vec<u8>>> {
        let now = self.clock.monotonic();
        let mut board = self.board.lock();
        if let Some((at, notices)) = &board.read
            && now.saturating_sub(*at) < NOTICES_EVERY
        {
            return Ok(notices.clone());
        }
        let failed = SharedLogError::io;
        let names = self.objects.list_after(MEMBERS, "", LISTED).map_err(failed("list notices"))?;
        let read = |name: &String| self.objects.get(&format!("{MEMBERS}/{name}")).map_err(failed("read a notice"));
        let notices = names.iter().map(read).collect::<Result<Vec<_>>>()?;
        let notices: Vec<_> = notices.into_iter().flatten().collect();
        board.read = Some((now, notices.clone()));
        Ok(notices)
    }

    fn withdraw(&self, node: u64) -> Result<()> {
        self.board.lock().read = None;
        self.objects.delete(&notice_name(node)).map_err(SharedLogError::io("take a notice down"))
    }

    fn check(&self) -> Result<Vec<String>> {
        let name = format!("{CHECK}/{:016x}", self.random.next_u64());
        let tried = [b"one".as_slice(), b"two"].map(|bytes| self.objects.put_new(&name, bytes));
        let kept = self.objects.get(&name);
        // One that stays is nobody's record.
        let _ = self.objects.delete(&name);
        let [first, second] = tried;
        let failed = SharedLogError::io;
        let is_exclusive = first.map_err(failed("try the store"))? && !second.map_err(failed("try the store"))?;
        let is_kept = kept.map_err(failed("try the store"))?.as_deref() == Some(b"one");
        let complaint =
            "the object store makes an object though there is one of that name: it cannot hold a shared log";
        Ok(if is_exclusive && is_kept { Vec::new() } else { vec![complaint.to_owned()] })
    }
}

fn numbered(offset: u64) -> String {
    format!("{offset:020}")
}

fn batch_name(offset: Offset) -> String {
    format!("{RECORDS}/{}", numbered(offset.0))
}

fn notice_name(node: u64) -> String {
    format!("{MEMBERS}/{node:016x}")
}

#[cfg(test)]
mod tests;
