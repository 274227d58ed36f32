//! One sector: 512 bytes of the disk, 484 of a file's content.
//!
//! ```text
//! 0        4                        12                    496   512
//! session  number within the session  content, AES-256-GCM  tag
//! ```
//!
//! Called by `file`. The first twelve bytes are the nonce, which `keychain` never gives twice. The tag also covers the
//! file's identity and the sector's place in it. A sector of zeros was never written, and reads as zeros.

use ring::aead::{Aad, LessSafeKey, Nonce};

/// What a disk writes whole or not at all.
pub(super) const SECTOR_BYTES: usize = 512;
const NONCE_BYTES: usize = 12;
const TAG_BYTES: usize = 16;
/// Content of a sector.
pub(super) const CONTENT_BYTES: usize = SECTOR_BYTES - NONCE_BYTES - TAG_BYTES;
const PLACE_BYTES: usize = 24;
/// What is before a file's first sector: the header, twice, each in a block of its own.
pub(super) const HEADER_BYTES: u64 = 8192;
/// What is given for content that is damaged, to who verifies it.
pub(super) const DAMAGED: u8 = 0xda;

/// What a file is, whatever it is called.
pub(super) type Identity = [u8; 16];

/// Where a sector belongs: the file, and its number there.
pub(super) fn place(identity: &Identity, number: u64) -> [u8; PLACE_BYTES] {
    let mut place = [0; PLACE_BYTES];
    place[..16].copy_from_slice(identity);
    place[16..].copy_from_slice(&number.to_le_bytes());
    place
}

/// The session that wrote a sector; 0: nobody did.
pub(super) fn session_of(sector: &[u8]) -> u32 {
    u32::from_le_bytes([sector[0], sector[1], sector[2], sector[3]])
}

/// Whether nothing was ever written here.
pub(super) fn is_blank(sector: &[u8]) -> bool {
    sector.iter().all(|byte| *byte == 0)
}

/// The content's bytes within a sector.
pub(super) fn content(sector: &mut [u8]) -> &mut [u8] {
    &mut sector[NONCE_BYTES..NONCE_BYTES + CONTENT_BYTES]
}

/// Encrypts a sector whose content is in its place. `false`: the library refuses, which it does for lengths only.
#[must_use]
pub(super) fn seal(sector: &mut [u8], key: &LessSafeKey, session: u32, number: u64, place: [u8; PLACE_BYTES]) -> bool {
    let mut nonce = [0; NONCE_BYTES];
    nonce[..4].copy_from_slice(&session.to_le_bytes());
    nonce[4..].copy_from_slice(&number.to_le_bytes());
    sector[..NONCE_BYTES].copy_from_slice(&nonce);
    let nonce = Nonce::assume_unique_for_key(nonce);
    match key.seal_in_place_separate_tag(nonce, Aad::from(place), content(sector)) {
        Ok(tag) => {
            sector[NONCE_BYTES + CONTENT_BYTES..].copy_from_slice(tag.as_ref());
            true
        }
        Err(_) => false,
    }
}

/// Decrypts a sector where it is. `false`: it is not what was written there.
#[must_use]
pub(super) fn open(sector: &mut [u8], key: &LessSafeKey, place: [u8; PLACE_BYTES]) -> bool {
    let Ok(nonce) = Nonce::try_assume_unique_for_key(&sector[..NONCE_BYTES]) else { return false };
    key.open_in_place(nonce, Aad::from(place), &mut sector[NONCE_BYTES..]).is_ok()
}
