//! Entries as clients see them in `local.oplog.rs`, and what can be told of an entry without decoding it.
//!
//! Definition changes are logged in a form of ours, which replay reads, and served in the one that tools know: `create` and `collMod` with their options side by side,
//! index builds with a list of indexes.
//!
//! Called by whoever serves the oplog and change streams.

use bson::raw::cstr;
use bson::{DateTime, RawBsonRef, RawDocument, RawDocumentBuf};
use platform::Timestamp;

use super::delta::apply_delta;
use super::transaction_entry::{STEP, is_told};
use crate::error::{CollectionError, Result};

/// Fields of ours, which clients do not see.
const OURS: &[&[u8]] = &[b"rid", b"sz", b"rh", b"rs", b"rd", b"im", b"up", b"pre", STEP.as_bytes()];

/// The letter of `op` and the namespace of an entry. They come first.
pub fn entry_subject(payload: &[u8]) -> Option<(u8, &str)> {
    let mut elements = document::elements_of_bytes(payload);
    let (operation, namespace) = (elements.next()?, elements.next()?);
    if operation.name_bytes() != b"op" || namespace.name_bytes() != b"ns" {
        return None;
    }
    let letter = *operation.value_bytes().get(4)?;
    let text = namespace.value_bytes();
    Some((letter, std::str::from_utf8(text.get(4..text.len().checked_sub(1)?)?).ok()?))
}

/// Whether an entry is about the database `local`, which is the server's own and nothing to others.
pub fn is_local(payload: &[u8]) -> bool {
    entry_subject(payload).is_some_and(|(_, namespace)| namespace.starts_with("local."))
}

/// An entry in the shape of MongoDB's `local.oplog.rs`.
pub fn served_entry(timestamp: Timestamp, term: i64, payload: &[u8]) -> RawDocumentBuf {
    let mut served = without_ours(payload);
    served.append(cstr!("ts"), bson_timestamp(timestamp));
    served.append(cstr!("t"), term);
    served
}

fn without_ours(payload: &[u8]) -> RawDocumentBuf {
    let mut served = RawDocumentBuf::new();
    let is_command = entry_subject(payload).is_some_and(|(operation, _)| operation == b'c');
    for element in document::elements_of_bytes(payload) {
        let name = element.name_bytes();
        if OURS.contains(&name) {
            continue;
        }
        match element.value() {
            RawBsonRef::Document(object) if name == b"o" => {
                served.append(cstr!("o"), served_object(object, is_command))
            }
            value => append(&mut served, element.name(), value),
        }
    }
    served
}

fn served_object(object: &RawDocument, is_command: bool) -> RawDocumentBuf {
    let first = document::elements(object).next();
    match first.filter(|_| is_command).map(|first| (first.name(), first.value())) {
        Some(("applyOps", RawBsonRef::Array(operations))) => served_operations(object, operations),
        Some(("create" | "collMod" | "startIndexBuild" | "commitIndexBuild" | "abortIndexBuild", _)) => {
            served_definition(object)
        }
        _ => object.to_owned(),
    }
}

/// A definition change in the form that tools know.
fn served_definition(object: &RawDocument) -> RawDocumentBuf {
    let mut served = RawDocumentBuf::new();
    let is_change = document::get_field(object, "collMod").is_some();
    for element in document::elements(object) {
        match (element.name(), element.value()) {
            ("options", RawBsonRef::Document(options)) => {
                // A change does not tell that a capped collection is one.
                let is_told = |name: &str| !is_change || !["capped", "size", "max"].contains(&name);
                let told = document::elements(options).filter(|option| is_told(option.name()));
                told.for_each(|option| append(&mut served, option.name(), option.value()));
            }
            ("index", RawBsonRef::Document(index)) if !is_change => {
                let mut list = bson::RawArrayBuf::new();
                list.push(index.to_owned());
                served.append(cstr!("indexes"), list);
            }
            (name, value) => append(&mut served, name, value),
        }
    }
    served
}

/// The operations inside a transaction's entry have fields of ours, too.
fn served_operations(object: &RawDocument, operations: &bson::RawArray) -> RawDocumentBuf {
    let mut served = RawDocumentBuf::new();
    let mut list = bson::RawArrayBuf::new();
    for operation in document::array_elements(operations) {
        if let RawBsonRef::Document(operation) = operation.value()
            && is_told(operation)
        {
            list.push(without_ours(operation.as_bytes()));
        }
    }
    served.append(cstr!("applyOps"), list);
    if let Some(is_part @ RawBsonRef::Boolean(true)) = document::get_field(object, "partialTxn") {
        served.append(cstr!("partialTxn"), is_part);
    }
    served
}

/// Appends a field of any name.
pub fn append(document: &mut RawDocumentBuf, name: &str, value: RawBsonRef<'_>) {
    if let Ok(name) = <&bson::raw::CStr>::try_from(name) {
        document.append(name, value);
    }
}

/// What an update made of a document.
///
/// # Errors
/// `Damaged`.
pub fn post_image(before: &RawDocument, object: &RawDocument) -> Result<RawDocumentBuf> {
    let Some(RawBsonRef::Document(diff)) = document::get_field(object, "diff") else { return Ok(object.to_owned()) };
    let mut after = Vec::new();
    apply_delta(before, diff, &mut after)?;
    RawDocumentBuf::from_bytes(after).map_err(CollectionError::damaged("record"))
}

/// A commit timestamp as BSON has it.
pub fn bson_timestamp(timestamp: Timestamp) -> bson::Timestamp {
    bson::Timestamp { time: (timestamp.0 >> 32) as u32, increment: timestamp.0 as u32 }
}

/// When an entry was made.
pub fn entry_wall(entry: &RawDocument) -> DateTime {
    match document::get_field(entry, "wall") {
        Some(RawBsonRef::DateTime(wall)) => wall,
        _ => DateTime::from_millis(0),
    }
}
