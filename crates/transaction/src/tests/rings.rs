//! Capped collections: random histories with crashes, power loss, checkpoints and ring writing against a queue.
//!
//! After each crash the collection must be exactly the model as it was at some commit, not before the last one that was durable; `assert_sound` checks every
//! slot, every index and the counts.

use std::collections::VecDeque;
use std::sync::Arc;

use bson::{RawDocumentBuf, rawdoc};
use collection::{Collection, CollectionOptions, Validation};
use proptest::prelude::*;
use storage_engine::Timestamp;

use super::fixture::*;
use crate::*;

#[derive(Debug, Clone)]
enum Step {
    Insert { padding: usize },
    Replace { which: usize, padding: usize },
    Delete { which: usize },
    CreateIndex,
    Resize { size: u64 },
    Flush,
    WriteRings,
    Checkpoint,
    CheckpointPiece,
    Crash,
    PowerLoss,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let padding = prop_oneof![10 => 0usize..150, 2 => 150usize..1500];
    let step = prop_oneof![
        60 => padding.clone().prop_map(|padding| Step::Insert { padding }),
        8 => (0usize..80, padding).prop_map(|(which, padding)| Step::Replace { which, padding }),
        5 => (0usize..80).prop_map(|which| Step::Delete { which }),
        1 => Just(Step::CreateIndex),
        1 => (16u64..47).prop_map(|size| Step::Resize { size: size * 256 }),
        6 => Just(Step::Flush),
        8 => Just(Step::WriteRings),
        2 => Just(Step::Checkpoint),
        4 => Just(Step::CheckpointPiece),
        3 => Just(Step::Crash),
        3 => Just(Step::PowerLoss),
    ];
    proptest::collection::vec(step, 1..250)
}

type Documents = VecDeque<RawDocumentBuf>;

struct Run {
    fixture: Fixture,
    model: Documents,
    history: Vec<(Timestamp, Documents)>,
    durable: Timestamp,
    next_id: i32,
    size: u64,
}

fn document(id: i32, padding: usize) -> RawDocumentBuf {
    rawdoc! { "_id": id, "a": id % 7, "padding": "p".repeat(padding).as_str() }
}

fn all(store: &Store, collection: &Arc<Collection>) -> Documents {
    let mut cursor = store.read_view().record_cursor(collection);
    let mut found = Documents::new();
    while cursor.next().unwrap().is_some() {
        found.push_back(cursor.document().unwrap().to_owned());
    }
    found
}

impl Run {
    fn new(replay_threads: usize) -> Run {
        let fixture = Fixture::with(StoreOptions { replay_threads, ..options() });
        let capped = rawdoc! { "capped": true, "size": 6_000, "max": 60 };
        let capped = CollectionOptions::parse(&capped).unwrap();
        fixture.store.create_collection(&namespace("db.ring"), capped).unwrap();
        fixture.flush_oplog();
        let durable = fixture.store.visible_timestamp();
        Run { fixture, model: Documents::new(), history: Vec::new(), durable, next_id: 0, size: 6_144 }
    }

    fn collection(&self) -> Arc<Collection> {
        self.fixture.store.catalog().lookup("db.ring").unwrap()
    }

    /// The oldest go: what is left must be the newest part of the model.
    fn take_overtaken(&mut self) {
        let found = all(&self.fixture.store, &self.collection());
        assert!(found.len() <= self.model.len());
        self.model.drain(..self.model.len() - found.len());
        assert!(found == self.model, "what is left is the newest, in order");
        let bytes: usize = found.iter().map(|document| document.as_bytes().len()).sum();
        assert!(bytes as u64 <= self.size && found.len() <= 60);
    }

    fn step(&mut self, step: Step) {
        let target = self.collection();
        match step {
            Step::Insert { padding } => {
                let document = document(self.next_id, padding);
                self.next_id += 1;
                self.fixture.insert(&target, document.clone()).unwrap();
                self.model.push_back(document);
                self.take_overtaken();
            }
            Step::Replace { which, padding } => {
                let Some(old) = self.model.get_mut(which) else { return };
                let id = old.get_i32("_id").unwrap();
                *old = document(id, padding);
                let new = old.clone();
                self.fixture.replace(&target, id, new).unwrap();
            }
            Step::Delete { which } => {
                let Some(old) = self.model.remove(which) else { return };
                self.fixture.delete(&target, old.get_i32("_id").unwrap()).unwrap();
            }
            Step::CreateIndex => {
                self.fixture.create_index(&target, rawdoc! { "key": { "a": 1 }, "name": "a" }).unwrap();
            }
            Step::Resize { size } => {
                let mut options = target.definition().options.clone();
                let max = options.capped.unwrap().max;
                // Larger only, so that the model need not know when what is too much goes.
                if size > self.size {
                    options.capped = Some(collection::CappedOptions { size, max });
                    let modification =
                        collection::catalog::Modification { options: Some(options), ..Default::default() };
                    self.fixture.store.modify_collection(&target, modification).unwrap();
                    self.fixture.flush_oplog();
                    self.durable = self.fixture.store.visible_timestamp();
                    self.size = size;
                }
            }
            Step::Flush => self.fixture.flush_oplog(),
            Step::WriteRings => drop(self.fixture.store.write_rings().unwrap()),
            Step::Checkpoint => assert!(self.fixture.store.checkpoint_step(Urgency::Now).unwrap()),
            Step::CheckpointPiece => drop(self.fixture.store.advance_checkpoint(Urgency::Now).unwrap()),
            Step::Crash => return self.crash(Fixture::crash),
            Step::PowerLoss => return self.crash(Fixture::lose_power),
        }
        if matches!(step, Step::Flush | Step::Checkpoint) {
            self.durable = self.fixture.store.visible_timestamp();
        }
        self.history.push((self.fixture.store.visible_timestamp(), self.model.clone()));
    }

    fn crash(&mut self, crash: impl FnOnce(&mut Fixture)) {
        crash(&mut self.fixture);
        let recovered = self.fixture.store.visible_timestamp();
        assert!(recovered >= self.durable, "{recovered} is before the durable {}", self.durable);
        let candidates = self.history.iter().rev().filter(|(timestamp, _)| *timestamp <= recovered);
        self.model = candidates.map(|(_, model)| model.clone()).next().unwrap_or_default();
        assert_sound(&self.fixture.store);
        assert!(
            all(&self.fixture.store, &self.collection()) == self.model,
            "as it was at the last commit that is left"
        );
        self.history = vec![(recovered, self.model.clone())];
        self.durable = recovered;
    }
}

fn run(steps: Vec<Step>, replay_threads: usize) {
    let mut run = Run::new(replay_threads);
    for step in steps {
        run.step(step);
    }
    assert_sound(&run.fixture.store);
    run.fixture.flush_oplog();
    run.durable = run.fixture.store.visible_timestamp();
    run.crash(Fixture::lose_power);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    #[test]
    fn a_capped_collection_is_a_queue_after_every_crash(steps in steps()) {
        run(steps, 0);
    }

    #[test]
    fn so_it_is_with_parallel_replay_of_rings(steps in steps()) {
        run(steps, 2);
    }
}

#[test]
fn many_laps_between_two_checkpoints_are_replayed() {
    let mut run = Run::new(0);
    run.step(Step::CreateIndex);
    for _ in 0..100 {
        run.step(Step::Insert { padding: 100 });
    }
    run.step(Step::Checkpoint);
    for round in 0..1_000 {
        run.step(Step::Insert { padding: 100 + round % 50 });
        if round % 20 == 0 {
            run.step(Step::Replace { which: 5, padding: 300 });
            run.step(Step::Delete { which: 9 });
            run.step(Step::WriteRings);
        }
    }
    run.step(Step::Flush);
    run.step(Step::PowerLoss);
    assert!(!run.model.is_empty());
}

#[test]
fn a_dropped_ring_gives_its_file_back() {
    let mut run = Run::new(0);
    for _ in 0..100 {
        run.step(Step::Insert { padding: 100 });
    }
    run.step(Step::WriteRings);
    let files = |run: &Run| platform::Disk::list(&*run.fixture.disk, std::path::Path::new("rings")).unwrap();
    assert_eq!(files(&run).len(), 1);
    run.fixture.store.drop_collection(&namespace("db.ring")).unwrap();
    for _ in 0..3 {
        run.fixture.store.checkpoint_step(Urgency::Now).unwrap();
    }
    assert!(files(&run).is_empty());
}

/// Nobody waits for a slow disk longer than it was asked to.
#[test]
fn whoever_waits_for_room_in_memory_may_be_interrupted() {
    struct Interrupted;
    impl WaitInterrupt for Interrupted {
        fn is_interrupted(&self) -> bool {
            true
        }
    }
    let engine = storage_engine::EngineOptions { ring_buffer_bytes: 64 << 10, ..options().engine };
    let fixture = Fixture::with(StoreOptions { engine, ..options() });
    let capped = rawdoc! { "capped": true, "size": 1 << 20 };
    fixture.store.create_collection(&namespace("db.ring"), CollectionOptions::parse(&capped).unwrap()).unwrap();
    let ring = fixture.store.catalog().lookup("db.ring").unwrap();
    let mut context = WriteContext::new();
    context.set_waiting(Waiting::Until { interrupt: Arc::new(Interrupted), deadline: None });
    let insert = |id, context: &mut WriteContext| {
        fixture.store.insert_document(context, &ring, &document(id, 1000), Validation::Enforce)
    };
    let refused = (0..1000).find_map(|id| insert(id, &mut context).err().map(|error| (id, error)));
    let (id, error) = refused.expect("the buffers are full before that");
    assert!(matches!(error, TransactionError::Interrupted), "{error}");
    insert(id, &mut WriteContext::new()).unwrap();
}

#[test]
fn a_ring_that_somebody_still_writes_holds_up_no_checkpoint_when_its_collection_is_gone() {
    let mut fixture = Fixture::new();
    let capped = CollectionOptions::parse(&rawdoc! { "capped": true, "size": 1 << 20 }).unwrap();
    let (collection, _) = fixture.store.create_collection(&namespace("db.ring"), capped).unwrap();
    fixture.insert(&collection, rawdoc! { "_id": 1 }).unwrap();
    // As the thread that writes rings does for as long as the disk takes.
    let held = collection.ring().cloned().unwrap();
    drop(collection);
    fixture.store.drop_collection(&namespace("db.ring")).unwrap().unwrap();
    fixture.store.reap_dropped().unwrap();
    while fixture.store.engine().reclaim_step().unwrap() {}
    fixture.store.requested_checkpoint().unwrap();
    drop(held);
    fixture.store.requested_checkpoint().unwrap();
    assert_sound(&fixture.store);
}
