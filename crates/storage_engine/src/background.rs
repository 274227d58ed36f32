//! Work of background threads: eviction, trimming and spilling of the version history, freeing, merging, cleaning.
//!
//! Each is a function that does a bounded piece of work, so that threads (`start_background`) and the simulator drive the
//! same code. Client threads call none of them (invariant I3).

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use parking_lot::RwLockReadGuard;
use platform::{IdlePause, WorkBudget, part_of};

use crate::TreeId;
use crate::btree::{Damage, Merged, Shrinking, SparseLeaf, TreePages};
use crate::cleaning_pace::{CleaningPace, DiskRoom, PageActivity};
use crate::counters::mark_background_thread;
use crate::engine::Engine;
use crate::error::{EngineError, Result, Retry};
use crate::history::OverQuota;
use crate::overflow;
use crate::page_cache::{BATCH_PAGES, MERGE_PAUSE, MERGE_PAUSE_MAX, MERGER_THREADS, Paused};
use crate::page_store::{CleaningEffort, PUNCHED_BYTES, PageId};
use crate::pressure_marks::WRITTEN_AHEAD_FROM;
use crate::system_memory::{SystemMemory, left_bytes};

/// Pause of eviction and of writing ahead between two looks that nobody has asked for, and behind an error.
pub const UNASKED_PAUSE: Duration = Duration::from_millis(100);
/// That pause when there is nothing to do.
const UNASKED_PAUSE_MAX: Duration = UNASKED_PAUSE.saturating_mul(16);
/// Pause of the reclaimer, whom nobody asks: what is paced goes on at its looks.
const RECLAIM_PAUSE: Duration = part_of(UNASKED_PAUSE, 5);
/// Leaves looked at, chains and pages freed in one step: a step of reclaiming is about one of writing.
const STEP_ITEMS: usize = BATCH_PAGES;
/// How often in a row a page is read for a leaf to be shrunk, until the leaf is left for later: pages leave meanwhile.
const READS_TO_SHRINK: usize = 32;

/// How much reclaiming may cost now.
#[derive(Default)]
pub(crate) struct ReclaimPace {
    pub(crate) cleaning: CleaningPace,
    /// Pages freed since the engine was opened.
    pages_freed: u64,
    /// When free space was last given back to the file system.
    gave_back_at: Duration,
    /// There was something to give back then, so there may be more.
    gives_back: bool,
    system_memory: SystemMemory,
}

impl Engine {
    /// Starts the engine's threads. They end with [`Engine::stop_background`].
    pub fn start_background(self: &Arc<Self>) -> Result<()> {
        self.trees.cache.set_has_evictor(true);
        let (mut pause, mut found) = (IdlePause::new(UNASKED_PAUSE, UNASKED_PAUSE_MAX), false);
        self.spawn("page-evictor", move |engine| {
            engine.trees.cache.frames.wait_for_eviction_request(pause.after(found));
            found = false;
            while !engine.is_stopping() && engine.trees.cache.evict_clean_batch() {
                found = true;
                WorkBudget::background_step();
            }
            Ok(())
        })?;
        let (mut pause, mut found) = (IdlePause::new(UNASKED_PAUSE, UNASKED_PAUSE_MAX), false);
        self.spawn("page-writer", move |engine| {
            engine.trees.cache.writer.wait_for_victims(pause.after(found));
            found = false;
            while !engine.is_stopping() && (engine.write_victims()? > 0 || engine.flush_batch()? > 0) {
                found = true;
                WorkBudget::background_step();
            }
            Ok(())
        })?;
        for _ in 0..MERGER_THREADS {
            self.spawn("change-merger", |engine| {
                match engine.merge_step()? {
                    0 => {
                        if engine.trees.cache.changes.wait_for_merging(MERGE_PAUSE_MAX) {
                            // What becomes due at about the same time is merged together.
                            engine.clock.sleep(MERGE_PAUSE);
                        }
                    }
                    _ => engine.clock.sleep(engine.trees.cache.changes.rest_of_merging()),
                }
                Ok(())
            })?;
        }
        let mut pause = IdlePause::new(RECLAIM_PAUSE, UNASKED_PAUSE_MAX);
        let (mut found, mut has_found) = (false, false);
        self.spawn("reclaimer", move |engine| {
            if !found {
                engine.stopping.wait(pause.after(std::mem::take(&mut has_found)));
            }
            engine.look_at_system_memory();
            found = engine.reclaim_step()?;
            // What is paced is not over.
            has_found |= found || engine.store.is_cleaning() || engine.reclaim_pace.lock().gives_back;
            Ok(())
        })
    }

    fn look_at_system_memory(&self) {
        let file_bytes = self.store.space().used_bytes;
        let changed = self.reclaim_pace.lock().system_memory.look(self.clock.monotonic(), file_bytes, left_bytes);
        if let Some(is_kept) = changed {
            self.store.keep_written(is_kept);
        }
    }

    /// Merges some of the buffers of leaves that are nearly full and, while the memory for buffers is short, of those with the most
    /// changes; returns how many.
    pub fn merge_step(&self) -> Result<usize> {
        let pages = self.trees.cache.changes.next_to_merge();
        if !pages.is_empty() {
            let merged = self.trees.cache.changes.merge_on_disk(&pages);
            self.poison_on_error(merged)?;
        }
        Ok(pages.len())
    }

    fn spawn(self: &Arc<Self>, name: &str, mut step: impl FnMut(&Engine) -> Result<()> + Send + 'static) -> Result<()> {
        let engine = Arc::clone(self);
        let thread = platform::spawn_named(name, move || {
            mark_background_thread();
            while !engine.is_stopping() {
                WorkBudget::background_step();
                if step(&engine).is_err() {
                    // The error was kept by `poison_on_error` or heals when there is space again.
                    engine.stopping.wait(UNASKED_PAUSE);
                }
            }
        });
        let thread = thread.map_err(|error| EngineError::Setup(format!("no thread for {name}: {error}")))?;
        self.threads.lock().push(thread);
        Ok(())
    }

    fn is_stopping(&self) -> bool {
        self.stopping.is_given()
    }

    /// Ends the engine's threads and waits for them. Whoever needs a page frame after that frees it.
    pub fn stop_background(&self) {
        self.stopping.give();
        self.trees.cache.set_has_evictor(false);
        let threads = std::mem::take(&mut *self.threads.lock());
        for thread in threads {
            // A thread that panicked has nothing left to say here.
            let _ = thread.join();
        }
        self.stopping.take_back();
    }

    /// Notes on the disk that everything was published, after the last checkpoint and the end of the background. Nothing is
    /// written afterwards.
    ///
    /// # Errors
    /// When the engine has stopped writing before, or this fails: the next start recovers, as after a crash.
    pub fn close(&self) -> Result<()> {
        Ok(self.store.close()?)
    }

    /// Frees page frames; returns how many. Called when frames are wanted.
    pub fn evict_batch(&self) -> Result<usize> {
        let freed = self.trees.cache.evict_batch();
        self.poison_on_error(freed)
    }

    /// Writes and frees what the evictor has found to be written; returns how many frames were freed.
    fn write_victims(&self) -> Result<usize> {
        let freed = self.trees.cache.writer.write_victims();
        self.poison_on_error(freed)
    }

    /// Writes and frees every page that nobody is using; returns how many. For whoever has read what is not wanted again while the store is being opened,
    /// and for the simulator, in whose small caches pages would seldom be read again.
    pub fn evict_all(&self) -> Result<usize> {
        let evicted = self.trees.cache.evict_all();
        self.poison_on_error(evicted)
    }

    /// Writes cold dirty pages while too many frames are dirty; returns how many.
    pub fn flush_batch(&self) -> Result<usize> {
        let cache = &self.trees.cache;
        if cache.frames.dirty() as f64 <= cache.usable_frames() as f64 * WRITTEN_AHEAD_FROM {
            return Ok(0);
        }
        let flushed = cache.writer.flush_batch();
        self.poison_on_error(flushed)
    }

    /// One piece of reclaiming; `false` when there was nothing to do.
    pub fn reclaim_step(&self) -> Result<bool> {
        self.account_tables();
        let mut did_something = self.trim_history()?;
        did_something |= self.free_chains()?;
        did_something |= self.free_dropped_trees()?;
        did_something |= self.shrink_leaves()?;
        did_something |= self.clean_step()?;
        self.give_space_back()?;
        Ok(did_something)
    }

    fn trim_history(&self) -> Result<bool> {
        let mut chains = Vec::new();
        {
            // A chain must always be either in the history or in the leftovers when a checkpoint is frozen.
            let _barrier = self.barrier.read();
            let snapshots = &self.trees.snapshots;
            self.trees.history.trim(snapshots.oldest(), snapshots.settled(), &mut chains);
            self.trees.leftovers.chains.lock().append(&mut chains);
        }
        let has_given_up = match self.trees.history.over_quota() {
            None => false,
            Some(OverQuota::Usual) => self.trees.snapshots.give_up_oldest(),
            Some(OverQuota::Concealed) => self.trees.snapshots.give_up_for_concealed(),
        };
        if has_given_up {
            return Ok(true);
        }
        self.trees.history.spill_step()
    }

    /// Frees the pages of overflow chains that nobody refers to.
    fn free_chains(&self) -> Result<bool> {
        for freed in 0..STEP_ITEMS {
            let Some(head) = self.trees.leftovers.chains.lock().last().copied() else { return Ok(freed > 0) };
            // Read before the chain is taken off the list: after an error it must still be there to be freed. What is behind a damaged page stays taken.
            let pages = overflow::pages_that_can_be_read(&self.trees.cache, head)?;
            let (_barrier, paused) = self.enter_to_free();
            let mut chains = self.trees.leftovers.chains.lock();
            // Newer chains may have been added behind it meanwhile.
            if let Some(index) = chains.iter().rposition(|chain| *chain == head) {
                chains.swap_remove(index);
            }
            drop(chains);
            self.free_pages(&pages, &paused)?;
        }
        Ok(true)
    }

    /// Enters the barrier when no page is being written. The disk is waited for outside of it: while it answers nothing,
    /// a checkpoint can be frozen. With the writer in hand the barrier is only tried, as whoever is inside may wait for
    /// a frame, which the writer frees.
    fn enter_to_free(&self) -> (RwLockReadGuard<'_, ()>, Paused<'_>) {
        loop {
            let paused = self.trees.cache.writer.pause();
            if let Some(barrier) = self.barrier.try_read() {
                return (barrier, paused);
            }
            drop(paused);
            // A checkpoint is being frozen.
            drop(self.barrier.read());
        }
    }

    fn free_pages(&self, pages: &[PageId], paused: &Paused<'_>) -> Result<()> {
        for page in pages {
            let freed = self.trees.cache.free_page(*page, paused);
            self.poison_on_error(freed)?;
        }
        self.reclaim_pace.lock().pages_freed += pages.len() as u64;
        Ok(())
    }

    /// Frees dropped trees, many small ones at a time: they can come as fast as clients create and drop collections.
    fn free_dropped_trees(&self) -> Result<bool> {
        for freed in 0..STEP_ITEMS {
            if self.is_stopping() || !self.free_dropped_tree()? {
                return Ok(freed > 0);
            }
        }
        Ok(true)
    }

    /// Frees all pages of one dropped tree, which may take minutes. What nobody else does meanwhile must not wait for it: older versions would fill the
    /// memory for them, and writers would be slowed down. Leaves are freed as they are found, so that a large tree that is read for the last time does not drive
    /// out of the cache what others read. What is below a damaged page stays taken until a repair: nothing else may wait for that.
    fn free_dropped_tree(&self) -> Result<bool> {
        let Some(tree) = self.dropped_trees.lock().first() else { return Ok(false) };
        let mut rest = self.trees.walk_pages(tree, usize::MAX, Damage::IsPassedOver, &mut |found| {
            WorkBudget::background_step();
            self.trim_history()?;
            if found.leaves.len() + found.overflow.len() >= STEP_ITEMS {
                self.free_found(found)?;
            }
            Ok(if self.is_stopping() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        })?;
        if !rest.is_whole {
            // The next start goes on with it.
            return Ok(true);
        }
        self.free_found(&mut rest)?;
        // The root last: whatever a crash leaves is found again from it.
        rest.inner.reverse();
        self.free_in_groups(&rest.inner)?;
        self.dropped_trees.lock().remove_first();
        self.trees.leftovers.sparse_leaves.forget_tree(tree);
        Ok(true)
    }

    /// Frees what a walk has found so far, but inner pages: overflow pages before the leaves that refer to them.
    fn free_found(&self, found: &mut TreePages) -> Result<()> {
        self.free_in_groups(&std::mem::take(&mut found.overflow))?;
        self.free_in_groups(&std::mem::take(&mut found.leaves))
    }

    fn free_in_groups(&self, pages: &[PageId]) -> Result<()> {
        for group in pages.chunks(STEP_ITEMS) {
            WorkBudget::background_step();
            self.trim_history()?;
            let (_barrier, paused) = self.enter_to_free();
            self.free_pages(group, &paused)?;
        }
        Ok(())
    }

    /// Compacts and merges leaves with many deleted entries.
    fn shrink_leaves(&self) -> Result<bool> {
        let leaves = self.trees.leftovers.sparse_leaves.take(self.trees.snapshots.settled(), STEP_ITEMS);
        let mut did_something = false;
        for leaf in leaves {
            if self.is_dropped(leaf.tree) {
                continue;
            }
            WorkBudget::background_step();
            did_something |= self.shrink_leaf(leaf)?;
        }
        Ok(did_something)
    }

    fn is_dropped(&self, tree: TreeId) -> bool {
        self.dropped_trees.lock().contains(tree)
    }

    fn shrink_leaf(&self, mut leaf: SparseLeaf) -> Result<bool> {
        let (mut stage, mut may_free, mut reads) = (Shrinking::First, false, 0);
        while reads < READS_TO_SHRINK {
            let (barrier, paused) = match may_free {
                true => Some(self.enter_to_free()).unzip(),
                false => (Some(self.barrier.read()), None),
            };
            match (self.trees.shrink(&leaf, stage, paused.is_some()), paused) {
                (Ok(Merged::Done) | Err(EngineError::NoSuchTree(_)), _) => return Ok(true),
                (Ok(Merged::Freed(pages)), Some(paused)) => {
                    (stage, reads) = (Shrinking::Further, 0);
                    self.free_pages(&pages, &paused)?;
                }
                (Ok(Merged::Freed(_) | Merged::WouldFree), _) => may_free = true,
                // It is waited for with nothing in hand; somebody else may free it meanwhile.
                (Ok(Merged::NotResident(page)), paused) => {
                    drop((barrier, paused));
                    reads += 1;
                    match self.trees.cache.fix(page) {
                        Ok(_) | Err(Retry::Restart) => {}
                        // It stays as it is.
                        Err(Retry::Failed(error)) if error.is_damage() => return Ok(true),
                        Err(Retry::Failed(error)) => return Err(error),
                    }
                }
                (Ok(Merged::NotSettled), _) => {
                    leaf.settled_at = self.visible().0;
                    break;
                }
                (Err(error), _) if error.is_damage() => return Ok(true),
                (Err(error), _) => return Err(error),
            }
        }
        self.trees.leftovers.sparse_leaves.push(leaf);
        Ok(false)
    }

    /// Gives a little of the page file's free space back to the file system, now and then.
    fn give_space_back(&self) -> Result<()> {
        let now = self.clock.monotonic();
        let kept = {
            let mut pace = self.reclaim_pace.lock();
            if now.saturating_sub(pace.gave_back_at) < pace.cleaning.giving_back_pause() {
                return Ok(());
            }
            pace.gave_back_at = now;
            pace.cleaning.kept_bytes(self.store.space(), self.disk_room())
        };
        self.store.keep_free(kept);
        let given_back = self.store.give_space_back(PUNCHED_BYTES).map_err(EngineError::from);
        let gave = self.poison_on_error(given_back)?;
        self.reclaim_pace.lock().gives_back = gave;
        Ok(())
    }

    fn disk_room(&self) -> DiskRoom {
        if self.is_disk_ample.load(Ordering::Relaxed) { DiskRoom::Ample } else { DiskRoom::Short }
    }

    /// Says what the disk has left, of which `reserved` is spoken for. As often as somebody looks.
    pub fn note_disk_space(&self, available: u64, reserved: u64) {
        let wanted = reserved.saturating_add(self.store.space().used_bytes);
        self.is_disk_ample.store(available >= wanted, Ordering::Relaxed);
    }

    /// How much cleaning is worth now; `None`: nothing.
    fn cleaning_effort(&self) -> Option<CleaningEffort> {
        let mut pace = self.reclaim_pace.lock();
        let (bytes_written, bytes_moved) = self.store.bytes_written_and_moved();
        let activity = PageActivity {
            pages_changed: self.trees.cache.invariants().pages_written() + pace.pages_freed,
            pages: self.store.page_id_limit(),
            bytes_written,
            bytes_moved,
            is_cleaning: self.store.is_cleaning(),
        };
        pace.cleaning.effort(self.clock.monotonic(), activity, self.store.space())
    }

    /// Moves live blocks out of sparse extents; `true` when something was moved.
    pub fn clean_step(&self) -> Result<bool> {
        let Some(effort) = self.cleaning_effort() else { return Ok(false) };
        let cleaned = self.store.clean_step(effort, &|page, old, new| self.trees.cache.relocate(page, old, new));
        Ok(self.poison_on_error(cleaned.map_err(EngineError::from))?.blocks > 0)
    }
}
