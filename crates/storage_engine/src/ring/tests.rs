//! A ring against a queue of documents, checked as a whole after each step.

use std::collections::VecDeque;
use std::sync::Arc;

use platform::{SimulatedClock, SimulatedDisk, Timestamp};
use proptest::prelude::*;

use super::*;
use crate::checkpoint_mark::CheckpointMark;
use crate::options::EngineOptions;
use crate::ring::writing::Captured;

#[derive(Debug, Clone)]
enum Step {
    Insert {
        bytes: usize,
    },
    Update {
        which: usize,
        bytes: usize,
    },
    Delete {
        which: usize,
    },
    SetSize {
        size: u64,
    },
    Write,
    /// A checkpoint, and the engine opened again.
    Restart,
    Scan,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let bytes = prop_oneof![20 => 1usize..200, 4 => 200usize..1500, 1 => 3000usize..8000];
    let step = prop_oneof![
        60 => bytes.clone().prop_map(|bytes| Step::Insert { bytes }),
        8 => (0usize..500, bytes).prop_map(|(which, bytes)| Step::Update { which, bytes }),
        6 => (0usize..500).prop_map(|which| Step::Delete { which }),
        1 => (4096u64..30_000).prop_map(|size| Step::SetSize { size }),
        6 => Just(Step::Write),
        3 => Just(Step::Restart),
        4 => Just(Step::Scan),
    ];
    proptest::collection::vec(step, 1..300)
}

struct Run {
    disk: Arc<SimulatedDisk>,
    engine: Arc<Engine>,
    ring: Arc<Ring>,
    size: u64,
    documents_max: u64,
    clock: u64,
    /// Number, document (`None`: deleted), bytes of the slot.
    model: VecDeque<(i64, Option<Vec<u8>>)>,
}

fn open(disk: &Arc<SimulatedDisk>) -> Arc<Engine> {
    let options = EngineOptions { cache_bytes: 4 << 20, ring_buffer_bytes: 64 << 10, ..EngineOptions::default() };
    Engine::open(disk.clone(), Arc::new(SimulatedClock::new(0)), options).unwrap()
}

impl Run {
    fn new(size: u64, documents_max: u64) -> Run {
        let disk = Arc::new(SimulatedDisk::new(3));
        let engine = open(&disk);
        let tree = engine.create_tree().unwrap();
        let ring = engine.create_ring(7, tree, size).unwrap();
        Run { disk, engine, ring, size, documents_max, clock: 0, model: VecDeque::new() }
    }

    fn live(&self) -> (u64, u64) {
        let documents = self.model.iter().filter_map(|(_, document)| document.as_ref());
        documents.fold((0, 0), |(count, bytes), document| (count + 1, bytes + document.len() as u64))
    }

    fn commit(&mut self) -> Timestamp {
        self.clock += 1;
        Timestamp(self.clock)
    }

    fn insert(&mut self, bytes: usize) {
        let document = vec![self.clock as u8; bytes.min(self.size as usize)];
        let timestamp = self.commit();
        let ring = self.ring.clone();
        let mut writer = ring.lock();
        let limits = RingLimits { bytes: self.size, documents: self.documents_max };
        let mut insert = writer.plan(document.len(), limits);
        let (mut batch, mut buffer) = (Batch::new(), Vec::new());
        while let Some(overtaken) = writer.overtake(&self.engine, &mut insert, &mut buffer).unwrap() {
            let (number, expected) = self.model.pop_front().unwrap();
            assert_eq!(overtaken.number, number, "the oldest goes first");
            assert!(overtaken.is_live.then_some(&buffer) == expected.as_ref(), "overtaken document");
            if overtaken.has_override {
                batch.delete(ring.tree(), &ring_key(number));
            }
        }
        self.engine.apply_ring_insert(&writer, &insert, &document, &batch, timestamp).unwrap();
        self.engine.set_visible(timestamp);
        if let Some((newest, _)) = self.model.back() {
            assert!(insert.number() > *newest, "numbers grow");
        }
        self.model.push_back((insert.number(), Some(document)));
        let (documents, bytes) = self.live();
        assert!(documents <= self.documents_max.max(1));
        assert!(bytes <= self.size || insert.surplus_documents == SURPLUS_DOCUMENTS_MAX);
    }

    fn change(&mut self, which: usize, new: Option<Vec<u8>>) {
        let Some((number, document)) = self.model.get_mut(which) else { return };
        let Some(old) = document.clone() else { return };
        let (documents, bytes) = match &new {
            Some(new) => (0, new.len() as i64 - old.len() as i64),
            None => (-1, -(old.len() as i64)),
        };
        let (number, mut found) = (*number, Vec::new());
        *document = new.clone();
        let latest = self.engine.get_latest_in_ring(&self.ring, number, &mut found).unwrap();
        assert!(found == old, "document {number}");
        let mut batch = Batch::new();
        batch.put(self.ring.tree(), &ring_key(number), new.as_deref().unwrap_or_default());
        let change = RingOverride { documents, bytes, is_first: latest == LatestInRing::AsInserted };
        let timestamp = self.commit();
        let ring = self.ring.clone();
        self.engine.apply_ring_override(&ring.lock(), change, &batch, Some(timestamp)).unwrap();
        self.engine.set_visible(timestamp);
    }

    fn scan(&self) {
        let expected: Vec<_> =
            self.model.iter().filter_map(|(number, document)| Some((*number, document.clone()?))).collect();
        let snapshot = self.engine.begin_snapshot();
        let mut cursor = self.engine.ring_cursor(&snapshot, &self.ring);
        let mut found = Vec::new();
        while let Some(number) = cursor.next().unwrap() {
            found.push((number, cursor.document().to_vec()));
        }
        assert!(found == expected, "forward");
        let (mut cursor, mut backwards) = (self.engine.ring_cursor(&snapshot, &self.ring), Vec::new());
        while let Some(number) = cursor.previous().unwrap() {
            backwards.push((number, cursor.document().to_vec()));
        }
        backwards.reverse();
        assert!(backwards == expected, "backward");
        let mut document = Vec::new();
        for (number, expected) in &self.model {
            let is_there = self.engine.get_in_ring(&snapshot, &self.ring, *number, &mut document).unwrap();
            assert!(is_there.then_some(&document) == expected.as_ref(), "document {number}");
        }
    }

    fn restart(&mut self) {
        let mark = CheckpointMark { oplog_position: 0, timestamp: self.engine.visible(), oplog_end: 0 };
        self.engine.checkpoint(mark, || Ok(0)).unwrap();
        let tree = self.ring.tree();
        self.disk.power_loss();
        self.engine = open(&self.disk);
        self.ring = self.engine.open_ring(7, tree, self.size).unwrap();
    }

    fn check(&self) {
        let report = self.engine.verify_ring(&self.ring, &|| false).unwrap().unwrap();
        assert_eq!(report.errors, Vec::<String>::new());
        assert_eq!(report.slots, self.model.len() as u64);
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Insert { bytes } => self.insert(bytes),
            Step::Update { which, bytes } => self.change(which, Some(vec![9; bytes])),
            Step::Delete { which } => self.change(which, None),
            Step::SetSize { size } => {
                self.size = size;
                self.ring.set_size(size);
            }
            Step::Write => drop(self.engine.write_rings(|| Ok(())).unwrap()),
            Step::Restart => self.restart(),
            Step::Scan => self.scan(),
        }
        self.check();
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]

    #[test]
    fn a_ring_is_a_queue(steps in steps(), size in 4096u64..30_000, documents_max in 3u64..200) {
        let mut run = Run::new(size, documents_max);
        for step in steps {
            run.step(step);
        }
        run.scan();
        run.restart();
        run.scan();
    }
}

#[test]
fn an_insert_removes_no_more_than_it_needs() {
    let mut run = Run::new(1 << 20, u64::MAX);
    for _ in 0..20_000 {
        run.insert(200);
    }
    let before = run.model.len();
    run.insert(100_000);
    let removed = before + 1 - run.model.len();
    let slot = slot::slot_bytes(200);
    assert!(removed as u64 * 200 <= 100_000 + slot, "{removed} slots");
    assert!(run.ring.file_bytes().unwrap() <= (1 << 20) + 2 * run.ring.state().extent_bytes);
    run.check();
}

#[test]
fn positions_are_linear_in_the_file() {
    let mut run = Run::new(64 << 10, u64::MAX);
    for round in 0..3_000 {
        run.insert(20 + round * 37 % 1_000);
    }
    let offsets: Vec<u64> = run.model.iter().map(|(number, _)| run.ring.offset_of(*number).unwrap()).collect();
    let backward = offsets.windows(2).filter(|pair| pair[1] < pair[0]).count();
    assert!(backward <= 1, "natural order jumps back once at most, where the ring wraps");
}

#[test]
fn a_cursor_that_is_overtaken_says_so() {
    let mut run = Run::new(4096, u64::MAX);
    for _ in 0..10 {
        run.insert(100);
    }
    let mut cursor = run.engine.ring_cursor(&run.engine.begin_snapshot(), &run.ring);
    cursor.next().unwrap().unwrap();
    for _ in 0..200 {
        run.insert(3000);
    }
    let end = loop {
        match cursor.next() {
            // What it had in memory of its own it still gives out.
            Ok(Some(_)) => {}
            other => break other,
        }
    };
    assert!(matches!(end, Err(EngineError::RingPositionLost)));
}

#[test]
fn a_cursor_at_the_tail_goes_on_in_a_newer_snapshot() {
    let mut run = Run::new(1 << 20, u64::MAX);
    run.insert(10);
    let mut cursor = run.engine.ring_cursor(&run.engine.begin_snapshot(), &run.ring);
    assert!(cursor.next().unwrap().is_some());
    assert!(cursor.next().unwrap().is_none());
    run.insert(30);
    assert!(cursor.next().unwrap().is_none(), "its snapshot is older");
    cursor.set_snapshot(&run.engine.begin_snapshot());
    assert!(cursor.next().unwrap().is_some());
    assert_eq!(cursor.document().len(), 30);
}

#[test]
fn the_region_is_full_after_a_lap() {
    let mut run = Run::new(64 << 10, u64::MAX);
    for round in 0..5_000 {
        run.insert(20 + round * 37 % 1_000);
    }
    let mut offsets: Vec<u64> = run.model.iter().map(|(number, _)| run.ring.offset_of(*number).unwrap()).collect();
    offsets.sort_unstable();
    let widest = offsets.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap();
    assert!(
        widest <= 2 * 1_100,
        "the gap between the newest and the oldest document is no wider than documents: {widest}"
    );
}

/// The ring writer and a checkpoint may write at the same time: no piece is dropped from memory that is not in the file.
#[test]
fn two_that_write_leave_nothing_out() {
    let mut run = Run::new(1 << 20, u64::MAX);
    let stop = AtomicBool::new(false);
    let engine = run.engine.clone();
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    engine.write_rings(|| Ok(())).unwrap();
                }
            });
        }
        for round in 0..20_000 {
            run.insert(50 + round * 37 % 1_000);
        }
        stop.store(true, Ordering::Relaxed);
    });
    engine.write_rings(|| Ok(())).unwrap();
    run.scan();
    run.check();
}

/// The ring writer and a checkpoint, both with the first piece in hand, while an insert adds a second one: neither may drop that.
#[test]
fn two_who_write_a_ring_do_not_drop_what_neither_has_written() {
    let mut run = Run::new(1 << 20, u64::MAX);
    run.insert(100);
    let (first, second) = (Captured::new(run.ring.clone()), Captured::new(run.ring.clone()));
    std::thread::scope(|scope| {
        let write = |chunk: &super::buffer::Chunk| {
            first.put(chunk)?;
            // A piece in hand is not extended: this makes another one.
            run.insert(200);
            let (done, is_done) = std::sync::mpsc::channel();
            let second = &second;
            scope.spawn(move || {
                second.write_through(&mut |chunk| second.put(chunk)).unwrap();
                // Nobody listens any more when it had to wait.
                let _ = done.send(());
            });
            // It waits until the first is done. If it did not, it would be done at once.
            let _ = is_done.recv_timeout(std::time::Duration::from_millis(200));
            Ok(())
        };
        let mut write = write;
        first.write_through(&mut write).unwrap();
    });
    run.scan();
    run.engine.write_rings(|| Ok(())).unwrap();
    run.scan();
}
