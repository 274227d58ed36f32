//! The file with the key of an encrypted log in a directory, beside the records. What is in it is `log_key`'s.

use std::io;
use std::path::Path;

use platform::{Disk, OpenMode, Random, replace_file};

use super::write_new;
use crate::log_key::KeyPlace;
use crate::{Result, SharedLogError};

const FILE: &str = "key";
const NEW_FILE: &str = "key.new-";
/// More than any has.
const BYTES_MAX: u64 = 4096;

/// See the module's head.
pub(super) struct KeyFile<'d> {
    disk: &'d dyn Disk,
    random: &'d dyn Random,
}

impl<'d> KeyFile<'d> {
    pub(super) fn new(disk: &'d dyn Disk, random: &'d dyn Random) -> KeyFile<'d> {
        KeyFile { disk, random }
    }
}

impl KeyPlace for KeyFile<'_> {
    fn read(&self) -> Result<Option<Vec<u8>>> {
        let failed = SharedLogError::io;
        let file = match self.disk.open(Path::new(FILE), OpenMode::Read) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            file => file.map_err(failed("open its key"))?,
        };
        let length = file.length().map_err(failed("read its key"))?.min(BYTES_MAX);
        let mut bytes = vec![0; length as usize];
        file.read_exact_at(&mut bytes, 0).map_err(failed("read its key"))?;
        Ok(Some(bytes))
    }

    fn make(&self, wrapped: &[u8]) -> Result<()> {
        let new = format!("{NEW_FILE}{:016x}", self.random.next_u64());
        let write = || {
            write_new(self.disk, Path::new(&new), wrapped)?;
            self.disk.rename_new(Path::new(&new), Path::new(FILE))?;
            self.disk.sync_directory(Path::new(""))
        };
        match write() {
            // Another member was faster.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                let _ = self.disk.remove(Path::new(&new));
                Ok(())
            }
            written => written.map_err(SharedLogError::io("write its key")),
        }
    }

    fn replace(&self, wrapped: &[u8]) -> Result<()> {
        replace_file(self.disk, Path::new(FILE), Path::new(&format!("{NEW_FILE}rotated")), wrapped)
            .map_err(SharedLogError::io("write its key"))
    }
}
