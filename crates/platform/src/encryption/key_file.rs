//! `encryption.keys`: the data key, wrapped by the outer key, and what the key of each session follows from.
//!
//! | offset | bytes | what it is |
//! |---|---|---|
//! | 0 | 8 | `PLIMKEYS` |
//! | 8 | 4 | version, 1 |
//! | 12 | 4 | number of sessions |
//! | 16 | 8 | which outer key it is: tells a wrong key from damage |
//! | 24 | 12 | nonce |
//! | 36 | 48 | the data key, AES-256-GCM |
//! | 84 | 16 each | random bytes of each session |
//! | end | 32 | HMAC-SHA-256 of all before |
//!
//! Called by `keychain` and, for rotation, by the server's command. It is written anew under another name, made durable,
//! and renamed: so there is always one whole file.

use std::io;
use std::path::Path;

use ring::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use ring::hkdf::{HKDF_SHA256, KeyType, Prk, Salt};
use ring::hmac;

use crate::{Disk, OpenMode, Random};

/// Its name in the data directory.
pub const KEYS_FILE: &str = "encryption.keys";
/// What it is called while it is written.
pub(super) const NEW_KEYS_FILE: &str = "encryption.keys.new";
const MAGIC: &[u8; 8] = b"PLIMKEYS";
const VERSION: u32 = 1;
const HEADER_BYTES: usize = 84;
const WRAPPED_AT: usize = 36;
const KEY_BYTES: usize = 32;
const SALT_BYTES: usize = 16;
const SEAL_BYTES: usize = 32;
/// What the next file of keys may be longer.
const RESERVED_BYTES: u64 = 4096;
/// Starts of a server beyond which a file is none: 16 MiB.
const SESSIONS_MAX: usize = 1 << 20;

/// Random bytes that a session's key follows from.
pub(super) type SessionSalt = [u8; SALT_BYTES];

/// The key that wraps the data key, and that the operator keeps elsewhere.
#[derive(Clone)]
pub struct OuterKey([u8; KEY_BYTES]);

impl OuterKey {
    /// From its 32 bytes.
    pub fn new(bytes: [u8; KEY_BYTES]) -> OuterKey {
        OuterKey(bytes)
    }

    /// Which one it is, without telling it.
    pub(super) fn name(&self) -> Result<[u8; 8], EncryptionError> {
        let mut name = [0; 8];
        derive(&extracted(&self.0), &[b"plimsoll outer key name"], &mut name)?;
        Ok(name)
    }

    fn cipher(&self) -> Result<LessSafeKey, EncryptionError> {
        cipher(&extracted(&self.0), &[b"plimsoll outer key"])
    }

    /// The key of one object outside of the directory.
    pub(super) fn object_cipher(&self, name: &str, salt: &[u8; 16]) -> Result<LessSafeKey, EncryptionError> {
        cipher(&extracted(&self.0), &[b"plimsoll object", salt, name.as_bytes()])
    }
}

impl std::fmt::Debug for OuterKey {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("OuterKey")
    }
}

/// Why an encrypted directory cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum EncryptionError {
    /// The file of keys cannot be read or written.
    #[error("{KEYS_FILE}: {0}")]
    Disk(#[from] io::Error),
    /// Another key is needed.
    #[error("the encryption key is not the one that this directory is encrypted with")]
    WrongKey,
    /// The file of keys is not what was written.
    #[error("{KEYS_FILE} is damaged ({0}): without it nothing in the directory can be read, so put a copy of it back")]
    Damaged(&'static str),
    /// It is of a later program.
    #[error("{KEYS_FILE} has version {0}, which this program does not know")]
    Version(u32),
    /// There has been a start too many.
    #[error(
        "{KEYS_FILE} has no place for another start that writes: `plimsoll repair` copies the data into a new directory"
    )]
    TooManySessions,
    /// The library of ciphers refuses.
    #[error("the encryption failed")]
    Cipher,
}

impl From<ring::error::Unspecified> for EncryptionError {
    fn from(_: ring::error::Unspecified) -> EncryptionError {
        EncryptionError::Cipher
    }
}

impl From<EncryptionError> for io::Error {
    fn from(error: EncryptionError) -> io::Error {
        match error {
            EncryptionError::Disk(error) => error,
            other => io::Error::other(other),
        }
    }
}

/// What the file says.
pub(super) struct Keys {
    /// What all keys of the content follow from.
    pub(super) data_key: Prk,
    secret: [u8; KEY_BYTES],
    /// Of each session, from the first.
    pub(super) sessions: Vec<SessionSalt>,
    /// Name, nonce and wrapped key as they are in the file: a new session changes nothing about them.
    wrapping: Vec<u8>,
}

impl Keys {
    /// New keys, in a file that is durable.
    pub(super) fn create(disk: &dyn Disk, outer: &OuterKey, random: &dyn Random) -> Result<Keys, EncryptionError> {
        let mut secret = [0; KEY_BYTES];
        random.fill(&mut secret);
        let wrapping = wrap(&secret, outer, random)?;
        let keys = Keys { data_key: extracted(&secret), secret, sessions: Vec::new(), wrapping };
        keys.store(disk)?;
        Ok(keys)
    }

    /// The keys of a directory.
    pub(super) fn load(disk: &dyn Disk, outer: &OuterKey) -> Result<Keys, EncryptionError> {
        let file = disk.open(Path::new(KEYS_FILE), OpenMode::Read)?;
        let length = usize::try_from(file.length()?).unwrap_or(usize::MAX);
        if length > HEADER_BYTES + SESSIONS_MAX * SALT_BYTES + SEAL_BYTES {
            return Err(EncryptionError::Damaged("it is too long"));
        }
        let mut bytes = vec![0; length];
        file.read_exact_at(&mut bytes, 0)?;
        Keys::parse(&bytes, outer)
    }

    fn parse(bytes: &[u8], outer: &OuterKey) -> Result<Keys, EncryptionError> {
        if bytes.len() < HEADER_BYTES + SEAL_BYTES || !bytes.starts_with(MAGIC) {
            return Err(EncryptionError::Damaged("it is no file of keys"));
        }
        let number = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        if number(8) != VERSION {
            return Err(EncryptionError::Version(number(8)));
        }
        if bytes[16..24] != outer.name()? {
            return Err(EncryptionError::WrongKey);
        }
        let secret = unwrap(bytes, outer)?;
        let data_key = extracted(&secret);
        let (content, seal) = bytes.split_at(bytes.len() - SEAL_BYTES);
        hmac::verify(&sealing_key(&data_key)?, content, seal)
            .map_err(|_| EncryptionError::Damaged("its checksum is wrong"))?;
        let (sessions, rest) = content[HEADER_BYTES..].as_chunks::<SALT_BYTES>();
        if !rest.is_empty() || sessions.len() != number(12) as usize {
            return Err(EncryptionError::Damaged("its length is wrong"));
        }
        Ok(Keys { data_key, secret, sessions: sessions.to_vec(), wrapping: bytes[16..HEADER_BYTES].to_vec() })
    }

    /// Adds a session, durably. Its number is how many there are then.
    pub(super) fn add_session(&mut self, disk: &dyn Disk, random: &dyn Random) -> Result<u32, EncryptionError> {
        if self.sessions.len() >= SESSIONS_MAX {
            return Err(EncryptionError::TooManySessions);
        }
        let mut salt = [0; SALT_BYTES];
        random.fill(&mut salt);
        self.sessions.push(salt);
        if let Err(error) = self.store(disk) {
            // Whether the row is durable or not: nobody has written with it, and the next try writes another.
            self.sessions.pop();
            return Err(error);
        }
        Ok(self.sessions.len() as u32)
    }

    fn bytes(&self) -> Result<Vec<u8>, EncryptionError> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        bytes.extend_from_slice(&(self.sessions.len() as u32).to_le_bytes());
        bytes.extend_from_slice(&self.wrapping);
        bytes.extend_from_slice(self.sessions.as_flattened());
        let seal = hmac::sign(&sealing_key(&self.data_key)?, &bytes);
        bytes.extend_from_slice(seal.as_ref());
        Ok(bytes)
    }

    fn store(&self, disk: &dyn Disk) -> Result<(), EncryptionError> {
        let bytes = self.bytes()?;
        let new = Path::new(NEW_KEYS_FILE);
        let file = disk.open(new, OpenMode::Create)?;
        file.write_all_at(&bytes, 0)?;
        file.set_length(bytes.len() as u64)?;
        file.sync_data()?;
        disk.rename(new, Path::new(KEYS_FILE))?;
        disk.sync_directory(Path::new(""))?;
        // So that the next session can begin on a disk that is full. Without it all goes well, too.
        let _ = reserve_next(disk, bytes.len() as u64);
        Ok(())
    }
}

/// Takes the space for the next file of keys, durably. On a disk that is full there is as much as the file before had: enough
/// for one session more, most of the time.
fn reserve_next(disk: &dyn Disk, length: u64) -> io::Result<()> {
    let file = disk.open(Path::new(NEW_KEYS_FILE), OpenMode::Create)?;
    file.allocate(0, length + RESERVED_BYTES).or_else(|_| file.allocate(0, length + SALT_BYTES as u64))?;
    file.sync_data()?;
    disk.sync_directory(Path::new(""))
}

/// Whether a directory's files are encrypted.
///
/// # Errors
/// Those of the disk.
pub fn is_encrypted(disk: &dyn Disk) -> io::Result<bool> {
    disk.exists(Path::new(KEYS_FILE))
}

/// Wraps the data key by another outer key. No data is written, and nobody may use the directory meanwhile.
///
/// # Errors
/// When `from` is not the key, or the disk fails: then the key is `from` or, if the disk failed at the very end, `to`.
pub fn rotate_outer_key(
    disk: &dyn Disk,
    from: &OuterKey,
    to: &OuterKey,
    random: &dyn Random,
) -> Result<(), EncryptionError> {
    let mut keys = Keys::load(disk, from)?;
    keys.wrapping = wrap(&keys.secret, to, random)?;
    keys.store(disk)
}

/// The name of the outer key, a nonce, and the data key as the file has it.
fn wrap(secret: &[u8; KEY_BYTES], outer: &OuterKey, random: &dyn Random) -> Result<Vec<u8>, EncryptionError> {
    let mut nonce = [0; 12];
    random.fill(&mut nonce);
    let mut wrapped = secret.to_vec();
    let bound = Aad::from(*MAGIC);
    outer.cipher()?.seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), bound, &mut wrapped)?;
    Ok([&outer.name()?[..], &nonce, &wrapped].concat())
}

fn unwrap(bytes: &[u8], outer: &OuterKey) -> Result<[u8; KEY_BYTES], EncryptionError> {
    let damaged = EncryptionError::Damaged("the wrapped key is not what was written");
    let Ok(nonce) = Nonce::try_assume_unique_for_key(&bytes[24..WRAPPED_AT]) else { return Err(damaged) };
    let mut wrapped = bytes[WRAPPED_AT..HEADER_BYTES].to_vec();
    let opened = outer.cipher()?.open_in_place(nonce, Aad::from(*MAGIC), &mut wrapped);
    opened.ok().and_then(|secret| <[u8; KEY_BYTES]>::try_from(&*secret).ok()).ok_or(damaged)
}

fn extracted(secret: &[u8; KEY_BYTES]) -> Prk {
    Salt::new(HKDF_SHA256, b"plimsoll encryption at rest").extract(secret)
}

/// The key of AES that follows from another one.
pub(super) fn cipher(from: &Prk, purpose: &[&[u8]]) -> Result<LessSafeKey, EncryptionError> {
    Ok(LessSafeKey::new(UnboundKey::from(from.expand(purpose, &AES_256_GCM)?)))
}

fn sealing_key(data_key: &Prk) -> Result<hmac::Key, EncryptionError> {
    Ok(hmac::Key::from(data_key.expand(&[b"plimsoll file of keys"], hmac::HMAC_SHA256)?))
}

struct Bytes(usize);

impl KeyType for Bytes {
    fn len(&self) -> usize {
        self.0
    }
}

fn derive(from: &Prk, purpose: &[&[u8]], into: &mut [u8]) -> Result<(), EncryptionError> {
    Ok(from.expand(purpose, Bytes(into.len()))?.fill(into)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{SeededRandom, SimulatedDisk};

    #[test]
    fn a_directory_has_no_place_for_a_start_too_many() {
        let (disk, outer, random) = (SimulatedDisk::new(1), OuterKey::new([1; 32]), SeededRandom::new(1));
        let mut keys = Keys::create(&disk, &outer, &random).unwrap();
        keys.sessions = vec![[7; SALT_BYTES]; SESSIONS_MAX - 1];
        assert_eq!(keys.add_session(&disk, &random).unwrap() as usize, SESSIONS_MAX);
        assert!(matches!(keys.add_session(&disk, &random), Err(EncryptionError::TooManySessions)));
        assert_eq!(Keys::load(&disk, &outer).unwrap().sessions, keys.sessions);
    }
}
