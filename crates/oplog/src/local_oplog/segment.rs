//! Segment files: their names, their header, and where a position lies in them.
//!
//! Called by recovery, the flusher and readers. The format is in `docs/file-format.md`, "Oplog segments".

use std::io;
use std::sync::Arc;

use platform::{File, Timestamp};

use crate::{OplogError, OplogPosition, Result};

/// Bytes before the first entry. A whole page, so that writing entries never rewrites the header's page.
pub(crate) const SEGMENT_HEADER_BYTES: u64 = 4096;

/// The file that the next segment will be: allocated, all zeros, and renamed when it is needed.
pub(super) const SPARE_NAME: &str = "next.segment";

const MAGIC: [u8; 8] = *b"PLMSOPLG";
const FORMAT_VERSION: u32 = 1;
const CHECKED_BYTES: usize = 40;
const NAME_SUFFIX: &str = ".segment";
const NAME_DIGITS: usize = 20;

/// What the header of a segment says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SegmentHeader {
    /// Position of the first entry.
    pub(super) start: u64,
    /// Timestamp of the last entry before it, so that time never goes backwards although older segments are gone.
    pub(super) previous_timestamp: Timestamp,
    pub(super) created_wall_millis: i64,
}

/// The segment that is written to.
pub(super) struct SegmentFile {
    pub(super) file: Arc<dyn File>,
    pub(super) start: u64,
    /// Whether its header and its name are durable; entries go in only after that.
    pub(super) ready: bool,
}

pub(super) fn segment_name(start: u64) -> String {
    format!("{start:0NAME_DIGITS$}{NAME_SUFFIX}")
}

/// The start position in a segment's name; `None` for other files.
pub(super) fn parse_segment_name(name: &str) -> Option<u64> {
    let digits = name.strip_suffix(NAME_SUFFIX)?;
    match digits.len() == NAME_DIGITS && digits.bytes().all(|byte| byte.is_ascii_digit()) {
        true => digits.parse().ok(),
        false => None,
    }
}

/// Offset in the file of a position in the segment that begins at `start`.
pub(super) fn file_offset(start: u64, position: u64) -> u64 {
    SEGMENT_HEADER_BYTES + (position - start)
}

impl SegmentHeader {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(SEGMENT_HEADER_BYTES as usize);
        bytes.extend_from_slice(&MAGIC);
        bytes.extend_from_slice(&FORMAT_VERSION.to_le_bytes());
        bytes.extend_from_slice(&[0; 4]);
        bytes.extend_from_slice(&self.start.to_le_bytes());
        bytes.extend_from_slice(&self.previous_timestamp.0.to_le_bytes());
        bytes.extend_from_slice(&self.created_wall_millis.to_le_bytes());
        let checksum = crc32c::crc32c(&bytes);
        bytes.extend_from_slice(&checksum.to_le_bytes());
        bytes.resize(SEGMENT_HEADER_BYTES as usize, 0);
        bytes
    }

    /// Reads the header of the segment called after `start`.
    pub(super) fn read(file: &dyn File, start: u64) -> Result<SegmentHeader> {
        let corrupt = |reason| corrupt(start, start, reason);
        let mut bytes = [0; CHECKED_BYTES + 4];
        match file.read_exact_unverified_at(&mut bytes, 0) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                return Err(corrupt("the file is shorter than its header"));
            }
            result => result.map_err(OplogError::io("read a segment header"))?,
        }
        if bytes[0..8] != MAGIC {
            return Err(corrupt("it is not an oplog segment"));
        }
        let field = |offset: usize| {
            let mut array = [0; 8];
            array.copy_from_slice(&bytes[offset..offset + 8]);
            u64::from_le_bytes(array)
        };
        let checksum = field(CHECKED_BYTES - 4) >> 32;
        if checksum != u64::from(crc32c::crc32c(&bytes[..CHECKED_BYTES])) {
            return Err(corrupt("the checksum of the segment header is wrong"));
        }
        let version = field(8) as u32;
        if version != FORMAT_VERSION {
            return Err(OplogError::UnsupportedVersion {
                segment: segment_name(start),
                version,
                supported: FORMAT_VERSION,
            });
        }
        let header = SegmentHeader {
            start: field(16),
            previous_timestamp: Timestamp(field(24)),
            created_wall_millis: field(32) as i64,
        };
        if header.start != start {
            return Err(corrupt("the segment's name is not the start position in its header"));
        }
        Ok(header)
    }
}

/// Damage at `position` in the segment that begins at `start`.
pub(super) fn corrupt(start: u64, position: u64, reason: &'static str) -> OplogError {
    OplogError::Corrupt { segment: segment_name(start), position: OplogPosition(position), reason }
}

/// A segment that cannot be opened. The disk may know that it is damaged: the headers of an encrypted file, say.
pub(super) fn not_opened(start: u64) -> impl FnOnce(io::Error) -> OplogError {
    move |error| match error.kind() {
        io::ErrorKind::InvalidData => corrupt(start, start, "the file cannot be decrypted"),
        _ => OplogError::io("open a segment")(error),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use platform::{Disk, OpenMode, SimulatedDisk};

    use super::*;

    const HEADER: SegmentHeader =
        SegmentHeader { start: 77, previous_timestamp: Timestamp::new(5, 6), created_wall_millis: -3 };

    fn file_with(bytes: &[u8]) -> Arc<dyn File> {
        let file = SimulatedDisk::new(1).open(Path::new("segment"), OpenMode::Create).unwrap();
        file.write_all_at(bytes, 0).unwrap();
        file
    }

    #[test]
    fn header_round_trips() {
        assert_eq!(SegmentHeader::read(&*file_with(&HEADER.encode()), 77).unwrap(), HEADER);
    }

    #[test]
    fn every_flipped_bit_of_the_header_is_found() {
        for bit in 0..(CHECKED_BYTES + 4) * 8 {
            let mut bytes = HEADER.encode();
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(SegmentHeader::read(&*file_with(&bytes), 77).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn other_versions_and_other_names_are_refused() {
        let mut bytes = HEADER.encode();
        bytes[8] = 2;
        let checksum = crc32c::crc32c(&bytes[..CHECKED_BYTES]);
        bytes[CHECKED_BYTES..CHECKED_BYTES + 4].copy_from_slice(&checksum.to_le_bytes());
        let error = SegmentHeader::read(&*file_with(&bytes), 77).unwrap_err();
        assert!(matches!(error, OplogError::UnsupportedVersion { version: 2, .. }), "{error}");
        assert!(matches!(SegmentHeader::read(&*file_with(&HEADER.encode()), 78), Err(OplogError::Corrupt { .. })));
    }

    #[test]
    fn names_round_trip_and_others_are_not_segments() {
        assert_eq!(segment_name(0), "00000000000000000000.segment");
        assert_eq!(parse_segment_name(&segment_name(u64::MAX)), Some(u64::MAX));
        for name in
            [SPARE_NAME, "1.segment", "0000000000000000000x.segment", "99999999999999999999.segment", "lost+found"]
        {
            assert_eq!(parse_segment_name(name), None, "{name}");
        }
    }
}
