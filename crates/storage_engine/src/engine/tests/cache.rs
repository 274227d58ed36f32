//! What stays in the cache, and what buffered changes may take of their pages.

use proptest::prelude::*;

use super::*;

/// Fills a tree whose leaves are about `leaves`.
fn tree_of_leaves(engine: &Engine, clock: &mut u64, leaves: u32) -> (TreeId, u32) {
    let tree = engine.create_tree().unwrap();
    let entries = leaves * 70;
    let mut batch = Batch::new();
    for number in 0..entries {
        batch.clear();
        batch.put(tree, &number.to_be_bytes(), &[7; 200]);
        commit(engine, &batch, clock);
    }
    (tree, entries)
}

fn reads_of(engine: &Engine, work: impl FnOnce()) -> u64 {
    let before = engine.statistics().unwrap().pages_read;
    work();
    engine.statistics().unwrap().pages_read - before
}

/// One that walks in circles over a tenth more than the cache holds finds most of it again, and what others use meanwhile stays. Index entries that
/// are only changed do not take the place of what is read.
#[test]
fn a_walk_in_circles_reads_little_more_than_what_the_cache_lacks() {
    let disk = Arc::new(SimulatedDisk::new(11));
    let engine = open(&disk);
    let mut clock = 0;
    let (hot, hot_entries) = tree_of_leaves(&engine, &mut clock, 20);
    let (index, index_entries) = tree_of_leaves(&engine, &mut clock, 60);
    // 256 frames, a few of which are kept free.
    let (walked, entries) = tree_of_leaves(&engine, &mut clock, 250);
    let mut batch = Batch::new();
    let mut value = Vec::new();
    let mut round = || {
        let snapshot = engine.begin_snapshot();
        let mut cursor = engine.cursor(&snapshot, walked);
        let mut seen = 0;
        while cursor.next().unwrap() {
            seen += 1;
            if seen % 10 == 0 {
                let key = (seen * 7 % hot_entries).to_be_bytes();
                assert!(engine.get(&snapshot, hot, &key, &mut value).unwrap());
                batch.clear();
                let number = seen * 13 % index_entries;
                batch.blind_insert(index, &[&number.to_be_bytes()[..], &clock.to_be_bytes()].concat(), b"");
                commit(&engine, &batch, &mut clock);
            }
        }
        assert_eq!(seen, entries);
        engine.merge_step().unwrap();
    };
    (0..6).for_each(|_| round());
    let reads = reads_of(&engine, || (0..4).for_each(|_| round())) / 4;
    assert!(reads > 10, "all of it is in the cache: {reads}");
    assert!(reads < 150, "{reads} pages read in a round over 250 leaves");
    assert_sound(&engine, &[TreeId::CATALOG, hot, index, walked]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// A buffer takes no change that its page could not take with a version of each for the oldest snapshot there is.
    #[test]
    fn full_buffers_fit_their_pages_while_snapshots_are_open(
        numbers in prop::collection::vec(0u32..900, 2_000..6_000),
        evictions in 100usize..900,
        is_held in any::<bool>(),
    ) {
        let disk = Arc::new(SimulatedDisk::new(5));
        let engine = open(&disk);
        let tree = engine.create_tree().unwrap();
        let (mut batch, mut clock, mut model) = (Batch::new(), 0, BTreeMap::new());
        for number in (0..900u32).step_by(2) {
            batch.clear();
            batch.blind_insert(tree, &number.to_be_bytes(), &[3; 20]);
            commit(&engine, &batch, &mut clock);
            model.insert(number.to_be_bytes().to_vec(), vec![3; 20]);
        }
        checkpoint(&engine);
        engine.evict_all().unwrap();
        let (snapshot, before) = (is_held.then(|| engine.begin_snapshot()), model.clone());
        for (step, number) in numbers.iter().enumerate() {
            let key = number.to_be_bytes();
            batch.clear();
            if model.remove(&key[..]).is_some() {
                batch.blind_remove(tree, &key);
            } else {
                batch.blind_insert(tree, &key, &[4; 20]);
                model.insert(key.to_vec(), vec![4; 20]);
            }
            commit(&engine, &batch, &mut clock);
            if step % evictions == 0 {
                engine.evict_all().unwrap();
            }
        }
        prop_assert_eq!(all(&engine, &engine.begin_snapshot(), tree), Vec::from_iter(model));
        if let Some(snapshot) = snapshot {
            prop_assert_eq!(all(&engine, &snapshot, tree), Vec::from_iter(before));
        }
        assert_sound(&engine, &[TreeId::CATALOG, tree]);
    }
}

/// A scan of what was loaded in order goes forward through the file, whenever its pages were evicted or written for a checkpoint: what lies ahead is read ahead.
#[test]
fn what_was_loaded_in_order_lies_in_order_on_the_disk() {
    let engine = open(&Arc::new(SimulatedDisk::new(5)));
    let (tree, mut clock) = (engine.create_tree().unwrap(), 0);
    put_numbers(&engine, tree, 120_000, &mut clock);
    checkpoint(&engine);
    let leaves = engine.trees.pages_of(tree).unwrap().leaves;
    let places: Vec<u64> =
        leaves.iter().map(|leaf| engine.trees.cache.frames.disk_address(*leaf).unwrap().place()).collect();
    let forward = places.windows(2).filter(|pair| pair[0] < pair[1]).count();
    assert!(places.len() > 700 && forward * 10 > places.len() * 9, "{forward} of {}", places.len());
    assert_sound(&engine, &[TreeId::CATALOG, tree]);
}
