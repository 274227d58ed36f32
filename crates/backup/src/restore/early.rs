//! Pages of a backup that is still being made, put in their places as its chunks come: who waits for a copy has most of it when the copy is whole.
//!
//! Called by `server` for a new member of a replica set. A chunk is stored before its index (`making`), so where an index is, its chunk is whole; and all blocks of
//! a backup's own chunks are the backup's. What it has in chunks of earlier backups, its rings and its oplog come at the end, by the manifest (`go_on`), which also
//! says whether everything is there. Until then the directory has the note of a restore that has not ended.

use std::collections::HashMap;
use std::sync::Arc;

use platform::{Clock, Disk, OuterKey, Random};
use storage_engine::page_store::{CopiedBlock, RestoredStore};

use super::{RestoreOptions, Restored, Restoring, WrittenPages, begin, place_in, write_blocks};
use crate::error::{BackupError, Result};
use crate::known_blocks::{ChunkIndex, INDEX, read_index};
use crate::manifest::{BACKUPS, Manifest, StoredChunk, StoredObject};
use crate::object_store::ObjectStore;
use crate::progress::{Phase, Progress};

/// See the module's head.
pub struct EarlyPages {
    disk: Arc<dyn Disk>,
    store: RestoredStore,
    /// Name of the backup.
    id: String,
    /// Its chunks that are written, by name.
    chunks: HashMap<String, StoredObject>,
    /// Blocks of theirs.
    blocks: Vec<CopiedBlock>,
}

impl EarlyPages {
    /// Begins with the backup of that name, of which nothing need be there yet, in the empty `disk`. `notes` is the same directory as people read it, without
    /// encryption.
    ///
    /// # Errors
    /// `Place` when the directory is not empty; `Io`, `Pages`.
    pub fn begin((disk, notes): (&Arc<dyn Disk>, &dyn Disk), id: String) -> Result<EarlyPages> {
        begin(&**disk, notes)?;
        Ok(EarlyPages { id, ..EarlyPages::none(disk)? })
    }

    /// For a backup that is there: all is still to be written.
    pub(super) fn none(disk: &Arc<dyn Disk>) -> Result<EarlyPages> {
        let store = RestoredStore::begin(disk.clone())?;
        Ok(EarlyPages { disk: disk.clone(), store, id: String::new(), chunks: HashMap::new(), blocks: Vec::new() })
    }

    /// Name of the backup.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Writes the next chunk if it is there.
    ///
    /// # Errors
    /// As `restore`.
    pub fn step(&mut self, objects: &dyn ObjectStore, key: Option<&OuterKey>, progress: &Progress) -> Result<bool> {
        progress.begin(Phase::Pages);
        let name = format!("{BACKUPS}/{}/{INDEX}/{:08}", self.id, self.chunks.len());
        let ChunkIndex { chunk, blocks } = match read_index(objects, &name, key) {
            Err(BackupError::Missing(_)) => return Ok(false),
            index => index?,
        };
        let content = chunk.read(objects, key)?;
        progress.expect(blocks.iter().map(|block| block.address.length_bytes() as u64).sum());
        write_blocks((&chunk.name, &blocks, &content), &self.store, progress, |_| true)?;
        self.blocks.extend(blocks);
        self.chunks.insert(chunk.name.clone(), chunk);
        Ok(true)
    }

    /// Restores the rest: the backup is made. The same as `restore` with its name.
    ///
    /// # Errors
    /// As `restore`.
    pub fn go_on(
        self,
        objects: &dyn ObjectStore,
        notes: &dyn Disk,
        times: (&dyn Clock, &dyn Random),
        options: &RestoreOptions,
        progress: &Progress,
    ) -> Result<Restored> {
        let manifest = Manifest::read(objects, &self.id)?;
        let disk = self.disk.clone();
        Restoring { objects, disk: &disk, options, manifest: &manifest, progress }.run(self, notes, times)
    }

    /// So much is written.
    pub(super) fn bytes(&self) -> u64 {
        self.blocks.iter().map(|block| block.address.length_bytes() as u64).sum()
    }

    /// Whether all of a chunk is written, as the manifest has it.
    pub(super) fn has(&self, chunk: &StoredChunk) -> bool {
        self.chunks.get(&chunk.blocks.name) == Some(&chunk.blocks)
    }

    /// What is written of a table by page.
    pub(super) fn written(self, table: Vec<CopiedBlock>) -> Result<WrittenPages> {
        let mut is_written = vec![false; table.len()];
        for block in self.blocks {
            let place = place_in(&table, block);
            let lacks = || format!("its table lacks page {}, which a chunk of it has", block.page);
            let place = place.ok_or_else(|| BackupError::damaged(&format!("the backup {}", self.id), lacks()))?;
            is_written[place] = true;
        }
        Ok(WrittenPages { store: self.store, table, is_written })
    }
}
