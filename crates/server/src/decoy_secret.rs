//! What the salts and keys follow from that users who do not exist seem to have: 32 random bytes of the data directory.
//!
//! Kept, because a salt that another start of the server changes is of nobody. Called by `database`, once the directory is
//! open. Whoever has this file can tell which users there are, and nothing else.

use std::io;
use std::path::Path;

use crate::STARTUP_WARNINGS;
use platform::{Disk, OpenMode, Random, replace_file};

/// Its name in the data directory.
pub(crate) const DECOY_SECRET_FILE: &str = "decoys.secret";
/// What it is called while it is written.
pub(crate) const NEW_DECOY_SECRET_FILE: &str = "decoys.secret.new";

/// Its bytes.
pub(crate) type DecoySecret = [u8; 32];

/// The secret of a data directory. `None`: it cannot be read or made, as when the disk is full, and one of this start's own has
/// to do.
pub(crate) fn of_directory(disk: &dyn Disk, random: &dyn Random) -> Option<DecoySecret> {
    let loaded = load(disk, random);
    loaded
        .inspect_err(|error| tracing::warn!(target: STARTUP_WARNINGS, %error, "{DECOY_SECRET_FILE} cannot be used"))
        .ok()
}

/// Reads the secret; one that is missing, or not whole, is made anew.
///
/// # Errors
/// Those of the disk.
fn load(disk: &dyn Disk, random: &dyn Random) -> io::Result<DecoySecret> {
    let path = Path::new(DECOY_SECRET_FILE);
    let mut secret = [0; 32];
    if disk.exists(path)? {
        match disk.open(path, OpenMode::Read)?.read_exact_at(&mut secret, 0) {
            Err(error) if !matches!(error.kind(), io::ErrorKind::UnexpectedEof | io::ErrorKind::InvalidData) => {
                return Err(error);
            }
            Err(_) => {}
            Ok(()) => return Ok(secret),
        }
    }
    random.fill(&mut secret);
    replace_file(disk, path, Path::new(NEW_DECOY_SECRET_FILE), &secret)?;
    Ok(secret)
}

#[cfg(test)]
mod tests {
    use platform::{InjectedError, Operation, SeededRandom, SimulatedDisk};

    use super::*;

    #[test]
    fn it_is_the_same_at_each_start_and_survives_what_ends_one() {
        let (disk, random) = (SimulatedDisk::new(1), SeededRandom::new(2));
        let first = load(&disk, &random).unwrap();
        disk.power_loss();
        assert_eq!(load(&disk, &random).unwrap(), first);
        assert_ne!(load(&SimulatedDisk::new(1), &random).unwrap(), first);
        for operation in
            [Operation::Open, Operation::Write, Operation::Sync, Operation::Rename, Operation::SyncDirectory]
        {
            let disk = SimulatedDisk::new(3);
            disk.fail_next(operation, InjectedError::InputOutput);
            assert!(load(&disk, &random).is_err(), "{operation:?}");
            disk.power_loss();
            let made = load(&disk, &random).unwrap();
            assert_eq!(load(&disk, &random).unwrap(), made);
        }
        disk.open(Path::new(DECOY_SECRET_FILE), OpenMode::ReadWrite).unwrap().set_length(5).unwrap();
        let anew = load(&disk, &random).unwrap();
        assert_eq!(load(&disk, &random).unwrap(), anew);
    }
}
