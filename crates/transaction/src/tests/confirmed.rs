//! A store whose commits a shared log confirms: what readers, writers, followers and checkpoints have before and after.

use std::sync::Arc;
use std::time::Duration;

use bson::rawdoc;
use collection::{Collection, CollectionError, CollectionOptions, IndexSpecification, Validation};
use oplog::{Oplog, OplogPosition};
use platform::{Clock, SystemClock};
use storage_engine::EngineOptions;

use super::fixture::*;
use super::transactions::{begin, commit, in_transaction};
use crate::*;

/// A store with one confirmed document, and its collection.
fn confirming(options: StoreOptions) -> (Fixture, Arc<Collection>) {
    let mut fixture = Fixture::with(options);
    let collection = fixture.collection("db.c");
    fixture.insert(&collection, rawdoc! { "_id": 1, "a": 0 }).unwrap();
    fixture.store.begin_confirming(fixture.store.oplog().end_position());
    (fixture, collection)
}

fn end(fixture: &Fixture) -> OplogPosition {
    fixture.store.oplog().end_position()
}

fn confirm_all(fixture: &Fixture) {
    fixture.store.confirm(end(fixture));
}

/// How many records a view has.
fn count(view: &ReadView, collection: &Arc<Collection>) -> usize {
    let mut cursor = view.record_cursor(collection);
    std::iter::from_fn(|| cursor.next().unwrap()).count()
}

#[test]
fn readers_see_a_commit_once_it_is_confirmed_and_writers_at_once() {
    let (mut fixture, collection) = confirming(options());
    let before = fixture.store.readable_timestamp();
    assert_eq!(fixture.store.to_be_confirmed(), None);
    let inserted = fixture.insert(&collection, rawdoc! { "_id": 2, "a": 0 }).unwrap();
    let mut newest = fixture.store.newest_view();
    assert_eq!((count(&fixture.store.read_view(), &collection), count(&newest, &collection)), (1, 2));
    assert_eq!(fixture.store.readable_timestamp(), before);
    assert_eq!(fixture.store.to_be_confirmed(), Some(inserted.end));
    // What writes meets it.
    let taken = fixture.insert(&collection, rawdoc! { "_id": 2, "a": 5 }).unwrap_err();
    assert!(matches!(taken, TransactionError::Collection(CollectionError::DuplicateKey(_))), "{taken}");
    fixture.insert(&collection, rawdoc! { "_id": 3, "a": 0 }).unwrap();
    newest.refresh();
    assert_eq!(count(&newest, &collection), 3);
    fixture.store.confirm(inserted.end);
    assert_eq!(count(&fixture.store.read_view(), &collection), 2);
    assert_eq!(fixture.store.readable_timestamp(), inserted.timestamp);
    assert!(fixture.store.acknowledge(&inserted, Acknowledgement::Durable).is_ok());
    confirm_all(&fixture);
    assert_eq!((count(&fixture.store.read_view(), &collection), fixture.store.to_be_confirmed()), (3, None));
    assert_sound(&fixture.store);
}

#[test]
fn an_overwritten_document_is_read_as_it_was_until_the_change_is_confirmed() {
    // So little memory for the history that much of it goes to its file.
    let engine = EngineOptions { history_memory_bytes: 16 << 10, ..options().engine };
    let (mut fixture, collection) = confirming(StoreOptions { engine, ..options() });
    for round in 1..300 {
        fixture.replace(&collection, 1, rawdoc! { "_id": 1, "a": round, "b": "x".repeat(400) }).unwrap();
        while fixture.store.engine().reclaim_step().unwrap() {}
    }
    assert_eq!(contents(&fixture.store, &collection)[&1].get_i32("a").unwrap(), 0);
    confirm_all(&fixture);
    assert_eq!(contents(&fixture.store, &collection)[&1].get_i32("a").unwrap(), 299);
    fixture.delete(&collection, 1).unwrap();
    assert_eq!(contents(&fixture.store, &collection).len(), 1);
    confirm_all(&fixture);
    assert!(contents(&fixture.store, &collection).is_empty());
}

#[test]
fn a_change_of_definitions_is_waited_for_by_those_who_read_documents_only() {
    let (mut fixture, collection) = confirming(options());
    fixture.insert(&collection, rawdoc! { "_id": 2, "a": 0 }).unwrap();
    assert_eq!(fixture.store.definitions_to_be_confirmed(), None);
    fixture.store.drop_collection(&namespace("db.c")).unwrap();
    let dropped = end(&fixture);
    assert_eq!(fixture.store.definitions_to_be_confirmed(), Some(dropped));
    fixture.store.confirm(dropped);
    assert_eq!(fixture.store.definitions_to_be_confirmed(), None);
}

#[test]
fn a_transaction_reads_what_is_confirmed_and_conflicts_with_what_is_newer() {
    let (mut fixture, collection) = confirming(options());
    fixture.replace(&collection, 1, rawdoc! { "_id": 1, "a": 7 }).unwrap();
    let transaction = begin(&fixture.store, 1, 1);
    let record_id = find(&fixture.store, &collection, 1).unwrap();
    let mut document = Vec::new();
    assert!(transaction.read_view().get_record(&collection, record_id, &mut document).unwrap());
    assert_eq!(document, rawdoc! { "_id": 1, "a": 0 }.as_bytes());
    let mut context = in_transaction(&transaction);
    let decide = |_: &bson::RawDocument, _: &mut Vec<u8>| -> Result<Decision> { Ok(Decision::Delete) };
    let changed =
        fixture.store.change_document(&mut context, &collection, record_id, Validation::Enforce, decide).map(drop);
    assert!(matches!(changed, Err(TransactionError::WriteConflict)), "{changed:?}");
    drop(transaction);
    fixture
        .store
        .abort_transaction(&fixture.store.sessions().refresh(super::transactions::session_id(1)).unwrap(), 1)
        .unwrap();
    confirm_all(&fixture);
    let transaction = begin(&fixture.store, 1, 2);
    let mut context = in_transaction(&transaction);
    fixture.store.change_document(&mut context, &collection, record_id, Validation::Enforce, decide).unwrap();
    commit(&fixture.store, 1, 2).unwrap().unwrap();
    assert_eq!(count(&fixture.store.read_view(), &collection), 1);
    confirm_all(&fixture);
    assert_eq!(count(&fixture.store.read_view(), &collection), 0);
}

#[test]
fn a_large_commit_is_seen_once_its_last_entry_is_confirmed() {
    let (fixture, collection) = confirming(StoreOptions { large_transaction_bytes: 500, ..options() });
    let transaction = begin(&fixture.store, 1, 1);
    let mut context = in_transaction(&transaction);
    for id in 10..60 {
        let document = rawdoc! { "_id": id, "a": "x".repeat(100) };
        fixture.store.insert_document(&mut context, &collection, &document, Validation::Enforce).unwrap();
    }
    drop((transaction, context));
    let committed = commit(&fixture.store, 1, 1).unwrap().unwrap();
    assert_eq!(count(&fixture.store.newest_view(), &collection), 51);
    fixture.store.confirm(OplogPosition(committed.end.0 - 1));
    assert_eq!(count(&fixture.store.read_view(), &collection), 1, "its decision is confirmed");
    fixture.store.confirm(committed.end);
    assert_eq!(count(&fixture.store.read_view(), &collection), 51);
}

#[test]
fn followers_of_the_oplog_see_what_is_confirmed() {
    let (mut fixture, collection) = confirming(options());
    let (timestamp, position) = fixture.store.confirmed_end();
    let mut follower = fixture.store.follow_oplog(position).unwrap();
    let inserted = fixture.insert(&collection, rawdoc! { "_id": 2 }).unwrap();
    assert!(matches!(follower.advance().unwrap(), Followed::UpTo(upto) if upto == timestamp));
    let newest = |fixture: &Fixture| fixture.store.oplog_backward().unwrap().previous().unwrap().unwrap().0;
    assert!(newest(&fixture) <= timestamp);
    fixture.store.confirm(inserted.end);
    assert_eq!(follower.next().unwrap().unwrap().timestamp, inserted.timestamp);
    assert!(follower.next().unwrap().is_none());
    assert_eq!(newest(&fixture), inserted.timestamp);
}

#[test]
fn listeners_are_woken_by_confirmation() {
    let (mut fixture, collection) = confirming(options());
    let interest = Box::new(|_: &Arc<FeedEntry>| true);
    let topic = Topic { name: "all".to_owned(), interest, delivers: true, cost: Duration::ZERO };
    let subscription = fixture.store.subscribe(topic);
    fixture.store.feed_step().unwrap();
    subscription.wait(Duration::ZERO);
    fixture.insert(&collection, rawdoc! { "_id": 2 }).unwrap();
    fixture.store.feed_step().unwrap();
    assert!(!subscription.wait(Duration::ZERO), "it is visible and not confirmed");
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| while !subscription.wait(Duration::from_millis(5)) {});
        confirm_all(&fixture);
        fixture.store.feed_step().unwrap();
        waiting.join().unwrap();
    });
}

/// Nothing that outlives the process has what may vanish.
#[test]
fn a_checkpoint_is_published_once_all_it_has_is_confirmed() {
    let (mut fixture, collection) = confirming(options());
    fixture.insert(&collection, rawdoc! { "_id": 2 }).unwrap();
    let made = |fixture: &Fixture| fixture.store.engine().statistics().unwrap().store.checkpoints;
    let before = made(&fixture);
    std::thread::scope(|scope| {
        let checkpoint = scope.spawn(|| fixture.store.checkpoint_step(Urgency::Now));
        SystemClock::new().sleep(Duration::from_millis(100));
        assert_eq!(made(&fixture), before);
        confirm_all(&fixture);
        assert!(checkpoint.join().unwrap().unwrap());
    });
    assert_eq!(made(&fixture), before + 1);
}

#[test]
fn rings_are_written_once_all_they_have_is_confirmed() {
    let (fixture, _) = confirming(options());
    let capped = CollectionOptions::parse(&rawdoc! { "capped": true, "size": 1 << 20 }).unwrap();
    let (ring, _) = fixture.store.create_collection(&namespace("db.ring"), capped).unwrap();
    let document = rawdoc! { "_id": 1 };
    fixture.store.insert_document(&mut WriteContext::new(), &ring, &document, Validation::Enforce).unwrap();
    std::thread::scope(|scope| {
        let writing = scope.spawn(|| fixture.store.write_rings());
        SystemClock::new().sleep(Duration::from_millis(50));
        assert!(!writing.is_finished() && fixture.store.engine().has_buffered_rings());
        confirm_all(&fixture);
        assert!(writing.join().unwrap().unwrap() > 0);
    });
}

#[test]
fn who_closes_a_store_does_not_wait_for_ever_for_the_log() {
    let (mut fixture, collection) = confirming(options());
    fixture.insert(&collection, rawdoc! { "_id": 2 }).unwrap();
    std::thread::scope(|scope| {
        let closing = scope.spawn(|| fixture.store.shutdown());
        while !closing.is_finished() {
            SystemClock::new().sleep(Duration::from_millis(5));
            fixture.clock.advance(Duration::from_millis(100));
        }
        assert!(matches!(closing.join().unwrap(), Err(TransactionError::Unconfirmed)));
    });
    assert!(fixture.clock.monotonic() >= Duration::from_secs(5));
    fixture.crash();
    assert_eq!(contents(&fixture.store, &fixture.collection("db.c")).len(), 2, "the oplog has it");
}

#[test]
fn nothing_is_begun_that_could_not_be_confirmed() {
    let (mut fixture, collection) = confirming(options());
    fixture.store.set_leadership(Leadership::Stalled);
    let refused = fixture.insert(&collection, rawdoc! { "_id": 2 }).unwrap_err();
    assert!(matches!(refused, TransactionError::LogUnreachable), "{refused}");
    fixture.store.set_leadership(Leadership::Held);
    let inserted = fixture.insert(&collection, rawdoc! { "_id": 2 }).unwrap();
    assert!(!fixture.store.wait_confirmed(inserted.end, &|| true).unwrap(), "nobody waits any more");
    fixture.store.set_leadership(Leadership::Lost);
    let refused = fixture.insert(&collection, rawdoc! { "_id": 3 }).unwrap_err();
    assert!(matches!(refused, TransactionError::TermLost), "{refused}");
    let told = fixture.store.acknowledge(&inserted, Acknowledgement::Durable).unwrap_err();
    assert!(matches!(told, TransactionError::TermLost), "{told}");
    assert_eq!(count(&fixture.store.read_view(), &collection), 1, "reading goes on");
}

/// Others have read that the build began, and would keep the index for ever.
#[test]
fn a_build_whose_end_cannot_be_logged_goes_on_when_it_can() {
    for (is_unique, specifications) in [(false, 1), (true, 1), (false, 2)] {
        let (mut fixture, collection) = confirming(options());
        fixture.insert(&collection, rawdoc! { "_id": 2, "a": 0 }).unwrap();
        let keys = [rawdoc! { "a": 1 }, rawdoc! { "a": -1 }];
        let wanted = keys.into_iter().enumerate().take(specifications).map(|(number, key)| {
            let wanted = rawdoc! { "key": key, "name": format!("i{number}"), "unique": is_unique };
            IndexSpecification::parse(&wanted).unwrap()
        });
        let store = fixture.store.clone();
        let goes_silent = || {
            store.set_leadership(Leadership::Stalled);
            true
        };
        let ended = store.create_indexes_unless(&collection, wanted.collect(), &goes_silent).unwrap_err();
        assert!(matches!(ended, TransactionError::Collection(CollectionError::Stopped)), "{ended}");
        assert_eq!(store.interrupted_builds().len(), 1);
        store.resume_all_builds();
        assert!(collection.indexes().find("i0").is_some_and(|index| !index.is_ready()), "nobody can be told");
        store.set_leadership(Leadership::Held);
        store.resume_all_builds();
        assert!(store.interrupted_builds().is_empty());
        let found: Vec<bool> = collection.indexes().all().iter().map(|index| index.is_ready()).collect();
        // Two documents have the same key.
        let expected = if is_unique { 1 } else { 1 + specifications };
        assert_eq!(found, vec![true; expected]);
        confirm_all(&fixture);
        fixture.flush_oplog();
        fixture.crash();
        let collection = fixture.collection("db.c");
        assert_eq!(collection.indexes().all().len(), expected);
        assert!(collection.indexes().all().iter().all(|index| index.is_ready()));
    }
}

#[test]
fn a_causal_read_waits_for_confirmation() {
    let (mut fixture, collection) = confirming(options());
    let inserted = fixture.insert(&collection, rawdoc! { "_id": 2 }).unwrap();
    let ended = fixture.store.wait_until_readable(inserted.timestamp, &|| true);
    assert!(matches!(ended, Err(TransactionError::Interrupted)), "{ended:?}");
    std::thread::scope(|scope| {
        let reading = scope.spawn(|| fixture.store.wait_until_readable(inserted.timestamp, &|| false));
        SystemClock::new().sleep(Duration::from_millis(30));
        assert!(!reading.is_finished());
        confirm_all(&fixture);
        assert!(reading.join().unwrap().unwrap());
    });
    assert!(fixture.store.readable_timestamp() >= inserted.timestamp);
    let later = storage_engine::Timestamp(inserted.timestamp.0 + 1);
    assert!(!fixture.store.wait_until_readable(later, &|| false).unwrap());
}
