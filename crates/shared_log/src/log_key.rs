//! The key of an encrypted log: beside its records, wrapped by the outer key that all members have.
//!
//! In a directory and in an object store it is made by the first member, and lies where only one can make it; in a log of another kind it is a notice, made with the log by
//! whoever makes that, and seen by all. The format is in `docs/file-format.md`, "Key of a shared log". A log that has records without it stays as it is.

use std::time::Duration;

use platform::{Clock, OuterKey, Random, SealedObject};

use crate::sealed_log::is_sealed;
use crate::{ARRIVES_WITHIN, Bounds, LogIdentity, Offset, Result, SharedLog, SharedLogError};

const MAGIC: &[u8; 8] = b"PLMSHKEY";
const FORMAT_VERSION: u32 = 1;
const KEY_BYTES: usize = 32;
const SEALED_AT: usize = 40;
const CHECKED_BYTES: usize = SEALED_AT + KEY_BYTES + 16;
const FILE_BYTES: usize = CHECKED_BYTES + 4;
/// The number under which it is a notice: no member's, whose numbers come of addresses.
const NODE: u64 = u64::MAX;
/// How long notices may take to be seen.
const SEEN_WITHIN: Duration = Duration::from_secs(20);
const LOOK: Duration = Duration::from_millis(50);

/// Where the key lies, wrapped.
pub(crate) trait KeyPlace {
    /// What is there.
    fn read(&self) -> Result<Option<Vec<u8>>>;

    /// Puts it there unless there is one: of several who do so one succeeds.
    fn make(&self, wrapped: &[u8]) -> Result<()>;

    /// Puts it in the place of the one that is there.
    fn replace(&self, wrapped: &[u8]) -> Result<()>;
}

fn name(identity: LogIdentity) -> String {
    format!("key of the shared log {identity}")
}

fn refused(cause: impl Into<String>) -> SharedLogError {
    SharedLogError::Key { cause: cause.into() }
}

/// The key of a log, which `outer` opens. If there is none and the log has no record, it is made; `None`: the log is not encrypted, nor is that wanted.
///
/// # Errors
/// `Key` when log and key do not fit.
pub(crate) fn of_log(
    log: &dyn SharedLog,
    place: &dyn KeyPlace,
    outer: Option<&OuterKey>,
    random: &dyn Random,
) -> Result<Option<OuterKey>> {
    let identity = log.identity()?;
    match (outer, place.read()?) {
        (None, None) => check_readable(log).map(|()| None),
        (None, Some(_)) => Err(is_encrypted()),
        (Some(outer), Some(wrapped)) => unwrapped(&wrapped, identity, outer).map(|key| Some(OuterKey::new(key))),
        (Some(outer), None) => {
            if log.bounds()? != (Bounds { first: Offset(0), end: Offset(0) }) {
                return Err(refused(
                    "it is not encrypted, and a key is given: a set is encrypted from its beginning or not at all",
                ));
            }
            place.make(&new(identity, outer, random)?)?;
            let wrapped = place.read()?.ok_or_else(|| refused("its key was not kept"))?;
            unwrapped(&wrapped, identity, outer).map(|key| Some(OuterKey::new(key)))
        }
    }
}

/// Wraps the key of a log by another outer key. No record is written.
///
/// # Errors
/// `Key` when `from` is not the key.
pub(crate) fn rotate(
    log: &dyn SharedLog,
    place: &dyn KeyPlace,
    (from, to): (&OuterKey, &OuterKey),
    random: &dyn Random,
) -> Result<()> {
    let identity = log.identity()?;
    let present = place.read()?.ok_or_else(|| refused("it is not encrypted, so there is no key to change"))?;
    place.replace(&wrapped(&unwrapped(&present, identity, from)?, identity, to, random)?)
}

fn is_encrypted() -> SharedLogError {
    refused(
        "it is encrypted: give the key of its members with --encryption-key-file, --encryption-key-env or --encryption-key-command",
    )
}

/// A log without a key has no encrypted records: whoever went on with it would write what others are not to read.
fn check_readable(log: &dyn SharedLog) -> Result<()> {
    // One that lacks records is opened to be examined; who reads it tells.
    let Ok(Bounds { first, end }) = log.bounds() else { return Ok(()) };
    if first >= end {
        return Ok(());
    }
    match log.read(first, 1, ARRIVES_WITHIN) {
        Ok(records) if records.first().is_some_and(|record| is_sealed(&record.bytes)) => {
            Err(refused("its records are encrypted, and its key is not there"))
        }
        // Who reads it tells what is wrong.
        _ => Ok(()),
    }
}

/// Makes a key.
fn new(identity: LogIdentity, outer: &OuterKey, random: &dyn Random) -> Result<Vec<u8>> {
    let mut key = [0; KEY_BYTES];
    random.fill(&mut key);
    wrapped(&key, identity, outer, random)
}

fn wrapped(key: &[u8; KEY_BYTES], identity: LogIdentity, outer: &OuterKey, random: &dyn Random) -> Result<Vec<u8>> {
    let mut content = key.to_vec();
    let sealed = outer.seal_object(&name(identity), &mut content, random);
    let sealed = sealed.map_err(|error| refused(error.to_string()))?;
    let mut bytes = MAGIC.to_vec();
    bytes.extend_from_slice(&FORMAT_VERSION.to_le_bytes());
    bytes.extend_from_slice(&[0; 4]);
    bytes.extend_from_slice(&sealed.key_name);
    bytes.extend_from_slice(&sealed.salt);
    bytes.append(&mut content);
    bytes.extend_from_slice(&crc32c::crc32c(&bytes).to_le_bytes());
    Ok(bytes)
}

fn unwrapped(bytes: &[u8], identity: LogIdentity, outer: &OuterKey) -> Result<[u8; KEY_BYTES]> {
    let damaged = || refused("the file of its key is damaged: without it nothing in the log can be read");
    let bytes: &[u8; FILE_BYTES] = bytes.try_into().map_err(|_| damaged())?;
    let (content, checksum) = bytes.split_at(CHECKED_BYTES);
    if !content.starts_with(MAGIC) || checksum != crc32c::crc32c(content).to_le_bytes() {
        return Err(damaged());
    }
    if content[8..12] != FORMAT_VERSION.to_le_bytes() {
        return Err(refused("the file of its key has a version that this program does not know"));
    }
    let mut sealed = SealedObject::default();
    sealed.key_name.copy_from_slice(&content[16..24]);
    sealed.salt.copy_from_slice(&content[24..SEALED_AT]);
    if !outer.is_named(&sealed.key_name) {
        return Err(refused("it is encrypted with another key than the one that is given"));
    }
    let key = outer.open_object(&name(identity), &sealed, &content[SEALED_AT..]);
    let key = key.map_err(|_| refused("the file of its key is of another log"))?;
    key.try_into().map_err(|_| refused("the file of its key is damaged"))
}

/// The key of a log whose members see nothing beside it but notices. It is made with the log (`make_among_notices`).
pub struct KeyAmongNotices<'l> {
    log: &'l dyn SharedLog,
    clock: &'l dyn Clock,
}

impl<'l> KeyAmongNotices<'l> {
    /// Of that log.
    pub fn new(log: &'l dyn SharedLog, clock: &'l dyn Clock) -> KeyAmongNotices<'l> {
        KeyAmongNotices { log, clock }
    }

    /// Makes it, before the log has any record. Nobody else does so at the same time.
    ///
    /// # Errors
    /// `Key`: the log has records or a key; `Unreachable`: it is not seen.
    pub fn make(&self, outer: &OuterKey, random: &dyn Random) -> Result<()> {
        of_log(self.log, self, Some(outer), random).map(drop)
    }

    /// The key, which `outer` opens; `None`: the log is not encrypted, nor is that wanted.
    ///
    /// # Errors
    /// `Key` when log and key do not fit.
    pub fn open(&self, outer: Option<&OuterKey>, random: &dyn Random) -> Result<Option<OuterKey>> {
        // Notices may be seen late, and a second key must not be made.
        if outer.is_some() && self.seen(|found| found.is_some())?.is_none() {
            return Err(refused(
                "it has no key, and one is given: an encrypted log of this kind is made with its key, by plimsoll log create",
            ));
        }
        of_log(self.log, self, outer, random)
    }

    /// Wraps the key by another outer key.
    ///
    /// # Errors
    /// `Key` when `from` is not the key.
    pub fn rotate(&self, keys: (&OuterKey, &OuterKey), random: &dyn Random) -> Result<()> {
        self.seen(|found| found.is_some())?;
        rotate(self.log, self, keys, random)
    }

    /// The notice as it is, once it is as it should be, or that has taken too long.
    fn seen(&self, is_as_it_should_be: impl Fn(&Option<Vec<u8>>) -> bool) -> Result<Option<Vec<u8>>> {
        let begin = self.clock.monotonic();
        loop {
            let found = self.read()?;
            let is_over = self.clock.monotonic().saturating_sub(begin) >= SEEN_WITHIN;
            if is_over || is_as_it_should_be(&found) {
                return Ok(found);
            }
            self.clock.sleep(LOOK);
        }
    }
}

impl KeyPlace for KeyAmongNotices<'_> {
    fn read(&self) -> Result<Option<Vec<u8>>> {
        Ok(self.log.notices()?.into_iter().find(|notice| notice.starts_with(MAGIC)))
    }

    fn make(&self, wrapped: &[u8]) -> Result<()> {
        self.replace(wrapped)
    }

    fn replace(&self, wrapped: &[u8]) -> Result<()> {
        self.log.post(NODE, wrapped)?;
        // A notice may be lost; this one must not.
        match self.seen(|found| found.as_deref() == Some(wrapped))?.as_deref() == Some(wrapped) {
            true => Ok(()),
            false => Err(SharedLogError::Unreachable { cause: "its key is not seen among the notices".to_owned() }),
        }
    }
}

#[cfg(test)]
mod tests {
    use platform::{SeededRandom, SystemClock};

    use super::*;
    use crate::{MemoryLog, SealedLog, Sending, Ticket};

    #[test]
    fn a_key_among_notices_is_made_once_and_opens_by_the_right_one_only() {
        let (log, clock, random) = (MemoryLog::new(1), SystemClock::new(), SeededRandom::new(7));
        let connection = log.connect();
        let key = KeyAmongNotices::new(&connection, &clock);
        let outer = [1, 2].map(|byte| OuterKey::new([byte; 32]));
        assert!(key.open(None, &random).unwrap().is_none());
        key.make(&outer[0], &random).unwrap();
        let opened = key.open(Some(&outer[0]), &random).unwrap().unwrap();
        let told = |result: Result<Option<OuterKey>>| result.err().unwrap().to_string();
        assert!(told(key.open(Some(&outer[1]), &random)).contains("another key"));
        assert!(told(key.open(None, &random)).contains("it is encrypted"));
        key.rotate((&outer[0], &outer[1]), &random).unwrap();
        assert!(told(key.open(Some(&outer[0]), &random)).contains("another key"));
        // The key is the same.
        let sealed =
            SealedLog::new(Box::new(log.connect()), opened, std::sync::Arc::new(SeededRandom::new(1))).unwrap();
        sealed.begin_append(&[Sending { ticket: Ticket(1), bytes: b"one".as_slice().into() }]);
        sealed.outcomes(Duration::ZERO).pop().unwrap().result.unwrap();
        let again = key.open(Some(&outer[1]), &random).unwrap().unwrap();
        let sealed = SealedLog::new(Box::new(log.connect()), again, std::sync::Arc::new(SeededRandom::new(2))).unwrap();
        assert_eq!(&*sealed.read(Offset(0), 1, Duration::ZERO).unwrap()[0].bytes, b"one");
        // Without its key nobody goes on with it.
        connection.withdraw(NODE).unwrap();
        assert!(told(key.open(None, &random)).contains("its key is not there"));
    }
}
