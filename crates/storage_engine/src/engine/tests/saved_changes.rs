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
