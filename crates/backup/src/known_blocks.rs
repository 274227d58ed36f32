//! Blocks that earlier backups of the same store have, so that the next one need not store them again.
//!
//! Called by `making`, window by window of the page file. A block of the same page, place, epoch and checksum is the same block:
//! an extent may have been used for something else since, but then what is there was first written in a later epoch. The
//! checksum is for two copies of one directory that went on separately. An unfinished backup's blocks count, too: that is how
//! a backup goes on after a kill.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use platform::OuterKey;
use storage_engine::page_store::{CopiedBlock, PageId};

use crate::error::{BackupError, Result};
use crate::manifest::{BACKUPS, Manifest, StoredChunk, StoredObject};
use crate::object::unpack;
use crate::object_store::ObjectStore;
use crate::page_chunk::rows;
use crate::read_ahead::in_order;

/// Where the chunks of an unfinished backup are, and what was copied for it.
pub(crate) const PAGES: &str = "pages";
pub(crate) const INDEX: &str = "index";
/// Says of which store a backup is, before anything else of it is stored.
pub(crate) const BEGUN: &str = "begun";

/// All chunks that may be used again.
#[derive(Default)]
pub(crate) struct KnownChunks {
    pub(crate) chunks: Vec<StoredChunk>,
    names: HashSet<String>,
}

/// The blocks in a window of the page file: in which chunk each is.
pub(crate) type KnownBlocks = HashMap<BlockKey, usize>;

/// Page, place, epoch and checksum.
type BlockKey = (PageId, u64, u64, u32);

impl KnownChunks {
    /// Of all backups of `of_store`, finished or not, that are encrypted or not as the next one is.
    pub(crate) fn load(store: &dyn ObjectStore, of_store: &str, key: Option<&OuterKey>) -> Result<KnownChunks> {
        let (mut known, mut sizes) = (KnownChunks::default(), Sizes::default());
        for id in store.list(BACKUPS).map_err(BackupError::io(BACKUPS, "listed"))? {
            match Manifest::read(store, &id) {
                Ok(manifest) if manifest.store == of_store && manifest.is_encrypted == key.is_some() => {
                    known.add(readable(store, manifest.chunks, key), &mut sizes, store)?;
                }
                Ok(_) => {}
                Err(BackupError::Missing(_)) => known.add(unfinished(store, &id, of_store, key)?, &mut sizes, store)?,
                // Not built upon.
                Err(error) if error.is_unreadable() => tracing::warn!(%error, "a backup cannot be read"),
                Err(error) => return Err(error),
            }
        }
        Ok(known)
    }

    /// One that is gone or cut is not built upon.
    fn add(&mut self, chunks: Vec<StoredChunk>, sizes: &mut Sizes, store: &dyn ObjectStore) -> Result<()> {
        for chunk in chunks {
            let StoredObject { name, bytes, .. } = &chunk.blocks;
            if self.names.contains(name) {
                continue;
            }
            if sizes.of(name, store)? != Some(*bytes) {
                tracing::warn!(name, "a file of an earlier backup is missing or damaged");
                continue;
            }
            self.names.insert(name.clone());
            self.chunks.push(chunk);
        }
        Ok(())
    }

    /// Those of the blocks in a range of the page file.
    pub(crate) fn blocks_in(
        &self,
        store: &dyn ObjectStore,
        range: &Range<u64>,
        key: Option<&OuterKey>,
    ) -> Result<KnownBlocks> {
        let mut known = KnownBlocks::new();
        let touches = |chunk: &StoredChunk| chunk.last >= range.start && chunk.first < range.end;
        let numbers: Vec<usize> = (0..self.chunks.len()).filter(|number| touches(&self.chunks[*number])).collect();
        let read = |number: &usize| {
            let chunk = &self.chunks[*number];
            match read_index(store, &chunk.index, key) {
                Ok(index) => Ok(index.blocks),
                Err(error @ (BackupError::Io { .. } | BackupError::Key(_))) => Err(error),
                _ => {
                    tracing::warn!(name = chunk.blocks.name, "a file of an earlier backup is missing or damaged");
                    Ok(Vec::new())
                }
            }
        };
        in_order(&numbers, store.side_by_side(), read, |number, mut blocks| {
            blocks.retain(|block| range.contains(&block.address.offset_bytes()));
            known.extend(blocks.into_iter().map(|block| (key_of(block), *number)));
            Ok(())
        })?;
        Ok(known)
    }
}

/// How large objects are: by folders, each of which is listed once.
#[derive(Default)]
struct Sizes {
    folders: HashMap<String, HashMap<String, u64>>,
}

impl Sizes {
    /// `None`: there is no such object.
    fn of(&mut self, name: &str, store: &dyn ObjectStore) -> Result<Option<u64>> {
        let Some((folder, own)) = name.rsplit_once('/') else { return Ok(None) };
        if !self.folders.contains_key(folder) {
            let listed = store.sizes(folder).map_err(BackupError::io(folder, "listed"))?;
            self.folders.insert(folder.to_owned(), listed.into_iter().collect());
        }
        Ok(self.folders.get(folder).and_then(|sizes| sizes.get(own)).copied())
    }
}

pub(crate) fn key_of(block: CopiedBlock) -> BlockKey {
    (block.page, block.address.place(), block.epoch, block.checksum)
}

/// What the index of a chunk says.
pub(crate) struct ChunkIndex {
    pub(crate) chunk: StoredObject,
    pub(crate) blocks: Vec<CopiedBlock>,
}

/// An index begins with the length of the chunk's description (4 bytes) and that, as JSON.
pub(crate) fn encode_index(chunk: &StoredObject, list: &[u8]) -> Result<Vec<u8>> {
    let described = serde_json::to_vec(chunk).map_err(|error| BackupError::damaged(&chunk.name, error))?;
    let mut content = (described.len() as u32).to_le_bytes().to_vec();
    content.extend_from_slice(&described);
    content.extend_from_slice(list);
    Ok(content)
}

pub(crate) fn read_index(store: &dyn ObjectStore, name: &str, key: Option<&OuterKey>) -> Result<ChunkIndex> {
    let packed = store.get(name).map_err(BackupError::io(name, "read"))?;
    let content = unpack(name, packed, key)?;
    let damaged = || BackupError::damaged(name, "it is no index of a chunk");
    let (length, rest) = content.split_first_chunk::<4>().ok_or_else(damaged)?;
    let (described, list) = rest.split_at_checked(u32::from_le_bytes(*length) as usize).ok_or_else(damaged)?;
    let chunk = serde_json::from_slice(described).map_err(|_| damaged())?;
    Ok(ChunkIndex { chunk, blocks: rows(name, list)? })
}

/// None of the chunks if they are encrypted with another key.
fn readable(store: &dyn ObjectStore, chunks: Vec<StoredChunk>, key: Option<&OuterKey>) -> Vec<StoredChunk> {
    let index = chunks.first().map(|chunk| read_index(store, &chunk.index, key));
    if matches!(index, Some(Err(BackupError::Key(_)))) { Vec::new() } else { chunks }
}

/// The whole chunks of a backup that has no manifest: those that have an index.
fn unfinished(store: &dyn ObjectStore, id: &str, of_store: &str, key: Option<&OuterKey>) -> Result<Vec<StoredChunk>> {
    let begun = format!("{BACKUPS}/{id}/{BEGUN}");
    let says = store.get(&begun).ok().and_then(|packed| unpack(&begun, packed, None).ok());
    let expected = format!("{of_store} {}", key.is_some());
    if says.is_none_or(|says| says != expected.as_bytes()) {
        return Ok(Vec::new());
    }
    let folder = format!("{BACKUPS}/{id}/{INDEX}");
    let mut chunks = Vec::new();
    for part in store.list(&folder).map_err(BackupError::io(&folder, "listed"))? {
        let name = format!("{folder}/{part}");
        match read_index(store, &name, key) {
            Ok(ChunkIndex { chunk, blocks }) => chunks.extend(described(chunk, name, &blocks)),
            Err(BackupError::Key(_)) => {}
            Err(error) if error.is_unreadable() => tracing::warn!(%error, "a backup cannot be read"),
            Err(error) => return Err(error),
        }
    }
    Ok(chunks)
}

/// A chunk with its range; `None`: it has no blocks.
pub(crate) fn described(blocks: StoredObject, index: String, list: &[CopiedBlock]) -> Option<StoredChunk> {
    let offsets = || list.iter().map(|block| block.address.offset_bytes());
    Some(StoredChunk { blocks, index, first: offsets().min()?, last: offsets().max()? })
}
