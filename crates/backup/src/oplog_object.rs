//! A piece of the oplog as an object.
//!
//! Written by `making` and `archive`, read by `restore`. Content: segment's start, its previous timestamp, when it was begun
//! (milliseconds), the piece's start, its last timestamp (8 bytes each, little-endian), then the entries.

use oplog::{OplogPiece, OplogPosition, SegmentFacts};
use platform::{OuterKey, Timestamp};

use crate::error::{BackupError, Result};
use crate::object::unpack;
use crate::object_store::ObjectStore;

const HEADER_BYTES: usize = 40;
const DIGITS: usize = 20;

/// The last part of a piece's name: segment, start and end.
pub(crate) fn name_of(segment: u64, start: u64, end: u64) -> String {
    format!("{segment:0DIGITS$}-{start:0DIGITS$}-{end:0DIGITS$}")
}

/// What `name_of` was given.
pub(crate) fn parse_name(name: &str) -> Option<(u64, u64, u64)> {
    let mut numbers = name.split('-').map(|number| number.parse().ok());
    match (numbers.next()??, numbers.next()??, numbers.next()??, numbers.next()) {
        (segment, start, end, None) if segment <= start && start < end => Some((segment, start, end)),
        _ => None,
    }
}

pub(crate) fn encode(piece: &OplogPiece) -> Vec<u8> {
    let mut content = Vec::with_capacity(HEADER_BYTES + piece.bytes.len());
    let segment = piece.segment;
    let created = segment.created_wall_millis as u64;
    for number in [segment.start.0, segment.previous_timestamp.0, created, piece.start.0, piece.last_timestamp.0] {
        content.extend_from_slice(&number.to_le_bytes());
    }
    content.extend_from_slice(&piece.bytes);
    content
}

/// The piece of an archive in this folder that `name_of` named.
///
/// # Errors
/// `Io`; those by which an object cannot be read (`BackupError::is_unreadable`).
pub(crate) fn read(
    objects: &dyn ObjectStore,
    folder: &str,
    (segment, start, end): (u64, u64, u64),
    key: Option<&OuterKey>,
) -> Result<OplogPiece> {
    let name = format!("{folder}/{}", name_of(segment, start, end));
    let packed = objects.get(&name).map_err(BackupError::io(&name, "read"))?;
    decode(&name, &unpack(&name, packed, key)?)
}

pub(crate) fn decode(name: &str, content: &[u8]) -> Result<OplogPiece> {
    let Some((header, bytes)) = content.split_at_checked(HEADER_BYTES) else {
        return Err(BackupError::damaged(name, "it is no piece of an oplog"));
    };
    let number = |at: usize| header[at..].first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
    let segment = SegmentFacts {
        start: OplogPosition(number(0)),
        previous_timestamp: Timestamp(number(8)),
        created_wall_millis: number(16) as i64,
    };
    Ok(OplogPiece {
        segment,
        start: OplogPosition(number(24)),
        bytes: bytes.to_vec(),
        last_timestamp: Timestamp(number(32)),
    })
}
