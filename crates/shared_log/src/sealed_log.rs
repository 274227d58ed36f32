//! A shared log whose records are encrypted: around any other log, so that who has its files or its brokers has not the data.
//!
//! Made by the server where the data directory is encrypted. Each record is an object under the log's key (`OuterKey::seal_object`), bound to the log's identity:
//! what follows from the key and random bytes encrypts one record only. The format is in `docs/file-format.md`, "Encrypted records"; why it is so, in decision 0037.
//!
//! A record that is not encrypted, in a log that is, is none of ours: whoever may write into the log without having the key changes nothing. Notices are not encrypted:
//! they have addresses, tags and places.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use platform::{OuterKey, Random, SealedObject};

use crate::record::{RECORD_BYTES_MAX, STORED_BYTES_MAX};
use crate::{
    AppendOutcome, Bounds, LogIdentity, Offset, Refused, Result, Sending, SharedLog, SharedLogError, StoredRecord,
};

const MAGIC: &[u8; 8] = b"PLMSHENC";
const FORMAT_VERSION: u16 = 1;
const HEADER_BYTES: usize = 40;
const KEY_NAME_AT: usize = 16;
const SALT_AT: usize = 24;
const TAG_BYTES: usize = 16;

const _: () = assert!(RECORD_BYTES_MAX + HEADER_BYTES + TAG_BYTES <= STORED_BYTES_MAX);

/// Whether a record is encrypted.
pub(crate) fn is_sealed(bytes: &[u8]) -> bool {
    bytes.starts_with(MAGIC)
}

/// See the module's head.
pub struct SealedLog {
    inner: Box<dyn SharedLog>,
    key: OuterKey,
    random: Arc<dyn Random>,
    identity: LogIdentity,
    /// What could not be encrypted.
    refused: Mutex<Vec<AppendOutcome>>,
}

impl SealedLog {
    /// Around a log, of which this is the key.
    ///
    /// # Errors
    /// As `SharedLog::identity`.
    pub fn new(inner: Box<dyn SharedLog>, key: OuterKey, random: Arc<dyn Random>) -> Result<SealedLog> {
        let identity = inner.identity()?;
        Ok(SealedLog { inner, key, random, identity, refused: Mutex::default() })
    }

    /// What records are called, for the key of each.
    fn name(&self) -> String {
        format!("record of the shared log {}", self.identity)
    }

    fn seal(&self, bytes: &[u8]) -> Result<Arc<[u8]>> {
        if bytes.len() > RECORD_BYTES_MAX {
            return Err(SharedLogError::TooLarge { bytes: bytes.len(), bytes_max: RECORD_BYTES_MAX });
        }
        let mut content = bytes.to_vec();
        let sealed = self.key.seal_object(&self.name(), &mut content, &*self.random);
        let sealed = sealed.map_err(|error| SharedLogError::Key { cause: error.to_string() })?;
        let mut record = Vec::with_capacity(HEADER_BYTES + content.len());
        record.extend_from_slice(MAGIC);
        record.extend_from_slice(&FORMAT_VERSION.to_le_bytes());
        record.resize(KEY_NAME_AT, 0);
        record.extend_from_slice(&sealed.key_name);
        record.extend_from_slice(&sealed.salt);
        record.append(&mut content);
        Ok(record.into())
    }

    fn open(&self, record: &StoredRecord) -> Result<Arc<[u8]>> {
        let StoredRecord { offset, bytes } = record;
        let damaged = |reason| SharedLogError::Damaged { offset: *offset, reason };
        if !is_sealed(bytes) {
            // No record of ours begins with nothing.
            return Ok(Vec::new().into());
        }
        let (header, content) =
            bytes.split_at_checked(HEADER_BYTES).ok_or_else(|| damaged("it is shorter than its header"))?;
        let version = u16::from_le_bytes([header[8], header[9]]);
        if version != FORMAT_VERSION {
            let (offset, supported) = (*offset, FORMAT_VERSION);
            return Err(SharedLogError::UnsupportedVersion { offset, version, supported });
        }
        let mut sealed = SealedObject::default();
        sealed.key_name.copy_from_slice(&header[KEY_NAME_AT..SALT_AT]);
        sealed.salt.copy_from_slice(&header[SALT_AT..]);
        if !self.key.is_named(&sealed.key_name) {
            return Err(damaged("it is encrypted with another key"));
        }
        let opened = self.key.open_object(&self.name(), &sealed, content);
        Ok(opened.map_err(|_| damaged("it cannot be decrypted"))?.into())
    }
}

impl SharedLog for SealedLog {
    fn identity(&self) -> Result<LogIdentity> {
        self.inner.identity()
    }

    fn begin_append(&self, batch: &[Sending]) {
        let mut sealed = Vec::with_capacity(batch.len());
        for Sending { ticket, bytes } in batch {
            match self.seal(bytes) {
                Ok(bytes) => sealed.push(Sending { ticket: *ticket, bytes }),
                Err(error) => {
                    let result = Err(Refused::NotAppended(error));
                    self.refused.lock().push(AppendOutcome { ticket: *ticket, result });
                }
            }
        }
        // Together, as they came: some logs make one object of them.
        if !sealed.is_empty() {
            self.inner.begin_append(&sealed);
        }
    }

    fn outcomes(&self, longest: Duration) -> Vec<AppendOutcome> {
        let mut outcomes = std::mem::take(&mut *self.refused.lock());
        let longest = if outcomes.is_empty() { longest } else { Duration::ZERO };
        outcomes.extend(self.inner.outcomes(longest));
        outcomes
    }

    fn read(&self, from: Offset, bytes_max: usize, longest: Duration) -> Result<Vec<StoredRecord>> {
        let mut records = self.inner.read(from, bytes_max, longest)?;
        for place in 0..records.len() {
            match self.open(&records[place]) {
                Ok(bytes) => records[place].bytes = bytes,
                // Those before it are as they should be. It is met again, as the first.
                Err(_) if place > 0 => {
                    records.truncate(place);
                    break;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(records)
    }

    fn bounds(&self) -> Result<Bounds> {
        self.inner.bounds()
    }

    fn answers(&self, longest: Duration) -> Result<()> {
        self.inner.answers(longest)
    }

    fn trim_before(&self, offset: Offset) -> Result<Offset> {
        self.inner.trim_before(offset)
    }

    fn post(&self, node: u64, notice: &[u8]) -> Result<()> {
        self.inner.post(node, notice)
    }

    fn notices(&self) -> Result<Vec<Vec<u8>>> {
        self.inner.notices()
    }

    fn withdraw(&self, node: u64) -> Result<()> {
        self.inner.withdraw(node)
    }

    fn check(&self) -> Result<Vec<String>> {
        self.inner.check()
    }
}

#[cfg(test)]
mod tests {
    use platform::SeededRandom;

    use super::*;
    use crate::{MemoryLog, Ticket};

    fn sealed(log: &MemoryLog, key: u8) -> SealedLog {
        let random = Arc::new(SeededRandom::new(u64::from(key)));
        SealedLog::new(Box::new(log.connect()), OuterKey::new([key; 32]), random).unwrap()
    }

    fn append(log: &dyn SharedLog, bytes: &[u8]) -> std::result::Result<Offset, Refused> {
        log.begin_append(&[Sending { ticket: Ticket(1), bytes: bytes.into() }]);
        log.outcomes(Duration::ZERO).pop().unwrap().result
    }

    fn read(log: &dyn SharedLog, from: u64) -> Result<Vec<Vec<u8>>> {
        let records = log.read(Offset(from), usize::MAX, Duration::ZERO)?;
        Ok(records.iter().map(|record| record.bytes.to_vec()).collect())
    }

    #[test]
    fn records_come_back_and_say_nothing_without_the_key() {
        let (log, text) = (MemoryLog::new(1), b"PLMSHREC nobody is to read this".as_slice());
        let with_key = sealed(&log, 1);
        append(&with_key, text).unwrap();
        append(&with_key, text).unwrap();
        assert_eq!(read(&with_key, 0).unwrap(), [text, text]);
        let stored = read(&log.connect(), 0).unwrap();
        assert_ne!(stored[0], stored[1], "the same record twice is another one");
        assert!(stored.iter().all(|bytes| !bytes.windows(6).any(|window| text.windows(6).any(|part| part == window))));
        assert!(matches!(read(&sealed(&log, 2), 0), Err(SharedLogError::Damaged { .. })));
    }

    #[test]
    fn what_others_write_is_none_of_ours_and_what_is_changed_stops() {
        let log = MemoryLog::new(1);
        let with_key = sealed(&log, 1);
        append(&with_key, b"one").unwrap();
        append(&log.connect(), b"PLMSHREC written without the key").unwrap();
        assert_eq!(read(&with_key, 0).unwrap(), [b"one".to_vec(), Vec::new()]);
        let stored = log.connect().read(Offset(0), 1, Duration::ZERO).unwrap()[0].bytes.to_vec();
        for byte in 8..stored.len() {
            let mut changed = stored.clone();
            changed[byte] ^= 1;
            let record = StoredRecord { offset: Offset(9), bytes: changed.into() };
            let opened = with_key.open(&record);
            // The rest of the header is for later versions.
            assert_eq!(opened.is_err(), !(10..KEY_NAME_AT).contains(&byte), "byte {byte}");
        }
        // One of another log, with the same key.
        let other = sealed(&MemoryLog::new(2), 1);
        assert!(other.open(&StoredRecord { offset: Offset(0), bytes: stored.into() }).is_err());
    }

    #[test]
    fn a_record_that_is_too_large_is_refused() {
        let log = MemoryLog::new(1);
        let refused = append(&sealed(&log, 1), &vec![0; RECORD_BYTES_MAX + 1]);
        assert!(matches!(refused, Err(Refused::NotAppended(SharedLogError::TooLarge { .. }))), "{refused:?}");
        append(&sealed(&log, 1), &vec![7; RECORD_BYTES_MAX]).unwrap();
    }
}
