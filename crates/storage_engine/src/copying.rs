//! What a copy of a running engine reads: the last checkpoint, pinned, and the files of the rings.
//!
//! Called by `transaction` while no checkpoint is being made. Rings go on changing under the copy; what is replayed from the
//! checkpoint's mark on mends them, as it does after a crash.

use std::path::Path;
use std::sync::Arc;

use platform::{File, OpenMode};

use crate::checkpoint_mark::{CheckpointMark, MarkContents};
use crate::engine::Engine;
use crate::error::{EngineError, Result};
use crate::page_store::PinnedCheckpoint;
use crate::ring::{DIRECTORY_NAME, number_of_file};

/// A checkpoint to be copied. The rings' files stay readable when their collections are dropped meanwhile.
pub struct EngineCopy {
    /// The pages.
    pub pinned: PinnedCheckpoint,
    /// What the checkpoint says of the oplog.
    pub mark: CheckpointMark,
    /// The rings, by their numbers.
    pub rings: Vec<(u64, Arc<dyn File>)>,
}

impl Engine {
    /// Identity of the store: random, and another one for what was restored from a backup.
    pub fn identity(&self) -> [u8; 16] {
        self.store.superblock().uuid
    }

    /// Pins the last checkpoint.
    ///
    /// # Errors
    /// `Store` when there is none, or another copy is being made; `RingFile`.
    pub fn begin_copy(&self) -> Result<EngineCopy> {
        let pinned = self.store.pin()?;
        let mark = MarkContents::decode(pinned.mark())?.mark;
        Ok(EngineCopy { mark, rings: self.open_ring_files()?, pinned })
    }

    fn open_ring_files(&self) -> Result<Vec<(u64, Arc<dyn File>)>> {
        let (disk, directory) = (self.rings.disk(), Path::new(DIRECTORY_NAME));
        let failed = |error| EngineError::RingFile(Arc::new(error));
        if !disk.exists(directory).map_err(failed)? {
            return Ok(Vec::new());
        }
        let mut files = Vec::new();
        for name in disk.list(directory).map_err(failed)? {
            let Some(number) = number_of_file(&name) else { continue };
            match disk.open(&directory.join(&name), OpenMode::Read) {
                Ok(file) => files.push((number, file)),
                // Its collection was dropped before the checkpoint.
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                Err(error) => return Err(failed(error)),
            }
        }
        Ok(files)
    }
}

/// Where the file of a ring is in a data directory.
pub fn ring_file(number: u64) -> std::path::PathBuf {
    crate::ring::path_of_file(number)
}
