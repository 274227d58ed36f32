//! Changes of definitions and open transactions: the one waits, the other is told to begin again.

use std::cell::Cell;

use collection::Collection;

use super::fixture::*;
use super::transactions::{begin, commit};
use crate::*;

fn seen_by(fixture: &Fixture, transaction: &std::sync::Arc<Transaction>) -> Result<Option<std::sync::Arc<Collection>>> {
    fixture.store.collection_seen_by(Some(transaction), &namespace("db.c"))
}

fn scope() -> DefinitionScope {
    DefinitionScope::Collections(vec![namespace("db.c")])
}

#[test]
fn a_change_waits_for_those_who_use_the_collection_and_keeps_others_out() {
    let fixture = Fixture::new();
    fixture.collection("db.c");
    let (store, first, second) = (&fixture.store, begin(&fixture.store, 1, 1), begin(&fixture.store, 2, 1));
    assert!(seen_by(&fixture, &first).unwrap().is_some());
    let asked = Cell::new(0);
    let excluded = store.exclude_transactions(&scope(), &|| {
        // Whoever comes meanwhile is refused, who is there goes on.
        assert!(matches!(seen_by(&fixture, &second), Err(TransactionError::LockTimeout(_))));
        assert!(seen_by(&fixture, &first).unwrap().is_some());
        asked.set(asked.get() + 1);
        if asked.get() == 3 {
            commit(store, 1, 1).unwrap();
        }
        false
    });
    assert_eq!(asked.get(), 3);
    assert!(seen_by(&fixture, &second).is_err());
    drop(excluded.unwrap());
    assert!(seen_by(&fixture, &second).unwrap().is_some());
}

#[test]
fn a_change_that_is_stopped_lets_everybody_in_again() {
    let fixture = Fixture::new();
    fixture.collection("db.c");
    let (first, second) = (begin(&fixture.store, 1, 1), begin(&fixture.store, 2, 1));
    assert!(seen_by(&fixture, &first).unwrap().is_some());
    let stopped = fixture.store.exclude_transactions(&DefinitionScope::Database("db".to_owned()), &|| true);
    assert!(matches!(stopped.err(), Some(TransactionError::Interrupted)));
    assert!(seen_by(&fixture, &second).unwrap().is_some());
}

#[test]
fn a_snapshot_from_before_a_drop_or_rename_is_unavailable() {
    let fixture = Fixture::new();
    fixture.collection("db.c");
    let (dropped, other) = (namespace("db.c"), namespace("db.d"));
    let before = begin(&fixture.store, 1, 1);
    fixture.store.drop_collection(&dropped).unwrap();
    assert!(matches!(seen_by(&fixture, &before), Err(TransactionError::SnapshotUnavailable(_))));
    // Also when there is another one of that name.
    fixture.collection("db.c");
    assert!(matches!(seen_by(&fixture, &before), Err(TransactionError::SnapshotUnavailable(_))));
    let after = begin(&fixture.store, 1, 2);
    assert!(seen_by(&fixture, &after).unwrap().is_some());
    let third = begin(&fixture.store, 3, 1);
    fixture.store.rename_collection(&dropped, &other, RenameTarget::MustNotExist).unwrap();
    for name in [&dropped, &other] {
        let seen = fixture.store.collection_seen_by(Some(&third), name);
        assert!(matches!(seen, Err(TransactionError::SnapshotUnavailable(_))), "{name}");
    }
    let fourth = begin(&fixture.store, 4, 1);
    assert!(fixture.store.collection_seen_by(Some(&fourth), &dropped).unwrap().is_none());
    assert!(fixture.store.collection_seen_by(Some(&fourth), &other).unwrap().is_some());
}
