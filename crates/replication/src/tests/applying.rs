//! Entries applied by several threads: those of one document in their order, and readers see one moment.

use std::sync::atomic::{AtomicBool, Ordering};

use collection::{IndexSpecification, RecordId};
use platform::Random;
use transaction::{ApplyingBy, Decision};

use super::*;
use crate::Member as SetMember;

/// Documents whose unique keys go round among them.
const DOCUMENTS: i32 = 12;
const ROUNDS: i32 = 200;

fn open(machine: &Machine, log: &MemoryLog, applying_by: ApplyingBy) -> (Arc<Store>, SetMember) {
    let mut options = StoreOptions { applying_by, ..Machine::options() };
    options.engine.cache_bytes = 64 << 20;
    opened_member::open(machine, log, options)
}

/// By `_id`: the value, the unique key, and the words.
type Seen = Vec<(i32, i32, i32, i32)>;

fn look(view: transaction::ReadView, store: &Store) -> Seen {
    let Some(collection) = store.catalog().lookup("db.c") else { return Vec::new() };
    let (mut cursor, mut seen) = (view.record_cursor(&collection), Vec::new());
    while cursor.next().unwrap().is_some() {
        let document = cursor.document().unwrap();
        let number = |name: &str| document.get_i32(name).unwrap();
        seen.push((number("_id"), number("n"), number("key"), number("sum")));
    }
    seen.sort_unstable();
    seen
}

/// The two with the numbers 0 and 1 are changed one after the other: at any moment the first is one ahead, or both are the same. The unique keys differ.
fn check_moment(seen: &Seen) {
    let mut keys: Vec<_> = seen.iter().map(|(_, _, key, _)| *key).collect();
    keys.sort_unstable();
    assert!(keys.windows(2).all(|pair| pair[0] != pair[1]), "a unique key is there twice");
    if let [(0, first, ..), (1, second, ..), ..] = seen[..] {
        assert!(first == second || first == second + 1, "{first} and {second} were never there together");
    }
}

/// Each change builds on the one before: `sum` is a sum of all numbers.
fn change(store: &Store, record: RecordId, number: i32, key: i32) {
    let collection = store.catalog().lookup("db.c").unwrap();
    let change = |old: &bson::RawDocument, new: &mut Vec<u8>| {
        let sum = old.get_i32("sum").unwrap().wrapping_mul(31).wrapping_add(number);
        let text = old.get_str("text").unwrap();
        let id = old.get_i32("_id").unwrap();
        let document = rawdoc! { "_id": id, "n": number, "key": key, "sum": sum, "text": text };
        new.extend_from_slice(document.as_bytes());
        Ok::<_, TransactionError>(Decision::Replace)
    };
    store.change_document(&mut WriteContext::new(), &collection, record, Validation::Enforce, change).unwrap();
}

fn insert(store: &Store, id: i32, key: i32) {
    let collection = store.catalog().lookup("db.c").unwrap();
    let document = rawdoc! { "_id": id, "n": 0, "key": key, "sum": 0, "text": "x".repeat(200) };
    store.insert_document(&mut WriteContext::new(), &collection, &document, Validation::Enforce).unwrap();
}

fn delete(store: &Store, id: i32) {
    let collection = store.catalog().lookup("db.c").unwrap();
    let mut cursor = store.newest_view().record_cursor(&collection);
    while let Some(record) = cursor.next().unwrap() {
        if cursor.document().unwrap().get_i32("_id").unwrap() == id {
            let delete = |_: &bson::RawDocument, _: &mut Vec<u8>| Ok::<_, TransactionError>(Decision::Delete);
            store.change_document(&mut WriteContext::new(), &collection, record, Validation::Enforce, delete).unwrap();
            return;
        }
    }
}

fn write(store: &Store, random: &SeededRandom) {
    let collection = store.collection_or_create(&Namespace::parse("db.c").unwrap()).unwrap();
    let unique = rawdoc! { "key": { "key": 1 }, "name": "key_1", "unique": true };
    store.create_indexes(&collection, vec![IndexSpecification::parse(&unique).unwrap()]).unwrap();
    (0..DOCUMENTS).for_each(|id| insert(store, id, id));
    // Records beginning with 2 are those of the documents. Far apart, so that each is another thread's: others lie between.
    let mut cursor = store.newest_view().record_cursor(&collection);
    let records: Vec<_> = std::iter::from_fn(|| cursor.next().unwrap()).collect();
    let (mut free, mut next) = (DOCUMENTS, DOCUMENTS + 1);
    for round in 1..=ROUNDS {
        change(store, records[0], round, 0);
        change(store, records[1], round, 1);
        // A key that one document gives up is another one's at once, and back.
        let place = 2 + random.below(DOCUMENTS as u64 - 2) as usize;
        let other = 2 + random.below(DOCUMENTS as u64 - 2) as usize;
        let key_of = |record| {
            let mut cursor = store.newest_view().record_cursor(&collection);
            assert!(std::iter::from_fn(|| cursor.next().unwrap()).any(|found| found == record));
            cursor.document().unwrap().get_i32("key").unwrap()
        };
        let given_up = key_of(records[place]);
        change(store, records[place], round, free);
        if other != place {
            free = key_of(records[other]);
            change(store, records[other], round, given_up);
        } else {
            free = given_up;
        }
        // And by documents that come and go.
        insert(store, 1_000 + round, 10_000);
        delete(store, 1_000 + round);
        (0..20).for_each(|_| {
            insert(store, 10_000 + next, 20_000 + next);
            next += 1;
        });
    }
}

fn run(seed: u64, applying_by: ApplyingBy) {
    let log = MemoryLog::new(seed);
    let (first, second) = (Machine::new(1), Machine::new(2));
    let (store, mut leads) = open(&first, &log, ApplyingBy::Threads(1));
    while leads.step(&store).unwrap() {}
    let (other, mut follows) = open(&second, &log, applying_by);
    while follows.step(&other).unwrap() {}
    write(&store, &SeededRandom::new(seed));
    while leads.step(&store).unwrap() {}
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Acquire) {
                check_moment(&look(other.read_view(), &other));
            }
        });
        while other.oplog().end_position() < store.oplog().end_position() {
            follows.step(&other).unwrap();
        }
        is_over.store(true, Ordering::Release);
    });
    assert_eq!(look(other.read_view(), &other), look(store.newest_view(), &store));
    let report = other.validate(&other.catalog().lookup("db.c").unwrap(), &|| false).unwrap();
    assert!(report.is_valid(), "{report:?}");
}

#[test]
fn changes_of_one_document_keep_their_order_whoever_applies_them() {
    for seed in 0..4 {
        run(seed, ApplyingBy::Threads(3));
        run(seed, ApplyingBy::Caller { queues: 1 + seed as usize });
    }
}

/// Written while an index is built: unique keys go from one document to another.
fn churn(store: &Store, is_over: &AtomicBool) {
    for round in 0.. {
        if is_over.load(Ordering::Acquire) {
            return;
        }
        insert(store, 1_000_000 + round, -1);
        delete(store, 1_000_000 + round);
    }
}

/// A build on the primary, with others writing; on the member that follows it is filled beside the entries that follow.
#[test]
fn an_index_is_filled_beside_what_follows_its_start() {
    for (seed, is_unique) in [(1, false), (2, true), (3, true)] {
        let log = MemoryLog::new(seed);
        let (first, second) = (Machine::new(1), Machine::new(2));
        let (store, mut leads) = open(&first, &log, ApplyingBy::Threads(1));
        let collection = store.collection_or_create(&Namespace::parse("db.c").unwrap()).unwrap();
        (0..3_000).for_each(|id| insert(&store, id, id));
        while leads.step(&store).unwrap() {}
        let (other, mut follows) = open(&second, &log, ApplyingBy::Threads(3));
        let (is_over, is_shipped, was_beside) =
            (AtomicBool::new(false), AtomicBool::new(false), AtomicBool::new(false));
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| churn(&store, &is_over));
            let (primary, other, is_shipped, was_beside) = (&store, &other, &is_shipped, &was_beside);
            scope.spawn(move || {
                while !is_shipped.load(Ordering::Acquire) {
                    leads.step(primary).unwrap();
                }
                while leads.step(primary).unwrap() {}
            });
            scope.spawn(move || {
                while !is_shipped.load(Ordering::Acquire)
                    || other.oplog().end_position() < primary.oplog().end_position()
                {
                    follows.step(other).unwrap();
                }
            });
            scope.spawn(move || {
                while !is_shipped.load(Ordering::Acquire) {
                    other.fill_received_builds();
                    let found = other.catalog().lookup("db.c").and_then(|found| found.indexes().find("n").cloned());
                    let is_filled =
                        |index: Arc<collection::Index>| !index.is_ready() && index.filled() > RecordId(2_000);
                    if found.is_some_and(is_filled) {
                        was_beside.store(true, Ordering::Release);
                    }
                }
            });
            let wanted = rawdoc! { "key": { "key": 1 }, "name": "n", "unique": is_unique };
            let built = store.create_indexes(&collection, vec![IndexSpecification::parse(&wanted).unwrap()]);
            is_over.store(true, Ordering::Release);
            writer.join().unwrap();
            is_shipped.store(true, Ordering::Release);
            built.unwrap();
        });
        // Whether the commit came before it was filled is a matter of chance.
        println!("filled beside: {}", was_beside.load(Ordering::Acquire));
        assert_eq!(look(other.read_view(), &other), look(store.newest_view(), &store));
        let report = other.validate(&other.catalog().lookup("db.c").unwrap(), &|| false).unwrap();
        assert!(report.is_valid(), "{report:?}");
        assert!(other.catalog().lookup("db.c").unwrap().indexes().find("n").unwrap().is_ready());
    }
}

/// An index that is dropped while it is built leaves its tree to another, which has nothing yet.
#[test]
fn an_index_with_the_tree_of_a_dropped_one_is_filled() {
    let log = MemoryLog::new(1);
    let (first, second) = (Machine::new(1), Machine::new(2));
    let (store, leads) = open(&first, &log, ApplyingBy::Threads(1));
    let collection = store.collection_or_create(&Namespace::parse("db.c").unwrap()).unwrap();
    (0..50).for_each(|id| insert(&store, id, id));
    let (other, follows) = open(&second, &log, ApplyingBy::Threads(1));
    let members = parking_lot::Mutex::new((leads, follows));
    let catch_up = || {
        let (leads, follows) = &mut *members.lock();
        while leads.step(&store).unwrap() {}
        while other.oplog().end_position() < store.oplog().end_position() {
            follows.step(&other).unwrap();
        }
    };
    let index = |name: &str| IndexSpecification::parse(&rawdoc! { "key": { "key": 1 }, "name": name }).unwrap();
    let found_there = |name: &str| other.catalog().lookup("db.c").unwrap().indexes().find(name).cloned();
    let is_first = AtomicBool::new(true);
    let dropped = parking_lot::Mutex::new(None);
    let dropped_meanwhile = || {
        if is_first.swap(false, Ordering::AcqRel) {
            catch_up();
            other.fill_received_builds();
            *dropped.lock() = found_there("dropped").map(|index| index.tree());
            let which = transaction::WhichIndexes::Names(vec!["dropped".to_owned()]);
            store.drop_indexes(&collection, which).unwrap();
            catch_up();
            other.reap_dropped().unwrap();
            while other.engine().reclaim_step().unwrap() {}
            // What is free becomes so with a checkpoint.
            other.checkpoint_step(transaction::Urgency::Now).unwrap();
            while other.engine().reclaim_step().unwrap() {}
        }
        false
    };
    store.create_indexes_unless(&collection, vec![index("dropped")], &dropped_meanwhile).unwrap_err();
    store.create_indexes(&collection, vec![index("made")]).unwrap();
    catch_up();
    assert_eq!(found_there("made").map(|index| index.tree()), *dropped.lock(), "it is not the case that was meant");
    let report = other.validate(&other.catalog().lookup("db.c").unwrap(), &|| false).unwrap();
    assert!(report.is_valid(), "{report:?}");
}
