//! The files of a directory log. The format is in `docs/file-format.md`, "Directory log".
//!
//! Used by `DirectoryLog`; a log in an object store has the same identity (`ObjectLog`).

use std::path::{Path, PathBuf};

use crate::{LogIdentity, Offset};

pub(super) const RECORDS: &str = "records";
pub(super) const RECORD_SUFFIX: &str = ".record";
pub(super) const SENDING: &str = "sending";
pub(super) const SENDING_SUFFIX: &str = ".new";
pub(super) const TRIMMED: &str = "trimmed";
pub(super) const IDENTITY_FILE: &str = "identity";
pub(super) const NEW_IDENTITY_FILE: &str = "identity.new-";
pub(crate) const IDENTITY_BYTES: usize = 32;
const IDENTITY_MAGIC: &[u8; 8] = b"PLMSHDIR";
const FORMAT_VERSION: u32 = 1;
const CHECKED_BYTES: usize = 28;
const NAME_DIGITS: usize = 20;

pub(super) fn record_path(offset: Offset) -> PathBuf {
    Path::new(RECORDS).join(format!("{:0NAME_DIGITS$}{RECORD_SUFFIX}", offset.0))
}

/// Of a record that is written when the log ends at `end`.
pub(super) fn sending_path(end: Offset, random: u64) -> PathBuf {
    Path::new(SENDING).join(format!("{:0NAME_DIGITS$}-{random:016x}{SENDING_SUFFIX}", end.0))
}

pub(super) fn trimmed_path(first: Offset) -> PathBuf {
    Path::new(TRIMMED).join(format!("{:0NAME_DIGITS$}", first.0))
}

/// The number at the beginning of a name that ends so.
pub(super) fn numbered(name: &str, suffix: &str) -> Option<u64> {
    let rest = name.strip_suffix(suffix)?;
    let (digits, random) = rest.split_at_checked(NAME_DIGITS)?;
    (random.is_empty() || suffix == SENDING_SUFFIX).then(|| digits.parse().ok()).flatten()
}

pub(crate) fn identity_bytes(identity: LogIdentity) -> [u8; IDENTITY_BYTES] {
    let mut bytes = [0; IDENTITY_BYTES];
    bytes[..8].copy_from_slice(IDENTITY_MAGIC);
    bytes[8..12].copy_from_slice(&FORMAT_VERSION.to_le_bytes());
    bytes[12..CHECKED_BYTES].copy_from_slice(&identity.0);
    let checksum = crc32c::crc32c(&bytes[..CHECKED_BYTES]);
    bytes[CHECKED_BYTES..].copy_from_slice(&checksum.to_le_bytes());
    bytes
}

pub(crate) fn parse_identity(bytes: &[u8; IDENTITY_BYTES]) -> Option<LogIdentity> {
    let identity = LogIdentity(std::array::from_fn(|index| bytes[12 + index]));
    (*bytes == identity_bytes(identity)).then_some(identity)
}
