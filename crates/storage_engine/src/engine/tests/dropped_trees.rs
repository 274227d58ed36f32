//! More dropped trees than a checkpoint's mark has room for: checkpoints are published, and the next life frees them all.

use super::*;
use crate::checkpoint_mark::LEFTOVERS_IN_MARK_MAX;
use crate::salvage::Salvage;

/// Creates so many trees of one entry and drops them all, with nobody to free them.
fn create_and_drop(engine: &Engine, count: usize, clock: &mut u64) -> Vec<TreeId> {
    let mut batch = Batch::new();
    let mut dropped = Vec::new();
    for _ in 0..count {
        let tree = engine.create_tree().unwrap();
        batch.clear();
        batch.put(tree, b"key", b"value");
        commit(engine, &batch, clock);
        engine.drop_tree(tree).unwrap();
        dropped.push(tree);
        while engine.evict_batch().unwrap() > 0 {}
    }
    dropped
}

#[test]
fn any_number_of_dropped_trees_outlasts_a_crash() {
    let disk = Arc::new(SimulatedDisk::new(7));
    let engine = open(&disk);
    let kept = engine.create_tree().unwrap();
    let mut clock = 0;
    put_numbers(&engine, kept, 100, &mut clock);
    let dropped = create_and_drop(&engine, LEFTOVERS_IN_MARK_MAX + 100, &mut clock);
    checkpoint(&engine);
    assert_sound(&engine, &[TreeId::CATALOG, kept]);
    drop(engine);
    disk.power_loss();

    let salvaged = Salvage::open(&*disk).unwrap();
    assert_eq!(salvaged.dropped_trees(), dropped.iter().copied().collect());
    assert!(salvaged.problems().is_empty(), "{:?}", salvaged.problems());

    let engine = open(&disk);
    assert_sound(&engine, &[TreeId::CATALOG, kept]);
    while engine.reclaim_step().unwrap() {}
    // Twice: the pages of the first are given back with the second.
    (0..2).for_each(|_| checkpoint(&engine));
    let left =
        (0..engine.store.page_id_limit()).filter(|page| engine.trees.cache.frames.is_allocated(PageId(*page))).count();
    assert!(left < 20, "{left} pages are left");
    assert_sound(&engine, &[TreeId::CATALOG, kept]);
}
