//! What a record of a shared log says. The format is in `docs/file-format.md`, "Records of a shared log".
//!
//! Made by `Writer`, understood by `Reading`. Each record says what its writer knew when it was made: a reader that knows less at that
//! place has missed something, and stops.

use std::sync::Arc;

use crate::{LogIdentity, Offset, Result, SharedLogError};

const MAGIC: &[u8; 8] = b"PLMSHREC";
const FORMAT_VERSION: u16 = 1;
const HEADER_BYTES: usize = 48;
const CHECKSUM_AT: usize = 12;
const KIND_CLAIM: u8 = 1;
const KIND_RANGE: u8 = 2;
const KIND_HEARTBEAT: u8 = 3;
const KIND_STEP_DOWN: u8 = 4;
const KIND_RESTORED: u8 = 5;
const ADDRESS_BYTES_MAX: usize = 300;

/// Largest record, below what Kafka takes without being told otherwise (1 MiB with the framing of its own).
pub const RECORD_BYTES_MAX: usize = 1_000_000;

/// Largest record as a log stores it: encrypted ones have a header and a tag more.
pub const STORED_BYTES_MAX: usize = RECORD_BYTES_MAX + 64;

/// Most bytes of the oplog in one record.
pub const RANGE_BYTES_MAX: usize = RECORD_BYTES_MAX - HEADER_BYTES;

/// Who claims the lead.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Leader {
    /// The member, by its number in the set.
    pub node: u64,
    /// Its life: random at each start. What a former life has sent is not its own.
    pub incarnation: u64,
    /// Where clients find it.
    pub address: String,
}

/// A record, taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record<'b> {
    /// The term that it is of.
    pub term: u64,
    /// Up to where its writer had found whole entries in the log when it made the record.
    pub confirmed: u64,
    /// The checksum of all bytes of the oplog before `start` of a range, or before `confirmed` of all others.
    pub chain: u32,
    /// What it says.
    pub kind: RecordKind<'b>,
}

/// What a record says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecordKind<'b> {
    /// The lead is taken. Of the first claim of a log, `confirmed` and `chain` say where the set's oplog begins.
    Claim(Leader),
    /// Bytes of the oplog.
    Range {
        /// Position of the first one.
        start: u64,
        /// How many of them lie before the end of the last entry that ends among them; 0: none ends there.
        whole: usize,
        /// The bytes; at least one.
        bytes: &'b [u8],
    },
    /// The primary is there.
    Heartbeat,
    /// The primary writes no more.
    StepDown {
        /// The member that is to claim next.
        successor: Option<u64>,
    },
    /// The first record of a log that was made again after it was lost: `term` is the newest one that is known of the former log, `confirmed` and `chain` say where
    /// what follows of the set's oplog begins.
    Restored {
        /// The log that this one continues.
        former: LogIdentity,
    },
}

impl Leader {
    /// The number of the member at an address: a copy of its data elsewhere is another member. FNV-1a in 64 bits.
    pub fn node_at(address: &str) -> u64 {
        address.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
    }
}

impl<'b> Record<'b> {
    /// As bytes of a shared log.
    ///
    /// # Errors
    /// `TooLarge`.
    pub fn encode(&self) -> Result<Arc<[u8]>> {
        let (kind, start, whole) = match &self.kind {
            RecordKind::Claim(_) => (KIND_CLAIM, 0, 0),
            RecordKind::Range { start, whole, .. } => (KIND_RANGE, *start, *whole),
            RecordKind::Heartbeat => (KIND_HEARTBEAT, 0, 0),
            RecordKind::StepDown { .. } => (KIND_STEP_DOWN, 0, 0),
            RecordKind::Restored { .. } => (KIND_RESTORED, 0, 0),
        };
        if let RecordKind::Claim(Leader { address, .. }) = &self.kind
            && address.len() > ADDRESS_BYTES_MAX
        {
            return Err(SharedLogError::TooLarge { bytes: address.len(), bytes_max: ADDRESS_BYTES_MAX });
        }
        let mut bytes = Vec::with_capacity(HEADER_BYTES + self.payload_bytes());
        bytes.extend_from_slice(MAGIC);
        bytes.extend_from_slice(&FORMAT_VERSION.to_le_bytes());
        bytes.extend_from_slice(&[kind, 0]);
        bytes.extend_from_slice(&[0; 4]);
        bytes.extend_from_slice(&self.term.to_le_bytes());
        bytes.extend_from_slice(&self.confirmed.to_le_bytes());
        bytes.extend_from_slice(&start.to_le_bytes());
        bytes.extend_from_slice(&self.chain.to_le_bytes());
        bytes.extend_from_slice(&(whole as u32).to_le_bytes());
        self.append_payload(&mut bytes);
        if bytes.len() > RECORD_BYTES_MAX {
            return Err(SharedLogError::TooLarge { bytes: bytes.len(), bytes_max: RECORD_BYTES_MAX });
        }
        let checksum = checksum(&bytes);
        bytes[CHECKSUM_AT..CHECKSUM_AT + 4].copy_from_slice(&checksum.to_le_bytes());
        Ok(bytes.into())
    }

    fn payload_bytes(&self) -> usize {
        match &self.kind {
            RecordKind::Claim(leader) => 16 + leader.address.len(),
            RecordKind::Range { bytes, .. } => bytes.len(),
            RecordKind::Heartbeat => 0,
            RecordKind::StepDown { successor } => successor.map_or(0, |_| 8),
            RecordKind::Restored { former } => former.0.len(),
        }
    }

    fn append_payload(&self, out: &mut Vec<u8>) {
        match &self.kind {
            RecordKind::Claim(leader) => {
                out.extend_from_slice(&leader.node.to_le_bytes());
                out.extend_from_slice(&leader.incarnation.to_le_bytes());
                out.extend_from_slice(leader.address.as_bytes());
            }
            RecordKind::Range { bytes, .. } => out.extend_from_slice(bytes),
            RecordKind::Heartbeat => {}
            RecordKind::StepDown { successor } => {
                out.extend(successor.map(u64::to_le_bytes).into_iter().flatten());
            }
            RecordKind::Restored { former } => out.extend_from_slice(&former.0),
        }
    }

    /// Takes the bytes at `offset` apart; `None` for what is no record of ours.
    ///
    /// # Errors
    /// `Damaged`, `UnsupportedVersion`.
    pub fn parse(bytes: &'b [u8], offset: Offset) -> Result<Option<Record<'b>>> {
        if !bytes.starts_with(MAGIC) {
            return Ok(None);
        }
        let damaged = |reason| SharedLogError::Damaged { offset, reason };
        let (header, payload) =
            bytes.split_first_chunk::<HEADER_BYTES>().ok_or_else(|| damaged("it is shorter than a header"))?;
        let version = u16::from_le_bytes([header[8], header[9]]);
        if version != FORMAT_VERSION {
            return Err(SharedLogError::UnsupportedVersion { offset, version, supported: FORMAT_VERSION });
        }
        if u32_at(header, CHECKSUM_AT) != checksum(bytes) {
            return Err(damaged("its checksum is wrong"));
        }
        let kind = parse_kind(header, payload).ok_or_else(|| damaged("it says nothing that this format has"))?;
        let (term, confirmed, chain) = (u64_at(header, 16), u64_at(header, 24), u32_at(header, 40));
        Ok(Some(Record { term, confirmed, chain, kind }))
    }
}

fn parse_kind<'b>(header: &[u8; HEADER_BYTES], payload: &'b [u8]) -> Option<RecordKind<'b>> {
    let (start, whole) = (u64_at(header, 32), u32_at(header, 44) as usize);
    match header[10] {
        KIND_CLAIM => {
            let (numbers, address) = payload.split_first_chunk::<16>()?;
            let address = str::from_utf8(address).ok().filter(|address| address.len() <= ADDRESS_BYTES_MAX)?;
            let (node, incarnation) = (u64_at(numbers, 0), u64_at(numbers, 8));
            Some(RecordKind::Claim(Leader { node, incarnation, address: address.to_owned() }))
        }
        KIND_RANGE => {
            start.checked_add(payload.len() as u64)?;
            (!payload.is_empty() && whole <= payload.len()).then_some(RecordKind::Range {
                start,
                whole,
                bytes: payload,
            })
        }
        KIND_HEARTBEAT => payload.is_empty().then_some(RecordKind::Heartbeat),
        KIND_STEP_DOWN if payload.is_empty() => Some(RecordKind::StepDown { successor: None }),
        KIND_STEP_DOWN => {
            let successor = payload.try_into().ok().map(u64::from_le_bytes)?;
            Some(RecordKind::StepDown { successor: Some(successor) })
        }
        KIND_RESTORED => payload.try_into().ok().map(|former| RecordKind::Restored { former: LogIdentity(former) }),
        _ => None,
    }
}

/// Of all bytes but those of the checksum.
fn checksum(bytes: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&bytes[..CHECKSUM_AT]), &bytes[CHECKSUM_AT + 4..])
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(std::array::from_fn(|index| bytes[at + index]))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(std::array::from_fn(|index| bytes[at + index]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples() -> Vec<Record<'static>> {
        let leader = Leader { node: 3, incarnation: u64::MAX, address: "db1:27017".to_owned() };
        let kinds = [
            RecordKind::Claim(leader),
            RecordKind::Range { start: 1 << 40, whole: 3, bytes: b"abcde" },
            RecordKind::Heartbeat,
            RecordKind::StepDown { successor: None },
            RecordKind::StepDown { successor: Some(7) },
            RecordKind::Restored { former: LogIdentity([5; 16]) },
        ];
        kinds.into_iter().map(|kind| Record { term: 9, confirmed: 12, chain: 0xdead_beef, kind }).collect()
    }

    #[test]
    fn what_was_encoded_is_understood() {
        for record in samples() {
            let bytes = record.encode().unwrap();
            assert_eq!(Record::parse(&bytes, Offset(4)).unwrap(), Some(record));
        }
    }

    #[test]
    fn every_changed_bit_is_noticed() {
        for record in samples() {
            let bytes = record.encode().unwrap();
            for bit in 0..bytes.len() * 8 {
                let mut changed = bytes.to_vec();
                changed[bit / 8] ^= 1 << (bit % 8);
                match Record::parse(&changed, Offset(4)) {
                    // Without its magic it is somebody else's.
                    Ok(None) => assert!(bit < 64),
                    Ok(Some(understood)) => panic!("bit {bit} made {record:?} {understood:?}"),
                    Err(SharedLogError::UnsupportedVersion { version, .. }) => assert_ne!(version, FORMAT_VERSION),
                    Err(error) => {
                        assert!(matches!(error, SharedLogError::Damaged { offset: Offset(4), .. }), "{error}")
                    }
                }
            }
            for length in MAGIC.len()..bytes.len() {
                assert!(Record::parse(&bytes[..length], Offset(4)).is_err());
            }
        }
    }

    #[test]
    fn foreign_records_are_told_from_damaged_ones() {
        assert_eq!(Record::parse(b"", Offset(0)).unwrap(), None);
        assert_eq!(Record::parse(b"{\"what\": \"somebody else's\"}", Offset(0)).unwrap(), None);
    }

    #[test]
    fn a_record_is_no_larger_than_any_log_takes() {
        let record = |length| {
            let kind = RecordKind::Range { start: 0, whole: 0, bytes: vec![7; length].leak() };
            Record { term: 1, confirmed: 0, chain: 0, kind }.encode()
        };
        assert_eq!(record(RANGE_BYTES_MAX).unwrap().len(), RECORD_BYTES_MAX);
        assert!(matches!(record(RANGE_BYTES_MAX + 1), Err(SharedLogError::TooLarge { .. })));
    }
}
