//! A whole object under the outer key: what leaves the directory, as backups do.
//!
//! Called by `backup`. Each object has a key of its own, which follows from the outer key, the object's name and 16 random
//! bytes: so no nonce comes twice, and no object can take another's place.

use ring::aead::{Aad, Nonce};

use super::key_file::{EncryptionError, OuterKey};
use crate::Random;

/// What has to be known of an object to open it again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SealedObject {
    /// Which outer key it is.
    pub key_name: [u8; 8],
    /// Random bytes.
    pub salt: [u8; 16],
}

const NONCE: [u8; 12] = [0; 12];

impl OuterKey {
    /// Encrypts an object in place.
    ///
    /// # Errors
    /// `Cipher`.
    pub fn seal_object(
        &self,
        name: &str,
        bytes: &mut Vec<u8>,
        random: &dyn Random,
    ) -> Result<SealedObject, EncryptionError> {
        let mut sealed = SealedObject { key_name: self.name()?, ..SealedObject::default() };
        random.fill(&mut sealed.salt);
        let cipher = self.object_cipher(name, &sealed.salt)?;
        cipher.seal_in_place_append_tag(Nonce::assume_unique_for_key(NONCE), Aad::empty(), bytes)?;
        Ok(sealed)
    }

    /// Decrypts one.
    ///
    /// # Errors
    /// `Cipher`: it is not what was sealed under that name.
    pub fn open_object(&self, name: &str, sealed: &SealedObject, bytes: &[u8]) -> Result<Vec<u8>, EncryptionError> {
        let cipher = self.object_cipher(name, &sealed.salt)?;
        let mut bytes = bytes.to_vec();
        let opened = cipher.open_in_place(Nonce::assume_unique_for_key(NONCE), Aad::empty(), &mut bytes)?.len();
        bytes.truncate(opened);
        Ok(bytes)
    }

    /// Whether an object was sealed with this key.
    pub fn is_named(&self, name: &[u8; 8]) -> bool {
        self.name().is_ok_and(|own| own == *name)
    }
}
