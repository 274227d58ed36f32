//! Where a reader is, as it is stored. The format is in `docs/file-format.md`, "Standing of a reader".
//!
//! Kept by each member beside its checkpoints and in the manifests of snapshots, so that reading goes on from there.

use crate::reading::Place;
use crate::record::Leader;
use crate::{LogIdentity, Offset, SharedLogError};

const MAGIC: &[u8; 8] = b"PLMSTAND";
const FORMAT_VERSION: u16 = 1;
const FIXED_BYTES: usize = 88;
const CHECKSUM_BYTES: usize = 4;
const FLAG_LEADER: u8 = 1;
const FLAG_ENDED: u8 = 2;
const FLAG_SUCCESSOR: u8 = 4;

/// What a reader must know in order to go on: all before `next` has been read, and the member has the oplog up to `whole`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standing {
    /// The log.
    pub log: LogIdentity,
    /// The record to be read next.
    pub next: Offset,
    /// The term there.
    pub term: u64,
    /// Who claimed it.
    pub leader: Option<Leader>,
    /// The primary has stepped down, for this successor.
    pub ended: Option<Option<u64>>,
    /// The end of the last whole entry.
    pub whole: Place,
}

impl Standing {
    /// As bytes.
    pub fn encode(&self) -> Vec<u8> {
        let flag = |is_set, flag| if is_set { flag } else { 0 };
        let successor = self.ended.flatten();
        let flags = flag(self.leader.is_some(), FLAG_LEADER)
            | flag(self.ended.is_some(), FLAG_ENDED)
            | flag(successor.is_some(), FLAG_SUCCESSOR);
        let (node, incarnation, address) =
            self.leader.as_ref().map_or((0, 0, ""), |leader| (leader.node, leader.incarnation, &*leader.address));
        let mut bytes = Vec::with_capacity(FIXED_BYTES + address.len() + CHECKSUM_BYTES);
        bytes.extend_from_slice(MAGIC);
        bytes.extend_from_slice(&FORMAT_VERSION.to_le_bytes());
        bytes.extend_from_slice(&[flags, 0]);
        bytes.extend_from_slice(&self.whole.chain.to_le_bytes());
        bytes.extend_from_slice(&self.log.0);
        for number in [self.next.0, self.term, self.whole.position, successor.unwrap_or(0), node, incarnation] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        bytes.extend_from_slice(&(address.len() as u64).to_le_bytes());
        bytes.extend_from_slice(address.as_bytes());
        bytes.extend_from_slice(&crc32c::crc32c(&bytes).to_le_bytes());
        bytes
    }

    /// From bytes.
    ///
    /// # Errors
    /// `Damaged`, `UnsupportedVersion`.
    pub fn decode(bytes: &[u8]) -> Result<Standing, SharedLogError> {
        let damaged = |reason| SharedLogError::Damaged { offset: Offset::default(), reason };
        let (content, sum) = bytes.split_last_chunk::<CHECKSUM_BYTES>().ok_or_else(|| damaged("a standing is cut"))?;
        let (fixed, address) =
            content.split_first_chunk::<FIXED_BYTES>().ok_or_else(|| damaged("a standing is cut"))?;
        if !fixed.starts_with(MAGIC) || crc32c::crc32c(content) != u32::from_le_bytes(*sum) {
            return Err(damaged("a standing's checksum is wrong"));
        }
        let version = u16::from_le_bytes([fixed[8], fixed[9]]);
        if version != FORMAT_VERSION {
            let (offset, supported) = (Offset::default(), FORMAT_VERSION);
            return Err(SharedLogError::UnsupportedVersion { offset, version, supported });
        }
        parse(fixed, address).ok_or_else(|| damaged("a standing says what this format does not have"))
    }
}

fn parse(fixed: &[u8; FIXED_BYTES], address: &[u8]) -> Option<Standing> {
    let number = |at: usize| u64::from_le_bytes(std::array::from_fn(|index| fixed[at + index]));
    let has = |flag| fixed[10] & flag != 0;
    let address = str::from_utf8(address).ok().filter(|address| address.len() as u64 == number(80))?;
    let leader = Leader { node: number(64), incarnation: number(72), address: address.to_owned() };
    Some(Standing {
        log: LogIdentity(std::array::from_fn(|index| fixed[16 + index])),
        next: Offset(number(32)),
        term: number(40),
        leader: has(FLAG_LEADER).then_some(leader),
        ended: has(FLAG_ENDED).then(|| has(FLAG_SUCCESSOR).then(|| number(56))),
        whole: Place {
            position: number(48),
            chain: u32::from_le_bytes(std::array::from_fn(|index| fixed[12 + index])),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples() -> Vec<Standing> {
        let base = Standing {
            log: LogIdentity([7; 16]),
            next: Offset(1 << 50),
            term: 12,
            leader: Some(Leader { node: 1, incarnation: 99, address: "db2:27017".to_owned() }),
            ended: None,
            whole: Place { position: 1 << 41, chain: 0xfeed },
        };
        let ended = |ended| Standing { ended, ..base.clone() };
        let beginning = Standing { term: 0, leader: None, ..base.clone() };
        vec![ended(Some(None)), ended(Some(Some(4))), beginning, base]
    }

    #[test]
    fn what_was_stored_is_there() {
        for standing in samples() {
            assert_eq!(Standing::decode(&standing.encode()).unwrap(), standing);
        }
    }

    #[test]
    fn damage_is_noticed() {
        for standing in samples() {
            let bytes = standing.encode();
            for bit in 0..bytes.len() * 8 {
                let mut changed = bytes.clone();
                changed[bit / 8] ^= 1 << (bit % 8);
                assert!(Standing::decode(&changed).is_err(), "bit {bit}");
            }
            (0..bytes.len()).for_each(|length| assert!(Standing::decode(&bytes[..length]).is_err()));
        }
    }
}
