//! Whether a member's store is whole, and whether two members have the same.
//!
//! Called by `ending`, when nothing is under way.

use std::collections::BTreeMap;
use std::sync::Arc;

use collection::Collection;
use transaction::{Result, Store};

use crate::checks::check_pages;

type Check = std::result::Result<(), String>;

/// A collection as it is compared.
#[derive(Debug, PartialEq)]
struct Content {
    uuid: String,
    options: String,
    indexes: Vec<String>,
    counts: (u64, u64),
    /// By record id.
    records: Vec<(i64, Vec<u8>)>,
}

/// Each index is as its records, and each page is whole and belongs to one tree.
pub(super) fn check_member(store: &Arc<Store>) -> Check {
    for collection in store.catalog().all_collections() {
        let report = store.validate(&collection, &|| false).map_err(|error| format!("validate: {error}"))?;
        if !report.is_valid() {
            return Err(format!("{}: {report:#?}", collection.namespace()));
        }
    }
    check_pages(store)
}

/// Both have the same collections, with the same definitions, counts and records.
pub(super) fn compare(one: &Arc<Store>, other: &Arc<Store>) -> Check {
    let (one, other) = (contents(one)?, contents(other)?);
    if !one.keys().eq(other.keys()) {
        return Err(format!("the collections are {:?} and {:?}", one.keys(), other.keys()));
    }
    for (name, expected) in &one {
        let Some(found) = other.get(name) else { continue };
        if found.records != expected.records {
            let differs = expected.records.iter().zip(&found.records).find(|(one, other)| one != other);
            let lengths = (expected.records.len(), found.records.len());
            return Err(format!("{name} has the records {lengths:?}, the first that differ: {differs:?}"));
        }
        if found != expected {
            let told = |content: &Content| {
                format!("{} {} {:?} {:?}", content.uuid, content.options, content.indexes, content.counts)
            };
            return Err(format!("{name} is {} and {}", told(expected), told(found)));
        }
    }
    Ok(())
}

fn contents(store: &Arc<Store>) -> std::result::Result<BTreeMap<String, Content>, String> {
    let all = store.catalog().all_collections();
    let read = |collection: &Arc<Collection>| -> Result<(String, Content)> {
        let mut indexes: Vec<String> =
            collection.indexes().all().iter().map(|index| format!("{} {:?}", index.name(), index.state())).collect();
        indexes.sort_unstable();
        let mut records = Vec::new();
        let mut cursor = store.read_view().record_cursor(collection);
        while let Some(record) = cursor.next()? {
            records.push((record.0, cursor.document()?.as_bytes().to_vec()));
        }
        let content = Content {
            uuid: collection.uuid().to_string(),
            options: format!("{:?}", collection.definition().options),
            indexes,
            counts: (collection.counts().documents(), collection.counts().bytes()),
            records,
        };
        Ok((collection.namespace().as_str().to_owned(), content))
    };
    all.iter().map(read).collect::<Result<_>>().map_err(|error| format!("scan: {error}"))
}
