//! A backup read through without being restored: whether all of it is there, and is what its checksums say.
//!
//! Called by `server` for the copies beside a shared log, of which the log is trimmed. It needs no room. Whether indexes have what collections have is known only of
//! what was restored (`validation`).

use oplog::{OplogPosition, check_piece};
use platform::OuterKey;

use super::{check_blocks, lacking, page_table, place_in};
use crate::error::{BackupError, Result};
use crate::known_blocks::read_index;
use crate::manifest::{Manifest, StoredObject};
use crate::object_store::ObjectStore;
use crate::oplog_object;

/// Reads a backup through. `false`: it was stopped.
///
/// # Errors
/// `Missing`, `Damaged`, `Key`, `Io`: what is wrong with it.
pub fn read_back(
    objects: &dyn ObjectStore,
    id: &str,
    key: Option<&OuterKey>,
    is_stopped: &dyn Fn() -> bool,
) -> Result<bool> {
    let manifest = Manifest::read(objects, id)?;
    let table = page_table(objects, &manifest, key)?;
    let mut is_there = vec![false; table.len()];
    for chunk in &manifest.chunks {
        if is_stopped() {
            return Ok(false);
        }
        let index = read_index(objects, &chunk.index, key)?;
        let content = chunk.blocks.read(objects, key)?;
        let wants = |block| place_in(&table, block).is_some_and(|at| !std::mem::replace(&mut is_there[at], true));
        check_blocks((&chunk.blocks.name, &index.blocks, &content), wants, |_, _, _| Ok(()))?;
    }
    lacking(&manifest, &table, &is_there)?;
    for (_, piece) in manifest.rings.iter().flat_map(|ring| &ring.pieces) {
        if is_stopped() {
            return Ok(false);
        }
        piece.read(objects, key)?;
    }
    let mut end = None;
    for object in &manifest.oplog {
        end = Some(piece_end(objects, object, end, key)?);
    }
    match end.unwrap_or_default() < manifest.oplog_end {
        true => {
            let reason = format!("its oplog ends before {}", manifest.oplog_end);
            Err(BackupError::damaged(&format!("the backup {id}"), reason))
        }
        false => Ok(true),
    }
}

/// Where a piece of the oplog ends that goes on at `from`, or before.
fn piece_end(
    objects: &dyn ObjectStore,
    object: &StoredObject,
    from: Option<u64>,
    key: Option<&OuterKey>,
) -> Result<u64> {
    let piece = oplog_object::decode(&object.name, &object.read(objects, key)?)?;
    let start = piece.start.0;
    if from.is_some_and(|from| from < start) {
        return Err(BackupError::damaged(&object.name, format!("it begins behind the one before, at {start}")));
    }
    let damaged = |at: OplogPosition| BackupError::damaged(&object.name, format!("the entry at {at} is not whole"));
    let whole = check_piece(&piece.bytes, piece.start, &mut |_| true).map_err(damaged)?;
    Ok(start + whole as u64)
}
