//! Random histories with crashes, power loss and checkpoints against a model.
//!
//! After each crash the store must be exactly the model as it was at some commit, not before the last one acknowledged as
//! durable; every index must fit the records, and the counts must be exact.

use std::collections::BTreeMap;
use std::sync::Arc;

use bson::{RawDocumentBuf, rawdoc};
use proptest::prelude::*;
use storage_engine::Timestamp;

use super::fixture::*;
use crate::*;

#[derive(Debug, Clone)]
enum Step {
    Insert { collection: u8, id: i32, shape: u8 },
    Replace { collection: u8, id: i32, shape: u8 },
    Delete { collection: u8, id: i32 },
    CreateIndex { collection: u8, which: u8 },
    DropIndex { collection: u8, which: u8 },
    DropCollection { collection: u8 },
    Rename { from: u8, to: u8 },
    Flush,
    Checkpoint,
    Crash,
    PowerLoss,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let (collection, id, shape) = (0..3u8, 0..12i32, 0..16u8);
    let step = prop_oneof![
        30 => (collection.clone(), id.clone(), shape.clone())
            .prop_map(|(collection, id, shape)| Step::Insert { collection, id, shape }),
        30 => (collection.clone(), id.clone(), shape)
            .prop_map(|(collection, id, shape)| Step::Replace { collection, id, shape }),
        12 => (collection.clone(), id).prop_map(|(collection, id)| Step::Delete { collection, id }),
        4 => (collection.clone(), 0..4u8).prop_map(|(collection, which)| Step::CreateIndex { collection, which }),
        2 => (collection.clone(), 0..4u8).prop_map(|(collection, which)| Step::DropIndex { collection, which }),
        1 => collection.clone().prop_map(|collection| Step::DropCollection { collection }),
        1 => (collection.clone(), collection).prop_map(|(from, to)| Step::Rename { from, to }),
        6 => Just(Step::Flush),
        3 => Just(Step::Checkpoint),
        3 => Just(Step::Crash),
        2 => Just(Step::PowerLoss),
    ];
    proptest::collection::vec(step, 1..150)
}

/// Documents of several shapes: missing fields, arrays, sub-documents, types that compare equal, fields that move.
fn document(id: i32, shape: u8) -> RawDocumentBuf {
    let padding = "p".repeat(usize::from(shape) * 5);
    match shape % 8 {
        0 => rawdoc! { "_id": id, "a": i32::from(shape), "b": 1, "padding": padding.as_str() },
        1 => rawdoc! { "_id": id, "a": f64::from(shape), "b": 1, "padding": padding.as_str() },
        2 => rawdoc! { "_id": id, "b": 1, "a": "text", "padding": padding.as_str() },
        3 => rawdoc! { "_id": id, "a": [1, 2, i32::from(shape)], "padding": padding.as_str() },
        4 => rawdoc! { "_id": id, "a": { "c": i32::from(shape) }, "b": null },
        5 => rawdoc! { "_id": id },
        6 => rawdoc! { "_id": id, "padding": padding.as_str(), "b": [id, 7], "c": id },
        _ => rawdoc! { "_id": id, "a": 8, "b": 1, "padding": padding.as_str(), "late": true },
    }
}

fn index(which: u8) -> RawDocumentBuf {
    match which {
        0 => rawdoc! { "key": { "a": 1 }, "name": "i0" },
        1 => rawdoc! { "key": { "b": -1, "a.c": 1 }, "name": "i1", "sparse": true },
        2 => rawdoc! { "key": { "a": 1, "_id": 1 }, "name": "i2", "unique": true },
        _ => rawdoc! { "key": { "a": -1 }, "name": "i3", "partialFilterExpression": { "b": { "$gt": 0 } } },
    }
}

type Documents = BTreeMap<i32, RawDocumentBuf>;
type Model = BTreeMap<String, Documents>;

struct Run {
    fixture: Fixture,
    model: Model,
    /// The model after each commit since the last crash.
    history: Vec<(Timestamp, Model)>,
    durable: Timestamp,
}

fn name(number: u8) -> String {
    format!("db.c{number}")
}

impl Run {
    fn note(&mut self) {
        let timestamp = self.fixture.store.visible_timestamp();
        self.history.push((timestamp, self.model.clone()));
    }

    fn collection(&mut self, number: u8) -> Arc<collection::Collection> {
        let found = self.fixture.collection(&name(number));
        if self.model.entry(name(number)).or_default().is_empty() {
            self.note();
        }
        found
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Insert { collection, id, shape } => {
                let (target, document) = (self.collection(collection), document(id, shape));
                let is_new = !self.model[&name(collection)].contains_key(&id);
                assert_eq!(self.fixture.insert(&target, document.clone()).is_ok(), is_new);
                if is_new {
                    self.model.get_mut(&name(collection)).unwrap().insert(id, document);
                }
            }
            Step::Replace { collection, id, shape } => {
                let (target, document) = (self.collection(collection), document(id, shape));
                let outcome = self.fixture.replace(&target, id, document.clone()).unwrap();
                let old = self.model.get_mut(&name(collection)).unwrap().get_mut(&id);
                match old {
                    None => assert_eq!(outcome, ChangeOutcome::Gone),
                    Some(old) if *old == document => assert_eq!(outcome, ChangeOutcome::Unchanged),
                    Some(old) => *old = document,
                }
            }
            Step::Delete { collection, id } => {
                let target = self.collection(collection);
                self.fixture.delete(&target, id).unwrap();
                self.model.get_mut(&name(collection)).unwrap().remove(&id);
            }
            Step::CreateIndex { collection, which } => {
                let target = self.collection(collection);
                self.fixture.create_index(&target, index(which)).unwrap();
            }
            Step::DropIndex { collection, which } => {
                let target = self.collection(collection);
                let names = WhichIndexes::Names(vec![format!("i{which}")]);
                // Not there: nothing to drop.
                let _ = self.fixture.store.drop_indexes(&target, names);
            }
            Step::DropCollection { collection } => {
                self.fixture.store.drop_collection(&namespace(&name(collection))).unwrap();
                self.model.remove(&name(collection));
            }
            Step::Rename { from, to } => {
                let (source, target) = (namespace(&name(from)), namespace(&name(to)));
                let renamed = self.fixture.store.rename_collection(&source, &target, RenameTarget::Drop);
                if renamed.is_ok() {
                    let documents = self.model.remove(&name(from)).unwrap();
                    self.model.insert(name(to), documents);
                }
            }
            Step::Flush => self.fixture.flush_oplog(),
            Step::Checkpoint => assert!(self.fixture.store.checkpoint_step(Urgency::Now).unwrap()),
            Step::Crash => return self.crash(Fixture::crash),
            Step::PowerLoss => return self.crash(Fixture::lose_power),
        }
        if matches!(step, Step::Flush | Step::Checkpoint) {
            self.durable = self.fixture.store.visible_timestamp();
        }
        self.note();
    }

    fn crash(&mut self, crash: impl FnOnce(&mut Fixture)) {
        crash(&mut self.fixture);
        let recovered = self.fixture.store.visible_timestamp();
        assert!(recovered >= self.durable, "{recovered} is before the durable {}", self.durable);
        let candidates = self.history.iter().rev().filter(|(timestamp, _)| *timestamp <= recovered);
        self.model = candidates.map(|(_, model)| model.clone()).next().unwrap_or_default();
        self.check();
        self.history.clear();
        self.durable = recovered;
        self.note();
    }

    fn check(&self) {
        let store = &self.fixture.store;
        assert_sound(store);
        let found = store.catalog().all_collections();
        let found: Model =
            found.iter().map(|collection| (collection.namespace().to_string(), contents(store, collection))).collect();
        assert_eq!(found, self.model);
    }
}

fn run(steps: Vec<Step>, replay_threads: usize) {
    let fixture = Fixture::with(StoreOptions { replay_threads, ..options() });
    let mut run = Run { fixture, model: Model::new(), history: Vec::new(), durable: Timestamp::MIN };
    for step in steps {
        run.step(step);
    }
    run.check();
    run.fixture.flush_oplog();
    run.durable = run.fixture.store.visible_timestamp();
    run.crash(Fixture::crash);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn the_store_is_its_model_after_every_crash(steps in steps()) {
        run(steps, 0);
    }

    #[test]
    fn so_it_is_with_parallel_replay(steps in steps()) {
        run(steps, 3);
    }
}
