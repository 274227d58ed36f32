//! A disk that answers no write for a while, and what others notice of it: nothing, as long as they need none.

use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use parking_lot::Condvar;
use platform::{Operation, SystemClock};

use super::*;
use crate::frame_arena::PAGE_BYTES;

/// A clock whose sleeps, those of the disk, last until it is released.
#[derive(Default)]
struct Stuck {
    is_stuck: Mutex<bool>,
    sleeping: AtomicUsize,
    changed: Condvar,
}

impl Clock for Stuck {
    fn wall_millis(&self) -> i64 {
        0
    }

    fn monotonic(&self) -> Duration {
        Duration::ZERO
    }

    fn sleep(&self, _duration: Duration) {
        let mut is_stuck = self.is_stuck.lock();
        if *is_stuck {
            self.sleeping.fetch_add(1, Ordering::SeqCst);
            self.changed.notify_all();
            self.changed.wait_while(&mut is_stuck, |is_stuck| *is_stuck);
            self.sleeping.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

impl Stuck {
    fn set(&self, is_stuck: bool) {
        *self.is_stuck.lock() = is_stuck;
        self.changed.notify_all();
    }

    /// Whether somebody's write does not come back.
    fn has_writer(&self) -> bool {
        self.sleeping.load(Ordering::SeqCst) > 0
    }

    /// Releases all when nobody else has done so for long; whether that was needed.
    fn release_after_a_minute(&self) -> bool {
        let mut is_stuck = self.is_stuck.lock();
        let waited = self.changed.wait_while_for(&mut is_stuck, |is_stuck| *is_stuck, Duration::from_secs(60));
        *is_stuck = false;
        self.changed.notify_all();
        waited.timed_out()
    }
}

/// Keys of a tree whose leaves hold about seventy of them.
const KEYS_A_LEAF: u32 = 70;

fn fill(engine: &Engine, leaves: u32, clock: &mut u64) -> TreeId {
    let tree = engine.create_tree().unwrap();
    let mut batch = Batch::new();
    for number in 0..leaves * KEYS_A_LEAF {
        batch.clear();
        batch.put(tree, &number.to_be_bytes(), &[7; 200]);
        commit(engine, &batch, clock);
    }
    tree
}

#[test]
fn while_the_disk_answers_no_write_pages_are_read_into_frames_of_clean_ones() {
    let stuck = Arc::new(Stuck::default());
    let disk = Arc::new(SimulatedDisk::with_clock(7, stuck.clone()));
    let engine = Engine::open(disk.clone(), Arc::new(SystemClock::new()), options()).unwrap();
    let frames = options().cache_bytes / PAGE_BYTES;
    engine.start_background().unwrap();
    let mut clock = 0;
    // Three times what the cache holds to be read, and a quarter of it to be changed.
    let read = fill(&engine, 3 * frames as u32, &mut clock);
    let changed = fill(&engine, frames as u32 / 4, &mut clock);
    checkpoint(&engine);

    disk.set_delay(Operation::Write, Duration::from_secs(1));
    stuck.set(true);
    let mut batch = Batch::new();
    for leaf in 0..frames as u32 / 4 {
        batch.clear();
        batch.put(changed, &(leaf * KEYS_A_LEAF).to_be_bytes(), &[8; 200]);
        commit(&engine, &batch, &mut clock);
    }
    let (snapshot, mut value) = (engine.begin_snapshot(), Vec::new());
    let mut read_all = || {
        for leaf in 0..3 * frames as u32 {
            assert!(engine.get(&snapshot, read, &(leaf * KEYS_A_LEAF).to_be_bytes(), &mut value).unwrap());
        }
    };
    // Were readers to wait for the thread that writes, this would be over only when that is released.
    std::thread::scope(|scope| {
        let releaser = scope.spawn(|| stuck.release_after_a_minute());
        for _ in 0..50 {
            read_all();
            if stuck.has_writer() {
                break;
            }
        }
        let before = engine.statistics().unwrap().pages_read;
        read_all();
        let loaded = engine.statistics().unwrap().pages_read - before;
        let is_writing = stuck.has_writer() && engine.trees.cache.frames.dirty() > 0;
        stuck.set(false);
        assert!(!releaser.join().unwrap(), "it took a minute");
        assert!(is_writing, "no changed page was to leave");
        assert!(loaded > frames as u64, "{loaded} pages were read");
    });
    disk.clear_faults();
    drop(snapshot);
    engine.stop_background();
    assert_sound(&engine, &[TreeId::CATALOG, read, changed]);
    checkpoint(&engine);
}

#[test]
fn while_the_disk_answers_no_write_a_checkpoint_is_frozen_beside_who_frees_pages() {
    let stuck = Arc::new(Stuck::default());
    let disk = Arc::new(SimulatedDisk::with_clock(11, stuck.clone()));
    let engine = Engine::open(disk.clone(), Arc::new(SystemClock::new()), options()).unwrap();
    let mut clock = 0;
    let kept = fill(&engine, 40, &mut clock);
    let dropped = fill(&engine, 40, &mut clock);
    let shrunk = fill(&engine, 40, &mut clock);
    checkpoint(&engine);
    // A tree and the leaves of another that are to be freed, and something to be written.
    engine.drop_tree(dropped).unwrap();
    let mut batch = Batch::new();
    for number in (0..40 * KEYS_A_LEAF).filter(|number| number % 20 != 0) {
        batch.clear();
        batch.delete(shrunk, &number.to_be_bytes());
        batch.put(kept, &number.to_be_bytes(), &[8; 200]);
        commit(&engine, &batch, &mut clock);
    }
    let before = engine.statistics().unwrap().store.pages;

    disk.set_delay(Operation::Write, Duration::from_secs(1));
    stuck.set(true);
    let mark = CheckpointMark { oplog_position: 0, timestamp: engine.visible(), oplog_end: 0 };
    std::thread::scope(|scope| {
        let releaser = scope.spawn(|| stuck.release_after_a_minute());
        let writer = scope.spawn(|| engine.trees.cache.writer.flush_batch().unwrap());
        while !stuck.has_writer() {
            std::thread::yield_now();
        }
        let reclaimer = scope.spawn(|| while engine.reclaim_step().unwrap() {});
        // Whoever frees pages comes to the barrier in the midst of this, if ever while nothing is written.
        for _ in 0..2_000 {
            drop(engine.barrier.write());
            std::thread::yield_now();
        }
        let mut begun = engine.begin_checkpoint(mark).unwrap();
        engine.freeze_checkpoint(&mut begun).unwrap();
        let (is_writing, is_freeing) = (stuck.has_writer(), !reclaimer.is_finished());
        stuck.set(false);
        assert!(!releaser.join().unwrap(), "it took a minute");
        assert!(is_writing && is_freeing, "nothing was under way");
        while engine.checkpoint_step(&mut begun).unwrap() {}
        engine.publish_checkpoint(&mut begun, 0).unwrap();
        writer.join().unwrap();
        reclaimer.join().unwrap();
    });
    disk.clear_faults();
    assert_sound(&engine, &[TreeId::CATALOG, kept, shrunk]);
    // The pages of the dropped tree can be used again once no checkpoint mentions them.
    checkpoint(&engine);
    let after = engine.statistics().unwrap().store.pages;
    assert!(after + 40 <= before, "{before} pages before, {after} after");
}
