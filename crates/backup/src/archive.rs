//! The archive: the server's oplog, sent piece by piece to where the backups are.
//!
//! Called by a thread of the server every few seconds. What is durable is sent as pieces of a segment; when a segment has
//! ended, its pieces become one object. The oplog is kept in the server until it is archived. A restored server has another
//! identity, and so an archive of its own.

use std::sync::Arc;

use oplog::{Oplog, OplogPosition};
use parking_lot::Mutex;
use platform::{OuterKey, Random, Timestamp};
use transaction::{OplogHold, Store};

use crate::error::{BackupError, Result};
use crate::object::pack;
use crate::object_store::ObjectStore;
use crate::oplog_object;
use crate::page_chunk::CHUNK_BYTES;

/// Where archives are, one folder for each store.
pub(crate) const ARCHIVE: &str = "archive";

/// See the module's head.
pub struct Archive {
    store: Arc<Store>,
    objects: Arc<dyn ObjectStore>,
    random: Arc<dyn Random>,
    key: Option<OuterKey>,
    folder: String,
    hold: OplogHold,
    state: Mutex<State>,
}

struct State {
    /// Everything before this is archived.
    end: OplogPosition,
    last_timestamp: Timestamp,
    /// Pieces of the segment that is being archived.
    pieces: Vec<(u64, u64, u64)>,
}

/// How far the archive is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArchiveStatus {
    /// Everything before this position is archived.
    pub position: u64,
    /// The newest entry that was archived by this process; 0 before the first.
    pub timestamp: Timestamp,
    /// Bytes of the oplog that are not.
    pub bytes_behind: u64,
}

impl Archive {
    /// Goes on with the archive of this store, or begins it with the oldest entry that there is.
    ///
    /// # Errors
    /// `Place`: the archive has what the server does not have; `Io`.
    pub fn begin(
        store: Arc<Store>,
        objects: Arc<dyn ObjectStore>,
        random: Arc<dyn Random>,
        key: Option<OuterKey>,
    ) -> Result<Archive> {
        let folder = folder_of(&hex::encode(store.engine().identity()));
        // Before anything is looked up: it must not go meanwhile.
        let hold = store.hold_oplog(OplogPosition::default());
        let (first, last) = (store.oplog().first_position(), store.oplog().end_position());
        let mut pieces = list(&*objects, &folder)?;
        let end = OplogPosition(pieces.iter().map(|(_, _, end)| *end).max().unwrap_or(first.0));
        if end > last {
            return Err(BackupError::Place(format!(
                "the archive in {folder} has the oplog up to {end}, but the server's ends at {last}: its directory was \
                 put back from a copy. `plimsoll restore` makes one with an identity of its own; or move {folder} away"
            )));
        }
        if end < first {
            tracing::warn!(
                target: "control", archived = end.0, oldest = first.0,
                "the oplog between these positions was not archived and is gone: make a new backup"
            );
        }
        let end = end.max(first);
        let segment = store.oplog().segment_of(end).map_or(end, |start| start.min(end));
        pieces.retain(|(of, _, _)| *of == segment.0);
        hold.advance(segment);
        let state = Mutex::new(State { end, last_timestamp: Timestamp::MIN, pieces });
        Ok(Archive { store, objects, random, key, folder, hold, state })
    }

    /// Archives what is durable. Whether there was anything.
    ///
    /// # Errors
    /// `Io`, `Oplog`: it is tried again at the next call.
    pub fn step(&self) -> Result<bool> {
        let mut state = self.state.lock();
        let before = state.end;
        while let Some(piece) = self.store.copy_secured(state.end, CHUNK_BYTES)? {
            let segment = piece.segment.start;
            self.put(&piece)?;
            if let Some((of, _, _)) = state.pieces.first().copied().filter(|(of, _, _)| *of != segment.0) {
                self.join(&mut state, OplogPosition(of))?;
            }
            self.hold.advance(segment);
            state.pieces.push((segment.0, piece.start.0, piece.end().0));
            (state.end, state.last_timestamp) = (piece.end(), piece.last_timestamp);
        }
        Ok(state.end > before)
    }

    /// Archives everything that is logged: what is not durable yet is made so before.
    ///
    /// # Errors
    /// As `step`. What is durable is archived also where the rest cannot be made so.
    pub fn finish(&self) -> Result<()> {
        let oplog = self.store.oplog();
        let durable = oplog.wait_durable(oplog.end_position());
        self.step()?;
        Ok(durable?)
    }

    /// How far it is.
    pub fn status(&self) -> ArchiveStatus {
        let state = self.state.lock();
        let bytes_behind = self.store.oplog().end_position().0.saturating_sub(state.end.0);
        ArchiveStatus { position: state.end.0, timestamp: state.last_timestamp, bytes_behind }
    }

    fn put(&self, piece: &oplog::OplogPiece) -> Result<()> {
        let part = oplog_object::name_of(piece.segment.start.0, piece.start.0, piece.end().0);
        let name = format!("{}/{part}", self.folder);
        let packed = pack(&name, &oplog_object::encode(piece), true, self.key.as_ref(), &*self.random)?;
        self.objects.put(&name, &packed).map_err(BackupError::io(&name, "written"))
    }

    /// One object for a segment that has ended, in place of its pieces.
    fn join(&self, state: &mut State, segment: OplogPosition) -> Result<()> {
        let pieces = std::mem::take(&mut state.pieces);
        if pieces.len() < 2 {
            return Ok(());
        }
        let Some(whole) = self.store.oplog().copy_durable(segment, usize::MAX)? else { return Ok(()) };
        self.put(&whole)?;
        for (of, start, end) in pieces {
            if (start, end) != (whole.start.0, whole.end().0) {
                let name = format!("{}/{}", self.folder, oplog_object::name_of(of, start, end));
                self.objects.delete(&name).map_err(BackupError::io(&name, "removed"))?;
            }
        }
        Ok(())
    }
}

pub(crate) fn folder_of(store: &str) -> String {
    format!("{ARCHIVE}/{store}")
}

/// Segment, start and end of the pieces of an archive, by start.
pub(crate) fn list(objects: &dyn ObjectStore, folder: &str) -> Result<Vec<(u64, u64, u64)>> {
    let names = objects.list(folder).map_err(BackupError::io(folder, "listed"))?;
    let mut pieces: Vec<_> = names.iter().filter_map(|name| oplog_object::parse_name(name)).collect();
    pieces.sort_unstable_by_key(|(_, start, end)| (*start, *end));
    Ok(pieces)
}
