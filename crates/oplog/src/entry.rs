//! The framing of entries. The format is in `docs/file-format.md`, "Oplog segments".
//!
//! Called by the log when it appends (header with length and timestamp), by the flusher (checksums), by readers and by the
//! scan at start. Two checksums: one of the header, which makes the length trustworthy before the payload is read and lets
//! the scan find later entries behind damage; one of the payload. Both cover the position, so that an entry in the
//! wrong place is no entry.

use platform::Timestamp;

/// Bytes before the payload.
pub(crate) const ENTRY_HEADER_BYTES: usize = 24;

/// Largest payload. Bounded so that one entry can be buffered, read and replicated whole.
pub(crate) const PAYLOAD_BYTES_MAX: usize = 256 << 20;

/// A header whose checksum was right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EntryHeader {
    /// Header and payload, in bytes.
    pub(crate) entry_bytes: usize,
    /// Bytes between the start of the entry's flush, up to which all was durable when it was written, and the entry.
    pub(crate) flush_distance: u32,
    pub(crate) timestamp: Timestamp,
    payload_checksum: u32,
}

/// Writes the header of an entry as it stands in the buffer: `seal` completes it. Until then the place of the header
/// checksum holds the position, so that a reader can tell the start of an entry in memory too.
pub(crate) fn begin(header: &mut [u8], entry_bytes: usize, position: u64, timestamp: Timestamp) {
    header[0..4].copy_from_slice(&(entry_bytes as u32).to_le_bytes());
    header[8..16].copy_from_slice(&timestamp.0.to_le_bytes());
    header[16..20].copy_from_slice(&(position as u32).to_le_bytes());
}

/// Size and timestamp of an entry in the buffer that `begin` started at `position`.
pub(crate) fn unsealed(bytes: &[u8], position: u64) -> Option<(usize, Timestamp)> {
    let header = bytes.first_chunk::<ENTRY_HEADER_BYTES>()?;
    let entry_bytes = u32_at(header, 0) as usize;
    let begun_here = u32_at(header, 16) == position as u32 && (ENTRY_HEADER_BYTES..=bytes.len()).contains(&entry_bytes);
    begun_here.then(|| (entry_bytes, Timestamp(u64_at(header, 8))))
}

/// Completes the header of an entry that is about to be written at `position` by a flush that starts at `flush_start`.
pub(crate) fn seal(entry: &mut [u8], position: u64, flush_start: u64) {
    let (header, payload) = entry.split_at_mut(ENTRY_HEADER_BYTES);
    header[4..8].copy_from_slice(&((position - flush_start) as u32).to_le_bytes());
    let header_checksum = header_checksum(header, position);
    header[16..20].copy_from_slice(&header_checksum.to_le_bytes());
    header[20..24].copy_from_slice(&crc32c::crc32c_append(header_checksum, payload).to_le_bytes());
}

/// The header at the start of `bytes`, if it is one written at `position`.
pub(crate) fn parse(bytes: &[u8], position: u64) -> Option<EntryHeader> {
    let header = bytes.first_chunk::<ENTRY_HEADER_BYTES>()?;
    let entry_bytes = u32_at(header, 0) as usize;
    if !(ENTRY_HEADER_BYTES..=ENTRY_HEADER_BYTES + PAYLOAD_BYTES_MAX).contains(&entry_bytes) {
        return None;
    }
    if u32_at(header, 16) != header_checksum(header, position) {
        return None;
    }
    Some(EntryHeader {
        entry_bytes,
        flush_distance: u32_at(header, 4),
        timestamp: Timestamp(u64_at(header, 8)),
        payload_checksum: u32_at(header, 20),
    })
}

impl EntryHeader {
    /// Whether `entry` (header and payload) is whole. The payload's checksum continues the header's.
    pub(crate) fn payload_is_intact(&self, entry: &[u8]) -> bool {
        match entry.split_at_checked(ENTRY_HEADER_BYTES) {
            Some((header, payload)) => crc32c::crc32c_append(u32_at(header, 16), payload) == self.payload_checksum,
            None => false,
        }
    }
}

/// Checksum of the position and of length, distance and timestamp.
fn header_checksum(header: &[u8], position: u64) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&position.to_le_bytes()), &header[0..16])
}

/// `offset + 4` must be inside `bytes`: all offsets are constants inside the header.
fn u32_at(bytes: &[u8], offset: usize) -> u32 {
    let mut array = [0; 4];
    array.copy_from_slice(&bytes[offset..offset + 4]);
    u32::from_le_bytes(array)
}

fn u64_at(bytes: &[u8], offset: usize) -> u64 {
    let mut array = [0; 8];
    array.copy_from_slice(&bytes[offset..offset + 8]);
    u64::from_le_bytes(array)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sealed(payload: &[u8], position: u64) -> Vec<u8> {
        let mut entry = vec![0; ENTRY_HEADER_BYTES];
        entry.extend_from_slice(payload);
        let entry_bytes = entry.len();
        begin(&mut entry, entry_bytes, position, Timestamp::new(9, 3));
        assert_eq!(unsealed(&entry, position), Some((entry_bytes, Timestamp::new(9, 3))));
        assert_eq!(unsealed(&entry, position + 1), None);
        seal(&mut entry, position, position - 10);
        entry
    }

    #[test]
    fn entry_round_trips() {
        for payload in [&b""[..], b"x", b"hello world"] {
            let entry = sealed(payload, 1_000);
            let header = parse(&entry, 1_000).unwrap();
            assert_eq!((header.entry_bytes, header.flush_distance), (entry.len(), 10));
            assert_eq!(header.timestamp, Timestamp::new(9, 3));
            assert!(header.payload_is_intact(&entry));
        }
    }

    #[test]
    fn every_flipped_bit_is_found() {
        let entry = sealed(b"some payload", 1_000);
        for bit in 0..entry.len() * 8 {
            let mut damaged = entry.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            let intact = parse(&damaged, 1_000)
                .is_some_and(|header| header.entry_bytes == damaged.len() && header.payload_is_intact(&damaged));
            assert!(!intact, "bit {bit}");
        }
    }

    #[test]
    fn misplaced_entries_and_zeros_are_no_entries() {
        assert_eq!(parse(&sealed(b"payload", 1_000), 1_001), None);
        assert_eq!(parse(&[0; 64], 0), None);
        assert_eq!(parse(&[0; 64], 1_000), None);
        assert_eq!(parse(&[0; 10], 1_000), None);
    }
}
