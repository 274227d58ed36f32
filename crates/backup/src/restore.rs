//! A new data directory from a backup and the archive.
//!
//! Called by `plimsoll restore` and by `plimsoll backup verify`. Pages go where they were, the rings' files and the oplog are put
//! together again, and the oplog ends where it is wanted: opening the directory replays it, as after a crash. While it is
//! written the directory has a note that says so, and a server does not open it. The finished one has a note that says what it is.
//! Pages can be written while the backup is still being made (`early`).

use std::path::Path;
use std::sync::Arc;

use oplog::{OplogPosition, RestoredOplog, check_piece};
use platform::{Clock, Disk, OpenMode, OuterKey, Random, Timestamp};
use serde::{Deserialize, Serialize};
use storage_engine::page_store::{CopiedBlock, PageAddress, RestoredIdentity, RestoredStore, check_copied_block};

use crate::archive;
use crate::error::{BackupError, Result};
use crate::keeping;
use crate::known_blocks::{key_of, read_index};
use crate::manifest::{Manifest, StoredChunk, StoredRing, time_of};
use crate::object::unpack;
use crate::object_store::ObjectStore;
use crate::oplog_object;
use crate::page_chunk::rows;
use crate::progress::{Phase, Progress};
use crate::reach::Reach;
use crate::read_ahead::in_order;
use crate::target::{Target, line_of};

pub use self::early::EarlyPages;
pub use self::reading_back::read_back;

mod early;
mod reading_back;

/// Says that a directory was restored, from what and up to when.
pub const RESTORED_NOTE: &str = "restored.json";
/// Says that a restore into the directory has not ended.
pub const UNFINISHED_NOTE: &str = "restore.unfinished";
/// A folder with what was in the directory before, until the restore has ended.
pub const SET_ASIDE: &str = "aside";
/// What may be in a directory that is restored into.
pub const NOT_IN_THE_WAY: &[&str] =
    &["plimsoll.lock", "encryption.keys", "encryption.keys.new", UNFINISHED_NOTE, SET_ASIDE];
/// Threads that read and check what another one writes: with one, the disk would rest while a chunk is checked.
const READERS_MIN: usize = 2;
/// What an unfinished restore has made.
const OF_RESTORE: &[&str] = &["pages.plimsoll", "pages.plimsoll.new", STANDING_FILE, RESTORED_NOTE];
/// Of a member of a replica set: how far it has read the shared log.
pub const STANDING_FILE: &str = "shared-log-standing";
const OPLOG: &str = "oplog";
const FOLDERS_OF_RESTORE: &[&str] = &[OPLOG, "rings", "page_table"];

/// What is restored.
pub struct RestoreOptions {
    /// From which backup; `None`: the newest that ends before the target.
    pub backup: Option<String>,
    /// Up to when.
    pub target: Target,
    /// The key that the objects were encrypted with.
    pub key: Option<OuterKey>,
    /// Where from, for the note.
    pub from: String,
    /// Where a member of a replica set reads on in the shared log, as the file for that has it: there before the directory counts as whole.
    pub standing: Option<Vec<u8>>,
}

/// What was restored; it is also what the note says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Restored {
    /// Where from.
    pub from: String,
    /// Which backup.
    pub backup: String,
    /// When that began.
    pub backup_began: String,
    /// Identity of the store that was copied, and the new one.
    pub original_store: String,
    /// See `original_store`.
    pub store: String,
    /// The last entry of the oplog, as `T:I` and as a time.
    pub until_timestamp: String,
    /// See `until_timestamp`.
    pub until: String,
    /// The first operation that is left out, as a line; `None`: there was none behind what was restored.
    pub left_out: Option<String>,
    /// When it was restored.
    pub restored: String,
}

/// Restores into the empty `disk`. `notes` is the same directory as people read it, without encryption.
///
/// # Errors
/// `Unreachable` (also: the moment is behind what there is), `Missing`, `Damaged`, `Key`, `Io`, `Pages`, `Oplog`; `Place` when the directory is not empty.
pub fn restore(
    objects: &dyn ObjectStore,
    (disk, notes): (&Arc<dyn Disk>, &dyn Disk),
    (clock, random): (&dyn Clock, &dyn Random),
    options: &RestoreOptions,
    progress: &Progress,
) -> Result<Restored> {
    let manifest = choose(objects, options)?;
    Reach::of(objects, &manifest, options.key.as_ref())?.check(&options.target)?;
    begin(&**disk, notes)?;
    let restoring = Restoring { objects, disk, options, manifest: &manifest, progress };
    restoring.run(EarlyPages::none(disk)?, notes, (clock, random))
}

/// Removes what a restore that was begun and is not to be gone on with has written: the directory is empty again.
///
/// # Errors
/// `Io`; `Place` when something else is in it.
pub fn undo(disk: &dyn Disk, notes: &dyn Disk) -> Result<()> {
    begin(disk, notes)?;
    remove_unfinished_note(notes)
}

fn remove_unfinished_note(notes: &dyn Disk) -> Result<()> {
    remove(notes, Path::new(UNFINISHED_NOTE))?;
    notes.sync_directory(Path::new("")).map_err(BackupError::io(UNFINISHED_NOTE, "removed"))
}

/// The backup to begin with.
fn choose(objects: &dyn ObjectStore, options: &RestoreOptions) -> Result<Manifest> {
    if let Some(id) = &options.backup {
        let manifest = Manifest::read(objects, id)?;
        if options.target.admits(&manifest) {
            return Ok(manifest);
        }
        let (last, end) = (manifest.last_timestamp(), time_of(manifest.last_timestamp().seconds_millis()));
        return Err(BackupError::Unreachable(format!(
            "the backup {id} ends after that moment, at {}:{} ({end}): choose an earlier one",
            last.seconds(),
            last.increment()
        )));
    }
    let (whole, others) = keeping::list(objects)?;
    others.iter().for_each(|(id, reason)| tracing::warn!(id, reason, "a backup cannot be restored"));
    if whole.is_empty() {
        return Err(BackupError::Unreachable("there is no backup".to_owned()));
    }
    let fitting = whole.into_iter().rfind(|manifest| options.target.admits(manifest));
    fitting.ok_or_else(|| BackupError::Unreachable("all backups end after that moment".to_owned()))
}

/// Looks at the directory, removes what an unfinished restore left in it, and writes the note.
fn begin(disk: &dyn Disk, notes: &dyn Disk) -> Result<()> {
    let failed = |what: &str| BackupError::io(what, "looked at");
    let names = notes.list(Path::new("")).map_err(failed("the new directory"))?;
    let is_again = names.iter().any(|name| name == UNFINISHED_NOTE);
    let is_ours = |name: &str| is_again && (OF_RESTORE.contains(&name) || FOLDERS_OF_RESTORE.contains(&name));
    let other = names.iter().find(|name| !NOT_IN_THE_WAY.contains(&name.as_str()) && !is_ours(name));
    if let Some(name) = other {
        return Err(BackupError::Place(format!("the directory to restore into is not empty: it has {name}")));
    }
    write_note(notes, UNFINISHED_NOTE, b"A restore into this directory has not ended. Run it again.\n")?;
    for name in OF_RESTORE {
        remove(disk, Path::new(name))?;
    }
    for folder in FOLDERS_OF_RESTORE.iter().map(Path::new) {
        if disk.exists(folder).map_err(failed("the new directory"))? {
            let names = disk.list(folder).map_err(failed("the new directory"))?;
            names.iter().try_for_each(|name| remove(disk, &folder.join(name)))?;
        }
    }
    Ok(())
}

fn write_note(notes: &dyn Disk, name: &str, text: &[u8]) -> Result<()> {
    let write = || {
        let file = notes.open(Path::new(name), OpenMode::Create)?;
        file.set_length(0)?;
        file.write_all_at(text, 0)?;
        file.sync_data()?;
        notes.sync_directory(Path::new(""))
    };
    write().map_err(BackupError::io(name, "written"))
}

fn remove(disk: &dyn Disk, path: &Path) -> Result<()> {
    match disk.remove(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(BackupError::io(&path.display().to_string(), "removed")(error))
        }
        _ => Ok(()),
    }
}

struct Restoring<'a> {
    objects: &'a dyn ObjectStore,
    disk: &'a Arc<dyn Disk>,
    options: &'a RestoreOptions,
    manifest: &'a Manifest,
    progress: &'a Progress,
}

/// Pages whose blocks are written, in a file that has no name yet.
struct WrittenPages {
    store: RestoredStore,
    /// By page.
    table: Vec<CopiedBlock>,
    is_written: Vec<bool>,
}

/// The place of a block in a table by page.
fn place_in(table: &[CopiedBlock], block: CopiedBlock) -> Option<usize> {
    let place = table.binary_search_by_key(&block.page, |row| row.page).ok()?;
    (key_of(table[place]) == key_of(block)).then_some(place)
}

/// Where the restored oplog ends.
struct OplogEnd {
    timestamp: Timestamp,
    left_out: Option<String>,
}

impl Restoring<'_> {
    fn key(&self) -> Option<&OuterKey> {
        self.options.key.as_ref()
    }

    fn run(&self, early: EarlyPages, notes: &dyn Disk, (clock, random): (&dyn Clock, &dyn Random)) -> Result<Restored> {
        let (manifest, progress) = (self.manifest, self.progress);
        let mut uuid = [0; 16];
        random.fill(&mut uuid);
        progress.expect(manifest.page_bytes.saturating_sub(early.bytes()));
        let pages = self.pages(early)?;
        progress.begin(Phase::Rings);
        manifest.rings.iter().try_for_each(|ring| self.ring(ring))?;
        progress.begin(Phase::Oplog);
        let end = self.oplog()?;
        progress.begin(Phase::Finishing);
        self.finish(pages, uuid)?;
        let restored = Restored {
            from: self.options.from.clone(),
            backup: manifest.id.clone(),
            backup_began: time_of(manifest.began_millis),
            original_store: manifest.store.clone(),
            store: hex::encode(uuid),
            until_timestamp: format!("{}:{}", end.timestamp.seconds(), end.timestamp.increment()),
            until: time_of(end.timestamp.seconds_millis()),
            left_out: end.left_out,
            restored: time_of(clock.wall_millis()),
        };
        let note = serde_json::to_vec_pretty(&restored).map_err(|error| BackupError::damaged(RESTORED_NOTE, error))?;
        if let Some(standing) = &self.options.standing {
            write_note(&**self.disk, STANDING_FILE, standing)?;
        }
        write_note(notes, RESTORED_NOTE, &note)?;
        remove_unfinished_note(notes)?;
        Ok(restored)
    }

    fn pages(&self, early: EarlyPages) -> Result<WrittenPages> {
        self.progress.begin(Phase::Pages);
        let table = page_table(self.objects, self.manifest, self.key())?;
        let left: Vec<&StoredChunk> = self.manifest.chunks.iter().filter(|chunk| !early.has(chunk)).collect();
        let mut pages = early.written(table)?;
        let read = |chunk: &&StoredChunk| {
            let index = read_index(self.objects, &chunk.index, self.key())?;
            Ok((index.blocks, chunk.blocks.read(self.objects, self.key())?))
        };
        in_order(&left, self.objects.side_by_side().max(READERS_MIN), read, |chunk, (blocks, content)| {
            self.chunk(chunk, &blocks, &content, &mut pages)
        })?;
        lacking(self.manifest, &pages.table, &pages.is_written)?;
        Ok(pages)
    }

    /// Writes those of a chunk's blocks that are the backup's.
    fn chunk(
        &self,
        chunk: &StoredChunk,
        blocks: &[CopiedBlock],
        content: &[u8],
        pages: &mut WrittenPages,
    ) -> Result<()> {
        let WrittenPages { store, table, is_written } = pages;
        let wants =
            |block: CopiedBlock| place_in(table, block).is_some_and(|at| !std::mem::replace(&mut is_written[at], true));
        write_blocks((&chunk.blocks.name, blocks, content), store, self.progress, wants)
    }

    fn ring(&self, ring: &StoredRing) -> Result<()> {
        let path = storage_engine::ring_file(ring.number);
        let name = path.display().to_string();
        let failed = || BackupError::io(&name, "written");
        if let Some(folder) = path.parent() {
            self.disk.create_directory(folder).map_err(failed())?;
        }
        let file = self.disk.open(&path, OpenMode::Create).map_err(failed())?;
        for (offset, piece) in &ring.pieces {
            file.write_all_at(&piece.read(self.objects, self.key())?, *offset).map_err(failed())?;
        }
        if file.length().map_err(failed())? < ring.bytes {
            file.set_length(ring.bytes).map_err(failed())?;
        }
        file.sync_data().map_err(failed())?;
        path.parent().map_or(Ok(()), |folder| self.disk.sync_directory(folder)).map_err(failed())
    }

    /// The backup's own oplog, then what the archive has behind it.
    fn oplog(&self) -> Result<OplogEnd> {
        let restored = RestoredOplog::begin(self.disk.clone(), Path::new(OPLOG))?;
        let mut end = OplogEnd { timestamp: Timestamp::MIN, left_out: None };
        let mut position = None;
        for object in &self.manifest.oplog {
            let content = object.read(self.objects, self.key())?;
            position = self.piece(&object.name, &content, position, &restored, &mut end, &Target::Newest)?;
        }
        if position.unwrap_or_default().0 < self.manifest.oplog_end {
            let reason = format!("its oplog ends before {}", self.manifest.oplog_end);
            return Err(BackupError::damaged(&format!("the backup {}", self.manifest.id), reason));
        }
        let folder = archive::folder_of(&self.manifest.store);
        let pieces = archive::list(self.objects, &folder)?;
        let archived_end = pieces.iter().map(|(_, _, end)| *end).max().unwrap_or(0);
        let goes_on = |at: &OplogPosition, end: &OplogEnd| {
            at.0 < archived_end && end.left_out.is_none() && !self.options.target.is_reached(end.timestamp)
        };
        while let Some(at) = position.filter(|at| goes_on(at, &end)) {
            let next =
                pieces.iter().filter(|(_, start, end)| *start <= at.0 && at.0 < *end).max_by_key(|piece| piece.2);
            let Some((segment, start, piece_end)) = next else {
                return Err(gap(&folder, at, &pieces));
            };
            let name = format!("{folder}/{}", oplog_object::name_of(*segment, *start, *piece_end));
            let packed = self.objects.get(&name).map_err(BackupError::io(&name, "read"))?;
            let content = unpack(&name, packed, self.key())?;
            position = self.piece(&name, &content, position, &restored, &mut end, &self.options.target)?;
        }
        restored.finish()?;
        match (&self.options.target, &end.left_out) {
            (Target::BeforeOperation(pattern), None) => Err(BackupError::Unreachable(format!(
                "no operation behind the backup {} has {pattern:?} in it",
                self.manifest.id
            ))),
            _ => Ok(end),
        }
    }

    /// Writes what of a piece is behind `from` and before `target`; where it ends.
    fn piece(
        &self,
        name: &str,
        content: &[u8],
        from: Option<OplogPosition>,
        restored: &RestoredOplog,
        end: &mut OplogEnd,
        target: &Target,
    ) -> Result<Option<OplogPosition>> {
        let piece = oplog_object::decode(name, content)?;
        let from = from.unwrap_or(piece.start).max(piece.start);
        let mut visit = |entry: &oplog::OplogEntry<'_>| {
            if entry.position >= from && target.ends_before(entry) {
                end.left_out = Some(line_of(entry));
                return false;
            }
            end.timestamp = end.timestamp.max(entry.timestamp);
            true
        };
        let damaged = |at: OplogPosition| BackupError::damaged(name, format!("the entry at {at} is not whole"));
        let wanted = check_piece(&piece.bytes, piece.start, &mut visit).map_err(damaged)?;
        restored.write(piece.segment, piece.start, &piece.bytes[..wanted])?;
        if piece.bytes.is_empty() {
            end.timestamp = end.timestamp.max(piece.segment.previous_timestamp);
        }
        self.progress.done(wanted as u64);
        Ok(Some(OplogPosition(piece.start.0 + wanted as u64)))
    }

    fn finish(&self, pages: WrittenPages, uuid: [u8; 16]) -> Result<()> {
        let manifest = self.manifest;
        let mark = hex::decode(&manifest.mark).map_err(|error| BackupError::damaged(&manifest.id, error))?;
        let identity = RestoredIdentity {
            uuid,
            created_millis: manifest.created_millis,
            extent_bytes: manifest.extent_bytes,
            checkpoint: manifest.checkpoint,
            file_bytes: manifest.file_bytes,
        };
        let addresses = pages.table.iter().map(|block| (block.page, block.address));
        Ok(pages.store.finish(identity, &mark, addresses)?)
    }
}

/// The archive lacks what comes behind `at`.
fn gap(folder: &str, at: OplogPosition, pieces: &[(u64, u64, u64)]) -> BackupError {
    let next = pieces.iter().map(|(_, start, _)| *start).filter(|start| *start > at.0).min().unwrap_or_default();
    BackupError::Missing(format!(
        "the oplog from position {at} to {next}, which should be in {folder}: a piece of the archive"
    ))
}

/// Checks those of a chunk's blocks that are wanted, and writes them where they were.
fn write_blocks(
    (name, blocks, content): (&str, &[CopiedBlock], &[u8]),
    store: &RestoredStore,
    progress: &Progress,
    wants: impl FnMut(CopiedBlock) -> bool,
) -> Result<()> {
    let mut run = Run::default();
    check_blocks((name, blocks, content), wants, |block, at, length| {
        run.add(block.address, at, content, store)?;
        progress.done(length as u64);
        Ok(())
    })?;
    run.write(content, store)
}

/// The blocks of a backup, by page.
fn page_table(objects: &dyn ObjectStore, manifest: &Manifest, key: Option<&OuterKey>) -> Result<Vec<CopiedBlock>> {
    let mut table = Vec::new();
    for object in &manifest.table {
        table.append(&mut rows(&object.name, &object.read(objects, key)?)?);
    }
    table.sort_unstable_by_key(|block| block.page);
    Ok(table)
}

/// Whether the chunks have everything that the table has.
fn lacking(manifest: &Manifest, table: &[CopiedBlock], is_there: &[bool]) -> Result<()> {
    let lacks = || is_there.iter().zip(table).filter(|(is_there, _)| !**is_there);
    let Some((_, first)) = lacks().next() else { return Ok(()) };
    let reason = format!("its chunks lack {} pages, the first is {}", lacks().count(), first.page);
    Err(BackupError::damaged(&format!("the backup {}", manifest.id), reason))
}

/// Checks those of a chunk's blocks that are wanted; `take` gets each, with its place in the chunk and its length.
fn check_blocks(
    (name, blocks, content): (&str, &[CopiedBlock], &[u8]),
    mut wants: impl FnMut(CopiedBlock) -> bool,
    mut take: impl FnMut(CopiedBlock, usize, usize) -> Result<()>,
) -> Result<()> {
    let mut at = 0;
    for block in blocks.iter().copied() {
        let end = at + block.address.length_bytes();
        let bytes = content.get(at..end);
        let bytes = bytes.ok_or_else(|| BackupError::damaged(name, "it is shorter than its index says"))?;
        if wants(block) {
            let found = check_copied_block(block.page, block.address, bytes)?;
            if key_of(found) != key_of(block) {
                return Err(BackupError::damaged(name, format!("page {} is another", block.page)));
            }
            take(block, at, bytes.len())?;
        }
        at = end;
    }
    Ok(())
}

/// Blocks that lie one behind the other in the chunk and in the page file.
#[derive(Default)]
struct Run {
    /// Offset in the page file, begin and end in the chunk.
    place: Option<(u64, usize, usize)>,
}

impl Run {
    fn add(&mut self, address: PageAddress, at: usize, content: &[u8], store: &RestoredStore) -> Result<()> {
        let length = address.length_bytes();
        match &mut self.place {
            Some((offset, begin, end)) if *end == at && *offset + (*end - *begin) as u64 == address.offset_bytes() => {
                *end += length;
            }
            _ => {
                self.write(content, store)?;
                self.place = Some((address.offset_bytes(), at, at + length));
            }
        }
        Ok(())
    }

    fn write(&mut self, content: &[u8], store: &RestoredStore) -> Result<()> {
        match self.place.take() {
            Some((offset, begin, end)) => Ok(store.write(&content[begin..end], offset)?),
            None => Ok(()),
        }
    }
}
