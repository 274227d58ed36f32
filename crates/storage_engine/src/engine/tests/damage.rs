//! A damaged page costs its tree, not the others: neither a commit, nor merging, nor freeing fails because of it.

use std::path::Path;

use super::*;
use crate::page_store::PAGE_FILE_NAME;

/// Two trees of many leaves that are all on disk; of the first, a leaf in the middle is damaged.
fn damaged() -> (Arc<SimulatedDisk>, Arc<Engine>, [TreeId; 2], u64) {
    let disk = Arc::new(SimulatedDisk::new(7));
    let engine = open(&disk);
    let trees = [(); 2].map(|()| engine.create_tree().unwrap());
    let mut clock = 0;
    trees.iter().for_each(|tree| put_numbers(&engine, *tree, 3000, &mut clock));
    checkpoint(&engine);
    let leaves = engine.trees.pages_of(trees[0]).unwrap().leaves;
    let address = engine.store.current_address(leaves[leaves.len() / 2]);
    drop(engine);
    disk.flip_bit(Path::new(PAGE_FILE_NAME), address.offset_bytes() + 100, 3).unwrap();
    let engine = open(&disk);
    (disk, engine, trees, clock)
}

fn readable(engine: &Engine, tree: TreeId) -> usize {
    let (snapshot, mut value) = (engine.begin_snapshot(), Vec::new());
    (0..3000_u32).filter(|key| engine.get(&snapshot, tree, &key.to_be_bytes(), &mut value).is_ok()).count()
}

/// Nothing is wrong but the damaged page and what it leads to.
fn assert_sound_but_for(engine: &Engine, hurt: TreeId, whole: TreeId) {
    let errors = engine.verify(&[TreeId::CATALOG, whole, hurt]).unwrap().errors;
    let is_expected = |error: &String| error.contains("belongs to no tree") || error.contains("corrupt");
    assert!(errors.iter().all(is_expected), "{errors:#?}");
}

#[test]
fn a_batch_is_applied_but_for_the_tree_that_is_damaged() {
    let (disk, engine, [hurt, whole], mut clock) = damaged();
    let lost = 3000 - readable(&engine, hurt);
    assert!(lost > 0 && lost < 500 && readable(&engine, whole) == 3000, "{lost}");
    let mut batch = Batch::new();
    for key in 0..3000_u32 {
        batch.clear();
        batch.put(hurt, &key.to_be_bytes(), b"new");
        batch.put(whole, &key.to_be_bytes(), b"new");
        commit(&engine, &batch, &mut clock);
    }
    let aside = engine.trees_set_aside();
    assert_eq!((aside.len(), aside[0].0, engine.trees_set_aside_count()), (1, hurt, 1));
    assert!(aside[0].1.contains("is damaged"), "{}", aside[0].1);
    assert!(all(&engine, &engine.begin_snapshot(), whole).iter().all(|(_, value)| value == b"new"));
    checkpoint(&engine);
    assert_sound_but_for(&engine, hurt, whole);
    // Once it is dropped nothing is told of it, and what can be read of it is freed.
    engine.drop_tree(hurt).unwrap();
    assert!(engine.trees_set_aside().is_empty());
    while engine.reclaim_step().unwrap() {}
    (0..2).for_each(|_| checkpoint(&engine));
    drop(engine);
    disk.power_loss();
    let engine = open(&disk);
    let left =
        (0..engine.store.page_id_limit()).filter(|page| engine.trees.cache.frames.is_allocated(PageId(*page))).count();
    let wanted = engine.trees.pages_of(whole).unwrap();
    assert!(left <= wanted.leaves.len() + wanted.inner.len() + 2, "{left} pages are left");
    assert!(all(&engine, &engine.begin_snapshot(), whole).iter().all(|(_, value)| value == b"new"));
}

#[test]
fn changes_buffered_for_a_damaged_leaf_stop_nobody() {
    let (_disk, engine, [hurt, whole], mut clock) = damaged();
    let mut batch = Batch::new();
    // Buffered first, and more than the buffers take.
    for round in 0..10_u32 {
        for key in 0..3000_u32 {
            batch.clear();
            for tree in [hurt, whole] {
                let mut longer = key.to_be_bytes().to_vec();
                longer.extend_from_slice(&round.to_be_bytes());
                batch.blind_insert(tree, &longer, b"value");
            }
            commit(&engine, &batch, &mut clock);
        }
        while engine.merge_step().unwrap() > 0 {}
        while engine.evict_batch().unwrap() > 0 {}
    }
    assert!(engine.check_writable().is_ok());
    assert_eq!(engine.trees_set_aside().into_iter().map(|(tree, _)| tree).collect::<Vec<_>>(), [hurt]);
    checkpoint(&engine);
    assert_eq!(all(&engine, &engine.begin_snapshot(), whole).len(), 3000 * 11);
    assert_sound_but_for(&engine, hurt, whole);
}
