//! What deletions leave behind.

use platform::{Random, SeededRandom};

use super::*;

/// Puts for these keys of 1,000 bytes that compression does not make smaller.
fn puts(tree: TreeId, keys: std::ops::Range<u8>) -> Batch {
    let random = SeededRandom::new(3);
    let mut batch = Batch::new();
    for key in keys {
        let value: Vec<u8> = (0..1_000).map(|_| random.below(256) as u8).collect();
        batch.put(tree, &[key], &value);
    }
    batch
}

/// A tree with this many settled entries.
fn filled(engine: &Engine, count: u8) -> TreeId {
    let tree = engine.create_tree().unwrap();
    engine.apply_settled(&puts(tree, 0..count)).unwrap();
    tree
}

/// How many of such entries the tree's pages have room for once the background has nothing more to do.
fn entries_kept(engine: &Engine, tree: TreeId) -> u64 {
    while engine.reclaim_step().unwrap() {}
    while engine.evict_all().unwrap() > 0 {}
    checkpoint(engine);
    engine.tree_statistics(tree).unwrap().disk_bytes / 1_000
}

fn delete(engine: &Engine, tree: TreeId, key: u8, clock: &mut u64) {
    let mut batch = Batch::new();
    batch.delete(tree, &[key]);
    commit(engine, &batch, clock);
}

/// A snapshot that begins while a leaf is being emptied keeps one of its deleted entries; that goes when the snapshot has ended, although
/// nothing more is deleted there.
#[test]
fn deleted_entries_that_a_snapshot_kept_go_after_it() {
    let engine = open(&Arc::new(SimulatedDisk::new(1)));
    let (tree, mut clock) = (filled(&engine, 4), 0);
    (0..2).for_each(|key| delete(&engine, tree, key, &mut clock));
    let snapshot = engine.begin_snapshot();
    delete(&engine, tree, 2, &mut clock);
    assert_eq!(entries_kept(&engine, tree), 2);
    assert_eq!(all(&engine, &snapshot, tree).len(), 2);
    drop(snapshot);
    commit(&engine, &Batch::new(), &mut clock);
    assert_eq!(entries_kept(&engine, tree), 1);
    assert_sound(&engine, &[TreeId::CATALOG, tree]);
}

/// Entries that were updated, and so have versions before they are deleted, hide no leaf that is being emptied: whether it was an update that made
/// half of the entries unsettled, or nearly all of them were.
#[test]
fn updates_hide_no_leaf() {
    for (before, between) in [(0..0_u8, 11..12_u8), (0..10, 0..0)] {
        let engine = open(&Arc::new(SimulatedDisk::new(1)));
        let (tree, mut clock) = (filled(&engine, 12), 0);
        commit(&engine, &puts(tree, before), &mut clock);
        (0..5).for_each(|key| delete(&engine, tree, key, &mut clock));
        commit(&engine, &puts(tree, between), &mut clock);
        (5..10).for_each(|key| delete(&engine, tree, key, &mut clock));
        assert_eq!(entries_kept(&engine, tree), 2);
        assert_sound(&engine, &[TreeId::CATALOG, tree]);
    }
}

/// Nine of ten entries are deleted, in order and while the background keeps up, as an expiry does: what is left ends up in few pages.
#[test]
fn what_is_left_of_a_large_deletion_is_put_together() {
    for settled in [false, true] {
        let disk = Arc::new(SimulatedDisk::new(7));
        let engine = open(&disk);
        let tree = engine.create_tree().unwrap();
        let (mut batch, mut clock) = (Batch::new(), 0);
        let mut pass = |number: u32, change: &mut dyn FnMut(&mut Batch, &[u8])| {
            batch.clear();
            change(&mut batch, &number.to_be_bytes());
            if settled {
                engine.apply_settled(&batch).unwrap();
            } else {
                commit(&engine, &batch, &mut clock);
            }
            if number.is_multiple_of(50) {
                while engine.evict_batch().unwrap() > 0 {}
                while engine.reclaim_step().unwrap() {}
            }
        };
        (0..5_000).for_each(|number| pass(number, &mut |batch, key| batch.put(tree, key, &[7; 1_000])));
        let full = engine.tree_statistics(tree).unwrap();
        for number in (0..5_000).filter(|number| number % 10 != 0) {
            pass(number, &mut |batch, key| batch.delete(tree, key));
        }
        while engine.reclaim_step().unwrap() {}
        let left = engine.tree_statistics(tree).unwrap();
        assert_eq!(left.entries, 500);
        assert!(left.leaf_pages * 5 < full.leaf_pages, "{full:?} {left:?}");
        assert_sound(&engine, &[TreeId::CATALOG, tree]);
    }
}

/// Removals that wait for their leaves to be read do not wait for ever: what they emptied is put together although nobody looks.
#[test]
fn what_blind_removals_emptied_is_put_together_although_nobody_reads_it() {
    let engine = open(&Arc::new(SimulatedDisk::new(7)));
    let tree = engine.create_tree().unwrap();
    let (mut batch, mut clock) = (Batch::new(), 0);
    let key = |number: u32| format!("{:08}", number.wrapping_mul(7_919) % 40_000).into_bytes();
    let mut pass = |numbers: std::ops::Range<u32>, change: &mut dyn FnMut(&mut Batch, &[u8])| {
        for number in numbers {
            batch.clear();
            change(&mut batch, &key(number));
            commit(&engine, &batch, &mut clock);
        }
    };
    pass(0..40_000, &mut |batch, key| batch.blind_insert(tree, key, b""));
    let full = engine.tree_statistics(tree).unwrap().leaf_pages;
    let read = engine.statistics().unwrap().pages_read;
    while engine.evict_all().unwrap() > 0 {}
    for first in (0..36_000).step_by(1_000) {
        pass(first..first + 1_000, &mut |batch, key| batch.blind_remove(tree, key));
        while engine.merge_step().unwrap() > 0 {}
        while engine.reclaim_step().unwrap() {}
        while engine.evict_all().unwrap() > 0 {}
    }
    let now = engine.statistics().unwrap();
    assert!(now.pages_read - read < 10 * full, "{} for {full} leaves", now.pages_read - read);
    let left = engine.tree_statistics(tree).unwrap();
    assert!(left.leaf_pages * 4 < full, "{full} leaves have become {left:?}");
    assert_eq!(all(&engine, &engine.begin_snapshot(), tree).len(), 4_000);
    assert_sound(&engine, &[TreeId::CATALOG, tree]);
}

/// The pages of a large tree are read for the last time to free them, and must not take the place of what is in use.
#[test]
fn a_tree_that_is_dropped_leaves_the_cache_to_others() {
    let disk = Arc::new(SimulatedDisk::new(3));
    let engine = open(&disk);
    let (hot, large) = (engine.create_tree().unwrap(), engine.create_tree().unwrap());
    let mut clock = 0;
    put_numbers(&engine, large, 100_000, &mut clock);
    put_numbers(&engine, hot, 10_000, &mut clock);
    let read = |engine: &Engine| {
        assert_eq!(all(engine, &engine.begin_snapshot(), hot).len(), 10_000);
        engine.statistics().unwrap().pages_read
    };
    read(&engine);
    let before = read(&engine);
    assert_eq!(before, read(&engine), "it is in the cache");
    engine.drop_tree(large).unwrap();
    while engine.reclaim_step().unwrap() {}
    let freed = engine.statistics().unwrap().pages_read;
    assert!(freed > before + 500, "{before} {freed}");
    assert_eq!(freed, read(&engine));
    assert_sound(&engine, &[TreeId::CATALOG, hot]);
}
