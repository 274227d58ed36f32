//! Encryption at rest: a `Disk` over another one, whose files hold nothing that can be read without the key.
//!
//! ```text
//! engine, oplog, rings, temporary files ─▶ EncryptedDisk ─▶ RealDisk or SimulatedDisk
//!                                             └ keychain: `encryption.keys`, the data key wrapped by the outer key
//! ```
//!
//! Called by the server at the start and by the simulator; nothing above knows of it. Decision 0017 says why it is as it
//! is. It relies on the disk below to write sectors of 512 bytes whole or not at all.

mod disk;
mod file;
mod key_file;
mod keychain;
mod object;
mod sector;
#[cfg(test)]
mod tests;

pub use disk::{EncryptedDisk, looks_encrypted};
pub use key_file::{EncryptionError, KEYS_FILE, OuterKey, is_encrypted, rotate_outer_key};
pub use object::SealedObject;
