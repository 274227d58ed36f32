//! The key of an encrypted log in a directory: a file beside the records, wrapped by the outer key that all members have.
//!
//! Made with the log, by the first member; the format is in `docs/file-format.md`, "Directory log". A log that has records without it stays as it is.

use std::io;
use std::path::Path;

use platform::{Disk, OpenMode, OuterKey, Random, SealedObject, replace_file};

use super::write_new;
use crate::{LogIdentity, Result, SharedLogError};

const FILE: &str = "key";
const NEW_FILE: &str = "key.new-";
const MAGIC: &[u8; 8] = b"PLMSHKEY";
const FORMAT_VERSION: u32 = 1;
const KEY_BYTES: usize = 32;
const SEALED_AT: usize = 40;
const CHECKED_BYTES: usize = SEALED_AT + KEY_BYTES + 16;
const FILE_BYTES: usize = CHECKED_BYTES + 4;

fn name(identity: LogIdentity) -> String {
    format!("key of the shared log {identity}")
}

fn refused(cause: impl Into<String>) -> SharedLogError {
    SharedLogError::Key { cause: cause.into() }
}

/// Whether a log is encrypted.
pub(super) fn is_there(disk: &dyn Disk) -> Result<bool> {
    disk.exists(Path::new(FILE)).map_err(SharedLogError::io("look for its key"))
}

/// Makes it; nothing happens if another member was faster.
pub(super) fn make(disk: &dyn Disk, identity: LogIdentity, outer: &OuterKey, random: &dyn Random) -> Result<()> {
    let mut key = [0; KEY_BYTES];
    random.fill(&mut key);
    let bytes = wrapped(&key, identity, outer, random)?;
    let mut number = [0; 8];
    random.fill(&mut number);
    let new = format!("{NEW_FILE}{:016x}", u64::from_le_bytes(number));
    let write = || {
        write_new(disk, Path::new(&new), &bytes)?;
        disk.rename_new(Path::new(&new), Path::new(FILE))?;
        disk.sync_directory(Path::new(""))
    };
    match write() {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            let _ = disk.remove(Path::new(&new));
            Ok(())
        }
        written => written.map_err(SharedLogError::io("write its key")),
    }
}

fn wrapped(key: &[u8; KEY_BYTES], identity: LogIdentity, outer: &OuterKey, random: &dyn Random) -> Result<Vec<u8>> {
    let mut content = key.to_vec();
    let sealed = outer.seal_object(&name(identity), &mut content, random);
    let sealed = sealed.map_err(|error| refused(error.to_string()))?;
    let mut bytes = MAGIC.to_vec();
    bytes.extend_from_slice(&FORMAT_VERSION.to_le_bytes());
    bytes.extend_from_slice(&[0; 4]);
    bytes.extend_from_slice(&sealed.key_name);
    bytes.extend_from_slice(&sealed.salt);
    bytes.append(&mut content);
    bytes.extend_from_slice(&crc32c::crc32c(&bytes).to_le_bytes());
    Ok(bytes)
}

/// The key of the log.
pub(super) fn open(disk: &dyn Disk, identity: LogIdentity, outer: &OuterKey) -> Result<OuterKey> {
    unwrapped(disk, identity, outer).map(OuterKey::new)
}

fn unwrapped(disk: &dyn Disk, identity: LogIdentity, outer: &OuterKey) -> Result<[u8; KEY_BYTES]> {
    let failed = SharedLogError::io;
    let file = disk.open(Path::new(FILE), OpenMode::Read).map_err(failed("open its key"))?;
    let mut bytes = [0; FILE_BYTES];
    let read = file.read_exact_at(&mut bytes, 0);
    let (content, checksum) = bytes.split_at(CHECKED_BYTES);
    if read.is_err() || !content.starts_with(MAGIC) || checksum != crc32c::crc32c(content).to_le_bytes() {
        return Err(refused("the file of its key is damaged: without it nothing in the log can be read"));
    }
    if content[8..12] != FORMAT_VERSION.to_le_bytes() {
        return Err(refused("the file of its key has a version that this program does not know"));
    }
    let mut sealed = SealedObject::default();
    sealed.key_name.copy_from_slice(&content[16..24]);
    sealed.salt.copy_from_slice(&content[24..SEALED_AT]);
    if !outer.is_named(&sealed.key_name) {
        return Err(refused("it is encrypted with another key than the one that is given"));
    }
    let key = outer.open_object(&name(identity), &sealed, &content[SEALED_AT..]);
    let key = key.map_err(|_| refused("the file of its key is of another log"))?;
    key.try_into().map_err(|_| refused("the file of its key is damaged"))
}

/// Wraps the key by another outer key. No record is written.
pub(super) fn rotate(
    disk: &dyn Disk,
    identity: LogIdentity,
    (from, to): (&OuterKey, &OuterKey),
    random: &dyn Random,
) -> Result<()> {
    let bytes = wrapped(&unwrapped(disk, identity, from)?, identity, to, random)?;
    replace_file(disk, Path::new(FILE), Path::new(&format!("{NEW_FILE}rotated")), &bytes)
        .map_err(SharedLogError::io("write its key"))
}
