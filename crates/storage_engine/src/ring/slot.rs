//! A slot: one document in a ring with what is needed to walk over it in both directions. Format: `docs/file-format.md`, "Rings".
//!
//! | offset | bytes | |
//! |---|---|---|
//! | 0 | 4 | checksum of the position and of all that follows |
//! | 4 | 4 | length of the document |
//! | 8 | 4 | bytes back to the slot before; 0: there is none |
//! | 12 | 4 | 1 a document, 2 nothing: go on elsewhere |
//! | 16 | 8 | commit timestamp; of kind 2: where to go on |
//! | 24 | | document, zeros up to a multiple of 8 |

use super::layout::ALIGNMENT;

/// Bytes before the document.
pub(crate) const HEADER_BYTES: usize = 24;

const KIND_DOCUMENT: u32 = 1;
const KIND_SKIP: u32 = 2;

/// What a slot says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Slot {
    Document { length: usize, back: u64, timestamp: u64 },
    Skip { to: u64 },
}

/// Bytes of the slot of a document.
pub(crate) fn slot_bytes(length: usize) -> u64 {
    (HEADER_BYTES + length).next_multiple_of(ALIGNMENT as usize) as u64
}

/// Appends the slot of a document.
pub(crate) fn push_document(out: &mut Vec<u8>, position: u64, back: u64, timestamp: u64, document: &[u8]) {
    push(out, position, back as u32, KIND_DOCUMENT, timestamp, document);
}

/// Appends the note that the next slot is at `to`.
pub(crate) fn push_skip(out: &mut Vec<u8>, position: u64, to: u64) {
    push(out, position, 0, KIND_SKIP, to, &[]);
}

fn push(out: &mut Vec<u8>, position: u64, back: u32, kind: u32, number: u64, document: &[u8]) {
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(&(document.len() as u32).to_le_bytes());
    out.extend_from_slice(&back.to_le_bytes());
    out.extend_from_slice(&kind.to_le_bytes());
    out.extend_from_slice(&number.to_le_bytes());
    out.extend_from_slice(document);
    let checksum = checksum(position, &out[start + 4..]);
    out[start..start + 4].copy_from_slice(&checksum.to_le_bytes());
    out.resize(start + slot_bytes(document.len()) as usize, 0);
}

fn checksum(position: u64, bytes: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&position.to_le_bytes()), bytes)
}

/// How many bytes are needed to check the slot that begins with `bytes`; `None`: too few to tell.
pub(crate) fn needed_bytes(bytes: &[u8]) -> Option<usize> {
    let header = bytes.first_chunk::<HEADER_BYTES>()?;
    let length = u32_at(header, 4) as usize;
    Some(HEADER_BYTES + length.min(crate::MAX_VALUE_BYTES))
}

/// Whether something may be a slot of which only the beginning is known.
pub(crate) fn is_plausible(bytes: &[u8]) -> bool {
    bytes.first_chunk::<HEADER_BYTES>().is_some_and(|header| {
        u32_at(header, 4) as usize <= crate::MAX_VALUE_BYTES && [KIND_DOCUMENT, KIND_SKIP].contains(&u32_at(header, 12))
    })
}

/// Reads the slot at the start of `bytes`, which hold `needed_bytes`. `None`: damaged, or something else.
pub(crate) fn read(bytes: &[u8], position: u64) -> Option<Slot> {
    let header = bytes.first_chunk::<HEADER_BYTES>()?;
    let length = u32_at(header, 4) as usize;
    let all = bytes.get(..HEADER_BYTES.checked_add(length)?)?;
    if checksum(position, &all[4..]) != u32_at(header, 0) {
        return None;
    }
    let number = u64::from_le_bytes(*header.last_chunk::<8>()?);
    match u32_at(header, 12) {
        KIND_DOCUMENT => Some(Slot::Document { length, back: u64::from(u32_at(header, 8)), timestamp: number }),
        KIND_SKIP => Some(Slot::Skip { to: number }),
        _ => None,
    }
}

fn u32_at(header: &[u8; HEADER_BYTES], at: usize) -> u32 {
    header[at..].first_chunk::<4>().map_or(0, |bytes| u32::from_le_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_read_back_at_their_position_only() {
        let mut bytes = Vec::new();
        push_document(&mut bytes, 4096, 48, 77, b"document");
        assert_eq!(bytes.len() as u64, slot_bytes(8));
        assert_eq!(needed_bytes(&bytes), Some(HEADER_BYTES + 8));
        assert_eq!(read(&bytes, 4096), Some(Slot::Document { length: 8, back: 48, timestamp: 77 }));
        assert_eq!(read(&bytes, 8192), None);
        for at in 0..HEADER_BYTES + 8 {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1;
            assert_eq!(read(&damaged, 4096), None, "byte {at}");
        }
        let mut skip = Vec::new();
        push_skip(&mut skip, 8, 4096);
        assert_eq!(read(&skip, 8), Some(Slot::Skip { to: 4096 }));
    }
}
