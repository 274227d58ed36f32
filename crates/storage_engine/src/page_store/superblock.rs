//! The two superblocks at the start of the page file, written in turn, so that one is always whole.
//!
//! Read and written by `recovery` when the store is opened and closed; read by `inspection`. The format is in
//! `docs/file-format.md`.

use super::address::PAGE_BYTES;
use super::error::{PageStoreError, Result};

/// Name of the page file in the data directory.
pub const PAGE_FILE_NAME: &str = "pages.plimsoll";

/// Version of the format of the page file and the page-table files.
pub(super) const FORMAT_VERSION: u32 = 3;

/// Versions that are read. In version 1 no address told the room of its page, in version 2 no image had its slots told as differences.
pub(super) const FORMAT_VERSIONS_READ: std::ops::RangeInclusive<u32> = 1..=FORMAT_VERSION;

/// Bytes of one slot.
pub(super) const SUPERBLOCK_BYTES: usize = 4096;

/// Slots.
pub(super) const SUPERBLOCK_COUNT: u64 = 2;

/// Extents may have this many bytes, in multiples of 4 KiB.
pub(super) const EXTENT_BYTES_RANGE: std::ops::RangeInclusive<u32> = 64 << 10..=256 << 20;

const MAGIC: [u8; 8] = *b"PLMPAGES";
const FLAG_CLEAN_SHUTDOWN: u32 = 1;
const CHECKSUM_OFFSET: usize = SUPERBLOCK_BYTES - 4;

/// What a superblock says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Superblock {
    /// Raised by one at each write of a superblock; the valid slot with the highest is the current one.
    pub sequence: u64,
    /// Identity of this store; page-table files carry it too.
    pub uuid: [u8; 16],
    /// When the store was created, in milliseconds since the Unix epoch.
    pub created_millis: i64,
    /// Bytes of an extent.
    pub extent_bytes: u32,
    /// How often the store has been opened.
    pub open_count: u64,
    /// Whether the store was closed in order and not opened since.
    pub clean_shutdown: bool,
    /// A checkpoint of at least this number had been published when this was written; a lower one found is a loss.
    pub checkpoint_floor: u64,
}

impl Superblock {
    /// The slot this one is written to.
    pub(super) fn slot_offset(&self) -> u64 {
        self.sequence % SUPERBLOCK_COUNT * SUPERBLOCK_BYTES as u64
    }

    /// Its bytes.
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(SUPERBLOCK_BYTES);
        bytes.extend_from_slice(&MAGIC);
        bytes.extend_from_slice(&FORMAT_VERSION.to_le_bytes());
        bytes.extend_from_slice(&(PAGE_BYTES as u32).to_le_bytes());
        bytes.extend_from_slice(&self.extent_bytes.to_le_bytes());
        let flags = if self.clean_shutdown { FLAG_CLEAN_SHUTDOWN } else { 0 };
        bytes.extend_from_slice(&flags.to_le_bytes());
        bytes.extend_from_slice(&self.uuid);
        bytes.extend_from_slice(&self.created_millis.to_le_bytes());
        for value in [self.sequence, self.open_count, self.checkpoint_floor] {
            bytes.extend_from_slice(&value.to_le_bytes());
        }
        bytes.resize(CHECKSUM_OFFSET, 0);
        let checksum = crc32c::crc32c(&bytes);
        bytes.extend_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// Reads a slot's bytes.
    ///
    /// # Errors
    /// `CorruptFile` when they are not a superblock, `Format` when it is one of another version or page size.
    pub(super) fn decode(bytes: &[u8], offset: u64) -> Result<Superblock> {
        let corrupt = |reason: &str| PageStoreError::CorruptFile {
            file: PAGE_FILE_NAME.to_owned(),
            offset,
            reason: reason.to_owned(),
        };
        if bytes.len() != SUPERBLOCK_BYTES || bytes[..8] != MAGIC {
            return Err(corrupt("not a superblock"));
        }
        if read_u32(bytes, CHECKSUM_OFFSET) != crc32c::crc32c(&bytes[..CHECKSUM_OFFSET]) {
            return Err(corrupt("superblock checksum"));
        }
        check_format(read_u32(bytes, 8), read_u32(bytes, 12), read_u32(bytes, 16))?;
        let mut uuid = [0; 16];
        uuid.copy_from_slice(&bytes[24..40]);
        Ok(Superblock {
            sequence: read_u64(bytes, 48),
            uuid,
            created_millis: read_u64(bytes, 40) as i64,
            extent_bytes: read_u32(bytes, 16),
            open_count: read_u64(bytes, 56),
            clean_shutdown: read_u32(bytes, 20) & FLAG_CLEAN_SHUTDOWN != 0,
            checkpoint_floor: read_u64(bytes, 64),
        })
    }
}

/// Refuses extents of a size that cannot work.
pub(super) fn check_extent_bytes(extent_bytes: u32) -> std::result::Result<(), String> {
    let is_aligned = (extent_bytes as usize).is_multiple_of(SUPERBLOCK_BYTES);
    match is_aligned && EXTENT_BYTES_RANGE.contains(&extent_bytes) {
        true => Ok(()),
        false => Err(format!("extents of {extent_bytes} bytes")),
    }
}

fn check_format(version: u32, page_bytes: u32, extent_bytes: u32) -> Result<()> {
    let refuse = |reason| Err(PageStoreError::Format { file: PAGE_FILE_NAME.to_owned(), reason });
    if !FORMAT_VERSIONS_READ.contains(&version) {
        return refuse(format!("format version {version}; this program reads 1 to {FORMAT_VERSION}"));
    }
    if page_bytes as usize != PAGE_BYTES {
        return refuse(format!("pages of {page_bytes} bytes; this program uses {PAGE_BYTES}"));
    }
    check_extent_bytes(extent_bytes).or_else(refuse)
}

/// A little-endian number inside bytes; 0 beyond their end.
pub(super) fn read_u32(bytes: &[u8], offset: usize) -> u32 {
    bytes.get(offset..).and_then(|bytes| bytes.first_chunk()).map_or(0, |bytes| u32::from_le_bytes(*bytes))
}

/// A little-endian number inside bytes; 0 beyond their end.
pub(super) fn read_u64(bytes: &[u8], offset: usize) -> u64 {
    bytes.get(offset..).and_then(|bytes| bytes.first_chunk()).map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn superblock() -> Superblock {
        Superblock {
            sequence: 7,
            uuid: *b"0123456789abcdef",
            created_millis: -5,
            extent_bytes: 2 << 20,
            open_count: 3,
            clean_shutdown: true,
            checkpoint_floor: 99,
        }
    }

    #[test]
    fn superblock_survives_its_encoding_and_any_flipped_bit_is_found() {
        let bytes = superblock().encode();
        assert_eq!(bytes.len(), SUPERBLOCK_BYTES);
        assert_eq!(Superblock::decode(&bytes, 0).unwrap(), superblock());
        for bit in (0..SUPERBLOCK_BYTES * 8).step_by(97) {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(Superblock::decode(&damaged, 0).is_err());
        }
    }

    #[test]
    fn another_version_is_a_format_error() {
        let of_version = |version| {
            let mut bytes = superblock().encode();
            bytes[8] = version;
            let checksum = crc32c::crc32c(&bytes[..CHECKSUM_OFFSET]);
            bytes[CHECKSUM_OFFSET..].copy_from_slice(&checksum.to_le_bytes());
            Superblock::decode(&bytes, 0)
        };
        assert!([1, 2, 3].into_iter().all(|version| of_version(version).unwrap() == superblock()));
        assert!([0, 4].into_iter().all(|version| matches!(of_version(version), Err(PageStoreError::Format { .. }))));
    }
}
