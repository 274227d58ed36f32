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
use crate::manifest::{BACKUPS, Manifest};
use crate::object::pack;
use crate::object_store::ObjectStore;
use crate::oplog_object;
use crate::page_chunk::CHUNK_BYTES;
use crate::reach::ReachedNote;

/// Where archives are, one folder for each store.
pub(crate) const ARCHIVE: &str = "archive";

/// So often it is noted how far the archive is where nothing is written.
const NOTED_EVERY_MILLIS: i64 = 60_000;

/// See the module's head.
pub struct Archive {
    store: Arc<Store>,
    objects: Arc<dyn ObjectStore>,
    random: Arc<dyn Random>,
    key: Option<OuterKey>,
    folder: String,
    hold: OplogHold,
    state: Mutex<State>,
    /// What `state` has of it, for those who cannot wait while a piece is sent.
    reached: Mutex<(OplogPosition, Timestamp)>,
}

struct State {
    /// Everything before this is archived.
    end: OplogPosition,
    /// When it was last noted that everything is archived.
    noted_millis: Option<i64>,
    /// Pieces of the segment that is being archived.
    pieces: Vec<(u64, u64, u64)>,
}

/// How far the archive is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArchiveStatus {
    /// Everything before this position is archived.
    pub position: u64,
    /// The newest entry that is archived; 0 if there is none.
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
        let last_timestamp = newest_timestamp(&*objects, &folder, &pieces, key.as_ref())?;
        let end = end.max(first);
        let segment = store.oplog().segment_of(end).map_or(end, |start| start.min(end));
        pieces.retain(|(of, _, _)| *of == segment.0);
        hold.advance(segment);
        let state = Mutex::new(State { end, noted_millis: None, pieces });
        let reached = Mutex::new((end, last_timestamp));
        Ok(Archive { store, objects, random, key, folder, hold, state, reached })
    }

    /// Archives what is durable. Whether there was anything.
    ///
    /// # Errors
    /// `Io`, `Oplog`: it is tried again at the next call.
    pub fn step(&self) -> Result<bool> {
        self.step_and_note(NOTED_EVERY_MILLIS)
    }

    /// Notes how far it is if that is so long ago.
    fn step_and_note(&self, note_after_millis: i64) -> Result<bool> {
        let mut state = self.state.lock();
        let before = state.end;
        // In this order: whatever is logged behind this end is of this time or later.
        let now = self.store.clock().wall_millis();
        let end = self.store.oplog().end_position();
        while let Some(piece) = self.store.copy_secured(state.end, CHUNK_BYTES)? {
            let segment = piece.segment.start;
            self.put(&piece)?;
            if let Some((of, _, _)) = state.pieces.first().copied().filter(|(of, _, _)| *of != segment.0) {
                self.join(&mut state, OplogPosition(of))?;
            }
            self.hold.advance(segment);
            state.pieces.push((segment.0, piece.start.0, piece.end().0));
            state.end = piece.end();
            *self.reached.lock() = (piece.end(), piece.last_timestamp);
        }
        let is_due = state.noted_millis.is_none_or(|noted| now.abs_diff(noted) >= note_after_millis.unsigned_abs());
        if is_due && state.end >= end {
            let note = ReachedNote { millis: now, position: state.end.0 };
            note.store(&*self.objects, &self.folder, &*self.random)?;
            state.noted_millis = Some(now);
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
        self.step_and_note(0)?;
        Ok(durable?)
    }

    /// How far it is. Never waits for the place.
    pub fn status(&self) -> ArchiveStatus {
        let (position, timestamp) = *self.reached.lock();
        let bytes_behind = self.store.oplog().end_position().0.saturating_sub(position.0);
        ArchiveStatus { position: position.0, timestamp, bytes_behind }
    }

    /// The newest whole backup of this store in the same place: its name, and when it ended in milliseconds since 1970.
    ///
    /// # Errors
    /// `Io`.
    pub fn newest_backup(&self) -> Result<Option<(String, i64)>> {
        let own = hex::encode(self.store.engine().identity());
        let ids = self.objects.list(BACKUPS).map_err(BackupError::io(BACKUPS, "listed"))?;
        for id in ids.iter().rev() {
            match Manifest::read(&*self.objects, id) {
                Ok(manifest) if manifest.store == own => return Ok(Some((manifest.id, manifest.ended_millis))),
                Err(error @ BackupError::Io { .. }) => return Err(error),
                // Another store's, unfinished, or not to be read.
                _ => {}
            }
        }
        Ok(None)
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

/// The timestamp of the last entry in the archive.
fn newest_timestamp(
    objects: &dyn ObjectStore,
    folder: &str,
    pieces: &[(u64, u64, u64)],
    key: Option<&OuterKey>,
) -> Result<Timestamp> {
    let Some(newest) = pieces.iter().max_by_key(|piece| piece.2) else { return Ok(Timestamp::MIN) };
    match oplog_object::read(objects, folder, *newest, key) {
        Ok(piece) => Ok(piece.last_timestamp),
        Err(error @ (BackupError::Io { .. } | BackupError::Missing(_))) => Err(error),
        // A restore will tell; the archive goes on behind it.
        Err(error) => {
            tracing::warn!(target: "control", %error, "the newest piece of the archive cannot be read");
            Ok(Timestamp::MIN)
        }
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
