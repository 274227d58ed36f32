//! Buffered changes merged by several threads while others add to them, read them, evict and move their pages and write checkpoints.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use platform::SystemClock;

use super::*;

/// Index entries of one number each: it moves from place to place, so that every snapshot has as many entries as every other.
const NUMBERS: u32 = 20_000;
const PLACES: u32 = 8;
const MOVES: u32 = 30_000;
/// Tenths of those that may follow until much was merged.
const TENTHS_MORE: u32 = 200;

fn entry(number: u32, place: u32) -> Vec<u8> {
    // Neighbours in one leaf are of different numbers.
    [&place.to_be_bytes()[..], &number.to_be_bytes(), &[b'e'; 40]].concat()
}

/// What changes beside the merging, and what must be there in the end.
struct Moves {
    engine: Arc<Engine>,
    tree: TreeId,
    places: Vec<u32>,
    clock: u64,
    random: u32,
}

impl Moves {
    fn start(disk: &Arc<SimulatedDisk>) -> Self {
        let engine = open(disk);
        let tree = engine.create_tree().unwrap();
        let mut moves = Self { engine, tree, places: vec![0; NUMBERS as usize], clock: 0, random: 1 };
        let mut batch = Batch::new();
        for number in 0..NUMBERS {
            moves.places[number as usize] = number % PLACES;
            batch.blind_insert(tree, &entry(number, number % PLACES), b"");
        }
        commit(&moves.engine, &batch, &mut moves.clock);
        checkpoint(&moves.engine);
        while moves.engine.trees.cache.evict_all().unwrap() > 0 {}
        moves
    }

    fn next_random(&mut self) -> u32 {
        self.random = self.random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        self.random >> 8
    }

    fn step(&mut self, batch: &mut Batch) {
        let number = self.next_random() % NUMBERS;
        let place = self.places[number as usize];
        let next = (place + 1 + self.next_random() % (PLACES - 1)) % PLACES;
        batch.clear();
        batch.blind_remove(self.tree, &entry(number, place));
        batch.blind_insert(self.tree, &entry(number, next), b"");
        commit(&self.engine, batch, &mut self.clock);
        self.places[number as usize] = next;
    }

    fn model(&self) -> Vec<(Vec<u8>, Vec<u8>)> {
        let entries = (0u32..).zip(&self.places).map(|(number, place)| (entry(number, *place), Vec::new()));
        entries.collect::<Model>().into_iter().collect()
    }
}

/// All that goes on in threads beside the changes.
fn beside_changes(engine: &Engine, tree: TreeId, is_over: &AtomicBool, scans: &AtomicU32, what: u32) {
    let (cache, clock) = (&engine.trees.cache, SystemClock::new());
    while !is_over.load(Ordering::Relaxed) {
        match what {
            0 | 1 => cache
                .changes
                .buffered_page_ids()
                .chunks(5)
                .for_each(|pages| cache.changes.merge_on_disk(pages).unwrap()),
            2 => drop(cache.evict_all().unwrap()),
            3 => {
                let snapshot = engine.begin_snapshot();
                let mut cursor = engine.cursor(&snapshot, tree);
                let mut seen = 0;
                while cursor.next().unwrap() {
                    seen += 1;
                }
                assert_eq!(seen, NUMBERS);
                scans.fetch_add(1, Ordering::Relaxed);
                // While all is in frames nothing is buffered.
                clock.sleep(Duration::from_millis(100));
            }
            _ => {
                checkpoint(engine);
                while engine.reclaim_step().unwrap() {}
                clock.sleep(Duration::from_millis(30));
            }
        }
    }
}

#[test]
fn no_change_is_lost_when_buffers_are_merged_beside_all_else() {
    let disk = Arc::new(SimulatedDisk::new(7));
    let mut moves = Moves::start(&disk);
    let (is_over, scans) = (AtomicBool::new(false), AtomicU32::new(0));
    let (engine, tree) = (Arc::clone(&moves.engine), moves.tree);
    std::thread::scope(|scope| {
        let (engine, is_over, scans) = (&engine, &is_over, &scans);
        for what in 0..5 {
            scope.spawn(move || beside_changes(engine, tree, is_over, scans, what));
        }
        let mut batch = Batch::new();
        (0..MOVES).for_each(|_| moves.step(&mut batch));
        // Until much was merged, however fast the changes are.
        let is_enough = || engine.statistics().unwrap().pages_merged > 1_000 && scans.load(Ordering::Relaxed) > 0;
        let tenths = (0..TENTHS_MORE).take_while(|_| !is_enough());
        tenths.for_each(|_| (0..MOVES / 10).for_each(|_| moves.step(&mut batch)));
        is_over.store(true, Ordering::Relaxed);
    });
    let statistics = engine.statistics().unwrap();
    assert!(statistics.pages_merged > 1_000 && scans.load(Ordering::Relaxed) > 0, "{statistics:?}");
    assert_eq!(all(&engine, &engine.begin_snapshot(), tree), moves.model());
    assert_sound(&engine, &[TreeId::CATALOG, tree]);
    checkpoint(&engine);
    let model = moves.model();
    drop((moves, engine));
    disk.power_loss();
    let engine = open(&disk);
    assert_eq!(all(&engine, &engine.begin_snapshot(), tree), model);
    assert_sound(&engine, &[TreeId::CATALOG, tree]);
}
