//! Checkpoints that save buffered changes instead of merging them: what the next life makes of that.

use platform::{InjectedError, Operation, Random};

use super::*;
use crate::PageContent;

/// A tree with many leaves on disk that have room, with changes buffered for most of them, and what it holds.
struct Buffered {
    disk: Arc<SimulatedDisk>,
    engine: Arc<Engine>,
    tree: TreeId,
    model: Model,
    clock: u64,
}

fn key(number: u32) -> Vec<u8> {
    number.to_be_bytes().to_vec()
}

impl Buffered {
    fn new() -> Self {
        Self::with(60_000, options())
    }

    fn with(entries: usize, options: EngineOptions) -> Self {
        let disk = Arc::new(SimulatedDisk::new(7));
        let engine = Engine::open(disk.clone(), Arc::new(SimulatedClock::new(0)), options).unwrap();
        let tree = engine.create_tree().unwrap();
        let mut buffered = Self { disk, engine, tree, model: Model::new(), clock: 0 };
        let random = platform::SeededRandom::new(5);
        for _ in 0..entries {
            buffered.insert(random.below(1 << 20) as u32, &[b'v'; 40]);
        }
        checkpoint(&buffered.engine);
        buffered.evict();
        buffered
    }

    fn insert(&mut self, number: u32, value: &[u8]) {
        let mut batch = Batch::new();
        batch.blind_insert(self.tree, &key(number), value);
        commit(&self.engine, &batch, &mut self.clock);
        self.model.insert(key(number), value.to_vec());
        while self.engine.evict_batch().unwrap() > 0 {}
    }

    fn evict(&self) {
        while self.engine.trees.cache.evict_all().unwrap() > 0 {}
    }

    /// One change for every so many keys.
    fn change_all(&mut self, apart: usize, offset: u32, value: &[u8]) {
        (0..1 << 20).step_by(apart).for_each(|number| self.insert(number + offset, value));
    }

    fn buffered_pages(&self) -> usize {
        self.engine.statistics().unwrap().buffered_pages as usize
    }

    fn reopen(&mut self, options: EngineOptions) {
        self.disk.power_loss();
        self.engine = Engine::open(self.disk.clone(), Arc::new(SimulatedClock::new(0)), options).unwrap();
        self.clock += 1;
        self.engine.set_visible(Timestamp(self.clock));
    }

    fn check(&self) {
        let found = all(&self.engine, &self.engine.begin_snapshot(), self.tree);
        assert_eq!(found, self.model.clone().into_iter().collect::<Vec<_>>());
        assert_sound(&self.engine, &[TreeId::CATALOG, self.tree]);
    }
}

#[test]
fn buffers_outlast_checkpoints_and_lives_until_their_leaves_are_read() {
    let mut buffered = Buffered::new();
    for round in 1..4 {
        buffered.change_all(3_000, round, b"of this round");
        let (pages, read) = (buffered.buffered_pages(), buffered.engine.statistics().unwrap().pages_read);
        assert!(pages > 100, "{pages}");
        checkpoint(&buffered.engine);
        assert_eq!((buffered.buffered_pages(), buffered.engine.statistics().unwrap().pages_read), (pages, read));
        // A second one in a row saves all of it again.
        checkpoint(&buffered.engine);
        buffered.reopen(options());
        assert_eq!(buffered.buffered_pages(), pages);
    }
    let before = buffered.engine.statistics().unwrap();
    buffered.check();
    checkpoint(&buffered.engine);
    checkpoint(&buffered.engine);
    assert!(before.buffered_pages > 0 && buffered.buffered_pages() == 0, "all were read");
    buffered.reopen(options());
    buffered.check();
}

#[test]
fn a_smaller_cache_merges_what_it_cannot_keep() {
    let mut buffered = Buffered::with(350_000, EngineOptions { cache_bytes: 32 << 20, ..options() });
    for round in 1..12 {
        buffered.change_all(300, round, &[b'w'; 200]);
    }
    let pages = buffered.buffered_pages();
    checkpoint(&buffered.engine);
    buffered.reopen(options());
    let restored = buffered.buffered_pages();
    assert!(restored > pages / 3 && restored < pages, "{restored} of {pages}");
    buffered.check();
}

#[test]
fn what_was_saved_is_written_again_when_the_disk_was_full() {
    let mut buffered = Buffered::new();
    for round in 1..20 {
        buffered.change_all(3_000, round, &[b'w'; 30]);
    }
    let mark = CheckpointMark { oplog_position: 0, timestamp: buffered.engine.visible(), oplog_end: 0 };
    let mut begun = buffered.engine.begin_checkpoint(|| mark).unwrap();
    let kept = buffered.model.clone();
    buffered.change_all(3_000, 500, b"later");
    buffered.disk.fail_always(Operation::Write, InjectedError::NoSpace);
    let failed = (0..10).find_map(|_| buffered.engine.checkpoint_step(&mut begun).err());
    assert!(failed.is_some_and(|error| error.is_disk_full()));
    buffered.disk.clear_faults();
    // Merged by a reader between the two attempts.
    let mut value = Vec::new();
    for number in 0..10 {
        buffered.engine.get_latest(buffered.tree, &key(number * 3_000), &mut value).unwrap();
    }
    while buffered.engine.checkpoint_step(&mut begun).unwrap() {}
    buffered.engine.publish_checkpoint(&begun).unwrap();
    buffered.model = kept;
    buffered.reopen(options());
    buffered.check();
}

#[test]
fn damaged_saved_changes_are_found_when_the_engine_is_opened() {
    let mut buffered = Buffered::new();
    buffered.change_all(3_000, 1, b"lost");
    checkpoint(&buffered.engine);
    buffered.disk.power_loss();
    let inspection = crate::EngineInspection::open(buffered.disk.clone()).unwrap();
    let pages: Vec<_> = inspection.store().pages().map(|(page, _)| inspection.page(page).unwrap()).collect();
    let saved: Vec<_> = pages.iter().filter(|page| matches!(page.content, PageContent::SavedChanges { .. })).collect();
    assert!(!saved.is_empty());
    let path = std::path::Path::new(crate::page_store::PAGE_FILE_NAME);
    let at = saved[0].address.offset_bytes() + 300;
    buffered.disk.flip_bit(path, at, 3).unwrap();
    let opened = Engine::open(buffered.disk.clone(), Arc::new(SimulatedClock::new(0)), options());
    let error = opened.err().unwrap().to_string();
    assert!(error.contains(&format!("page {}", saved[0].page.0)), "{error}");
    buffered.disk.flip_bit(path, at, 3).unwrap();
    buffered.reopen(options());
    buffered.check();
}

const WORKERS: usize = 3;
const STEPS: usize = 60_000;

/// The key that a worker's step inserts if it is absent, and removes if it is there.
fn toggled(worker: usize, step: usize) -> Vec<u8> {
    let mixed = ((worker * STEPS + step) as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23);
    [&((mixed % 20_011) as u32).to_be_bytes()[..], &[worker as u8], &[b'k'; 150]].concat()
}

/// A worker's keys after so many of its steps.
fn keys_after(worker: usize, steps: usize) -> std::collections::BTreeSet<Vec<u8>> {
    let mut keys = std::collections::BTreeSet::new();
    for key in (0..steps).map(|step| toggled(worker, step)) {
        if !keys.remove(&key) {
            keys.insert(key);
        }
    }
    keys
}

fn work(engine: &Engine, tree: TreeId, worker: usize, clock: &Mutex<u64>, done: &AtomicU64) {
    let (mut batch, mut there) = (Batch::new(), std::collections::BTreeSet::new());
    for step in 0..STEPS {
        let key = toggled(worker, step);
        batch.clear();
        if there.remove(&key) {
            batch.blind_remove(tree, &key);
        } else {
            batch.blind_insert(tree, &key, b"v");
            there.insert(key);
        }
        let timestamp = {
            let mut clock = clock.lock();
            *clock += 1;
            Timestamp(*clock)
        };
        engine.apply(&batch, timestamp).unwrap();
        engine.set_visible(timestamp);
        done.store(step as u64 + 1, Ordering::Release);
    }
}

/// Checkpoints beside several writers, readers and all the background: the last one has what was done when it began, whatever was merged,
/// evicted and buffered while it was written.
#[test]
fn a_checkpoint_has_what_was_done_when_it_began() {
    let disk = Arc::new(SimulatedDisk::new(7));
    let engine = Engine::open(disk.clone(), Arc::new(platform::SystemClock::new()), options()).unwrap();
    engine.start_background().unwrap();
    let tree = engine.create_tree().unwrap();
    let (clock, done) = (Mutex::new(0), <[AtomicU64; WORKERS]>::default());
    let begun_with = Mutex::new([0; WORKERS]);
    std::thread::scope(|scope| {
        let (engine, clock, done) = (&*engine, &clock, &done);
        let workers: Vec<_> =
            (0..WORKERS).map(|worker| scope.spawn(move || work(engine, tree, worker, clock, &done[worker]))).collect();
        while !workers.iter().all(|worker| worker.is_finished()) {
            let mark = || {
                *begun_with.lock() = std::array::from_fn(|worker| done[worker].load(Ordering::Acquire));
                CheckpointMark { oplog_position: 0, timestamp: engine.visible(), oplog_end: 0 }
            };
            engine.checkpoint(mark, || Ok(())).unwrap();
            let mut cursor = engine.cursor(&engine.begin_snapshot(), tree);
            cursor.seek(&toggled(0, 77)).unwrap();
            for _ in 0..50 {
                cursor.next().unwrap();
            }
        }
    });
    let statistics = engine.statistics().unwrap();
    assert!(statistics.checkpoints > 2 && statistics.pages_merged > 100, "{statistics:?}");
    engine.stop_background();
    drop(engine);
    disk.power_loss();
    let engine = open(&disk);
    engine.set_visible(Timestamp(*clock.lock() + 1));
    let found = all(&engine, &engine.begin_snapshot(), tree);
    for (worker, steps) in begun_with.into_inner().into_iter().enumerate() {
        let found: std::collections::BTreeSet<_> =
            found.iter().map(|(key, _)| key.clone()).filter(|key| usize::from(key[4]) == worker).collect();
        // The last step may not have been counted yet when the checkpoint began.
        let is_right = [steps, steps + 1].into_iter().any(|steps| found == keys_after(worker, steps as usize));
        assert!(is_right, "worker {worker} after {steps} steps");
    }
    assert_sound(&engine, &[TreeId::CATALOG, tree]);
}
