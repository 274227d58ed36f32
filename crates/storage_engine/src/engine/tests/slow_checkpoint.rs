//! A checkpoint that lasts for minutes, and what others notice of it (G6; `plimsoll certify` names this test).

use std::cell::{Cell, RefCell};
use std::time::Duration;

use platform::Random;

use super::*;
use crate::Compression;

/// A checkpoint that is slowed to last two minutes, beside changes of many times the cache: what its pages were is written from copies, so
/// every frame can be evicted all the while. The dirty share stays as level as before it, and no change is held back.
#[test]
fn the_dirty_share_stays_level_during_a_checkpoint_of_minutes() {
    const KEYS: u32 = 12_000;
    // Of which it pauses a sixth: half is for the preparation, few pages are dirty, and most of them are written in one step.
    const LENGTH: Duration = Duration::from_secs(800);
    let clock = Arc::new(SimulatedClock::new(0));
    let disk = Arc::new(SimulatedDisk::new(7));
    let options = EngineOptions { compression: Compression::None, ..options() };
    let engine = Engine::open(disk.clone(), clock.clone(), options.clone()).unwrap();
    let tree = engine.create_tree().unwrap();
    let random = platform::SeededRandom::new(11);
    let (batch, commits) = (RefCell::new(Batch::new()), Cell::new(0_u64));
    // One change of a random page, and what the background does at any moment.
    let change = |key: u32| {
        let mut batch = batch.borrow_mut();
        batch.clear();
        let number = commits.get() + 1;
        commits.set(number);
        batch.put(tree, &key.to_be_bytes(), &[number.to_le_bytes().as_slice(), &[b'v'; 1000]].concat());
        assert!(engine.pace() < Duration::from_millis(1), "{:?}", engine.pressure());
        engine.apply(&batch, Timestamp(number)).unwrap();
        engine.set_visible(Timestamp(number));
        while engine.evict_batch().unwrap() > 0 {}
        engine.flush_batch().unwrap();
        engine.reclaim_step().unwrap();
        engine.trees.cache.frames.dirty() as f64 / engine.trees.cache.usable_frames() as f64
    };
    let change_any = || change(random.below(u64::from(KEYS)) as u32);
    (0..KEYS).for_each(|key| {
        change(key);
    });
    let usual = (0..2_000).map(|_| change_any()).fold(0.0, f64::max);
    let mark = CheckpointMark { oplog_position: 0, timestamp: engine.visible(), oplog_end: 0 };
    let (began, before) = (clock.monotonic(), commits.get());
    let mut checkpoint = freeze(&engine, mark);
    let shares = RefCell::new(Vec::new());
    let copies_max = Cell::new(0);
    let looks = Cell::new(0);
    let beside = || {
        // Every 20 ms.
        looks.set(looks.get() + 1);
        if looks.get() % 2 == 0 {
            return false;
        }
        shares.borrow_mut().push(change_any());
        copies_max.set(copies_max.get().max(engine.trees.cache.writer.waiting_copies()));
        false
    };
    while engine.checkpoint_step(&mut checkpoint).unwrap() {
        engine.pause_checkpoint(&checkpoint, LENGTH, &beside).unwrap();
    }
    engine.publish_checkpoint(&mut checkpoint, 0).unwrap();
    let (lasted, shares) = (clock.monotonic() - began, shares.into_inner());
    assert!(lasted > Duration::from_secs(120), "{lasted:?}");
    let frames = engine.trees.cache.usable_frames();
    assert!(shares.len() > 10 * frames, "{} changes beside it, {frames} frames", shares.len());
    for (number, tenth) in shares.chunks(shares.len().div_ceil(10)).enumerate() {
        let highest = tenth.iter().copied().fold(0.0, f64::max);
        assert!(highest <= usual + 0.02, "tenth {number}: {highest:.2} of the frames dirty, {usual:.2} before");
    }
    assert!(copies_max.get() < frames / 10, "{} copies", copies_max.get());
    // And it is a checkpoint: what was there when it began, and none of the later changes.
    drop(engine);
    disk.power_loss();
    let engine = Engine::open(disk, clock, options).unwrap();
    assert_sound(&engine, &[TreeId::CATALOG, tree]);
    let newest = all(&engine, &engine.begin_snapshot(), tree)
        .into_iter()
        .map(|(_, value)| u64::from_le_bytes(*value.first_chunk().unwrap()));
    assert_eq!(newest.max(), Some(before));
}
