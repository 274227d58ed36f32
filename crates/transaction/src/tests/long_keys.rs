//! Index keys longer than a tree takes: their order, both ways, and that they are unique, removed and recovered as others are.

use bson::{RawDocumentBuf, rawdoc};
use collection::{CollectionError, long_key};
use proptest::collection::vec;
use proptest::prelude::*;

use super::fixture::*;
use super::transactions::{begin, commit, in_transaction};
use crate::*;

/// A text of a length, which ends in a number. Those of more than some 2,030 bytes are shortened, and most have one beginning.
fn text(length: usize, end: u32) -> String {
    format!("{}{end:03}", "k".repeat(length))
}

fn document(id: i32, texts: &[(usize, u32)]) -> RawDocumentBuf {
    let values: Vec<String> = texts.iter().map(|(length, end)| text(*length, *end)).collect();
    let mut array = bson::RawArrayBuf::new();
    values.iter().for_each(|value| array.push(value.as_str()));
    match values.as_slice() {
        [one] => rawdoc! { "_id": id, "a": one.as_str(), "b": 2.0 },
        _ => rawdoc! { "_id": id, "a": array, "b": 2.0 },
    }
}

fn texts() -> impl Strategy<Value = Vec<(usize, u32)>> {
    let lengths = prop_oneof![Just(3_u32), 2030..2045_u32, Just(3000), Just(5000)];
    vec((lengths.prop_map(|length| length as usize), 0..12_u32), 1..3)
}

/// All keys in order, as one cursor gives them, checked against cursors that begin anywhere and are reseated.
fn check_order(store: &Store, view: &ReadView, collection: &std::sync::Arc<collection::Collection>, name: &str) {
    let index = collection.indexes().find(name).unwrap().clone();
    let mut cursor = view.index_cursor(collection, &index);
    let mut all = Vec::new();
    while cursor.next().unwrap() {
        let values = index_key_values(&mut cursor);
        all.push((cursor.key().to_vec(), cursor.record_id(), values));
    }
    let is_in_order = |one: &(Vec<u8>, _, _), other: &(Vec<u8>, _, _)| (&one.0, one.1) < (&other.0, other.1);
    assert!(all.is_sorted_by(is_in_order), "{name}");
    let here = |cursor: &IndexCursor| (cursor.key().to_vec(), cursor.record_id());
    // A whole key is too long to be looked at.
    let shown = |(key, record_id): (Vec<u8>, collection::RecordId)| {
        (key.len(), key.iter().rev().take(5).copied().collect::<Vec<_>>(), record_id)
    };
    let mut backward = view.index_cursor(collection, &index);
    backward.seek_last().unwrap();
    for (key, record_id, _) in all.iter().rev() {
        assert!(backward.previous().unwrap());
        assert_eq!(shown(here(&backward)), shown((key.clone(), *record_id)));
        backward.reseat_backward(view).unwrap();
    }
    assert!(!backward.previous().unwrap());
    for (place, (key, record_id, _)) in all.iter().enumerate() {
        let first = all.partition_point(|(other, ..)| other < key);
        let mut cursor = view.index_cursor(collection, &index);
        cursor.seek(key).unwrap();
        for (key, record_id, _) in all.iter().skip(first) {
            assert!(cursor.next().unwrap());
            assert_eq!(here(&cursor), (key.clone(), *record_id));
            cursor.reseat(view).unwrap();
            assert_eq!(here(&cursor), (key.clone(), *record_id));
        }
        assert!(!cursor.next().unwrap());
        cursor.seek_before(key).unwrap();
        assert_eq!(cursor.previous().unwrap(), first > 0);
        let mut after = key.clone();
        after.push(0xFF);
        let behind = all.partition_point(|(other, ..)| *other < after);
        cursor.seek_before(&after).unwrap();
        assert!(cursor.previous().unwrap());
        assert_eq!(here(&cursor), (all[behind - 1].0.clone(), all[behind - 1].1));
        cursor.seek_range(key, &after).unwrap();
        assert!(cursor.next().unwrap());
        assert_eq!(here(&cursor), (all[first].0.clone(), all[first].1));
        while cursor.next().unwrap() && cursor.key() == key {}
        assert!(behind == all.len() || cursor.key() == key || cursor.key() >= after.as_slice());
        cursor.seek_range_before(key, &after).unwrap();
        assert!(cursor.previous().unwrap());
        assert_eq!(here(&cursor), (all[behind - 1].0.clone(), all[behind - 1].1));
        while cursor.previous().unwrap() && cursor.key() == key {}
        assert!(cursor.key() <= key.as_slice());
        assert!(place >= first && *record_id >= all[first].1);
    }
    assert!(store.validate(collection, &|| false).unwrap().is_valid());
}

/// The whole key comes with the type bits that belong to it.
fn index_key_values(cursor: &mut IndexCursor) -> bool {
    let is_double = !cursor.type_bits().unwrap().is_empty();
    assert_eq!(is_double, cursor.index().name() == "ab");
    is_double
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(12) })]

    #[test]
    fn long_keys_come_in_their_order(
        before in vec(texts(), 1..14),
        after in vec(texts(), 1..14),
        gone in vec(0..12_i32, 0..8),
        descending in any::<bool>(),
    ) {
        check_orders(&before, &after, &gone, descending);
    }
}

fn check_orders(before: &[Vec<(usize, u32)>], after: &[Vec<(usize, u32)>], gone: &[i32], descending: bool) {
    let mut fixture = Fixture::new();
    let collection = fixture.collection("db.c");
    let direction = if descending { -1 } else { 1 };
    fixture.create_index(&collection, rawdoc! { "key": { "a": direction }, "name": "a" }).unwrap();
    for (id, texts) in before.iter().enumerate() {
        fixture.insert(&collection, document(id as i32, texts)).unwrap();
    }
    // One index is built over what is there.
    fixture.create_index(&collection, rawdoc! { "key": { "a": 1, "b": -1 }, "name": "ab" }).unwrap();
    for (id, texts) in after.iter().enumerate() {
        if id < before.len() {
            fixture.replace(&collection, id as i32, document(id as i32, texts)).unwrap();
        } else {
            fixture.insert(&collection, document(id as i32, texts)).unwrap();
        }
    }
    let transaction = begin(&fixture.store, 1, 1);
    fixture.context = in_transaction(&transaction);
    for id in gone {
        fixture.delete(&collection, *id).unwrap();
    }
    fixture
        .store
        .insert_document(
            &mut fixture.context,
            &collection,
            &document(90, &[(3000, 5)]),
            collection::Validation::Enforce,
        )
        .unwrap();
    let view = transaction.read_view();
    for name in ["a", "ab"] {
        check_order(&fixture.store, &view, &collection, name);
    }
    commit(&fixture.store, 1, 1).unwrap();
    fixture.context = WriteContext::new();
    for name in ["a", "ab"] {
        check_order(&fixture.store, &fixture.store.read_view(), &collection, name);
    }
    fixture.flush_oplog();
    fixture.crash();
    assert_sound(&fixture.store);
    let collection = fixture.collection("db.c");
    for name in ["a", "ab"] {
        check_order(&fixture.store, &fixture.store.read_view(), &collection, name);
    }
}

#[test]
fn what_does_not_fit_into_the_kept_part_of_a_group_is_not_passed_over() {
    let short = vec![(3, 0)];
    let after = [
        short.clone(),
        short.clone(),
        short.clone(),
        vec![(3000, 0)],
        vec![(3000, 0), (3000, 1)],
        short.clone(),
        vec![(2041, 8), (5000, 0)],
    ];
    check_orders(&[short], &after, &[], true);
}

#[test]
fn long_keys_are_unique_by_all_of_their_bytes() {
    let mut fixture = Fixture::new();
    let collection = fixture.collection("db.c");
    let unique = rawdoc! { "key": { "a": 1 }, "name": "a", "unique": true };
    fixture.create_index(&collection, unique.clone()).unwrap();
    for (id, end) in [(1, 1), (2, 2)] {
        fixture.insert(&collection, document(id, &[(100_000, end)])).unwrap();
    }
    let error = fixture.insert(&collection, document(3, &[(100_000, 2)])).unwrap_err();
    let TransactionError::Collection(CollectionError::DuplicateKey(duplicate)) = error else { panic!("{error}") };
    let shown = duplicate.key_value.get_str("a").unwrap();
    assert!(shown.len() < 2000 && shown.starts_with("kkk") && shown.ends_with("..."));
    assert!(duplicate.key_text.len() < 2000);
    fixture.delete(&collection, 2).unwrap();
    fixture.insert(&collection, document(3, &[(100_000, 2)])).unwrap();
    assert_sound(&fixture.store);
    fixture.store.drop_indexes(&collection, WhichIndexes::Names(vec!["a".to_owned()])).unwrap();
    fixture.insert(&collection, document(4, &[(100_000, 1)])).unwrap();
    let error = fixture.create_index(&collection, unique).unwrap_err();
    assert!(matches!(error, TransactionError::Collection(CollectionError::DuplicateKey(_))), "{error}");
    fixture.flush_oplog();
    fixture.crash();
    assert_sound(&fixture.store);
}

/// Many keys of one group are more than are kept at a time.
#[test]
fn a_group_that_is_not_kept_whole_is_read_again() {
    let mut fixture = Fixture::new();
    let collection = fixture.collection("db.c");
    fixture.create_index(&collection, rawdoc! { "key": { "a": 1 }, "name": "a" }).unwrap();
    for id in 0..40 {
        fixture.insert(&collection, document(id, &[(3000, (id as u32 * 7) % 20)])).unwrap();
    }
    let view = fixture.store.read_view();
    check_order(&fixture.store, &view, &collection, "a");
    const { assert!(40 * 3000 > 4 * crate::long_keys::KEPT_BYTES && long_key::KEY_BYTES_MAX < 3000) };
}
