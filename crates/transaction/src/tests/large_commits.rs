//! Large transactions: others go past their commits, and crashes between their decision and their commit.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use bson::rawdoc;
use collection::{Collection, TransactionStep, Validation};
use oplog::{Oplog, OplogPosition};
use parking_lot::Mutex;
use platform::{MemoryBudget, MemoryUse};
use storage_engine::EngineOptions;

use super::fixture::*;
use super::transactions::{begin, commit, in_transaction, seen, session_id};
use crate::*;

/// Documents that are there before.
const BEFORE: i32 = 40;
/// Of which the transaction changes these, and deletes as many behind them; then it inserts as many.
const CHANGED: i32 = 10;

type Beside = Arc<Mutex<Box<dyn FnMut(u32) + Send>>>;

struct Run {
    fixture: Fixture,
    collection: Arc<Collection>,
    /// Called with the number of the change that a large commit is about to apply.
    beside: Beside,
}

impl Run {
    fn new() -> Run {
        Run::with(options().engine)
    }

    fn with(engine: EngineOptions) -> Run {
        let beside: Beside = Arc::new(Mutex::new(Box::new(|_| {})));
        let (called, changes) = (beside.clone(), AtomicU32::new(0));
        let interleaving = Interleaving::new(move |moment| {
            if matches!(moment, Moment::LargeCommit) {
                called.lock()(changes.fetch_add(1, Ordering::Relaxed));
            }
        });
        let mut fixture =
            Fixture::with(StoreOptions { large_transaction_bytes: 500, interleaving, engine, ..options() });
        let collection = fixture.collection("db.c");
        fixture.create_index(&collection, rawdoc! { "key": { "a": 1 }, "name": "a_1" }).unwrap();
        for id in 0..BEFORE {
            fixture.insert(&collection, rawdoc! { "_id": id, "a": 0 }).unwrap();
        }
        Run { fixture, collection, beside }
    }

    /// Writes the transaction.
    fn write(&self) {
        self.write_as(begin(&self.fixture.store, 1, 1));
    }

    fn write_as(&self, transaction: Arc<Transaction>) {
        let mut context = in_transaction(&transaction);
        for id in 0..2 * CHANGED {
            let record_id = find(&self.fixture.store, &self.collection, id).unwrap();
            let decide = |_: &bson::RawDocument, new: &mut Vec<u8>| -> Result<Decision> {
                new.extend_from_slice(rawdoc! { "_id": id, "a": 1 }.as_bytes());
                Ok(if id < CHANGED { Decision::Replace } else { Decision::Delete })
            };
            let store = &self.fixture.store;
            store.change_document(&mut context, &self.collection, record_id, Validation::Enforce, decide).unwrap();
        }
        for id in 0..CHANGED {
            let document = rawdoc! { "_id": 1000 + id, "a": 1 };
            self.fixture.store.insert_document(&mut context, &self.collection, &document, Validation::Enforce).unwrap();
        }
    }

    fn assert_is_there(store: &Store, collection: &Arc<Collection>, others: i32) {
        let found = seen(&store.read_view(), collection);
        assert_eq!(found.values().filter(|a| **a == 1).count() as i32, 2 * CHANGED, "{found:?}");
        assert_eq!(found.len() as i32, BEFORE + others);
        assert_sound(store);
    }

    /// How many commits with parts followers of the oplog see.
    fn commits_in_oplog(store: &Store) -> usize {
        let mut reader = store.oplog().read_from(OplogPosition(0)).unwrap();
        let mut commits = 0;
        while let Some(entry) = reader.next_entry().unwrap() {
            if let collection::Entry::Transaction(entry) = collection::Entry::decode(entry.payload).unwrap() {
                commits += usize::from(matches!(entry.step, TransactionStep::Commit(commit) if commit.parts.len() > 2));
            }
        }
        commits
    }
}

/// What is committed while a large transaction is being applied is visible at once, and nothing of the transaction is, however it is read.
#[test]
fn others_go_past_a_large_commit() {
    let run = Run::new();
    run.write();
    let (store, collection) = (run.fixture.store.clone(), run.collection.clone());
    let before = store.read_view();
    let views: Arc<Mutex<Vec<ReadView>>> = Arc::default();
    let kept = views.clone();
    *run.beside.lock() = Box::new(move |change| {
        let mut context = WriteContext::new();
        let document = rawdoc! { "_id": 5000 + change as i32, "a": 2 };
        let inserted = store.insert_document(&mut context, &collection, &document, Validation::Enforce).unwrap();
        store.acknowledge(&inserted, Acknowledgement::Visible).unwrap();
        let view = store.read_view();
        let found = seen(&view, &collection);
        assert_eq!(found.len() as i32, BEFORE + 1 + change as i32);
        assert_eq!(found.values().filter(|a| **a == 1).count(), 0, "half of a transaction is seen");
        assert_eq!(collection.counts().documents(), found.len() as u64);
        if change % 4 == 0 {
            kept.lock().push(view);
        }
    });
    let store = &run.fixture.store;
    let committed = commit(store, 1, 1).unwrap().unwrap();
    store.acknowledge(&committed, Acknowledgement::Visible).unwrap();
    Run::assert_is_there(store, &run.collection, 3 * CHANGED);
    assert_eq!(seen(&before, &run.collection).len() as i32, BEFORE);
    for view in views.lock().drain(..) {
        let found = seen(&view, &run.collection);
        assert_eq!(found.values().filter(|a| **a == 1).count(), 0);
        let again = store.engine().begin_snapshot_at(view.timestamp()).unwrap();
        assert_eq!(seen(&ReadView::at(store.engine().clone(), again), &run.collection), found);
    }
    // Whoever began before it became visible may not write what it has written.
    assert_eq!(Run::commits_in_oplog(store), 1);
}

/// While a large transaction is applied, whose changes are spilled, others replace far more than the history may keep: neither is a snapshot of theirs
/// given up, nor does the transaction fail.
#[test]
fn old_versions_beside_a_large_commit_stay_in_their_quota() {
    let quota = 1 << 20;
    let run = Run::with(EngineOptions { history_quota_bytes: quota, ..options().engine });
    let session = run.fixture.store.sessions().refresh(session_id(1)).unwrap();
    let budget = MemoryBudget::new(20_000);
    let transaction = run.fixture.store.begin_transaction(&session, 1, budget.reservation(MemoryUse::WriteSets), 0);
    run.write_as(transaction.unwrap());
    let (store, collection) = (run.fixture.store.clone(), run.collection.clone());
    let most = Arc::new(Mutex::new(0));
    let seen_most = most.clone();
    let record_id = find(&store, &collection, BEFORE - 1).unwrap();
    *run.beside.lock() = Box::new(move |change| {
        let engine = store.engine();
        for round in 0..10 {
            let view = engine.begin_snapshot();
            let decide = |_: &bson::RawDocument, new: &mut Vec<u8>| -> Result<Decision> {
                let text = "x".repeat(30_000);
                let document = rawdoc! { "_id": BEFORE - 1, "a": 2, "round": change as i32 * 10 + round, "text": text };
                new.extend_from_slice(document.as_bytes());
                Ok(Decision::Replace)
            };
            let (mut context, validation) = (WriteContext::new(), Validation::Enforce);
            store.change_document(&mut context, &collection, record_id, validation, decide).unwrap();
            for small in 0..20 {
                let decide = |_: &bson::RawDocument, new: &mut Vec<u8>| -> Result<Decision> {
                    new.extend_from_slice(
                        rawdoc! { "_id": BEFORE - 2, "a": small, "text": "x".repeat(1_000) }.as_bytes(),
                    );
                    Ok(Decision::Replace)
                };
                let record_id = find(&store, &collection, BEFORE - 2).unwrap();
                store.change_document(&mut context, &collection, record_id, validation, decide).unwrap();
            }
            while engine.reclaim_step().unwrap() {}
            view.check().unwrap();
            let held = engine.statistics().unwrap().history;
            let mut most = seen_most.lock();
            *most = (held.memory_bytes + held.spilled_bytes).max(*most);
        }
    });
    let store = &run.fixture.store;
    let committed = commit(store, 1, 1).unwrap().unwrap();
    store.acknowledge(&committed, Acknowledgement::Visible).unwrap();
    *run.beside.lock() = Box::new(|_| {});
    let most = *most.lock();
    assert!(most > 0 && most < quota, "{most} bytes of history");
    Run::assert_is_there(store, &run.collection, 0);
}

#[test]
fn a_snapshot_from_beside_a_large_commit_is_in_conflict_with_it() {
    let run = Run::new();
    run.write();
    let store = run.fixture.store.clone();
    let late: Arc<Mutex<Option<Arc<Transaction>>>> = Arc::default();
    let begun = late.clone();
    let collection = run.collection.clone();
    *run.beside.lock() = Box::new(move |change| {
        if change == 5 {
            // So that its snapshot is behind the decision.
            let mut context = WriteContext::new();
            let document = rawdoc! { "_id": 5000, "a": 2 };
            store.insert_document(&mut context, &collection, &document, Validation::Enforce).unwrap();
            *begun.lock() = Some(begin(&store, 2, 1));
        }
    });
    let record_id = find(&run.fixture.store, &run.collection, 0).unwrap();
    commit(&run.fixture.store, 1, 1).unwrap().unwrap();
    let mut context = in_transaction(&late.lock().take().unwrap());
    let decide = |_: &bson::RawDocument, new: &mut Vec<u8>| -> Result<Decision> {
        new.extend_from_slice(rawdoc! { "_id": 0, "a": 3 }.as_bytes());
        Ok(Decision::Replace)
    };
    let store = &run.fixture.store;
    let changed = store.change_document(&mut context, &run.collection, record_id, Validation::Enforce, decide);
    assert!(matches!(changed, Err(TransactionError::WriteConflict)), "{changed:?}");
}

/// The process dies at every change of a large commit, with a checkpoint made at another one, beside commits of others.
#[test]
fn what_is_decided_is_completed_after_a_crash() {
    for (dies_at, checkpoint_at) in [(0, None), (29, None), (11, Some(4)), (29, Some(29)), (17, Some(0)), (3, Some(3))]
    {
        let mut run = Run::new();
        if dies_at == 17 {
            run.fixture.store.checkpoint_step(Urgency::Now).unwrap();
        }
        run.write();
        let (store, collection) = (run.fixture.store.clone(), run.collection.clone());
        *run.beside.lock() = Box::new(move |change| {
            let mut context = WriteContext::new();
            let document = rawdoc! { "_id": 5000 + change as i32, "a": 2 };
            store.insert_document(&mut context, &collection, &document, Validation::Enforce).unwrap();
            if checkpoint_at == Some(change) {
                store.checkpoint_step(Urgency::Now).unwrap();
            }
            if dies_at == change {
                store.oplog().flush_step().unwrap();
                std::panic::panic_any("the process dies");
            }
        });
        let died = catch_unwind(AssertUnwindSafe(|| commit(&run.fixture.store, 1, 1)));
        assert!(died.is_err());
        *run.beside.lock() = Box::new(|_| {});
        run.fixture.crash();
        let others = dies_at as i32 + 1;
        let collection = run.fixture.store.catalog().lookup("db.c").unwrap();
        Run::assert_is_there(&run.fixture.store, &collection, others);
        assert!(commit(&run.fixture.store, 1, 1).unwrap().is_none(), "the session knows of the commit");
        assert_eq!(Run::commits_in_oplog(&run.fixture.store), 1);
        run.fixture.flush_oplog();
        run.fixture.crash();
        let collection = run.fixture.store.catalog().lookup("db.c").unwrap();
        Run::assert_is_there(&run.fixture.store, &collection, others);
        run.fixture.store.checkpoint_step(Urgency::Now).unwrap();
        run.fixture.crash();
        let collection = run.fixture.store.catalog().lookup("db.c").unwrap();
        Run::assert_is_there(&run.fixture.store, &collection, others);
        assert_eq!(Run::commits_in_oplog(&run.fixture.store), 1);
    }
}
