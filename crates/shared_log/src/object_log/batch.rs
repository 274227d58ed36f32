//! Records that lie in one object. The format is in `docs/file-format.md`, "Object log".
//!
//! Used by `ObjectLog` alone.

use std::sync::Arc;

use crate::record::STORED_BYTES_MAX;
use crate::{Offset, Result, SharedLogError, StoredRecord};

const MAGIC: &[u8; 8] = b"PLMSHOBJ";
const FORMAT_VERSION: u16 = 1;
const HEADER_BYTES: usize = 24;
const LENGTH_BYTES: usize = 4;
const CHECKSUM_BYTES: usize = 4;
/// Most records of a batch: whoever looks for the one that has an offset looks no farther back.
pub(super) const BATCH_RECORDS_MAX: usize = 64;
/// Most bytes of its records together.
pub(super) const BATCH_BYTES_MAX: usize = 8 << 20;

/// See the module's head.
pub(super) struct Batch {
    pub(super) first: Offset,
    /// Whoever made it finds it again by this.
    pub(super) nonce: u64,
    records: Vec<Arc<[u8]>>,
}

impl Batch {
    pub(super) fn encode(nonce: u64, records: &[&[u8]]) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(HEADER_BYTES + records.iter().map(|record| record.len() + 8).sum::<usize>());
        bytes.extend_from_slice(MAGIC);
        bytes.extend_from_slice(&FORMAT_VERSION.to_le_bytes());
        bytes.extend_from_slice(&(records.len() as u16).to_le_bytes());
        bytes.extend_from_slice(&[0; 4]);
        bytes.extend_from_slice(&nonce.to_le_bytes());
        for record in records {
            bytes.extend_from_slice(&(record.len() as u32).to_le_bytes());
            bytes.extend_from_slice(record);
        }
        let checksum = crc32c::crc32c(&bytes);
        bytes.extend_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// The content of the object that is named by `first`.
    ///
    /// # Errors
    /// `Damaged`, `UnsupportedVersion`.
    pub(super) fn parse(first: Offset, bytes: &[u8]) -> Result<Batch> {
        let damaged = |reason| SharedLogError::Damaged { offset: first, reason };
        let (content, sum) = bytes.split_last_chunk::<CHECKSUM_BYTES>().ok_or_else(|| damaged("its object is cut"))?;
        let (header, mut rest) =
            content.split_first_chunk::<HEADER_BYTES>().ok_or_else(|| damaged("its object is cut"))?;
        if !header.starts_with(MAGIC) || crc32c::crc32c(content) != u32::from_le_bytes(*sum) {
            return Err(damaged("the checksum of its object is wrong"));
        }
        let version = u16::from_le_bytes([header[8], header[9]]);
        if version != FORMAT_VERSION {
            return Err(SharedLogError::UnsupportedVersion { offset: first, version, supported: FORMAT_VERSION });
        }
        let count = usize::from(u16::from_le_bytes([header[10], header[11]]));
        let nonce = u64::from_le_bytes(std::array::from_fn(|index| header[16 + index]));
        let records: Option<Vec<_>> = (0..count).map(|_| take_record(&mut rest)).collect();
        let is_whole = (1..=BATCH_RECORDS_MAX).contains(&count) && rest.is_empty();
        let records = records.filter(|_| is_whole).ok_or_else(|| damaged("its object says what no batch has"))?;
        Ok(Batch { first, nonce, records })
    }

    /// Behind its last record.
    pub(super) fn end(&self) -> Offset {
        Offset(self.first.0 + self.records.len() as u64)
    }

    pub(super) fn into_records(self) -> impl Iterator<Item = StoredRecord> {
        (self.first.0..).zip(self.records).map(|(offset, bytes)| StoredRecord { offset: Offset(offset), bytes })
    }
}

fn take_record(rest: &mut &[u8]) -> Option<Arc<[u8]>> {
    let length = u32::from_le_bytes(*rest.split_off(..LENGTH_BYTES)?.first_chunk()?) as usize;
    (1..=STORED_BYTES_MAX).contains(&length).then(|| rest.split_off(..length))?.map(Arc::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_encoded_is_understood_and_every_changed_bit_is_noticed() {
        let bytes = Batch::encode(7, &[b"one", b"second"]);
        let batch = Batch::parse(Offset(5), &bytes).unwrap();
        assert_eq!((batch.nonce, batch.end()), (7, Offset(7)));
        let records: Vec<_> = batch.into_records().map(|record| (record.offset.0, record.bytes.to_vec())).collect();
        assert_eq!(records, [(5, b"one".to_vec()), (6, b"second".to_vec())]);
        for bit in 0..bytes.len() * 8 {
            let mut changed = bytes.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert!(Batch::parse(Offset(5), &changed).is_err(), "bit {bit}");
        }
        for length in 0..bytes.len() {
            assert!(Batch::parse(Offset(5), &bytes[..length]).is_err());
        }
        assert!(Batch::parse(Offset(5), &Batch::encode(7, &[])).is_err());
    }
}
