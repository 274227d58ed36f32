//! An object's bytes: a header, and the content, compressed and encrypted as far as that is wanted.
//!
//! Called by everything that stores or reads one. The checksum is over the name, too, so that an object in another's place is
//! found out. The format is in `docs/file-format.md`, "Backups".

use platform::{OuterKey, Random, SealedObject};

use crate::error::{BackupError, Result};

const MAGIC: &[u8; 8] = b"PLIMBACK";
const VERSION: u32 = 1;
const HEADER_BYTES: usize = 64;
const CHECKSUM_AT: usize = 60;
const COMPRESSED: u32 = 1;
const ENCRYPTED: u32 = 2;
/// No object has more content.
const CONTENT_BYTES_MAX: u64 = 1 << 30;
/// The level of the compression: faster than disks.
const LEVEL: i32 = 1;

/// How content is packed.
#[derive(Clone, Default)]
pub struct Packing {
    /// Whether pages are compressed once more; everything else is in any case.
    pub compresses_pages: bool,
    /// With which key.
    pub key: Option<OuterKey>,
}

/// Packs content.
pub(crate) fn pack(
    name: &str,
    content: &[u8],
    is_compressed: bool,
    key: Option<&OuterKey>,
    random: &dyn Random,
) -> Result<Vec<u8>> {
    let flags = if is_compressed { COMPRESSED } else { 0 } | if key.is_some() { ENCRYPTED } else { 0 };
    let mut sealed = SealedObject::default();
    let changed;
    let mut payload = content;
    if is_compressed || key.is_some() {
        let mut bytes = match is_compressed {
            true => zstd::bulk::compress(content, LEVEL).map_err(BackupError::io(name, "compressed"))?,
            false => content.to_vec(),
        };
        if let Some(key) = key {
            sealed = key.seal_object(name, &mut bytes, random).map_err(|error| BackupError::Key(error.to_string()))?;
        }
        changed = bytes;
        payload = &changed;
    }
    let mut packed = Vec::with_capacity(HEADER_BYTES + payload.len());
    packed.extend_from_slice(MAGIC);
    packed.extend_from_slice(&VERSION.to_le_bytes());
    packed.extend_from_slice(&flags.to_le_bytes());
    packed.extend_from_slice(&(content.len() as u64).to_le_bytes());
    packed.extend_from_slice(&(payload.len() as u64).to_le_bytes());
    packed.extend_from_slice(&sealed.key_name);
    packed.extend_from_slice(&sealed.salt);
    packed.resize(CHECKSUM_AT, 0);
    let checksum = checksum(name, &packed, payload);
    packed.extend_from_slice(&checksum.to_le_bytes());
    packed.extend_from_slice(payload);
    Ok(packed)
}

fn checksum(name: &str, header: &[u8], payload: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c_append(crc32c::crc32c(name.as_bytes()), header), payload)
}

/// The content of an object.
pub(crate) fn unpack(name: &str, mut bytes: Vec<u8>, key: Option<&OuterKey>) -> Result<Vec<u8>> {
    if let Some(content) = changed_content(name, &bytes, key)? {
        return Ok(content);
    }
    // As it was stored: four mebibytes need no other place.
    bytes.drain(..HEADER_BYTES);
    Ok(bytes)
}

/// The content of an object that is compressed or encrypted; `None`: it stands behind the header as it is.
fn changed_content(name: &str, bytes: &[u8], key: Option<&OuterKey>) -> Result<Option<Vec<u8>>> {
    let damaged = |reason: &str| BackupError::damaged(name, reason);
    let Some((header, payload)) = bytes.split_at_checked(HEADER_BYTES).filter(|(header, _)| header.starts_with(MAGIC))
    else {
        return Err(damaged("it is no file of a backup"));
    };
    let number = |at: usize| header[at..].first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes));
    let long = |at: usize| header[at..].first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
    if long(24) != payload.len() as u64 {
        return Err(damaged(&format!("it has {} bytes instead of {}", bytes.len(), long(24) + HEADER_BYTES as u64)));
    }
    if checksum(name, &header[..CHECKSUM_AT], payload) != number(CHECKSUM_AT) {
        return Err(damaged("its checksum is wrong"));
    }
    // The header's length and what is in its checksum stay the same for all versions: so a flipped bit is no newer one.
    if number(8) != VERSION {
        let version = number(8);
        return Err(BackupError::UnsupportedVersion { name: name.to_owned(), version, supported: VERSION });
    }
    let content_bytes = long(16);
    if content_bytes > CONTENT_BYTES_MAX {
        return Err(damaged("it says that it has more content than any"));
    }
    let opened = match number(12) & ENCRYPTED != 0 {
        true => Some(open(name, header, payload, key)?),
        false => None,
    };
    let changed = match number(12) & COMPRESSED != 0 {
        true => {
            let payload = opened.as_deref().unwrap_or(payload);
            let content = zstd::bulk::decompress(payload, content_bytes as usize);
            Some(content.map_err(|error| damaged(&error.to_string()))?)
        }
        false => opened,
    };
    match changed.as_ref().map_or(payload.len(), Vec::len) as u64 == content_bytes {
        true => Ok(changed),
        false => Err(damaged("its content has another length")),
    }
}

fn open(name: &str, header: &[u8], payload: &[u8], key: Option<&OuterKey>) -> Result<Vec<u8>> {
    let needs = |what: &str| BackupError::Key(format!("{name} is encrypted{what}"));
    let key = key.ok_or_else(|| needs(": give the key with --encryption-key-file, -env or -command"))?;
    let mut sealed = SealedObject::default();
    sealed.key_name.copy_from_slice(&header[32..40]);
    sealed.salt.copy_from_slice(&header[40..56]);
    if !key.is_named(&sealed.key_name) {
        return Err(needs(" with another key"));
    }
    key.open_object(name, &sealed, payload).map_err(|_| BackupError::damaged(name, "it cannot be decrypted"))
}

#[cfg(test)]
mod tests {
    use platform::SeededRandom;

    use super::*;

    #[test]
    fn an_object_of_a_newer_format_is_no_damaged_one() {
        let mut packed = pack("a/b", b"content", false, None, &SeededRandom::new(1)).unwrap();
        packed[8..12].copy_from_slice(&9_u32.to_le_bytes());
        assert!(unpack("a/b", packed.clone(), None).unwrap_err().is_unreadable());
        let sum = checksum("a/b", &packed[..CHECKSUM_AT], &packed[HEADER_BYTES..]);
        packed[CHECKSUM_AT..HEADER_BYTES].copy_from_slice(&sum.to_le_bytes());
        let error = unpack("a/b", packed.clone(), None).unwrap_err();
        assert_eq!(error.to_string(), "a/b has format version 9; this build reads 1");
    }

    #[test]
    fn objects_come_back_and_any_changed_byte_or_name_is_found() {
        let key = OuterKey::new([7; 32]);
        let content = b"content ".repeat(100);
        for (is_compressed, key) in [(false, None), (true, None), (false, Some(&key)), (true, Some(&key))] {
            let packed = pack("a/b", &content, is_compressed, key, &SeededRandom::new(1)).unwrap();
            assert_eq!(unpack("a/b", packed.clone(), key).unwrap(), content);
            assert!(matches!(unpack("a/c", packed.clone(), key), Err(BackupError::Damaged { .. })));
            for at in (0..packed.len()).step_by(7) {
                let mut damaged = packed.clone();
                damaged[at] ^= 1;
                assert!(unpack("a/b", damaged, key).is_err(), "{at}");
            }
            assert!(unpack("a/b", packed[..packed.len() - 1].to_vec(), key).is_err());
            if key.is_some() {
                assert!(!packed.windows(8).any(|window| window == b"content "));
                assert!(unpack("a/b", packed.clone(), None).unwrap_err().to_string().contains("give the key"));
                let other = OuterKey::new([8; 32]);
                assert!(unpack("a/b", packed.clone(), Some(&other)).unwrap_err().to_string().contains("another key"));
            }
        }
    }
}
