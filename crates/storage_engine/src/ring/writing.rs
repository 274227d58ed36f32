//! Writing rings to their files, and what checkpoints do with rings. Background work (invariant I3).
//!
//! Called by `transaction`'s ring writer, and by checkpoints. See the head of `ring` for why nothing is written before the oplog is durable.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::buffer::Chunk;
use super::{DIRECTORY_NAME, Ring, STATE_KEY, file, file_error};
use crate::batch::{Change, ChangeKind};
use crate::btree::Write;
use crate::engine::Engine;
use crate::error::Result;

/// A writer that finds the buffers fuller than this waits.
const SHARE_MAX: f64 = 1.0;

/// A ring with something to write, as it was before the oplog was made durable.
pub(super) struct Captured {
    ring: Arc<Ring>,
    head: u64,
    tail: u64,
}

impl Engine {
    /// Writes what of the rings is in memory to their files. `make_durable` returns once the oplog is durable up to everything that was applied when it
    /// was called. Returns how many bytes were written.
    ///
    /// # Errors
    /// Those of `make_durable`; `RingFile`. Anything but a full disk stops all later writes.
    pub fn write_rings(&self, make_durable: impl FnOnce() -> Result<()>) -> Result<u64> {
        let waiting = self.rings.all().into_iter().filter(|ring| ring.has_unwritten());
        let captured: Vec<Captured> = waiting.map(Captured::new).collect();
        if captured.is_empty() {
            return Ok(0);
        }
        make_durable()?;
        let mut written = 0;
        for captured in &captured {
            let result = captured.write();
            written += self.poison_on_error(result)?;
        }
        Ok(written)
    }

    /// Waits, not long, until the rings' buffers are half full, or it is over: for the thread that writes them.
    pub fn wait_for_ring_work(&self, longest: Duration, is_over: impl Fn() -> bool) {
        self.rings.wait(longest, |share| share >= SHARE_MAX / 2.0 || is_over());
    }

    /// Has the thread that writes rings look whether its waiting is over.
    pub fn wake_ring_writer(&self) {
        self.rings.ring_bell();
    }

    /// Whether something of a ring is in memory only.
    pub fn has_buffered_rings(&self) -> bool {
        self.rings.buffered_bytes() > 0
    }

    /// Waits, not long, while the buffers are full; `true` when they are. For inserts, before they take any lock.
    pub fn wait_for_ring_room(&self, longest: Duration) -> bool {
        if self.rings.buffered_share() < SHARE_MAX {
            return false;
        }
        self.rings.wait(longest, |share| share < SHARE_MAX);
        self.rings.buffered_share() >= SHARE_MAX
    }

    /// Whether the rings' buffers are full.
    pub fn rings_are_full(&self) -> bool {
        self.rings.buffered_share() >= SHARE_MAX
    }

    /// Bytes of rings that are in memory only.
    pub fn ring_buffer_bytes(&self) -> u64 {
        self.rings.buffered_bytes()
    }

    /// Puts the states of the rings into their trees: under the barrier, so that they are of the checkpoint's moment.
    pub(crate) fn save_ring_states(&self) -> Result<()> {
        for ring in self.rings.all() {
            if !ring.is_changed.swap(false, Ordering::AcqRel) {
                continue;
            }
            let state = ring.state().encode();
            let change = Change { kind: ChangeKind::Put, tree: ring.tree, key: STATE_KEY, value: &state };
            let saved = self.trees.apply(change, Write::Settled);
            self.poison_on_error(saved)?;
        }
        Ok(())
    }

    /// Brings the pages with the states into memory, so that `save_ring_states` need not wait for the disk.
    pub(crate) fn prepare_ring_states(&self) -> Result<()> {
        let mut value = Vec::new();
        for ring in self.rings.all() {
            if ring.is_changed.load(Ordering::Acquire) {
                self.get_latest(ring.tree, STATE_KEY, &mut value)?;
            }
        }
        Ok(())
    }

    /// Before a checkpoint is published, and after its part of the oplog is durable: everything of the rings is in their files and synced.
    pub(crate) fn sync_rings(&self) -> Result<()> {
        // After a failed write or sync nobody knows what is in the files: no checkpoint may say that it is there.
        self.check_writable()?;
        self.write_rings(|| Ok(()))?;
        for ring in self.rings.all() {
            if ring.is_unsynced.swap(false, Ordering::AcqRel) {
                let synced = ring.file.or_create().and_then(|file| file.sync_data()).map_err(file_error);
                ring.is_unsynced.fetch_or(synced.is_err(), Ordering::AcqRel);
                self.poison_on_error(synced)?;
            }
        }
        Ok(())
    }

    /// A ring is not used any more; called before its tree is dropped. Its file goes after the next checkpoint, which is the first
    /// that does not need it.
    pub fn drop_ring(&self, number: u64) {
        self.rings.note_dropped(number);
    }

    /// Removes files of rings that were dropped before the checkpoint that was just published began.
    pub(crate) fn remove_ring_files(&self, numbers: &[u64]) {
        for number in numbers {
            // What cannot be removed now is removed when the store is opened again.
            let _ = self.rings.disk().remove(&file::path_of(*number));
        }
    }

    pub(crate) fn take_dropped_rings(&self) -> Vec<u64> {
        self.rings.take_dropped()
    }

    /// Removes the files of rings that are not open: left over by a crash. For the end of recovery.
    ///
    /// # Errors
    /// `RingFile`.
    pub fn remove_unknown_rings(&self) -> Result<()> {
        let disk = self.rings.disk();
        if !disk.exists(Path::new(DIRECTORY_NAME)).map_err(file_error)? {
            return Ok(());
        }
        let known: Vec<u64> = self.rings.all().iter().map(|ring| ring.number).collect();
        for name in disk.list(Path::new(DIRECTORY_NAME)).map_err(file_error)? {
            let Some(number) = file::number_of(&name) else { continue };
            if !known.contains(&number) {
                disk.remove(&file::path_of(number)).map_err(file_error)?;
            }
        }
        Ok(())
    }
}

impl Captured {
    pub(super) fn new(ring: Arc<Ring>) -> Captured {
        let state = ring.state();
        Captured { ring, head: state.head, tail: state.tail }
    }

    fn write(&self) -> Result<u64> {
        self.write_through(&mut |chunk| self.put(chunk))
    }

    /// Writes one piece.
    pub(super) fn put(&self, chunk: &Chunk) -> Result<()> {
        let file = self.ring.file.or_create().map_err(file_error)?;
        self.ring.is_unsynced.store(true, Ordering::Release);
        let offset = file::FILE_HEADER_BYTES + chunk.offset;
        file.write_all_at(&chunk.bytes, offset).map_err(file_error)?;
        // Otherwise a checkpoint finds all of it to be written, and the oplog's sync waits behind that.
        file.begin_write_back(offset, chunk.bytes.len() as u64);
        Ok(())
    }

    /// Writes what was captured by `put`, piece by piece.
    pub(super) fn write_through(&self, put: &mut dyn FnMut(&Chunk) -> Result<()>) -> Result<u64> {
        let _alone = self.ring.writing.lock();
        let mut written = 0;
        loop {
            let chunk = match self.ring.shared.read().buffer.front() {
                Some(chunk) if chunk.end() <= self.tail => chunk.clone(),
                _ => return Ok(written),
            };
            // What was overtaken by something durable need not be written at all.
            if chunk.end() > self.head {
                put(&chunk)?;
                written += chunk.bytes.len() as u64;
            }
            let bytes = self.ring.shared.write().buffer.pop_front();
            self.ring.registry.count_written(bytes);
        }
    }
}

impl Ring {
    fn has_unwritten(&self) -> bool {
        !self.shared.read().buffer.is_empty()
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        let mut shared = self.shared.write();
        while !shared.buffer.is_empty() {
            let bytes = shared.buffer.pop_front();
            self.registry.count_written(bytes);
        }
    }
}
