//! The file `retention`: for how many bytes and how long the log is to be kept, as its owner was told while it ran.
//!
//! Called by `transaction` when a store is opened and when the retention is changed. It is replaced as a whole: written under another name, synced, renamed.

use platform::{OpenMode, replace_file};

use super::LocalOplog;
use crate::{OplogError, OplogPosition, Result};

const NAME: &str = "retention";
const NEW_NAME: &str = "retention.new";
const MAGIC: &[u8; 8] = b"PLRETAIN";
const BYTES: usize = 36;
const ABSENT: u64 = u64::MAX;

/// What was set; `None`: never.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoredRetention {
    /// Bytes of the log.
    pub bytes: Option<u64>,
    /// Milliseconds.
    pub millis: Option<u64>,
}

impl StoredRetention {
    fn encode(self) -> [u8; BYTES] {
        let mut bytes = [0; BYTES];
        bytes[..8].copy_from_slice(MAGIC);
        bytes[8..16].copy_from_slice(&1_u64.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.bytes.unwrap_or(ABSENT).to_le_bytes());
        bytes[24..32].copy_from_slice(&self.millis.unwrap_or(ABSENT).to_le_bytes());
        let checksum = crc32c::crc32c(&bytes[..32]);
        bytes[32..].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    fn decode(bytes: &[u8; BYTES]) -> Option<StoredRetention> {
        let field = |at: usize| {
            let field = bytes.get(at..at + 8).and_then(|field| field.first_chunk::<8>());
            field.map_or(ABSENT, |field| u64::from_le_bytes(*field))
        };
        if bytes[..8] != *MAGIC || field(8) != 1 || bytes[32..] != crc32c::crc32c(&bytes[..32]).to_le_bytes() {
            return None;
        }
        let known = |value: u64| Some(value).filter(|value| *value != ABSENT);
        Some(StoredRetention { bytes: known(field(16)), millis: known(field(24)) })
    }
}

impl LocalOplog {
    /// What was stored last.
    ///
    /// # Errors
    /// `Io`; `Corrupt` when the file is damaged: going on without it would give up history that somebody was promised.
    pub fn stored_retention(&self) -> Result<StoredRetention> {
        let store = &self.shared.store;
        let path = store.path(NAME);
        if !store.disk().exists(&path).map_err(OplogError::io("look for the stored retention"))? {
            return Ok(StoredRetention::default());
        }
        let mut bytes = [0; BYTES];
        let file = store.disk().open(&path, OpenMode::Read).map_err(OplogError::io("open the stored retention"))?;
        let whole = file.length().is_ok_and(|length| length == BYTES as u64);
        if whole {
            file.read_exact_unverified_at(&mut bytes, 0).map_err(OplogError::io("read the stored retention"))?;
        }
        StoredRetention::decode(&bytes).ok_or_else(|| OplogError::Corrupt {
            segment: NAME.to_owned(),
            position: OplogPosition(0),
            reason: "the stored retention is damaged; remove the file to go by the server's settings",
        })
    }

    /// Stores it. It is durable afterwards.
    ///
    /// # Errors
    /// `Io`: it is what it was before.
    pub fn store_retention(&self, retention: StoredRetention) -> Result<()> {
        let _alone = self.shared.truncation.lock();
        let store = &self.shared.store;
        replace_file(store.disk(), &store.path(NAME), &store.path(NEW_NAME), &retention.encode())
            .map_err(OplogError::io("store the retention"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_survives_its_encoding_and_damage_is_seen() {
        let stored = StoredRetention { bytes: Some(5), millis: None };
        let encoded = stored.encode();
        assert_eq!(StoredRetention::decode(&encoded), Some(stored));
        for bit in 0..BYTES * 8 {
            let mut damaged = encoded;
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(StoredRetention::decode(&damaged), None, "bit {bit}");
        }
    }
}
