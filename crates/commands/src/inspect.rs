//! What is on disk, as documents: superblocks, checkpoints, trees, a page, the oplog.
//!
//! Called by the subcommand `inspect`, which prints the documents. It opens nothing: neither the engine nor the oplog, so
//! nothing is recovered and nothing written, and what is shown is what the next start finds.

mod page;
mod trees;

use std::path::Path;
use std::sync::Arc;

use bson::{Bson, DateTime, Document, RawDocument, doc};
use oplog::{OplogOptions, OplogPosition, read_offline};
use platform::Disk;
use storage_engine::page_store::{CheckpointRecord, PageId, Superblock};
use storage_engine::{EngineInspection, Timestamp};

use trees::TreeNames;

/// What to look at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subject {
    /// The two superblocks.
    Superblock,
    /// The page-table files and the checkpoints in them.
    Checkpoints,
    /// Every tree by the name of its collection and index, with sizes.
    Trees,
    /// One page.
    Page(u64),
    /// Entries of the oplog.
    Oplog {
        /// The first position shown.
        from: u64,
        /// Entries shown at most.
        limit: u64,
    },
}

type Outcome<T> = Result<T, String>;

/// Shows a subject, one document after the other.
///
/// # Errors
/// What cannot be read, in words for a person.
pub fn inspect(disk: Arc<dyn Disk>, subject: Subject, show: &mut dyn FnMut(Document)) -> Outcome<()> {
    if let Subject::Oplog { from, limit } = subject {
        return show_oplog(&*disk, from, limit, show);
    }
    let engine = EngineInspection::open(disk).map_err(|error| error.to_string())?;
    match subject {
        Subject::Superblock => show_superblocks(&engine, show),
        Subject::Checkpoints => show_checkpoints(&engine, show),
        Subject::Trees => trees::show(&engine, show),
        Subject::Page(page) => {
            let names = TreeNames::read(&engine)?;
            let described = engine.page(PageId(page)).map_err(|error| error.to_string())?;
            show(page::describe(&described, &names));
            Ok(())
        }
        Subject::Oplog { .. } => Ok(()),
    }
}

fn show_superblocks(engine: &EngineInspection, show: &mut dyn FnMut(Document)) -> Outcome<()> {
    let slots = engine.store().superblock_slots().map_err(|error| error.to_string())?;
    for (slot, found) in slots.into_iter().enumerate() {
        show(match found {
            Ok(superblock) => describe_superblock(slot, &superblock, superblock == *engine.store().superblock()),
            Err(error) => doc! { "slot": number(slot as u64), "damage": error.to_string() },
        });
    }
    Ok(())
}

fn describe_superblock(slot: usize, superblock: &Superblock, is_current: bool) -> Document {
    doc! {
        "slot": number(slot as u64),
        "current": is_current,
        "sequence": number(superblock.sequence),
        "uuid": hex(&superblock.uuid),
        "created": DateTime::from_millis(superblock.created_millis),
        "extentBytes": number(superblock.extent_bytes.into()),
        "openCount": number(superblock.open_count),
        "cleanShutdown": superblock.clean_shutdown,
        "checkpointFloor": number(superblock.checkpoint_floor),
    }
}

fn show_checkpoints(engine: &EngineInspection, show: &mut dyn FnMut(Document)) -> Outcome<()> {
    let current = engine.store().checkpoint().number;
    for file in engine.store().page_table_files().map_err(|error| error.to_string())? {
        match file {
            Err(error) => show(doc! { "damage": error.to_string() }),
            Ok(file) => {
                let checkpoints = file.checkpoints.iter().map(|checkpoint| describe_checkpoint(checkpoint, current));
                show(doc! {
                    "file": file.path,
                    "bytes": number(file.bytes),
                    "validBytes": number(file.valid_bytes),
                    "checkpoints": checkpoints.map(Bson::Document).collect::<Vec<_>>(),
                });
            }
        }
    }
    Ok(())
}

fn describe_checkpoint(checkpoint: &CheckpointRecord, current: u64) -> Document {
    let mut described = doc! {
        "number": number(checkpoint.number),
        "current": checkpoint.number == current,
        "kind": format!("{:?}", checkpoint.kind).to_lowercase(),
        "offset": number(checkpoint.offset),
        "bytes": number(checkpoint.bytes),
        "entries": number(checkpoint.entries),
    };
    if !checkpoint.mark.is_empty() {
        match EngineInspection::mark(&checkpoint.mark) {
            Ok(mark) => {
                described.insert("oplogPosition", number(mark.oplog_position));
                described.insert("timestamp", timestamp(mark.timestamp));
            }
            Err(error) => drop(described.insert("damage", error.to_string())),
        }
    }
    described
}

fn show_oplog(disk: &dyn Disk, from: u64, limit: u64, show: &mut dyn FnMut(Document)) -> Outcome<()> {
    let directory = OplogOptions::default().directory;
    let mut left = limit;
    let end = read_offline(disk, Path::new(&directory), OplogPosition(from), &mut |entry| {
        if left == 0 {
            return false;
        }
        left -= 1;
        let mut described = doc! {
            "position": number(entry.position.0),
            "bytes": number(entry.end.0 - entry.position.0),
            "ts": timestamp(entry.timestamp),
        };
        match RawDocument::from_bytes(entry.payload).ok().and_then(|payload| Document::try_from(payload).ok()) {
            Some(payload) => described.extend(payload),
            None => drop(described.insert("payload", hex(entry.payload))),
        }
        show(described);
        left > 0
    });
    end.map(drop).map_err(|error| error.to_string())
}

/// A number as short as it can be.
fn number(value: u64) -> Bson {
    let value = i64::try_from(value).unwrap_or(i64::MAX);
    i32::try_from(value).map_or(Bson::Int64(value), Bson::Int32)
}

fn timestamp(timestamp: Timestamp) -> bson::Timestamp {
    bson::Timestamp { time: timestamp.seconds(), increment: timestamp.increment() }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
