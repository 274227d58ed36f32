//! The records of page-table files: entries (page id to address) and commits.
//!
//! Written by `page_table_file`, read by `page_table_scan`. The format is in `docs/file-format.md`. Records begin at
//! multiples of 64 bytes, so that whole ones can be found again behind a damaged one.

use super::address::{LENGTH_BITS, PAGE_ID_LIMIT, PageAddress, PageId};
use super::superblock::{FORMAT_VERSIONS_READ, read_u32, read_u64};
use crate::varint::{push_varint, take_varint};

/// Bytes of the header of a page-table file.
pub(super) const FILE_HEADER_BYTES: usize = 64;
/// Records begin at multiples of this.
pub(super) const RECORD_ALIGNMENT: usize = 64;
/// Bytes before a record's payload.
pub(super) const RECORD_HEADER_BYTES: usize = 32;
/// No payload is longer.
pub(super) const PAYLOAD_BYTES_MAX: usize = 512 << 10;
/// A record of entries is closed when its payload has reached this.
pub(super) const ENTRIES_BYTES_TARGET: usize = 128 << 10;
/// A checkpoint's mark may have this many bytes.
pub(super) const MARK_BYTES_MAX: usize = 256 << 10;

const FILE_MAGIC: [u8; 8] = *b"PLMTABLE";
const RECORD_MAGIC: [u8; 4] = *b"PTRC";
const COMMIT_COUNT_BYTES: usize = 8;

/// What a record is part of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckpointKind {
    /// All pages; first in each file.
    Base,
    /// The changes since the checkpoint before.
    Delta,
}

/// What a record is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RecordKind {
    Entries,
    Commit,
}

/// The header of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RecordHeader {
    pub(super) record: RecordKind,
    pub(super) checkpoint: CheckpointKind,
    pub(super) number: u64,
    pub(super) file_number: u32,
    /// Position among the records of the file.
    pub(super) sequence: u32,
}

/// The header of a page-table file.
pub(super) fn encode_file_header(uuid: &[u8; 16], file_number: u32, version: u32) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(FILE_HEADER_BYTES);
    bytes.extend_from_slice(&FILE_MAGIC);
    bytes.extend_from_slice(&version.to_le_bytes());
    bytes.extend_from_slice(&file_number.to_le_bytes());
    bytes.extend_from_slice(uuid);
    bytes.resize(FILE_HEADER_BYTES - 4, 0);
    let checksum = crc32c::crc32c(&bytes);
    bytes.extend_from_slice(&checksum.to_le_bytes());
    bytes
}

/// Whether `bytes` are the header of this store's page-table file of that number.
pub(super) fn is_file_header(bytes: &[u8], uuid: &[u8; 16], file_number: u32) -> bool {
    FORMAT_VERSIONS_READ.into_iter().any(|version| bytes == encode_file_header(uuid, file_number, version))
}

/// Appends a whole record with its padding.
pub(super) fn append_record(buffer: &mut Vec<u8>, header: RecordHeader, payload: &[u8]) {
    let start = buffer.len();
    buffer.extend_from_slice(&[0; 4]);
    buffer.extend_from_slice(&RECORD_MAGIC);
    let record = match header.record {
        RecordKind::Entries => 1,
        RecordKind::Commit => 2,
    };
    let checkpoint = match header.checkpoint {
        CheckpointKind::Base => 1,
        CheckpointKind::Delta => 2,
    };
    buffer.extend_from_slice(&[record, checkpoint, 0, 0]);
    buffer.extend_from_slice(&(payload.len() as u32).to_le_bytes());
    buffer.extend_from_slice(&header.number.to_le_bytes());
    buffer.extend_from_slice(&header.file_number.to_le_bytes());
    buffer.extend_from_slice(&header.sequence.to_le_bytes());
    buffer.extend_from_slice(payload);
    let checksum = crc32c::crc32c(&buffer[start + 4..]);
    buffer[start..start + 4].copy_from_slice(&checksum.to_le_bytes());
    buffer.resize(start + (buffer.len() - start).next_multiple_of(RECORD_ALIGNMENT), 0);
}

/// The header at the start of `bytes` and the length of the payload behind it, if they look like a record.
pub(super) fn parse_record_header(bytes: &[u8], file_number: u32) -> Option<(RecordHeader, usize)> {
    if bytes.len() < RECORD_HEADER_BYTES || bytes[4..8] != RECORD_MAGIC || bytes[10..12] != [0, 0] {
        return None;
    }
    let header = RecordHeader {
        record: match bytes[8] {
            1 => RecordKind::Entries,
            2 => RecordKind::Commit,
            _ => return None,
        },
        checkpoint: match bytes[9] {
            1 => CheckpointKind::Base,
            2 => CheckpointKind::Delta,
            _ => return None,
        },
        number: read_u64(bytes, 16),
        file_number: read_u32(bytes, 24),
        sequence: read_u32(bytes, 28),
    };
    let payload_bytes = read_u32(bytes, 12) as usize;
    (header.file_number == file_number && payload_bytes <= PAYLOAD_BYTES_MAX).then_some((header, payload_bytes))
}

/// Whether the checksum of a record (header and payload, without padding) is right.
pub(super) fn is_whole_record(bytes: &[u8]) -> bool {
    bytes.len() >= RECORD_HEADER_BYTES && read_u32(bytes, 0) == crc32c::crc32c(&bytes[4..])
}

/// The payload of a commit record.
pub(super) fn encode_commit(entries: u64, mark: &[u8]) -> Vec<u8> {
    let mut payload = Vec::with_capacity(COMMIT_COUNT_BYTES + mark.len());
    payload.extend_from_slice(&entries.to_le_bytes());
    payload.extend_from_slice(mark);
    payload
}

/// The number of entries and the mark in the payload of a commit record.
pub(super) fn decode_commit(payload: &[u8]) -> Option<(u64, &[u8])> {
    payload.split_at_checked(COMMIT_COUNT_BYTES).map(|(count, mark)| (read_u64(count, 0), mark))
}

/// Packs entries, ascending by page, into the payload of one record: three small numbers an entry, each relative to
/// what would follow from the entry before.
#[derive(Default)]
pub(super) struct EntryEncoder {
    pub(super) payload: Vec<u8>,
    pub(super) count: u64,
    next_page: u64,
    next_offset: u64,
}

impl EntryEncoder {
    /// Adds one entry; `NONE` for a page without address.
    pub(super) fn push(&mut self, page: PageId, address: PageAddress) {
        self.count += 1;
        push_varint(&mut self.payload, page.0 - self.next_page);
        self.next_page = page.0 + 1;
        push_varint(&mut self.payload, address.length_units() | address.room_units() << LENGTH_BITS);
        if !address.is_none() {
            let jump = address.offset_units() as i64 - self.next_offset as i64;
            push_varint(&mut self.payload, ((jump << 1) ^ (jump >> 63)) as u64);
            self.next_offset = address.offset_units() + address.length_units();
        }
    }

    /// Forgets all entries and keeps the buffer.
    pub(super) fn clear(&mut self) {
        let mut payload = std::mem::take(&mut self.payload);
        payload.clear();
        *self = EntryEncoder { payload, ..EntryEncoder::default() };
    }
}

/// Calls `visit` for each entry of a payload; `None` when it is not a sequence of entries.
pub(super) fn decode_entries(mut payload: &[u8], mut visit: impl FnMut(PageId, PageAddress)) -> Option<()> {
    let (mut next_page, mut next_offset) = (0_u64, 0_u64);
    while !payload.is_empty() {
        let page = next_page.checked_add(take_varint(&mut payload)?).filter(|page| *page < PAGE_ID_LIMIT)?;
        next_page = page + 1;
        let length_and_room = take_varint(&mut payload)?;
        let (length, room) = (length_and_room & ((1 << LENGTH_BITS) - 1), length_and_room >> LENGTH_BITS);
        let mut address = PageAddress::NONE;
        if length != 0 {
            let jump = take_varint(&mut payload)?;
            let jump = (jump >> 1) as i64 ^ -((jump & 1) as i64);
            let offset = next_offset.checked_add_signed(jump)?;
            address = PageAddress::new(offset, length)
                .filter(|_| room < PageAddress::ROOM_UNITS_LIMIT)?
                .with_room_units(room);
            next_offset = offset + length;
        }
        visit(PageId(page), address);
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn entries_survive_their_encoding(
            entries in proptest::collection::btree_map(
                0..PAGE_ID_LIMIT,
                proptest::option::of((
                    0..PageAddress::OFFSET_UNITS_LIMIT,
                    1..PageAddress::LENGTH_UNITS_LIMIT,
                    0..PageAddress::ROOM_UNITS_LIMIT,
                )),
                0..200,
            )
        ) {
            let entries: Vec<_> = entries
                .into_iter()
                .map(|(page, place)| {
                    let address = place.map_or(PageAddress::NONE, |(offset, length, room)| {
                        PageAddress::new(offset, length).unwrap().with_room_units(room)
                    });
                    (PageId(page), address)
                })
                .collect();
            let mut encoder = EntryEncoder::default();
            entries.iter().for_each(|(page, address)| encoder.push(*page, *address));
            let mut decoded = Vec::new();
            decode_entries(&encoder.payload, |page, address| decoded.push((page, address))).unwrap();
            prop_assert_eq!(decoded, entries);
        }

        #[test]
        fn any_bytes_are_decoded_or_refused(payload in proptest::collection::vec(any::<u8>(), 0..100)) {
            let _ = decode_entries(&payload, |_, _| {});
        }
    }

    #[test]
    fn neighbouring_pages_written_together_take_four_bytes_each() {
        let mut encoder = EntryEncoder::default();
        for page in 0..100 {
            encoder.push(PageId(page), PageAddress::new(500_000 + page * 90, 90).unwrap());
        }
        assert!(encoder.payload.len() <= 100 * 3 + 2, "{}", encoder.payload.len());
    }

    #[test]
    fn damaged_records_are_found() {
        let header = RecordHeader {
            record: RecordKind::Commit,
            checkpoint: CheckpointKind::Delta,
            number: 9,
            file_number: 2,
            sequence: 4,
        };
        let mut bytes = Vec::new();
        append_record(&mut bytes, header, &encode_commit(3, b"mark"));
        assert_eq!(bytes.len(), 64);
        let (parsed, payload_bytes) = parse_record_header(&bytes, 2).unwrap();
        assert_eq!((parsed, payload_bytes), (header, 12));
        assert_eq!(decode_commit(&bytes[32..44]), Some((3, &b"mark"[..])));
        assert!(is_whole_record(&bytes[..44]));
        for bit in 0..44 * 8 {
            let mut damaged = bytes[..44].to_vec();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(!is_whole_record(&damaged));
        }
        assert!(parse_record_header(&bytes, 3).is_none());
    }
}
