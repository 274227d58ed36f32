//! Transactions of several documents against a model of snapshot isolation, with checkpoints and crashes; and what sessions remember.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bson::{RawDocumentBuf, Uuid, rawdoc};
use collection::{Collection, CollectionError, StatementDetails, Validation};
use platform::{MemoryBudget, MemoryUse};
use proptest::prelude::*;
use storage_engine::EngineOptions;

use super::fixture::*;
use crate::*;

pub(super) fn memory() -> platform::MemoryReservation {
    MemoryBudget::unlimited().reservation(MemoryUse::WriteSets)
}

pub(super) fn session_id(number: u8) -> Uuid {
    Uuid::from_bytes([number; 16])
}

pub(super) fn begin(store: &Store, session: u8, txn_number: i64) -> Arc<Transaction> {
    let session = store.sessions().refresh(session_id(session)).unwrap();
    store.begin_transaction(&session, txn_number, memory(), 0).unwrap()
}

pub(super) fn commit(store: &Store, session: u8, txn_number: i64) -> Result<Option<CommitInfo>> {
    let session = store.sessions().refresh(session_id(session)).unwrap();
    store.commit_transaction(&session, txn_number)
}

fn abort(store: &Store, session: u8, txn_number: i64) -> Result<()> {
    let session = store.sessions().refresh(session_id(session)).unwrap();
    store.abort_transaction(&session, txn_number)
}

pub(super) fn in_transaction(transaction: &Arc<Transaction>) -> WriteContext {
    let mut context = WriteContext::new();
    context.set_transaction(Some(transaction.clone()));
    context
}

/// What a view has, by `_id`; the same through the index on `a`, in both directions.
pub(super) fn seen(view: &ReadView, collection: &Arc<Collection>) -> BTreeMap<i32, i32> {
    let mut cursor = view.record_cursor(collection);
    let mut found = BTreeMap::new();
    while let Some(record_id) = cursor.next().unwrap() {
        let document = cursor.document().unwrap().to_owned();
        let mut again = Vec::new();
        assert!(view.get_record(collection, record_id, &mut again).unwrap());
        assert_eq!(again, document.as_bytes());
        let before = found.insert(document.get_i32("_id").unwrap(), document.get_i32("a").unwrap());
        assert_eq!(before, None, "an _id is seen twice");
    }
    cursor.seek_last().unwrap();
    let mut backwards = 0;
    while cursor.previous().unwrap().is_some() {
        backwards += 1;
    }
    assert_eq!(backwards, found.len());
    let index = collection.indexes().find("a_1").unwrap().clone();
    let mut cursor = view.index_cursor(collection, &index);
    let mut records = Vec::new();
    while cursor.next().unwrap() {
        records.push((cursor.key().to_vec(), cursor.record_id()));
    }
    assert!(records.is_sorted_by(|one, other| one.0 <= other.0));
    assert_eq!(records.len(), found.len(), "the index has other entries than there are records");
    cursor.seek_last().unwrap();
    while cursor.previous().unwrap() {
        assert_eq!(records.pop(), Some((cursor.key().to_vec(), cursor.record_id())));
    }
    assert!(records.is_empty());
    found
}

#[derive(Clone, Copy, Debug)]
enum Write {
    Insert,
    Set,
    Delete,
}

#[derive(Clone, Debug)]
enum Step {
    Begin {
        session: u8,
    },
    /// By a transaction if the session has one.
    Write {
        session: u8,
        id: i32,
        a: i32,
        write: Write,
    },
    /// By nobody's transaction.
    Alone {
        id: i32,
        a: i32,
        write: Write,
    },
    Commit {
        session: u8,
    },
    Abort {
        session: u8,
    },
    Checkpoint,
    Crash,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let write = prop_oneof![Just(Write::Insert), Just(Write::Set), Just(Write::Delete)];
    let step = prop_oneof![
        6 => (0..3u8).prop_map(|session| Step::Begin { session }),
        20 => (0..3u8, 0..6i32, 0..9i32, write.clone())
            .prop_map(|(session, id, a, write)| Step::Write { session, id, a, write }),
        6 => (0..6i32, 0..9i32, write).prop_map(|(id, a, write)| Step::Alone { id, a, write }),
        5 => (0..3u8).prop_map(|session| Step::Commit { session }),
        2 => (0..3u8).prop_map(|session| Step::Abort { session }),
        1 => Just(Step::Checkpoint),
        1 => Just(Step::Crash),
    ];
    proptest::collection::vec(step, 1..60)
}

/// A transaction of the model.
struct Open {
    transaction: Arc<Transaction>,
    txn_number: i64,
    began: u64,
    snapshot: BTreeMap<i32, i32>,
    /// What it has made of documents; `None`: deleted.
    written: BTreeMap<i32, Option<i32>>,
    /// Documents that it has inserted or changed.
    owned: Vec<i32>,
    /// Keys that it has inserted, though it may have deleted them again.
    claimed: Vec<i32>,
}

impl Open {
    fn view(&self) -> BTreeMap<i32, i32> {
        let mut view = self.snapshot.clone();
        for (id, value) in &self.written {
            match value {
                Some(value) => drop(view.insert(*id, *value)),
                None => drop(view.remove(id)),
            }
        }
        view
    }
}

struct Run {
    fixture: Fixture,
    collection: Arc<Collection>,
    committed: BTreeMap<i32, i32>,
    /// When a document was last changed.
    changed: BTreeMap<i32, u64>,
    time: u64,
    open: BTreeMap<u8, Open>,
    txn_numbers: i64,
}

#[derive(Debug, PartialEq, Eq)]
enum Expected {
    Done,
    Nothing,
    Duplicate,
    Conflict,
}

fn outcome(result: Result<bool>) -> Expected {
    match result {
        Ok(true) => Expected::Done,
        Ok(false) => Expected::Nothing,
        Err(TransactionError::WriteConflict) => Expected::Conflict,
        Err(TransactionError::Collection(CollectionError::DuplicateKey(_))) => Expected::Duplicate,
        Err(other) => panic!("{other}"),
    }
}

impl Run {
    fn new(large_transaction_bytes: usize) -> Run {
        let fixture = Fixture::with(StoreOptions { large_transaction_bytes, ..options() });
        let collection = fixture.collection("db.c");
        fixture.create_index(&collection, rawdoc! { "key": { "a": 1 }, "name": "a_1" }).unwrap();
        let (committed, changed, open) = Default::default();
        Run { fixture, collection, committed, changed, time: 0, open, txn_numbers: 0 }
    }

    fn perform(&self, context: &mut WriteContext, view: &ReadView, id: i32, a: i32, write: Write) -> Result<bool> {
        let (store, collection) = (&self.fixture.store, &self.collection);
        let document = rawdoc! { "_id": id, "a": a, "padding": "x".repeat(a as usize) };
        if matches!(write, Write::Insert) {
            return store.insert_document(context, collection, &document, Validation::Enforce).map(|_| true);
        }
        let mut cursor = view.record_cursor(collection);
        while let Some(record_id) = cursor.next()? {
            if cursor.document()?.get_i32("_id").unwrap() != id {
                continue;
            }
            let decide = |_: &bson::RawDocument, new: &mut Vec<u8>| -> Result<Decision> {
                new.extend_from_slice(document.as_bytes());
                Ok(if matches!(write, Write::Set) { Decision::Replace } else { Decision::Delete })
            };
            let changed = store.change_document(context, collection, record_id, Validation::Enforce, decide)?;
            return Ok(changed.commit().is_some());
        }
        Ok(false)
    }

    fn is_owned_by_other(&self, session: Option<u8>, id: i32) -> bool {
        self.open.iter().any(|(owner, open)| Some(*owner) != session && open.owned.contains(&id))
    }

    fn expected(&self, session: u8, id: i32, a: i32, write: Write) -> Expected {
        let open = &self.open[&session];
        let view = open.view();
        let is_conflict = self.is_owned_by_other(Some(session), id)
            || (!open.owned.contains(&id) && self.changed.get(&id).is_some_and(|changed| *changed > open.began));
        match write {
            Write::Insert => {
                let is_seen = view.contains_key(&id);
                let is_latest = match open.written.get(&id) {
                    Some(written) => written.is_some(),
                    None => self.committed.contains_key(&id),
                };
                // Of two that insert the same the first owns the key; who has only deleted it does not.
                let is_claimed =
                    self.open.iter().any(|(owner, other)| *owner != session && other.claimed.contains(&id));
                match (is_claimed, is_seen, is_latest) {
                    (true, _, _) => Expected::Conflict,
                    (_, true, true) => Expected::Duplicate,
                    (_, false, false) => Expected::Done,
                    _ => Expected::Conflict,
                }
            }
            _ if !view.contains_key(&id) => Expected::Nothing,
            Write::Set if view[&id] == a => Expected::Nothing,
            _ if is_conflict => Expected::Conflict,
            _ => Expected::Done,
        }
    }

    fn write(&mut self, session: u8, id: i32, a: i32, write: Write) {
        let Some(open) = self.open.get(&session) else { return };
        let expected = self.expected(session, id, a, write);
        let (mut context, view) = (in_transaction(&open.transaction), open.transaction.read_view());
        let done = outcome(self.perform(&mut context, &view, id, a, write));
        assert_eq!(done, expected, "{session} {write:?} {id}");
        match done {
            Expected::Done => {
                let open = self.open.get_mut(&session).unwrap();
                open.written.insert(id, if matches!(write, Write::Delete) { None } else { Some(a) });
                open.owned.push(id);
                if matches!(write, Write::Insert) {
                    open.claimed.push(id);
                }
            }
            Expected::Nothing => {}
            Expected::Duplicate | Expected::Conflict => self.abort(session),
        }
        if let Some(open) = self.open.get(&session) {
            assert_eq!(seen(&open.transaction.read_view(), &self.collection), open.view());
        }
    }

    fn alone(&mut self, id: i32, a: i32, write: Write) {
        let mut context = WriteContext::new();
        context.set_waiting(Waiting::Never);
        let view = self.fixture.store.read_view();
        let done = outcome(self.perform(&mut context, &view, id, a, write));
        let is_there = self.committed.contains_key(&id);
        let claimed = self.open.values().any(|open| open.claimed.contains(&id));
        let expected = match write {
            Write::Insert if claimed => Expected::Conflict,
            Write::Insert if is_there => Expected::Duplicate,
            Write::Insert => Expected::Done,
            _ if !is_there => Expected::Nothing,
            _ if self.is_owned_by_other(None, id) => Expected::Conflict,
            Write::Set if self.committed[&id] == a => Expected::Nothing,
            _ => Expected::Done,
        };
        assert_eq!(done, expected, "alone {write:?} {id}");
        if done == Expected::Done {
            self.time += 1;
            self.commit_change(id, if matches!(write, Write::Delete) { None } else { Some(a) });
        }
    }

    fn commit_change(&mut self, id: i32, value: Option<i32>) {
        self.changed.insert(id, self.time);
        match value {
            Some(value) => drop(self.committed.insert(id, value)),
            None => drop(self.committed.remove(&id)),
        }
    }

    fn abort(&mut self, session: u8) {
        if let Some(open) = self.open.remove(&session) {
            abort(&self.fixture.store, session, open.txn_number).unwrap();
            assert!(matches!(
                commit(&self.fixture.store, session, open.txn_number),
                Err(TransactionError::NoSuchTransaction(_))
            ));
        }
    }

    fn commit(&mut self, session: u8) {
        let Some(open) = self.open.remove(&session) else { return };
        let committed = commit(&self.fixture.store, session, open.txn_number).unwrap();
        if let Some(committed) = &committed {
            self.fixture.store.acknowledge(committed, Acknowledgement::Visible).unwrap();
        }
        assert!(commit(&self.fixture.store, session, open.txn_number).unwrap().is_none(), "a retry");
        self.time += 1;
        for (id, value) in open.written {
            self.commit_change(id, value);
        }
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Begin { session } => {
                self.open.remove(&session);
                self.txn_numbers += 1;
                let transaction = begin(&self.fixture.store, session, self.txn_numbers);
                let (snapshot, began) = (self.committed.clone(), self.time);
                let (written, owned, claimed) = Default::default();
                self.open.insert(
                    session,
                    Open { transaction, txn_number: self.txn_numbers, began, snapshot, written, owned, claimed },
                );
            }
            Step::Write { session, id, a, write } => self.write(session, id, a, write),
            Step::Alone { id, a, write } => self.alone(id, a, write),
            Step::Commit { session } => self.commit(session),
            Step::Abort { session } => self.abort(session),
            Step::Checkpoint => drop(self.fixture.store.checkpoint_step(Urgency::Now).unwrap()),
            Step::Crash => {
                self.open.clear();
                self.fixture.flush_oplog();
                self.fixture.crash();
                self.collection = self.fixture.store.catalog().lookup("db.c").unwrap();
            }
        }
        assert_eq!(seen(&self.fixture.store.read_view(), &self.collection), self.committed);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn transactions_are_isolated_as_the_model_has_it(steps in steps(), all_are_large: bool) {
        let mut run = Run::new(if all_are_large { 0 } else { 1 << 20 });
        steps.into_iter().for_each(|step| run.step(step));
        run.open.clear();
        assert_sound(&run.fixture.store);
    }
}

/// Checkpoints while parts of the commit are logged; the process dies after it, or just before the commit's entry is whole.
#[test]
fn a_transaction_in_parts_is_all_or_nothing() {
    let mut fixture = Fixture::new();
    fixture.options.oplog.segment_bytes = 8 << 20;
    fixture.reopen();
    let collection = fixture.collection("db.c");
    let transaction = begin(&fixture.store, 1, 1);
    let mut context = in_transaction(&transaction);
    let padding = "x".repeat(64 << 10);
    for id in 0..150 {
        let document = rawdoc! { "_id": id, "padding": padding.as_str() };
        fixture.store.insert_document(&mut context, &collection, &document, Validation::Enforce).unwrap();
    }
    let before = oplog::Oplog::end_position(fixture.store.oplog());
    // The flusher has no thread here, and the buffer does not hold it all.
    let store = fixture.store.clone();
    let stop = std::sync::atomic::AtomicBool::new(false);
    let committed = std::thread::scope(|scope| {
        scope.spawn(|| oplog::Oplog::run_flusher(store.oplog(), &stop));
        let committed = commit(&store, 1, 1).unwrap().unwrap();
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        committed
    });
    fixture.store.acknowledge(&committed, Acknowledgement::Visible).unwrap();
    fixture.flush_oplog();
    let mut reader = oplog::Oplog::read_from(fixture.store.oplog(), before).unwrap();
    let mut parts = 0;
    while let Some(entry) = reader.next_entry().unwrap() {
        let collection::Entry::Transaction(entry) = collection::Entry::decode(entry.payload).unwrap() else { panic!() };
        parts += u32::from(entry.step == collection::TransactionStep::Part);
    }
    assert!(parts >= 2, "{parts} parts");
    drop(reader);
    drop((store, context, transaction));
    fixture.crash();
    let collection = fixture.store.catalog().lookup("db.c").unwrap();
    assert_eq!(contents(&fixture.store, &collection).len(), 150);
    assert_sound(&fixture.store);
    assert!(commit(&fixture.store, 1, 1).unwrap().is_none(), "the session knows of the commit");
}

#[test]
fn what_sessions_have_written_survives_checkpoints_and_crashes() {
    let mut fixture = Fixture::new();
    let collection = fixture.collection("db.c");
    let insert = |fixture: &mut Fixture, collection: &Arc<Collection>, number: u8, id: i32| {
        let session = fixture.store.sessions().refresh(session_id(number)).unwrap();
        fixture.store.begin_retryable_write(&session, 7).unwrap();
        let details = StatementDetails::Upserted;
        fixture.context.set_statement(Some(Statement { session, txn_number: 7, id, details }));
        let inserted = fixture.insert(collection, rawdoc! { "_id": i32::from(number) * 100 + id });
        fixture.context.set_statement(None);
        inserted.unwrap();
    };
    let executed = |fixture: &Fixture, number: u8| -> Vec<i32> {
        let session = fixture.store.sessions().refresh(session_id(number)).unwrap();
        (0..10).filter(|id| session.executed(*id).is_some()).collect()
    };
    insert(&mut fixture, &collection, 1, 0);
    insert(&mut fixture, &collection, 2, 0);
    fixture.store.checkpoint_step(Urgency::Now).unwrap();
    insert(&mut fixture, &collection, 1, 4);
    insert(&mut fixture, &collection, 3, 2);
    fixture.store.sessions().end(session_id(2));
    fixture.flush_oplog();
    fixture.crash();
    assert_eq!(executed(&fixture, 1), [0, 4]);
    assert_eq!(executed(&fixture, 2), [0], "it ended after the last checkpoint, which is not in the oplog");
    assert_eq!(executed(&fixture, 3), [2]);
    let session = fixture.store.sessions().find(session_id(3)).unwrap();
    let details = session.executed(2).unwrap().details.unwrap();
    let retried = fixture.store.retried_statement(details).unwrap();
    assert_eq!(retried.inserted, Some(RawDocumentBuf::from_bytes(rawdoc! { "_id": 302 }.into_bytes()).unwrap()));
    assert!(matches!(fixture.store.begin_retryable_write(&session, 6), Err(TransactionError::TransactionTooOld(_))));
    fixture.store.sessions().end(session_id(2));
    fixture.store.checkpoint_step(Urgency::Now).unwrap();
    fixture.crash();
    assert_eq!((executed(&fixture, 1), executed(&fixture, 2)), (vec![0, 4], vec![]));
}

/// A budget so small that every few changes are spilled: the transaction sees and commits the same as if they were not.
#[test]
fn changes_that_do_not_fit_into_memory_are_spilled() {
    let mut fixture = Fixture::new();
    let collection = fixture.collection("db.c");
    fixture.create_index(&collection, rawdoc! { "key": { "a": 1 }, "name": "a_1" }).unwrap();
    let document = |id: i32, a: i32| rawdoc! { "_id": id, "a": a, "padding": "x".repeat(3_000) };
    for id in 0..100 {
        fixture.insert(&collection, document(id, id)).unwrap();
    }
    let budget = MemoryBudget::new(700_000);
    let session = fixture.store.sessions().refresh(session_id(1)).unwrap();
    let transaction =
        fixture.store.begin_transaction(&session, 1, budget.reservation(MemoryUse::WriteSets), 0).unwrap();
    let mut context = in_transaction(&transaction);
    let mut expected: BTreeMap<i32, i32> = (0..100).map(|id| (id, id)).collect();
    let mut state = 7_u32;
    for round in 0..1_500 {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let id = (state >> 8) as i32 % 400;
        let view = transaction.read_view();
        let mut found = None;
        // By scan now and then, or this would take long.
        if round % 10 == 0 {
            assert_eq!(seen(&view, &collection), expected);
        }
        let mut records = view.record_cursor(&collection);
        while let Some(record_id) = records.next().unwrap() {
            if records.document().unwrap().get_i32("_id").unwrap() == id {
                found = Some(record_id);
                break;
            }
        }
        match found {
            None => {
                let new = document(id, round);
                fixture.store.insert_document(&mut context, &collection, &new, Validation::Enforce).unwrap();
                expected.insert(id, round);
            }
            Some(record_id) => {
                let deletes = round % 3 == 0;
                let decide = |_: &bson::RawDocument, new: &mut Vec<u8>| -> Result<Decision> {
                    new.extend_from_slice(document(id, round).as_bytes());
                    Ok(if deletes { Decision::Delete } else { Decision::Replace })
                };
                let store = &fixture.store;
                store.change_document(&mut context, &collection, record_id, Validation::Enforce, decide).unwrap();
                let _ = if deletes { expected.remove(&id) } else { expected.insert(id, round) };
            }
        }
    }
    assert!(fixture.store.catalog().trees().len() > 5, "nothing was spilled");
    assert_eq!(seen(&transaction.read_view(), &collection), expected);
    let committed = commit(&fixture.store, 1, 1).unwrap().unwrap();
    fixture.store.acknowledge(&committed, Acknowledgement::Visible).unwrap();
    assert_eq!(seen(&fixture.store.read_view(), &collection), expected);
    drop((context, transaction));
    assert_eq!(budget.used(), 0);
    fixture.store.checkpoint_step(Urgency::Now).unwrap();
    fixture.store.checkpoint_step(Urgency::Now).unwrap();
    assert_eq!(fixture.store.catalog().trees().len(), 5, "catalog, sessions, records and two indexes");
    assert_sound(&fixture.store);
    fixture.crash();
    let collection = fixture.store.catalog().lookup("db.c").unwrap();
    assert_eq!(seen(&fixture.store.read_view(), &collection), expected);
}

#[test]
fn a_transaction_too_large_for_its_memory_is_refused() {
    let fixture = Fixture::new();
    let collection = fixture.collection("db.c");
    let session = fixture.store.sessions().refresh(session_id(1)).unwrap();
    let budget = MemoryBudget::new(60_000);
    let transaction =
        fixture.store.begin_transaction(&session, 1, budget.reservation(MemoryUse::WriteSets), 0).unwrap();
    let mut context = in_transaction(&transaction);
    let padding = "x".repeat(10);
    // The changes can be spilled, the locks of their keys cannot.
    let refused = (0..3_000).find_map(|id| {
        let document = rawdoc! { "_id": id, "padding": padding.as_str() };
        fixture.store.insert_document(&mut context, &collection, &document, Validation::Enforce).err()
    });
    assert!(matches!(refused, Some(TransactionError::TransactionTooLarge(_))), "{refused:?}");
    drop((context, transaction));
    fixture.store.abort_open_transaction(&session).unwrap();
    assert_eq!(budget.used(), 0);
}

#[test]
fn forgotten_transactions_of_who_holds_most_make_room_for_others() {
    let fixture = Fixture::with(StoreOptions {
        engine: EngineOptions { memory: MemoryBudget::new(8 << 20), ..options().engine },
        ..options()
    });
    let store = &fixture.store;
    let begin = |number: u32, connection| {
        let mut id = [number as u8; 16];
        id[..4].copy_from_slice(&number.to_le_bytes());
        let session = store.sessions().refresh(Uuid::from_bytes(id))?;
        let memory = store.engine().memory().reservation(MemoryUse::WriteSets);
        store.begin_transaction(&session, 1, memory, connection)
    };
    for number in 0..5 {
        drop(begin(number, 2).unwrap());
        fixture.clock.advance(Duration::from_millis(1));
    }
    let greedy = (5..10_000).take_while(|number| begin(*number, 1).is_ok()).count() as u32;
    assert!(greedy > 500, "{greedy}");
    assert_eq!(store.end_forgotten_transactions(3), [], "all of them are young");
    fixture.clock.advance(Duration::from_secs(2));
    let ended = store.end_forgotten_transactions(3);
    let numbers: Vec<u32> =
        ended.iter().map(|(id, _)| u32::from_le_bytes(*id.bytes().first_chunk().unwrap())).collect();
    assert!(!numbers.is_empty() && numbers.iter().all(|number| (5..5 + greedy).contains(number)), "{numbers:?}");
    assert!(begin(10_000, 3).is_ok());
    let session = store.sessions().find(ended[0].0).unwrap();
    assert!(matches!(store.continue_transaction(&session, 1), Err(TransactionError::NoSuchTransaction(_))));
    assert_eq!(store.end_forgotten_transactions(3), [], "there is room");
}
