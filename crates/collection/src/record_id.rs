//! Record ids: what a record is found by in its collection's tree, and what index entries point to.
//!
//! The bytes are `index_key`'s: 8 bytes big-endian as the key of a record, 1 to 9 bytes behind the key of an index entry.

use crate::error::{CollectionError, Result};

/// The number of a record in its collection; ascending in order of insertion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RecordId(pub i64);

impl RecordId {
    /// The key of the record in its tree.
    #[inline]
    pub fn record_key(self) -> [u8; 8] {
        index_key::record_key(self.0)
    }

    /// Reads the key of a record.
    ///
    /// # Errors
    /// `Damaged` when it is none.
    #[inline]
    pub fn from_record_key(key: &[u8]) -> Result<RecordId> {
        match index_key::decode_record_key(key) {
            Some(number) => Ok(RecordId(number)),
            None => Err(CollectionError::Damaged(format!("a record key of {} bytes", key.len()))),
        }
    }

    /// Splits the key of an index entry into the index key and the record id.
    ///
    /// # Errors
    /// `Damaged` when it does not end in a record id.
    #[inline]
    pub fn split(entry_key: &[u8]) -> Result<(&[u8], RecordId)> {
        match index_key::split_record_id(entry_key) {
            Some((key, number)) => Ok((key, RecordId(number))),
            None => Err(CollectionError::Damaged("an index entry without a record id".to_owned())),
        }
    }

    /// Writes the key of an index entry over what is in `entry_key`.
    #[inline]
    pub fn write_entry_key(self, index_key: &[u8], entry_key: &mut Vec<u8>) {
        entry_key.clear();
        entry_key.extend_from_slice(index_key);
        index_key::append_record_id(entry_key, self.0);
    }
}
