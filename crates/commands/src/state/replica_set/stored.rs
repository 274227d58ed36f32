//! What a member of a replica set keeps on disk, in the collections of `local` where tools look for it: one document each.
//!
//! Used by `replica_set` and by `default_concerns`. What is written is durable before the call returns. These collections are written without asking the
//! member's role, since they decide it.

use std::sync::Arc;

use bson::{RawDocument, RawDocumentBuf};
use collection::{Collection, Namespace};
use transaction::SetAsideWork;

use crate::request::error::Result;
use crate::state::writing::Writing;

/// The configuration.
pub(crate) const CONFIGURATION: &str = "local.system.replset";
/// The last vote: as the only member it votes for itself, so its term.
pub(crate) const ELECTION: &str = "local.replset.election";
/// When each term began.
pub(crate) const TERMS: &str = "local.replset.terms";

/// The documents of a collection, in their order; none when it is not there. One that is damaged is told of and dropped, so that what is put next has its place.
pub(crate) fn read_all(writing: &Writing, namespace: &str) -> Result<Vec<RawDocumentBuf>> {
    match try_read_all(writing, namespace) {
        Err(error) if error.is_damage() => {
            tell_replaced(writing, namespace, error.to_string());
            if writing.store.writes_stopped().is_none() {
                writing.store.drop_collection(&Namespace::parse(namespace)?)?;
            }
            Ok(Vec::new())
        }
        read => Ok(read?),
    }
}

/// What is stored cannot be read, and what goes without saying takes its place.
pub(crate) fn tell_replaced(writing: &Writing, namespace: &str, reason: String) {
    let work = SetAsideWork {
        what: "what a collection of the server's own has kept",
        namespace: namespace.to_owned(),
        index: String::new(),
        reason,
        advice: "it has begun anew with what a server has at first. Look at the replica set's configuration and the default concerns",
    };
    writing.store.set_aside(None, work);
}

fn try_read_all(writing: &Writing, namespace: &str) -> transaction::Result<Vec<RawDocumentBuf>> {
    let Some(collection) = writing.store.catalog().lookup(namespace) else { return Ok(Vec::new()) };
    let mut cursor = writing.store.newest_view().record_cursor(&collection);
    cursor.seek_first()?;
    let mut found = Vec::new();
    while cursor.next()?.is_some() {
        found.push(cursor.document()?.to_owned());
    }
    Ok(found)
}

/// The document of a collection that has one.
pub(crate) fn read(writing: &Writing, namespace: &str) -> Result<Option<RawDocumentBuf>> {
    Ok(read_all(writing, namespace)?.into_iter().next())
}

/// Puts a document in the place of the one that has its `_id`, or beside the others.
pub(crate) fn put(writing: &Writing, namespace: &str, document: &RawDocument) -> Result<()> {
    let collection = writing.store.collection_or_create(&Namespace::parse(namespace)?)?;
    let place = place_of(writing, &collection, document)?;
    let commit = writing.put_at(&collection, place, document)?;
    writing.secure(commit)
}

/// Removes the documents that are not to be kept.
pub(crate) fn retain(writing: &Writing, namespace: &str, keep: impl Fn(&RawDocument) -> bool) -> Result<()> {
    let Some(collection) = writing.store.catalog().lookup(namespace) else { return Ok(()) };
    let mut cursor = writing.store.newest_view().record_cursor(&collection);
    cursor.seek_first()?;
    let mut last = None;
    while let Some(place) = cursor.next()? {
        if keep(cursor.document()?) {
            continue;
        }
        last = writing.remove_at(&collection, place)?.or(last);
    }
    writing.secure(last)
}

/// Where the document with the same `_id` is. These collections have a few documents.
fn place_of(
    writing: &Writing,
    collection: &Arc<Collection>,
    document: &RawDocument,
) -> Result<Option<collection::RecordId>> {
    let id = document::document_id(document);
    let mut cursor = writing.store.newest_view().record_cursor(collection);
    cursor.seek_first()?;
    while let Some(place) = cursor.next()? {
        if document::document_id(cursor.document()?) == id {
            return Ok(Some(place));
        }
    }
    Ok(None)
}
