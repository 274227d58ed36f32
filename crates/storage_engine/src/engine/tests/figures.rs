//! Figures of trees: of all of one, and of as much as may be read.

use super::*;

#[test]
fn a_tree_is_read_as_far_as_wanted() {
    let engine = open(&Arc::new(SimulatedDisk::new(1)));
    let tree = engine.create_tree().unwrap();
    let mut clock = 0;
    for number in 0..2_000_u32 {
        let mut batch = Batch::new();
        // Some are in chains of their own pages.
        batch.put(tree, &number.to_be_bytes(), &vec![7; if number % 100 == 0 { 20_000 } else { 100 }]);
        commit(&engine, &batch, &mut clock);
    }
    let whole = engine.tree_statistics(tree).unwrap();
    assert!(whole.is_whole && whole.entries == 2_000 && whole.overflow_pages == 40, "{whole:?}");
    assert_eq!(engine.first_tree_statistics(tree, 1_000).unwrap(), whole);
    let part = engine.first_tree_statistics(tree, 10).unwrap();
    assert!(!part.is_whole && part.disk_bytes < whole.disk_bytes, "{part:?}");
    assert!(part.inner_pages + part.leaf_pages + part.overflow_pages >= 10, "{part:?}");
}
