//! Oplog entries: what is encoded is decoded, and damaged ones are refused.

use bson::{Uuid, rawdoc};

use super::*;
use crate::field_changes::FieldChanges;
use crate::oplog_entry::{
    EntryEncoder, EntryPrefix, EntryStyle, LoggedEntry, Telling, TransactionEncoder, UpdateStyle, apply_delta,
    encode_command, served_entry,
};

fn prefix() -> EntryPrefix {
    EntryPrefix::new("db.c", Uuid::from_bytes([7; 16]))
}

/// The entry in one piece.
fn payload(encoder: &EntryEncoder, document: &RawDocument) -> Vec<u8> {
    let payload = encoder.entry(document.as_bytes()).to_vec();
    // Also well-formed for anybody else who reads BSON.
    RawDocument::from_bytes(&payload).unwrap().iter().for_each(|element| assert!(element.is_ok()));
    payload
}

fn document_entry(payload: &[u8]) -> DocumentEntry<'_> {
    match Entry::decode(payload).unwrap() {
        Entry::Document(entry) => entry,
        other => panic!("{other:?}"),
    }
}

#[test]
fn inserts_and_deletes_round_trip() {
    let document = rawdoc! { "_id": 5, "a": "text" };
    let mut encoder = EntryEncoder::default();
    encoder.insert(&prefix(), RecordId(9), &document, 1_000);
    let inserted = payload(&encoder, &document);
    let entry = document_entry(&inserted);
    assert_eq!((entry.uuid, entry.record_id), (Uuid::from_bytes([7; 16]), RecordId(9)));
    assert_eq!(entry.size_change, document.as_bytes().len() as i64);
    assert!(matches!(entry.operation, DocumentOperation::Insert(found) if found == &*document));
    let style = EntryStyle { keeps_pre_image: true, ..EntryStyle::default() };
    encoder.delete(&prefix(), RecordId(9), &document, style, 1_000).unwrap();
    let deleted = payload(&encoder, &document);
    let logged = RawDocument::from_bytes(&deleted).unwrap();
    assert_eq!(logged.get_document("pre").unwrap(), &*document);
    let entry = document_entry(&deleted);
    assert_eq!(entry.size_change, -(document.as_bytes().len() as i64));
    assert!(matches!(entry.operation, DocumentOperation::Delete));
}

#[test]
fn an_update_logs_what_changed_and_a_replacement_the_document() {
    let padding = "x".repeat(100);
    let old = rawdoc! { "_id": 5, "a": 1, "padding": padding.as_str(), "gone": 1 };
    let small_change = rawdoc! { "_id": 5, "a": 2, "padding": padding.as_str(), "new": 1 };
    let other = rawdoc! { "_id": 5, "b": 2 };
    let mut encoder = EntryEncoder::default();
    let mut changes = FieldChanges::default();
    changes.compare(&old, &small_change);
    encoder.update(&prefix(), RecordId(9), (&old, &small_change), &changes, EntryStyle::default(), 0).unwrap();
    match document_entry(&payload(&encoder, &small_change)).operation {
        DocumentOperation::Delta(diff) => {
            let mut applied = Vec::new();
            apply_delta(&old, diff, &mut applied).unwrap();
            assert_eq!(applied, small_change.as_bytes());
        }
        other => panic!("{other:?}"),
    }
    changes.compare(&old, &other);
    encoder.update(&prefix(), RecordId(9), (&old, &other), &changes, EntryStyle::default(), 0).unwrap();
    match document_entry(&payload(&encoder, &other)).operation {
        DocumentOperation::Delta(diff) => {
            let mut applied = Vec::new();
            apply_delta(&old, diff, &mut applied).unwrap();
            assert_eq!(applied, other.as_bytes());
        }
        other => panic!("{other:?}"),
    }
    let whole = EntryStyle { update: UpdateStyle::Whole, ..EntryStyle::default() };
    encoder.update(&prefix(), RecordId(9), (&old, &other), &changes, whole, 0).unwrap();
    assert!(
        matches!(document_entry(&payload(&encoder, &other)).operation, DocumentOperation::Replace(found) if found == &*other)
    );
}

#[test]
fn changes_inside_documents_and_arrays_are_logged_by_path() {
    let old = rawdoc! { "_id": 5, "a": { "b": 1, "c": [1, 2, 3] }, "d": 1 };
    let new = rawdoc! { "_id": 5, "a": { "b": 2, "c": [1, 9] }, "d": 1 };
    let (mut encoder, mut changes) = (EntryEncoder::default(), FieldChanges::default());
    changes.compare(&old, &new);
    encoder.update(&prefix(), RecordId(9), (&old, &new), &changes, EntryStyle::default(), 0).unwrap();
    let payload = payload(&encoder, &new);
    let DocumentOperation::Delta(diff) = document_entry(&payload).operation else { panic!("a delta") };
    assert!(diff.get_document("sa").is_ok(), "{diff:?}");
    let mut applied = Vec::new();
    apply_delta(&old, diff, &mut applied).unwrap();
    assert_eq!(applied, new.as_bytes());
    apply_delta(&new, diff, &mut applied).unwrap();
    assert_eq!(applied, new.as_bytes(), "again changes nothing");
}

#[test]
fn commands_round_trip_and_damage_is_found() {
    let command = rawdoc! { "drop": "c" };
    let bytes = encode_command("db", Some(Uuid::from_bytes([1; 16])), &command, None, 5);
    match Entry::decode(&bytes).unwrap() {
        Entry::Command { database: "db", uuid: Some(_), command: found, second: None } => assert_eq!(found, &*command),
        other => panic!("{other:?}"),
    }
    assert!(Entry::decode(rawdoc! { "op": "x" }.as_bytes()).is_err());
    assert!(Entry::decode(rawdoc! { "op": "i", "ns": "a.b" }.as_bytes()).is_err());
    assert!(Entry::decode(&[]).is_err());
}

#[test]
fn steps_of_a_transaction_are_told_and_not_applied() {
    let operation = |id: i64| {
        let mut encoder = EntryEncoder::default();
        let document = rawdoc! { "_id": id };
        encoder.insert(&prefix(), RecordId(id), &document, 1_000);
        payload(&encoder, &document)
    };
    let mut encoder = TransactionEncoder::new();
    encoder.push(LoggedEntry::whole(&operation(1)), Telling::Net);
    encoder.push(LoggedEntry::whole(&operation(2)), Telling::Step);
    encoder.push(LoggedEntry::whole(&operation(3)), Telling::Whole);
    let commit = encoder.finish_commit(&[], Some((Uuid::from_bytes([3; 16]), 5)), 1_000).to_vec();
    let Entry::Transaction(entry) = Entry::decode(&commit).unwrap() else { panic!("no transaction") };
    let applied = entry.operations().map(|operation| match Entry::decode(operation).unwrap() {
        Entry::Document(entry) => entry.record_id.0,
        other => panic!("{other:?}"),
    });
    assert_eq!(applied.collect::<Vec<_>>(), [1, 3]);
    let served = served_entry(platform::Timestamp(9), 1, &commit);
    let told = served.get_document("o").unwrap().get_array("applyOps").unwrap();
    let told = told.into_iter().map(|operation| {
        let operation = operation.unwrap().as_document().unwrap();
        assert!(operation.get("step").unwrap().is_none() && operation.get("rid").unwrap().is_none());
        operation.get_document("o").unwrap().get_i64("_id").unwrap()
    });
    assert_eq!(told.collect::<Vec<_>>(), [2, 3]);
}
