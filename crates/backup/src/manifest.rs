//! What a backup consists of. Its manifest is written last: a backup without one is unfinished, and only the next backup
//! uses what is there of it.
//!
//! Written by `making`, read by `restore` and `keeping`. It is not encrypted, so that backups can be listed and removed without a
//! key; it says sizes, times and checksums.

use std::fmt::Write;

use platform::Timestamp;
use serde::{Deserialize, Serialize};

use crate::error::{BackupError, Result};
use crate::object::unpack;
use crate::object_store::ObjectStore;

/// Where backups are.
pub(crate) const BACKUPS: &str = "backups";
/// A backup's manifest, in its folder.
pub(crate) const MANIFEST: &str = "manifest";
const VERSION: u32 = 1;

/// An object of a backup.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StoredObject {
    /// Its whole name: it may be in another backup's folder.
    pub(crate) name: String,
    /// Its size as it is stored.
    pub(crate) bytes: u64,
    /// CRC-32C of that.
    pub(crate) checksum: u32,
}

impl StoredObject {
    pub(crate) fn of(name: &str, packed: &[u8]) -> StoredObject {
        StoredObject { name: name.to_owned(), bytes: packed.len() as u64, checksum: crc32c::crc32c(packed) }
    }

    /// Reads it and checks it; its content.
    pub(crate) fn read(&self, store: &dyn ObjectStore, key: Option<&platform::OuterKey>) -> Result<Vec<u8>> {
        let packed = store.get(&self.name).map_err(BackupError::io(&self.name, "read"))?;
        if packed.len() as u64 != self.bytes {
            let reason = format!("it has {} bytes instead of {}", packed.len(), self.bytes);
            return Err(BackupError::damaged(&self.name, reason));
        }
        if crc32c::crc32c(&packed) != self.checksum {
            return Err(BackupError::damaged(&self.name, "its checksum is not the one in the manifest"));
        }
        unpack(&self.name, packed, key)
    }
}

/// Blocks of pages, and where in the page file they lie.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StoredChunk {
    pub(crate) blocks: StoredObject,
    /// Says which blocks.
    pub(crate) index: String,
    /// Offset of the first block in the page file, and of the last.
    pub(crate) first: u64,
    pub(crate) last: u64,
}

/// The file of a ring.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StoredRing {
    pub(crate) number: u64,
    pub(crate) bytes: u64,
    /// Pieces with their offsets; what is between them is zeros.
    pub(crate) pieces: Vec<(u64, StoredObject)>,
}

/// See the module's head.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    pub(crate) version: u32,
    /// Its name, which begins with the time.
    pub id: String,
    /// Identity of the store that was copied.
    pub store: String,
    /// Version of the server.
    pub server: String,
    /// When the copying began, in milliseconds since 1970.
    pub began_millis: i64,
    /// And ended.
    pub ended_millis: i64,
    /// Number of the checkpoint.
    pub checkpoint: u64,
    pub(crate) mark: String,
    pub(crate) created_millis: i64,
    pub(crate) extent_bytes: u32,
    pub(crate) file_bytes: u64,
    /// Pages in it.
    pub pages: u64,
    /// Bytes of their blocks.
    pub page_bytes: u64,
    /// Bytes of blocks that earlier backups had already.
    pub reused_bytes: u64,
    /// Bytes that were stored for it.
    pub stored_bytes: u64,
    /// Whether a key is needed.
    pub is_encrypted: bool,
    /// Oplog positions from which and up to which it has the oplog.
    pub oplog_from: u64,
    /// See `oplog_from`.
    pub oplog_end: u64,
    /// Timestamp of the last entry: the moment to which it can be restored without the archive.
    pub last_timestamp: u64,
    pub(crate) table: Vec<StoredObject>,
    pub(crate) chunks: Vec<StoredChunk>,
    pub(crate) rings: Vec<StoredRing>,
    pub(crate) oplog: Vec<StoredObject>,
}

/// What a manifest of any version says of itself.
#[derive(serde::Deserialize)]
struct Versioned {
    version: u32,
}

impl Manifest {
    /// One of a backup that begins; what is not known yet is empty.
    pub(crate) fn begin(id: String, began_millis: i64, server: &str) -> Manifest {
        Manifest {
            version: VERSION,
            id,
            store: String::new(),
            server: server.to_owned(),
            began_millis,
            ended_millis: 0,
            checkpoint: 0,
            mark: String::new(),
            created_millis: 0,
            extent_bytes: 0,
            file_bytes: 0,
            pages: 0,
            page_bytes: 0,
            reused_bytes: 0,
            stored_bytes: 0,
            is_encrypted: false,
            oplog_from: 0,
            oplog_end: 0,
            last_timestamp: 0,
            table: Vec::new(),
            chunks: Vec::new(),
            rings: Vec::new(),
            oplog: Vec::new(),
        }
    }

    /// The moment of its last entry.
    pub fn last_timestamp(&self) -> Timestamp {
        Timestamp(self.last_timestamp)
    }

    /// The folder of a backup's own objects.
    pub(crate) fn folder(&self) -> String {
        format!("{BACKUPS}/{}", self.id)
    }

    pub(crate) fn read(store: &dyn ObjectStore, id: &str) -> Result<Manifest> {
        let name = format!("{BACKUPS}/{id}/{MANIFEST}");
        let packed = store.get(&name).map_err(BackupError::io(&name, "read"))?;
        let content = unpack(&name, packed, None)?;
        let damaged = |error| BackupError::damaged(&name, error);
        // Nobody knows what else a newer one has.
        let Versioned { version } = serde_json::from_slice(&content).map_err(damaged)?;
        if version != VERSION {
            return Err(BackupError::UnsupportedVersion { name, version, supported: VERSION });
        }
        let manifest: Manifest = serde_json::from_slice(&content).map_err(damaged)?;
        match manifest.id == id {
            true => Ok(manifest),
            false => Err(BackupError::damaged(&name, "it is of another backup")),
        }
    }

    /// Names of all objects that it needs, its manifest included.
    pub(crate) fn names(&self) -> impl Iterator<Item = String> + '_ {
        let chunks = self.chunks.iter().flat_map(|chunk| [&chunk.blocks.name, &chunk.index]);
        let rings = self.rings.iter().flat_map(|ring| &ring.pieces).map(|(_, piece)| &piece.name);
        let others = self.table.iter().chain(&self.oplog).map(|object| &object.name);
        let own = std::iter::once(format!("{}/{MANIFEST}", self.folder()));
        own.chain(chunks.chain(rings).chain(others).cloned())
    }
}

/// Milliseconds since 1970 as people write them.
pub fn time_of(millis: i64) -> String {
    let moment = jiff::Timestamp::from_millisecond(millis).unwrap_or(jiff::Timestamp::UNIX_EPOCH);
    jiff::Timestamp::from_second(moment.as_second()).unwrap_or(moment).to_string()
}

/// A name for a backup that is about to begin.
pub fn new_name(clock: &dyn platform::Clock, random: &dyn platform::Random) -> String {
    new_id(clock.wall_millis(), random)
}

/// The name of a backup that begins now; names sort by time.
pub(crate) fn new_id(millis: i64, random: &dyn platform::Random) -> String {
    let mut id: String = time_of(millis).chars().filter(|character| !"-:".contains(*character)).collect();
    let mut bytes = [0; 3];
    random.fill(&mut bytes);
    // Writing to a string does not fail.
    let _ = write!(id, "-{}", hex::encode(bytes));
    id
}
