//! What a member tells the others of itself, beside the log. The format is in `docs/file-format.md`, "Notices of members".
//!
//! Made and read by `replication`. Nothing that counts depends on a notice: it says where clients find a member, and how far it is. A later version may add fields
//! behind the known ones, which an earlier one does not read.

use crate::Offset;

const MAGIC: &[u8; 8] = b"PLMSNOTE";
const FORMAT_VERSION: u16 = 1;
/// Bytes before the texts, with the checksum.
const FIXED_BYTES: usize = 80;
/// Longest text.
const TEXT_BYTES_MAX: usize = 1_000;

/// See the module's head.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Notice {
    /// Which member.
    pub node: u64,
    /// Another one with each start.
    pub incarnation: u64,
    /// Grows with each notice of one incarnation.
    pub number: u64,
    /// The newest term that it knows.
    pub term: u64,
    /// Whether it leads in that.
    pub leads: bool,
    /// Whether it has once had all of the log, in this life or an earlier one: clients may be told of it.
    pub is_listed: bool,
    /// Whether it has not had all of it in this life: nobody is to read from it yet.
    pub is_catching_up: bool,
    /// Whether it does not claim the lead for a while, whoever has it.
    pub is_frozen: bool,
    /// Its oplog is applied up to here.
    pub applied: u64,
    /// The timestamp of the newest commit that its readers see.
    pub applied_timestamp: u64,
    /// Its oplog is on its disk up to here.
    pub durable: u64,
    /// Its wall clock, in milliseconds since 1970.
    pub wall_millis: i64,
    /// The record of the log from which it would have to read on if it were started again. `None`: its build does not say.
    pub needs: Option<Offset>,
    /// Where clients find it.
    pub address: String,
    /// Names and values by which clients choose members.
    pub tags: Vec<(String, String)>,
}

impl Notice {
    /// Its bytes. Texts that are too long are cut.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(FIXED_BYTES + self.address.len());
        bytes.extend_from_slice(MAGIC);
        bytes.extend_from_slice(&FORMAT_VERSION.to_le_bytes());
        let flags = [self.leads, self.is_listed, self.is_frozen, self.is_catching_up];
        let flags = flags.into_iter().rev().fold(0, |flags, flag| flags << 1 | u8::from(flag));
        bytes.extend_from_slice(&[flags, 0]);
        bytes.extend_from_slice(&[0; 4]);
        for number in [
            self.node,
            self.incarnation,
            self.number,
            self.term,
            self.applied,
            self.applied_timestamp,
            self.durable,
            self.wall_millis as u64,
        ] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        put_text(&mut bytes, &self.address);
        bytes.extend_from_slice(&(self.tags.len().min(usize::from(u16::MAX)) as u16).to_le_bytes());
        for (name, value) in self.tags.iter().take(usize::from(u16::MAX)) {
            put_text(&mut bytes, name);
            put_text(&mut bytes, value);
        }
        bytes.extend_from_slice(&self.needs.map_or(u64::MAX, |needs| needs.0).to_le_bytes());
        let checksum = crc32c::crc32c(&bytes);
        bytes[12..16].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// What was encoded; `None`: it is not whole, or says nothing that this build reads.
    pub fn decode(bytes: &[u8]) -> Option<Notice> {
        let (fixed, mut texts) = bytes.split_first_chunk::<FIXED_BYTES>()?;
        let version = u16::from_le_bytes([fixed[8], fixed[9]]);
        let mut unsealed = bytes.to_vec();
        unsealed[12..16].fill(0);
        let checksum = u32::from_le_bytes(std::array::from_fn(|place| fixed[12 + place]));
        if !fixed.starts_with(MAGIC) || version < FORMAT_VERSION || crc32c::crc32c(&unsealed) != checksum {
            return None;
        }
        let number = |place: usize| u64::from_le_bytes(std::array::from_fn(|byte| fixed[16 + place * 8 + byte]));
        let address = take_text(&mut texts)?;
        let count = u16::from_le_bytes(*texts.split_off(..2)?.first_chunk()?);
        let tags = (0..count).map(|_| Some((take_text(&mut texts)?, take_text(&mut texts)?))).collect::<Option<_>>()?;
        let needs = texts.first_chunk::<8>().map(|needs| u64::from_le_bytes(*needs));
        Some(Notice {
            node: number(0),
            incarnation: number(1),
            number: number(2),
            term: number(3),
            leads: fixed[10] & 1 != 0,
            is_listed: fixed[10] & 2 != 0,
            is_frozen: fixed[10] & 4 != 0,
            is_catching_up: fixed[10] & 8 != 0,
            applied: number(4),
            applied_timestamp: number(5),
            durable: number(6),
            wall_millis: number(7) as i64,
            needs: needs.filter(|needs| *needs != u64::MAX).map(Offset),
            address,
            tags,
        })
    }
}

fn put_text(bytes: &mut Vec<u8>, text: &str) {
    let text = &text.as_bytes()[..text.floor_char_boundary(TEXT_BYTES_MAX)];
    bytes.extend_from_slice(&(text.len() as u16).to_le_bytes());
    bytes.extend_from_slice(text);
}

fn take_text(bytes: &mut &[u8]) -> Option<String> {
    let length = u16::from_le_bytes(*bytes.split_off(..2)?.first_chunk()?);
    String::from_utf8(bytes.split_off(..usize::from(length))?.to_vec()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_encoded_is_understood_and_what_was_changed_is_not() {
        let tags = vec![("dc".to_owned(), "east".to_owned()), (String::new(), "\u{e9}".to_owned())];
        let address = "db1:27017".to_owned();
        let needs = Some(Offset(17));
        let notice = Notice {
            node: 7,
            needs,
            number: 3,
            term: 9,
            leads: true,
            is_catching_up: true,
            applied: 1 << 40,
            address,
            tags,
            ..Notice::default()
        };
        let bytes = notice.encode();
        assert_eq!(Notice::decode(&bytes), Some(notice));
        for bit in 0..bytes.len() * 8 {
            let mut changed = bytes.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Notice::decode(&changed), None, "bit {bit}");
        }
        for length in 0..bytes.len() {
            assert_eq!(Notice::decode(&bytes[..length]), None);
        }
    }
}
