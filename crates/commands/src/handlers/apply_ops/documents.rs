//! Operations on documents: what they leave is what the entry says, whatever was there before, so that entries can be applied again.
//!
//! An insertion of a document that is there replaces it, an update of one that is not inserts it, a deletion of one that is not does nothing.

use std::sync::Arc;

use bson::{RawBsonRef, RawDocument, RawDocumentBuf, Timestamp, rawdoc};
use collection::{Collection, Namespace, StatementDetails, Validation, post_image};
use document::{EmptyTimestamps, Limits, document_id, get_field, prepare_for_storage, validate_document};
use executor::IdLookup;
use transaction::{ChangeOutcome, Decision, Store, TransactionError};

use super::Operation;
use crate::handlers::schema::check_may_create;
use crate::request::error::{CommandError, Result};
use crate::state::changing::Changing;
use crate::state::writing::Writing;

/// How often an operation tries again when others are faster.
const ATTEMPTS: usize = 10;

impl Operation<'_> {
    /// The collection that an operation on a document is about.
    pub(super) fn collection(&self, store: &Store) -> Result<Arc<Collection>> {
        let namespace = Namespace::parse(self.namespace)?;
        check_may_create(&namespace)?;
        let catalog = store.catalog();
        let found = match self.uuid {
            Some(uuid) => catalog.lookup_uuid(uuid),
            None => catalog.lookup(namespace.as_str()),
        };
        found.ok_or_else(|| {
            let uuid = self.uuid.map_or_else(String::new, |uuid| format!(" ({uuid})"));
            let message = format!("Failed to apply operation due to missing collection {namespace}{uuid}");
            CommandError::named("NamespaceNotFound", message)
        })
    }
}

/// Leaves this document.
pub(super) fn insert(changing: &Changing<'_>, collection: &Arc<Collection>, object: &RawDocument) -> Result<()> {
    let id = id_of(object, "insert")?;
    let document = stored_form(changing.writing, object)?;
    settle(changing, collection, id, &|_| Ok(document.clone()), Decision::ReplaceWhole)
}

/// Leaves the document that `second` names as `object` says: a difference, or a document.
pub(super) fn update(
    changing: &Changing<'_>,
    collection: &Arc<Collection>,
    object: &RawDocument,
    second: Option<&RawDocument>,
) -> Result<()> {
    let id = id_of(second.unwrap_or(object), "update")?;
    if !is_difference(object)? {
        let document = stored_form(changing.writing, object)?;
        if document_id(&document) != Some(id) {
            let message = "Performing an update on the path '_id' would modify the immutable field '_id'";
            return Err(CommandError::named("ImmutableField", message));
        }
        return settle(changing, collection, id, &|_| Ok(document.clone()), Decision::ReplaceWhole);
    }
    let changed = |before: Option<&RawDocument>| match before {
        Some(before) => Ok(post_image(before, object)?),
        None => Ok(post_image(&only_id(id), object)?),
    };
    settle(changing, collection, id, &changed, Decision::Replace)
}

/// Leaves no document with this `_id`.
pub(super) fn delete(changing: &Changing<'_>, collection: &Arc<Collection>, object: &RawDocument) -> Result<()> {
    let id = id_of(object, "delete")?;
    let store = &changing.writing.store;
    let Some(place) = IdLookup::default().find(&store.newest_view(), collection, id)? else { return Ok(()) };
    changing.write(0, StatementDetails::None, |write| {
        store.change_document(write, collection, place, Validation::Bypass, |_, _| {
            Ok::<_, CommandError>(Decision::Delete)
        })
    })?;
    Ok(())
}

/// Puts what `make` makes of the document that has the `_id` in its place, or inserts it.
fn settle(
    changing: &Changing<'_>,
    collection: &Arc<Collection>,
    id: RawBsonRef<'_>,
    make: &dyn Fn(Option<&RawDocument>) -> Result<RawDocumentBuf>,
    decision: Decision,
) -> Result<()> {
    let store = &changing.writing.store;
    for _ in 0..ATTEMPTS {
        let found = IdLookup::default().find(&store.newest_view(), collection, id)?;
        let outcome = changing.write(0, StatementDetails::None, |write| match found {
            Some(place) => store.change_document(write, collection, place, Validation::Bypass, |before, after| {
                after.extend_from_slice(make(Some(before))?.as_bytes());
                Ok::<_, CommandError>(decision)
            }),
            None => {
                let made = make(None)?;
                Ok(ChangeOutcome::Replaced(store.insert_document(write, collection, &made, Validation::Bypass)?))
            }
        });
        match outcome {
            // Somebody was faster: it is there now, or is not any more.
            Ok(ChangeOutcome::Gone) => {}
            Err(error) if found.is_none() && error.code == DUPLICATE_KEY && is_there(store, collection, id)? => {}
            other => return other.map(drop),
        }
    }
    Err(TransactionError::WriteConflict.into())
}

/// The code of a duplicate key.
const DUPLICATE_KEY: i32 = 11000;

fn is_there(store: &Store, collection: &Arc<Collection>, id: RawBsonRef<'_>) -> Result<bool> {
    Ok(IdLookup::default().find(&store.newest_view(), collection, id)?.is_some())
}

/// Whether the object of an update is a difference rather than a whole document.
fn is_difference(object: &RawDocument) -> Result<bool> {
    match get_field(object, "$v") {
        Some(version) if version.as_i64().or(version.as_i32().map(i64::from)) == Some(2) => {
            match get_field(object, "diff") {
                Some(RawBsonRef::Document(_)) => Ok(true),
                _ => Err(CommandError::numbered(4_772_601, "an update with $v: 2 needs a document 'diff'")),
            }
        }
        None if get_field(object, "_id").is_some() => Ok(false),
        _ => Err(CommandError::numbered(4_772_600, "Expected _id field or $v:2, but got another form of an update")),
    }
}

/// `_id` first, and checked as an inserted document is; the rest as it came.
fn stored_form(writing: &Writing, object: &RawDocument) -> Result<RawDocumentBuf> {
    validate_document(object.as_bytes(), &Limits::USER)?;
    let mut stored = Vec::new();
    let (new_id, now) = (|| writing.new_object_id(), || Timestamp { time: 0, increment: 0 });
    let is_changed = prepare_for_storage(object, EmptyTimestamps::Keep, new_id, now, &mut stored)?;
    if is_changed { Ok(RawDocumentBuf::from_bytes(stored)?) } else { Ok(object.to_owned()) }
}

fn id_of<'a>(document: &'a RawDocument, what: &str) -> Result<RawBsonRef<'a>> {
    let missing = || {
        let shown = query_language::expression::show_value(RawBsonRef::Document(document));
        CommandError::named("NoSuchKey", format!("Failed to apply {what} due to missing _id: {shown}"))
    };
    document_id(document).ok_or_else(missing)
}

fn only_id(id: RawBsonRef<'_>) -> RawDocumentBuf {
    rawdoc! { "_id": id }
}
