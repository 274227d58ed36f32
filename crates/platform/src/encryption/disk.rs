//! The encrypting `Disk`: names and directories are those of the disk below, files are `file`'s.
//!
//! Called by the server and the simulator. A file begins with `HEADER_BYTES` of its own, durable before anything else is
//! written: the same header twice, in two blocks, since without it nothing in the file can be read.
//!
//! | offset | bytes | what it is |
//! |---|---|---|
//! | 0 and 4096 | 8 | `PLIMCRYP` |
//! | 8 | 4 | version, 1 |
//! | 12 | 16 | the file's identity, random |
//! | 28 | 16 | the beginning of the SHA-256 of all before |

use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use ring::digest;

use super::file::{EncryptedFile, FileState};
use super::key_file::{EncryptionError, KEYS_FILE, Keys, NEW_KEYS_FILE, OuterKey};
use super::keychain::Keychain;
use super::sector::{CONTENT_BYTES, HEADER_BYTES, Identity, SECTOR_BYTES, is_blank};
use crate::{Disk, File, OpenMode, Random, is_disk_full};

const MAGIC: &[u8; 8] = b"PLIMCRYP";
const VERSION: [u8; 4] = 1_u32.to_le_bytes();
/// Where the header is.
const COPIES_AT: [u64; 2] = [0, HEADER_BYTES / 2];
const CHECKED_BYTES: usize = 28;
const COPY_BYTES: usize = CHECKED_BYTES + 16;
/// Files whose state is kept before those that nobody has open are looked for.
const STATES_KEPT: usize = 64;

/// A disk whose files are encrypted.
pub struct EncryptedDisk {
    inner: Arc<dyn Disk>,
    keychain: Arc<Keychain>,
    /// What handles on the same file share.
    states: Mutex<HashMap<Identity, Weak<FileState>>>,
}

impl EncryptedDisk {
    /// Makes the keys of a directory in which there is nothing yet.
    ///
    /// # Errors
    /// Those of the disk.
    pub fn create(
        inner: Arc<dyn Disk>,
        outer: &OuterKey,
        random: Arc<dyn Random>,
    ) -> Result<EncryptedDisk, EncryptionError> {
        let keys = Keys::create(&*inner, outer, &*random)?;
        Ok(EncryptedDisk::with(keys, inner, random))
    }

    /// Opens a directory that is encrypted.
    ///
    /// # Errors
    /// When the key is wrong, or the file of keys is damaged or cannot be read.
    pub fn open(
        inner: Arc<dyn Disk>,
        outer: &OuterKey,
        random: Arc<dyn Random>,
    ) -> Result<EncryptedDisk, EncryptionError> {
        let keys = Keys::load(&*inner, outer)?;
        Ok(EncryptedDisk::with(keys, inner, random))
    }

    fn with(keys: Keys, inner: Arc<dyn Disk>, random: Arc<dyn Random>) -> EncryptedDisk {
        let keychain = Arc::new(Keychain::new(keys, Arc::clone(&inner), random));
        EncryptedDisk { inner, keychain, states: Mutex::default() }
    }

    /// The identity of a file; one that is empty gets one if it is open for writing.
    fn identify(&self, file: &dyn File, path: &Path, mode: OpenMode) -> io::Result<Option<Identity>> {
        // Two who open a new file at once must come to the same.
        let _states = self.states.lock();
        let length = file.length()?;
        let mut copies = [[0; COPY_BYTES]; 2];
        for (copy, at) in copies.iter_mut().zip(COPIES_AT) {
            read_up_to(file, copy, at)?;
        }
        let identities = copies.each_ref().map(decode);
        if let Some(identity) = identities[0].or(identities[1]) {
            if mode != OpenMode::Read && length <= HEADER_BYTES {
                // Whoever wrote them may have failed to make them durable: then they are seen and yet lost in a power failure.
                return store_headers(file, identity, mode);
            } else if mode != OpenMode::Read && identities[0] != identities[1] {
                // The other one is enough; so if this fails nothing is lost.
                let _ = file.write_all_at(&headers(&identity), 0);
            }
            return Ok(Some(identity));
        }
        // A failed write may have left a part of the headers. Behind them there is nothing yet that could be lost.
        if length > HEADER_BYTES || !copies.iter().all(is_begun) {
            let message = format!("{}: it is not encrypted, or its headers are damaged", path.display());
            return Err(io::Error::new(io::ErrorKind::InvalidData, message));
        }
        if mode == OpenMode::Read {
            return Ok(None);
        }
        let mut identity = [0; 16];
        self.keychain.random().fill(&mut identity);
        file.set_length(0)?;
        store_headers(file, identity, mode)
    }

    fn state(&self, identity: Identity) -> Arc<FileState> {
        let mut states = self.states.lock();
        if let Some(state) = states.get(&identity).and_then(Weak::upgrade) {
            return state;
        }
        if states.len() >= STATES_KEPT {
            states.retain(|_, state| state.strong_count() > 0);
        }
        let state = Arc::new(FileState::new(identity));
        states.insert(identity, Arc::downgrade(&state));
        state
    }
}

/// Whether a file of a directory begins as encrypted ones do: then its keys were taken away.
///
/// # Errors
/// Those of the disk.
pub fn looks_encrypted(disk: &dyn Disk, path: &Path) -> io::Result<bool> {
    let mut start = [0; MAGIC.len()];
    read_up_to(&*disk.open(path, OpenMode::Read)?, &mut start, 0)?;
    Ok(start == *MAGIC)
}

/// Writes the headers of a file that has nothing yet, durably: content that is kept without them could not be read. `None`:
/// the file was there, and the full disk has no room for them, so it can be read, or removed.
fn store_headers(file: &dyn File, identity: Identity, mode: OpenMode) -> io::Result<Option<Identity>> {
    match file.write_all_at(&headers(&identity), 0).and_then(|()| file.sync_data()) {
        Err(error) if mode == OpenMode::ReadWrite && is_disk_full(&error) => Ok(None),
        stored => stored.map(|()| Some(identity)),
    }
}

/// Both headers of a file, with the zeros behind each.
fn headers(identity: &Identity) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    bytes.extend_from_slice(&VERSION);
    bytes.extend_from_slice(identity);
    let digest = digest::digest(&digest::SHA256, &bytes);
    bytes.extend_from_slice(&digest.as_ref()[..COPY_BYTES - CHECKED_BYTES]);
    bytes.resize(HEADER_BYTES as usize / 2, 0);
    bytes.repeat(2)
}

/// `None`: it is not whole, or of another version.
fn decode(copy: &[u8; COPY_BYTES]) -> Option<Identity> {
    let (checked, check) = copy.split_at(CHECKED_BYTES);
    let digest = digest::digest(&digest::SHA256, checked);
    let is_ours = copy.starts_with(MAGIC) && copy[8..12] == VERSION && digest.as_ref().starts_with(check);
    is_ours.then(|| checked[12..].try_into().ok()).flatten()
}

/// Whether bytes are the beginning of a header, of whatever length, and zeros.
fn is_begun(copy: &[u8; COPY_BYTES]) -> bool {
    let agreeing = copy.iter().zip(MAGIC).take_while(|(byte, expected)| byte == expected).count();
    agreeing == MAGIC.len() || is_blank(&copy[agreeing..])
}

fn read_up_to(file: &dyn File, bytes: &mut [u8], offset: u64) -> io::Result<()> {
    let mut filled = 0;
    while filled < bytes.len() {
        match file.read_at(&mut bytes[filled..], offset + filled as u64)? {
            0 => break,
            count => filled += count,
        }
    }
    Ok(())
}

impl Disk for EncryptedDisk {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn File>> {
        let inner = self.inner.open(path, mode)?;
        let identity = match self.identify(&*inner, path, mode) {
            Ok(identity) => identity,
            Err(error) => {
                if mode == OpenMode::CreateNew {
                    // Who tries again must find no file. If even this fails, he is told that there is one.
                    let _ = self.inner.remove(path);
                }
                return Err(error);
            }
        };
        let state = identity.map(|identity| self.state(identity));
        let file = EncryptedFile::new(inner, path.to_owned(), state, mode, Arc::clone(&self.keychain));
        Ok(Arc::new(file))
    }

    fn create_directory(&self, path: &Path) -> io::Result<()> {
        self.inner.create_directory(path)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.inner.remove(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.inner.rename(from, to)
    }

    fn rename_new(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.inner.rename_new(from, to)
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<String>> {
        let mut names = self.inner.list(directory)?;
        if directory.as_os_str().is_empty() {
            names.retain(|name| name != KEYS_FILE && name != NEW_KEYS_FILE);
        }
        Ok(names)
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        self.inner.exists(path)
    }

    fn sync_directory(&self, directory: &Path) -> io::Result<()> {
        self.inner.sync_directory(directory)
    }

    fn available_bytes(&self) -> io::Result<u64> {
        Ok(self.inner.available_bytes()? / SECTOR_BYTES as u64 * CONTENT_BYTES as u64)
    }

    fn total_bytes(&self) -> io::Result<u64> {
        Ok(self.inner.total_bytes()? / SECTOR_BYTES as u64 * CONTENT_BYTES as u64)
    }

    fn check_presence(&self) -> io::Result<()> {
        self.inner.check_presence()
    }
}
