//! Tests of the whole engine; the model test of all it does is in `model`.

use std::collections::BTreeMap;
use std::sync::Arc;

use platform::{SimulatedClock, SimulatedDisk};

use super::*;

mod cache;
mod concealed;
mod damage;
mod deletions;
mod dropped_trees;
mod figures;
mod long_keys;
mod merging;
mod model;
mod saved_changes;
mod slow_checkpoint;
mod stuck_disk;

fn options() -> EngineOptions {
    EngineOptions { cache_bytes: 4 << 20, history_memory_bytes: 1 << 20, ..EngineOptions::default() }
}

fn open(disk: &Arc<SimulatedDisk>) -> Arc<Engine> {
    Engine::open(disk.clone(), Arc::new(SimulatedClock::new(0)), options()).unwrap()
}

/// A checkpoint that has come so far that later changes are told apart by it.
fn freeze(engine: &Engine, mark: CheckpointMark) -> crate::checkpoint::CheckpointInProgress {
    let mut begun = engine.begin_checkpoint(mark).unwrap();
    while engine.prepare_checkpoint_step(&mut begun).unwrap() {}
    engine.freeze_checkpoint(&mut begun).unwrap();
    begun
}

fn checkpoint(engine: &Engine) {
    let mark = CheckpointMark { oplog_position: 0, timestamp: engine.visible(), oplog_end: 0 };
    engine.checkpoint(mark, || Ok(0)).unwrap();
}

fn commit(engine: &Engine, batch: &Batch, clock: &mut u64) {
    *clock += 1;
    engine.apply(batch, Timestamp(*clock)).unwrap();
    engine.set_visible(Timestamp(*clock));
}

/// Puts so many records of 100 bytes in the order of their keys, one commit each, with room made in the cache now and then.
fn put_numbers(engine: &Engine, tree: TreeId, count: u32, clock: &mut u64) {
    let mut batch = Batch::new();
    for number in 0..count {
        batch.clear();
        batch.put(tree, &number.to_be_bytes(), &[7; 100]);
        commit(engine, &batch, clock);
        if number % 100 == 0 {
            while engine.evict_batch().unwrap() > 0 {}
        }
    }
}

fn all(engine: &Engine, snapshot: &Snapshot, tree: TreeId) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut cursor = engine.cursor(snapshot, tree);
    let mut found = Vec::new();
    while cursor.next().unwrap() {
        let key = cursor.key().to_vec();
        found.push((key, cursor.value().unwrap().to_vec()));
    }
    let mut backwards = Vec::new();
    let mut cursor = engine.cursor(snapshot, tree);
    while cursor.previous().unwrap() {
        let key = cursor.key().to_vec();
        backwards.push((key, cursor.value().unwrap().to_vec()));
    }
    backwards.reverse();
    assert_eq!(found, backwards, "both directions see the same");
    found
}

fn assert_sound(engine: &Engine, trees: &[TreeId]) {
    let report = engine.verify(trees).unwrap();
    assert!(report.is_ok(), "{:#?}", report.errors);
    let statistics = engine.statistics().unwrap();
    assert_eq!(statistics.keys_materialised_writing_pages, 0);
}

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

#[test]
fn seeks_land_between_the_right_entries() {
    let disk = Arc::new(SimulatedDisk::new(7));
    let engine = open(&disk);
    let tree = engine.create_tree().unwrap();
    let (mut batch, mut clock) = (Batch::new(), 0);
    let key = |number: u32| format!("{number:08}").into_bytes();
    for number in (0..20_000).step_by(2) {
        batch.blind_insert(tree, &key(number), b"v");
    }
    commit(&engine, &batch, &mut clock);
    let snapshot = engine.begin_snapshot();
    let mut cursor = engine.cursor(&snapshot, tree);
    for number in [0u32, 1, 2, 777, 5_000, 9_999, 19_997] {
        let even_above = number.next_multiple_of(2);
        cursor.seek(&key(number)).unwrap();
        assert!(cursor.next().unwrap() && cursor.key() == key(even_above));
        cursor.seek_after(&key(number)).unwrap();
        assert!(cursor.next().unwrap() && cursor.key() == key(number / 2 * 2 + 2));
        cursor.seek_before(&key(number + 1)).unwrap();
        assert!(cursor.previous().unwrap() && cursor.key() == key(number / 2 * 2));
        cursor.seek_at_or_before(&key(number)).unwrap();
        assert!(cursor.previous().unwrap() && cursor.key() == key(number / 2 * 2));
        assert!(cursor.next().unwrap() && cursor.key() == key(number / 2 * 2), "moving back over the same entry");
    }
    cursor.seek_last().unwrap();
    assert!(!cursor.next().unwrap());
    cursor.seek_before(&key(0)).unwrap();
    assert!(!cursor.previous().unwrap());
    assert_sound(&engine, &[TreeId::CATALOG, tree]);
}

#[test]
fn a_tree_shrinks_when_its_entries_are_deleted() {
    let disk = Arc::new(SimulatedDisk::new(7));
    let engine = open(&disk);
    let tree = engine.create_tree().unwrap();
    let (mut batch, mut clock) = (Batch::new(), 0);
    put_numbers(&engine, tree, 30_000, &mut clock);
    let full = engine.tree_statistics(tree).unwrap();
    for number in 0..30_000u32 {
        batch.clear();
        batch.delete(tree, &number.to_be_bytes());
        commit(&engine, &batch, &mut clock);
        if number % 100 == 0 {
            while engine.evict_batch().unwrap() > 0 {}
        }
    }
    while engine.reclaim_step().unwrap() {}
    let empty = engine.tree_statistics(tree).unwrap();
    assert!(full.leaf_pages > 150 && empty.leaf_pages <= 2 && empty.entries == 0, "{full:?} {empty:?}");
    assert_sound(&engine, &[TreeId::CATALOG, tree]);
    engine.drop_tree(tree).unwrap();
    while engine.reclaim_step().unwrap() {}
    assert_sound(&engine, &[TreeId::CATALOG]);
}

#[test]
fn threads_agree_with_a_model_per_thread() {
    let disk = Arc::new(SimulatedDisk::new(7));
    let engine = Engine::open(disk.clone(), Arc::new(platform::SystemClock::new()), options()).unwrap();
    engine.start_background().unwrap();
    let tree = engine.create_tree().unwrap();
    let clock = Arc::new(Mutex::new(0u64));
    let workers: Vec<_> = (0..4u32)
        .map(|worker| {
            let (engine, clock) = (engine.clone(), clock.clone());
            platform::spawn_named("writer", move || {
                let mut model = Model::new();
                let mut batch = Batch::new();
                let mut random = u64::from(worker) + 1;
                for _ in 0..20_000 {
                    random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    let key = [&((random >> 33) as u16 % 5000).to_be_bytes()[..], &worker.to_be_bytes()].concat();
                    batch.clear();
                    let value = vec![random as u8; (random >> 50) as usize % 200];
                    if random >> 60 < 5 {
                        batch.delete(tree, &key);
                        model.remove(&key);
                    } else if random >> 60 < 10 {
                        batch.put(tree, &key, &value);
                        model.insert(key.clone(), value);
                    } else if model.remove(&key).is_some() {
                        batch.blind_remove(tree, &key);
                    } else {
                        batch.blind_insert(tree, &key, &value);
                        model.insert(key.clone(), value);
                    }
                    let timestamp = {
                        let mut clock = clock.lock();
                        *clock += 1;
                        Timestamp(*clock)
                    };
                    engine.apply(&batch, timestamp).unwrap();
                    if random >> 55 & 7 == 0 {
                        let mut value = Vec::new();
                        let found = engine.get_latest(tree, &key, &mut value).unwrap();
                        assert_eq!(found.map(|_| value), model.get(&key).cloned());
                    }
                }
                model
            })
            .unwrap()
        })
        .collect();
    for _ in 0..5 {
        checkpoint(&engine);
    }
    let mut model = Model::new();
    for worker in workers {
        model.extend(worker.join().unwrap());
    }
    engine.set_visible(Timestamp(*clock.lock()));
    engine.stop_background();
    let snapshot = engine.begin_snapshot();
    assert_eq!(all(&engine, &snapshot, tree), model.clone().into_iter().collect::<Vec<_>>());
    drop(snapshot);
    assert_sound(&engine, &[TreeId::CATALOG, tree]);
    checkpoint(&engine);
    drop(engine);
    let engine = open(&disk);
    let snapshot = engine.begin_snapshot();
    assert_eq!(all(&engine, &snapshot, tree), model.into_iter().collect::<Vec<_>>());
}

/// Leaves are split while others read them.
#[test]
fn two_threads_change_one_tree_and_read_each_others_entries() {
    // Miri is some thousand times slower.
    const NUMBERS: u8 = if cfg!(miri) { 12 } else { 60 };
    const VALUE_BYTES: usize = if cfg!(miri) { 1200 } else { 400 };
    let engine = open(&Arc::new(SimulatedDisk::new(7)));
    let tree = engine.create_tree().unwrap();
    let clock = Mutex::new(0u64);
    std::thread::scope(|scope| {
        for worker in 0..2u8 {
            let (engine, clock) = (&engine, &clock);
            scope.spawn(move || {
                let (mut batch, mut value) = (Batch::new(), Vec::new());
                for number in 0..NUMBERS {
                    batch.clear();
                    batch.put(tree, &[worker, number], &[number; VALUE_BYTES]);
                    let timestamp = {
                        let mut clock = clock.lock();
                        *clock += 1;
                        Timestamp(*clock)
                    };
                    engine.apply(&batch, timestamp).unwrap();
                    assert!(engine.get_latest(tree, &[worker, number], &mut value).unwrap().is_some());
                    if engine.get_latest(tree, &[1 - worker, number], &mut value).unwrap().is_some() {
                        assert_eq!(value, [number; VALUE_BYTES]);
                    }
                }
            });
        }
    });
    engine.set_visible(Timestamp(*clock.lock()));
    let snapshot = engine.begin_snapshot();
    assert_eq!(all(&engine, &snapshot, tree).len(), 2 * usize::from(NUMBERS));
    drop(snapshot);
    assert_sound(&engine, &[TreeId::CATALOG, tree]);
}

/// Replays as recovery does: settled changes by several threads, each with its own keys.
fn replay_settled(threads: u32, rounds: u32, background: bool) {
    let disk = Arc::new(SimulatedDisk::new(7));
    let engine = Engine::open(disk.clone(), Arc::new(platform::SystemClock::new()), options()).unwrap();
    if background {
        engine.start_background().unwrap();
    }
    let tree = engine.create_tree().unwrap();
    let key = |version: u32, id: u32| [&[0x2b][..], &version.to_be_bytes(), &id.to_be_bytes()].concat();
    let workers: Vec<_> = (0..threads)
        .map(|worker| {
            let engine = engine.clone();
            platform::spawn_named("writer", move || {
                let mut batch = Batch::new();
                for round in 0..rounds {
                    for id in (worker..300).step_by(threads as usize) {
                        batch.clear();
                        if round > 0 {
                            batch.blind_remove(tree, &key((round - 1) * 1000 + id, id));
                        }
                        batch.blind_insert(tree, &key(round * 1000 + id, id), &[]);
                        engine.apply_settled(&batch).unwrap();
                    }
                }
            })
            .unwrap()
        })
        .collect();
    workers.into_iter().for_each(|worker| worker.join().unwrap());
    engine.stop_background();
    let expected: Vec<_> = (0..300).map(|id| (key((rounds - 1) * 1000 + id, id), Vec::new())).collect();
    assert_sound(&engine, &[TreeId::CATALOG, tree]);
    assert_eq!(all(&engine, &engine.begin_snapshot(), tree), expected);
}

#[test]
fn settled_changes_leave_a_sound_tree() {
    replay_settled(1, 2, false);
    replay_settled(1, 50, false);
    replay_settled(2, 2, false);
    replay_settled(2, 50, false);
    replay_settled(2, 50, true);
}

#[test]
fn blind_changes_of_leaves_on_disk_read_nothing_until_somebody_looks() {
    let disk = Arc::new(SimulatedDisk::new(7));
    let mut engine = open(&disk);
    let tree = engine.create_tree().unwrap();
    let (mut batch, mut clock) = (Batch::new(), 0);
    let key = |number: u32| format!("a common beginning {number:08}").into_bytes();
    for number in 0..10_000 {
        batch.clear();
        batch.put(tree, &key(number * 2), b"old");
        commit(&engine, &batch, &mut clock);
    }
    // A random order leaves room in the leaves that appending does not.
    for number in (0..10_000).filter(|number| number % 7 == 0) {
        batch.clear();
        batch.delete(tree, &key(number * 2));
        commit(&engine, &batch, &mut clock);
    }
    while engine.reclaim_step().unwrap() {}
    checkpoint(&engine);
    let before = engine.begin_snapshot();
    let expected_before = all(&engine, &before, tree);
    while engine.trees.cache.evict_all().unwrap() > 0 {}
    // The inner pages are needed to find the leaves.
    engine.get_latest(tree, &key(1), &mut Vec::new()).unwrap();
    let read_before = engine.statistics().unwrap().pages_read;
    let mut model: Model = expected_before.iter().cloned().collect();
    for number in (0..10_000).step_by(50) {
        batch.clear();
        batch.blind_insert(tree, &key(number * 2 + 1), b"new");
        model.insert(key(number * 2 + 1), b"new".to_vec());
        if model.remove(&key(number * 2)).is_some() {
            batch.blind_remove(tree, &key(number * 2));
        }
        commit(&engine, &batch, &mut clock);
    }
    let statistics = engine.statistics().unwrap();
    assert!(statistics.buffered_pages > 5 && statistics.buffered_change_bytes > 0, "{statistics:?}");
    assert!(statistics.pages_read - read_before < 10, "{statistics:?}");
    assert_eq!(all(&engine, &before, tree), expected_before, "the older snapshot sees nothing of it");
    let now = engine.begin_snapshot();
    assert_eq!(all(&engine, &now, tree), model.clone().into_iter().collect::<Vec<_>>());
    drop((before, now));
    while engine.trees.cache.evict_all().unwrap() > 0 {}
    batch.clear();
    batch.blind_insert(tree, &key(9_999), b"in the checkpoint");
    model.insert(key(9_999), b"in the checkpoint".to_vec());
    commit(&engine, &batch, &mut clock);
    assert_eq!(engine.statistics().unwrap().buffered_pages, 1);
    let read = engine.statistics().unwrap().pages_read;
    checkpoint(&engine);
    assert_eq!((engine.statistics().unwrap().buffered_pages, engine.statistics().unwrap().pages_read), (1, read));
    drop(engine);
    disk.power_loss();
    engine = open(&disk);
    assert_eq!(engine.statistics().unwrap().buffered_pages, 1);
    // How much room each leaf has outlasts the restart.
    let read = |engine: &Engine| engine.statistics().unwrap().pages_read;
    engine.get_latest(tree, &key(1), &mut Vec::new()).unwrap();
    let read_before = read(&engine);
    for number in (3_000..9_000).step_by(1_000) {
        batch.clear();
        batch.blind_insert(tree, &key(number * 2 + 7), b"after the restart");
        model.insert(key(number * 2 + 7), b"after the restart".to_vec());
        commit(&engine, &batch, &mut clock);
    }
    assert!(engine.statistics().unwrap().buffered_pages > 3 && read(&engine) - read_before < 4);
    assert_eq!(all(&engine, &engine.begin_snapshot(), tree), model.into_iter().collect::<Vec<_>>());
    assert_sound(&engine, &[TreeId::CATALOG, tree]);
}

#[test]
fn a_checkpoint_holds_what_was_buffered_before_it_and_nothing_later() {
    let disk = Arc::new(SimulatedDisk::new(7));
    let mut engine = open(&disk);
    let tree = engine.create_tree().unwrap();
    let (mut batch, mut clock) = (Batch::new(), 0);
    let key = |number: u32| number.to_be_bytes().to_vec();
    for number in (0..20_000).step_by(2) {
        batch.clear();
        batch.put(tree, &key(number), b"v");
        commit(&engine, &batch, &mut clock);
    }
    for number in (0..20_000).step_by(16) {
        batch.clear();
        batch.delete(tree, &key(number));
        commit(&engine, &batch, &mut clock);
    }
    while engine.reclaim_step().unwrap() {}
    checkpoint(&engine);
    while engine.trees.cache.evict_all().unwrap() > 0 {}
    let insert = |engine: &Engine, number: u32, clock: &mut u64| {
        let mut batch = Batch::new();
        batch.blind_insert(tree, &key(number), b"");
        commit(engine, &batch, clock);
    };
    let numbers = || (1..15_000).step_by(500);
    numbers().for_each(|number| insert(&engine, number, &mut clock));
    let expected = all(&engine, &engine.begin_snapshot(), tree);
    while engine.trees.cache.evict_all().unwrap() > 0 {}
    numbers().for_each(|number| insert(&engine, number + 2, &mut clock));
    let mark = CheckpointMark { oplog_position: 0, timestamp: engine.visible(), oplog_end: 0 };
    let mut begun = freeze(&engine, mark);
    // Changes of the same leaves, after the checkpoint began and before it has looked at them.
    numbers().for_each(|number| insert(&engine, number + 4, &mut clock));
    assert!(engine.statistics().unwrap().buffered_pages > 5);
    // Some are read, and some are merged, before the checkpoint has come to them.
    let pages = engine.trees.cache.changes.unsaved_pages();
    engine.trees.cache.changes.merge_on_disk(&pages[..3]).unwrap();
    let mut value = Vec::new();
    numbers().take(4).for_each(|number| assert!(engine.get_latest(tree, &key(number), &mut value).unwrap().is_some()));
    while engine.checkpoint_step(&mut begun).unwrap() {}
    engine.publish_checkpoint(&mut begun, 0).unwrap();
    let with_later = all(&engine, &engine.begin_snapshot(), tree);
    assert_eq!(with_later.len(), expected.len() + 2 * numbers().count());
    drop(engine);
    disk.power_loss();
    engine = open(&disk);
    let mut model: Model = expected.into_iter().collect();
    model.extend(numbers().map(|number| (key(number + 2), Vec::new())));
    assert_eq!(all(&engine, &engine.begin_snapshot(), tree), model.into_iter().collect::<Vec<_>>());
    assert_sound(&engine, &[TreeId::CATALOG, tree]);
}

#[test]
fn a_frame_is_written_once_a_batch_however_often_the_hand_comes_round() {
    let disk = Arc::new(SimulatedDisk::new(7));
    let engine = open(&disk);
    let tree = engine.create_tree().unwrap();
    let (mut batch, mut clock) = (Batch::new(), 0);
    // Few dirty frames: a round of the hand does not fill a batch.
    for number in 0..2_000u32 {
        batch.clear();
        batch.put(tree, &number.to_be_bytes(), &[7; 100]);
        commit(&engine, &batch, &mut clock);
    }
    let dirty = engine.trees.cache.frames.dirty();
    assert!(dirty > 8 && dirty < 60, "{dirty}");
    let written = engine.trees.cache.writer.flush_batch().unwrap() + engine.trees.cache.writer.flush_batch().unwrap();
    assert_eq!((written, engine.trees.cache.frames.dirty()), (dirty, 0));
    assert_sound(&engine, &[TreeId::CATALOG, tree]);
}

/// What grows with the data beside the frames is counted.
#[test]
fn page_tables_are_counted_against_the_memory_budget() {
    let budget = platform::MemoryBudget::new(1 << 30);
    let disk = SimulatedDisk::new(1);
    let open = || {
        let options = EngineOptions { memory: budget.clone(), ..options() };
        Engine::open(Arc::new(disk.clone()), Arc::new(SimulatedClock::new(0)), options).unwrap()
    };
    let engine = open();
    let counted = budget.used_for(platform::MemoryUse::PageTables);
    assert!(counted > 0);
    assert_eq!(counted, engine.statistics().unwrap().table_bytes);
    drop(engine);
    assert_eq!(budget.used(), 0);
    let _again = open();
    assert_eq!(budget.used_for(platform::MemoryUse::PageTables), counted);
}
