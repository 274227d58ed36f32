//! Making a backup of a store that goes on: the server copies itself.
//!
//! Called by the command `plimsollBackup`. In this order, so that what is copied fits together:
//!
//! ```text
//! checkpoint, pinned ─▶ pages by place ─▶ rings ─▶ oplog from the mark to its end now ─▶ manifest
//! ```
//!
//! Pages are those of one checkpoint. Rings are copied while they change, as a crash would leave them; the oplog, whose end is
//! looked up last, has everything that was written into them. So the end of the oplog is the moment that is restored.

use std::collections::BTreeSet;
use std::sync::Arc;

use oplog::{Oplog, OplogPiece, OplogPosition};
use platform::{Clock, File, LongWork, OuterKey, Random, WorkBudget};
use storage_engine::page_store::{CopiedBlock, PageAddress, PageId, PinnedCheckpoint};
use transaction::{Store, StoreCopy};

use crate::error::{BackupError, Result};
use crate::known_blocks::{BEGUN, INDEX, KnownBlocks, KnownChunks, PAGES, described, encode_index, key_of};
use crate::manifest::{BACKUPS, MANIFEST, Manifest, StoredChunk, StoredObject, StoredRing, new_id};
use crate::object::{Packing, pack};
use crate::object_store::ObjectStore;
use crate::oplog_object;
use crate::page_chunk::{CHUNK_BYTES, push_row};
use crate::progress::{Pace, Phase, Progress};

use self::sink::Sink;

mod sink;

/// So much of the page file is gone through at a time.
const WINDOW_BYTES: u64 = 1 << 30;
/// Blocks between two looks at whether to end.
const BLOCKS_AT_ONCE: usize = 32;
/// Bytes of a table's object.
const TABLE_BYTES: usize = 2 << 20;

/// How much is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// Everything.
    Full,
    /// What earlier backups in the same place do not have.
    Changed,
}

/// How a backup is made.
pub struct BackupOptions {
    /// Its name, from [`new_name`](crate::new_name), for whoever is to know it before it is made.
    pub name: Option<String>,
    /// How its objects are packed.
    pub packing: Packing,
    /// Bytes a second that it reads at most.
    pub bytes_per_second: Option<u64>,
    /// How much is stored.
    pub extent: Extent,
    /// Version of the server.
    pub server: &'static str,
}

/// Makes a backup; its manifest. `is_stopped` ends it; what is stored by then is used by the next one.
///
/// # Errors
/// `Stopped`, `DiskFull`, `Store` (another one is being made), `Pages` and `Oplog` (damage), `Io`.
pub fn make(
    store: &Arc<Store>,
    objects: &Arc<dyn ObjectStore>,
    random: &dyn Random,
    options: &BackupOptions,
    progress: &Progress,
    is_stopped: &dyn Fn() -> bool,
) -> Result<Manifest> {
    let clock = store.clock().clone();
    let _long = LongWork::begin(store.foreground());
    let copy = store.begin_copy(is_stopped)?;
    let began = clock.wall_millis();
    let identity = hex::encode(copy.engine.pinned.superblock().uuid);
    let key = options.packing.key.as_ref();
    let known = match options.extent {
        Extent::Full => KnownChunks::default(),
        Extent::Changed => KnownChunks::load(&**objects, &identity, key)?,
    };
    let making = Making {
        store,
        objects,
        random,
        options,
        progress,
        is_stopped,
        pace: Pace::new(options.bytes_per_second, &*clock),
        budget: WorkBudget::new(store.foreground().clone()),
        clock: &*clock,
        sink: Sink::begin(objects, store)?,
        manifest: Manifest::begin(options.name.clone().unwrap_or_else(|| new_id(began, random)), began, options.server),
        known,
        used: BTreeSet::new(),
        table: Vec::new(),
    };
    making.run(copy, identity)
}

struct Making<'a> {
    store: &'a Arc<Store>,
    objects: &'a Arc<dyn ObjectStore>,
    random: &'a dyn Random,
    options: &'a BackupOptions,
    progress: &'a Progress,
    is_stopped: &'a dyn Fn() -> bool,
    pace: Pace,
    budget: WorkBudget,
    clock: &'a dyn Clock,
    sink: Sink,
    manifest: Manifest,
    known: KnownChunks,
    /// Chunks of earlier backups that this one needs.
    used: BTreeSet<usize>,
    /// Rows of the table that are not stored yet.
    table: Vec<u8>,
}

/// A chunk that is being filled.
#[derive(Default)]
struct Chunk {
    blocks: Vec<u8>,
    list: Vec<u8>,
    rows: Vec<CopiedBlock>,
}

impl Making<'_> {
    fn run(mut self, copy: StoreCopy, identity: String) -> Result<Manifest> {
        self.describe(&copy, identity)?;
        let StoreCopy { engine, oplog_from, hold } = copy;
        self.progress.begin(Phase::Pages);
        self.copy_pages(&engine.pinned)?;
        // Checkpoints free as ever from here on.
        drop(engine.pinned);
        self.progress.begin(Phase::Rings);
        for (number, file) in &engine.rings {
            self.copy_ring(*number, &**file)?;
        }
        self.progress.begin(Phase::Oplog);
        self.copy_oplog(oplog_from, engine.mark.oplog_end)?;
        drop(hold);
        self.progress.begin(Phase::Finishing);
        self.finish()
    }

    fn key(&self) -> Option<&OuterKey> {
        self.options.packing.key.as_ref()
    }

    /// What is known before anything is copied.
    fn describe(&mut self, copy: &StoreCopy, identity: String) -> Result<()> {
        let pinned = &copy.engine.pinned;
        let superblock = pinned.superblock();
        let (mut pages, mut bytes) = (0, 0);
        pinned.pages().for_each(|(_, address)| (pages, bytes) = (pages + 1, bytes + address.length_bytes() as u64));
        let begun = format!("{identity} {}", self.key().is_some());
        let name = format!("{}/{BEGUN}", self.manifest.folder());
        let packed = pack(&name, begun.as_bytes(), false, None, self.random)?;
        // Before anything else of it: what has no `begun` is what later backups need of one that was removed.
        self.objects.put(&name, &packed).map_err(BackupError::io(&name, "written"))?;
        self.manifest = Manifest {
            store: identity,
            checkpoint: pinned.number(),
            mark: hex::encode(pinned.mark()),
            created_millis: superblock.created_millis,
            extent_bytes: superblock.extent_bytes,
            file_bytes: pinned.file_bytes(),
            pages,
            page_bytes: bytes,
            is_encrypted: self.key().is_some(),
            oplog_from: copy.oplog_from.0,
            ..self.manifest.clone()
        };
        self.progress.expect(bytes);
        Ok(())
    }

    fn copy_pages(&mut self, pinned: &PinnedCheckpoint) -> Result<()> {
        let mut chunk = Chunk::default();
        let mut begin = 0;
        while begin < pinned.file_bytes() {
            let window = begin..begin + WINDOW_BYTES;
            let known = self.known.blocks_in(&**self.objects, &window, self.key())?;
            let blocks = pinned.blocks_in(&window);
            for portion in blocks.chunks(BLOCKS_AT_ONCE) {
                self.copy_blocks(pinned, portion, &known, &mut chunk)?;
            }
            begin = window.end;
        }
        self.store_chunk(&mut chunk)?;
        self.store_table()
    }

    fn copy_blocks(
        &mut self,
        pinned: &PinnedCheckpoint,
        blocks: &[(PageId, PageAddress)],
        known: &KnownBlocks,
        chunk: &mut Chunk,
    ) -> Result<()> {
        self.check()?;
        pinned.read_blocks(blocks, |block, bytes| {
            push_row(&mut self.table, block);
            match known.get(&key_of(block)) {
                Some(number) => {
                    self.used.insert(*number);
                    self.manifest.reused_bytes += bytes.len() as u64;
                }
                None => {
                    push_row(&mut chunk.list, block);
                    chunk.rows.push(block);
                    chunk.blocks.extend_from_slice(bytes);
                }
            }
            match chunk.blocks.len() >= CHUNK_BYTES {
                true => self.store_chunk(chunk),
                false => Ok(()),
            }
        })?;
        if let Some((_, last)) = blocks.last() {
            pinned.passed(last.offset_bytes() + last.length_bytes() as u64);
        }
        if self.table.len() >= TABLE_BYTES {
            self.store_table()?;
        }
        self.copied(blocks.iter().map(|(_, address)| address.length_bytes() as u64).sum());
        Ok(())
    }

    /// Whether to go on.
    fn check(&self) -> Result<()> {
        if (self.is_stopped)() {
            return Err(BackupError::Stopped);
        }
        match self.store.engine().is_out_of_space() {
            true => Err(BackupError::DiskFull),
            false => Ok(()),
        }
    }

    /// So much has been read: rests for others, and for the rate.
    fn copied(&mut self, bytes: u64) {
        self.progress.done(bytes);
        self.give_way();
        self.pace.copied(bytes, self.clock, self.is_stopped);
    }

    fn give_way(&mut self) {
        let engine = self.store.engine();
        let _ = self.budget.step(self.clock, || engine.pace_long());
    }

    /// Hands objects over. To wait until those who store them, and give way themselves, take them is no work.
    fn hand_over(&mut self, together: Vec<(String, Vec<u8>)>) -> Result<()> {
        self.give_way();
        let taken = self.sink.put(together);
        self.budget.begin_stretch(self.clock);
        taken
    }

    /// Packs an object.
    fn packed(&mut self, name: &str, content: &[u8], is_compressed: bool) -> Result<(StoredObject, Vec<u8>)> {
        let packed = pack(name, content, is_compressed, self.key(), self.random)?;
        let stored = StoredObject::of(name, &packed);
        self.manifest.stored_bytes += stored.bytes;
        Ok((stored, packed))
    }

    /// Packs an object and hands it to the threads that store them.
    fn put(&mut self, name: String, content: &[u8], is_compressed: bool) -> Result<StoredObject> {
        let (stored, packed) = self.packed(&name, content, is_compressed)?;
        self.hand_over(vec![(name, packed)])?;
        Ok(stored)
    }

    fn store_chunk(&mut self, chunk: &mut Chunk) -> Result<()> {
        if chunk.rows.is_empty() {
            return Ok(());
        }
        let Chunk { blocks, list, rows } = std::mem::take(chunk);
        let (folder, number) = (self.manifest.folder(), self.manifest.chunks.len());
        let name = format!("{folder}/{PAGES}/{number:08}");
        let (stored, packed) = self.packed(&name, &blocks, self.options.packing.compresses_pages)?;
        // The index is stored behind its chunk: where it is, the chunk is whole.
        let index = format!("{folder}/{INDEX}/{number:08}");
        let (_, packed_index) = self.packed(&index, &encode_index(&stored, &list)?, true)?;
        self.hand_over(vec![(name, packed), (index.clone(), packed_index)])?;
        self.manifest.chunks.extend(described(stored, index, &rows));
        Ok(())
    }

    fn store_table(&mut self) -> Result<()> {
        let table = std::mem::take(&mut self.table);
        if !table.is_empty() {
            let name = format!("{}/table/{:08}", self.manifest.folder(), self.manifest.table.len());
            let stored = self.put(name, &table, true)?;
            self.manifest.table.push(stored);
        }
        Ok(())
    }

    fn copy_ring(&mut self, number: u64, file: &dyn File) -> Result<()> {
        let name = format!("{}/rings/{number:020}", self.manifest.folder());
        let failed = || BackupError::io(&name, "read from the server's directory");
        let length = file.length().map_err(failed())?;
        self.progress.expect(length);
        let mut ring = StoredRing { number, bytes: length, pieces: Vec::new() };
        let (mut offset, mut bytes) = (0, vec![0; CHUNK_BYTES.min(length as usize)]);
        while offset < length {
            self.check()?;
            let mut filled = 0;
            while filled < bytes.len() {
                match file.read_unverified_at(&mut bytes[filled..], offset + filled as u64).map_err(failed())? {
                    0 => break,
                    count => filled += count,
                }
            }
            let piece = &bytes[..filled];
            if piece.iter().any(|byte| *byte != 0) {
                let stored = self.put(format!("{name}-{:08}", ring.pieces.len()), piece, true)?;
                ring.pieces.push((offset, stored));
            }
            self.copied(filled as u64);
            // Where the file was cut meanwhile there is nothing that counts.
            offset += bytes.len() as u64;
        }
        self.manifest.rings.push(ring);
        Ok(())
    }

    fn copy_oplog(&mut self, from: OplogPosition, mark_end: u64) -> Result<()> {
        let oplog = self.store.oplog();
        // Whatever is in the rings was logged before this.
        let end = OplogPosition(oplog.end_position().0.max(mark_end));
        self.store.wait_secured(end)?;
        let mut position = oplog.segment_of(from)?;
        self.progress.expect(end.0.saturating_sub(position.0));
        while position < end || self.manifest.oplog.is_empty() {
            self.check()?;
            let piece = match self.store.copy_secured(position, CHUNK_BYTES)? {
                Some(piece) => piece,
                None => self.nothing_logged(position)?,
            };
            self.store_piece(&piece)?;
            position = piece.end();
        }
        self.manifest.oplog_end = position.0;
        Ok(())
    }

    /// The segment that the log goes on in, when it has no entry yet.
    fn nothing_logged(&self, position: OplogPosition) -> Result<OplogPiece> {
        let segments = self.store.oplog().segments()?;
        let segment = segments.into_iter().rfind(|segment| segment.start <= position);
        let segment = segment.ok_or_else(|| BackupError::Unreachable(format!("the oplog has no {position}")))?;
        let last_timestamp = segment.previous_timestamp;
        Ok(OplogPiece { segment, start: position, bytes: Vec::new(), last_timestamp })
    }

    fn store_piece(&mut self, piece: &OplogPiece) -> Result<()> {
        let part = oplog_object::name_of(piece.segment.start.0, piece.start.0, piece.end().0);
        let name = format!("{}/oplog/{part}", self.manifest.folder());
        let stored = self.put(name, &oplog_object::encode(piece), true)?;
        self.manifest.oplog.push(stored);
        self.manifest.last_timestamp = piece.last_timestamp.0;
        self.copied(piece.bytes.len() as u64);
        Ok(())
    }

    fn finish(mut self) -> Result<Manifest> {
        let used = std::mem::take(&mut self.used);
        let chunks = used.into_iter().filter_map(|number| self.known.chunks.get(number).cloned());
        let reused: Vec<StoredChunk> = chunks.collect();
        self.manifest.chunks.extend(reused);
        self.manifest.ended_millis = self.clock.wall_millis();
        // Everything that it names is stored.
        self.sink.finish()?;
        let name = format!("{BACKUPS}/{}/{MANIFEST}", self.manifest.id);
        let content = serde_json::to_vec(&self.manifest).map_err(|error| BackupError::damaged(&name, error))?;
        let packed = pack(&name, &content, false, None, self.random)?;
        self.objects.put(&name, &packed).map_err(BackupError::io(&name, "written"))?;
        Ok(self.manifest)
    }
}
