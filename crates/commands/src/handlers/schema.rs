//! Commands about databases, collections and indexes as such: creating, dropping, changing, listing, measuring, checking.
//!
//! The work is done by `transaction::Store`; here are the commands' fields, replies and MongoDB's special cases.

use std::sync::Arc;

use bson::{RawDocument, RawDocumentBuf};
use collection::{Collection, CollectionError, Namespace};
use query_language::filter::{Filter, FilterOptions};
use transaction::{CommitInfo, TransactionError};

use crate::DocumentWriter;
use crate::handlers::crud::write_errors::write_concern_error;
use crate::handlers::read_source::is_oplog;
use crate::handlers::time_series::{self, TimeSeries};
use crate::handlers::views;
use crate::request::arguments::{Arguments, Field};
use crate::request::error::{CommandError, Result};
use crate::request::write_concern::WriteConcern;
use crate::state::changing::Changing;
use crate::state::client_cursors::{BatchLimit, ClientCursor, CursorWork, ListedDocuments, write_first_batch};
use crate::state::defining::Defining;
use crate::state::operations::Operation;
use crate::state::queries::Queries;

pub(crate) mod capped;
pub(crate) mod coll_mod;
pub(crate) mod coll_stats;
pub(crate) mod compact;
pub(crate) mod create;
pub(crate) mod create_indexes;
pub(crate) mod data_size;
pub(crate) mod db_hash;
pub(crate) mod db_stats;
pub(crate) mod disk_sizes;
pub(crate) mod drop;
pub(crate) mod drop_database;
pub(crate) mod drop_indexes;
pub(crate) mod index_stats;
mod index_violations;
pub(crate) mod list_collections;
pub(crate) mod list_databases;
pub(crate) mod list_indexes;
pub(crate) mod re_index;
pub(crate) mod rename_collection;
pub(crate) mod ring_positions;
#[cfg(test)]
mod tests;
pub(crate) mod validate;
pub(crate) mod validate_db_metadata;

/// The namespace that a command of the form `{<command>: <collection>}` is about.
fn target_namespace(database: &str, arguments: &Arguments<'_>) -> Result<Namespace> {
    Ok(Namespace::new(database, arguments.collection_name()?)?)
}

/// The collection of a name, or NamespaceNotFound with the message that the command gives.
///
/// # Errors
/// CommandNotSupportedOnView (166) for a view; NamespaceNotFound (26).
fn existing_collection(
    queries: Queries<'_>,
    namespace: &str,
    message: impl FnOnce() -> String,
) -> Result<Arc<Collection>> {
    match queries.store.catalog().lookup(namespace) {
        Some(collection) => Ok(collection),
        None => {
            // What is stored of a time-series collection are its buckets.
            if let Some(series) = time_series::of(queries, &Namespace::parse(namespace)?) {
                return Ok(series.collection);
            }
            views::refuse(queries, &Namespace::parse(namespace)?)?;
            Err(CommandError::named("NamespaceNotFound", message()))
        }
    }
}

/// The collection of a name, and the time-series collection that the name is if it is one.
fn existing_or_series(
    queries: Queries<'_>,
    namespace: &Namespace,
    message: impl FnOnce() -> String,
) -> Result<(Arc<Collection>, Option<TimeSeries>)> {
    let collection = existing_collection(queries, namespace.as_str(), message)?;
    let is_series = collection.namespace() != *namespace;
    Ok((collection, if is_series { time_series::of(queries, namespace) } else { None }))
}

/// Refuses to make a collection of a name that only the server itself may use. Users and roles are
/// restored as documents, and `system.js` means nothing special here.
///
/// # Errors
/// InvalidNamespace (73).
pub(crate) fn check_may_create(namespace: &Namespace) -> Result<()> {
    let name = namespace.collection();
    let is_of_users = namespace.database() == "admin" && matches!(name, "system.users" | "system.roles");
    if (name.starts_with("system.") && name != "system.js" && !is_of_users) || is_oplog(namespace) {
        return Err(CommandError::named("InvalidNamespace", format!("Invalid system namespace: {namespace}")));
    }
    Ok(())
}

/// Refuses the name of a view for a collection.
///
/// # Errors
/// NamespaceExists (48).
fn check_is_free(queries: Queries<'_>, namespace: &Namespace) -> Result<()> {
    if views::is_view(queries, namespace)? {
        return Err(CommandError::named("NamespaceExists", format!("a view already exists. NS: {namespace}")));
    }
    Ok(())
}

/// Refuses to write into a collection of the server's own, and into any `system` collection in a transaction.
///
/// # Errors
/// InvalidNamespace (73); Location50791.
pub(crate) fn check_may_write(changing: &Changing<'_>, namespace: &Namespace) -> Result<()> {
    let queries = changing.reading.queries;
    let is_of_buckets = namespace.collection().starts_with(time_series::PREFIX);
    if !(is_of_buckets && queries.store.catalog().lookup(namespace.as_str()).is_some()) {
        check_may_create(namespace)?;
    }
    views::refuse(queries, namespace)?;
    if changing.reading.is_in_transaction() && namespace.collection().starts_with("system.") {
        let message = format!("Cannot write to system collection {namespace} within a transaction.");
        return Err(CommandError::numbered(50791, message));
    }
    Ok(())
}

/// Refuses validators where the server keeps its own.
///
/// # Errors
/// InvalidOptions (72).
fn check_may_validate(namespace: &Namespace) -> Result<()> {
    let refuse = |message: String| Err(CommandError::named("InvalidOptions", message));
    if namespace.collection().starts_with("system.") {
        return refuse(format!("Document validators not allowed on system collection {namespace}"));
    }
    if ["admin", "config", "local"].contains(&namespace.database()) {
        return refuse(format!(
            "Document validators are not allowed on collection {namespace} in the {} internal database",
            namespace.database()
        ));
    }
    Ok(())
}

/// Why work was stopped, when it was stopped because the command asked for it.
fn reason_to_stop(error: TransactionError, operation: &Operation<'_>) -> CommandError {
    match (&error, operation.check_interrupt()) {
        (TransactionError::Collection(CollectionError::Stopped) | TransactionError::Interrupted, Err(reason)) => reason,
        _ => error.into(),
    }
}

/// Takes a field that any command may have; `false` when it is not one of them.
pub(crate) fn take_generic<'a>(arguments: &mut Arguments<'a>, field: Field<'a>) -> Result<bool> {
    const UNKNOWN_FIELD: i32 = 40415;
    match arguments.generic(field) {
        Ok(()) => Ok(true),
        // A generic field with an unknown field inside has a document as its value; the field itself is known then.
        Err(error) if error.code == UNKNOWN_FIELD && error.message == field.unknown().message => Ok(false),
        Err(error) => Err(error),
    }
}

/// Waits until a change of definitions is as safe as the client asked for. Every later command sees it, and a later
/// write that is durable makes it durable, too, as the oplog has one order.
fn acknowledge(
    defining: &Defining<'_>,
    concern: WriteConcern,
    commit: Option<&CommitInfo>,
    reply: &mut DocumentWriter<'_>,
) -> Result<()> {
    if !defining.reading().is_in_transaction() {
        write_concern_error(concern.wait(&defining.acknowledging, commit), reply);
    }
    Ok(())
}

/// The filter of a list command, which works on the documents of the list.
pub(crate) fn list_filter(field: Field<'_>) -> Result<Option<Filter>> {
    match field.document()? {
        Some(filter) => Ok(Some(Filter::parse(filter, &FilterOptions::default())?)),
        None => Ok(None),
    }
}

/// Reads `cursor: {batchSize}`.
fn batch_size(cursor: Field<'_>) -> Result<Option<u64>> {
    let mut size = None;
    for field in cursor.fields_of("cursor")? {
        match field.name() {
            "batchSize" => size = field.unsigned()?,
            _ => return Err(field.unknown()),
        }
    }
    Ok(size)
}

/// Replies with a cursor over a list.
pub(crate) fn write_list(
    cursors: &CursorWork<'_>,
    arguments: &Arguments<'_>,
    namespace: String,
    batch_size: Option<u64>,
    documents: Vec<RawDocumentBuf>,
    reply: &mut DocumentWriter<'_>,
) -> Result<()> {
    // A list that fits leaves no cursor behind.
    let limit = BatchLimit { documents: batch_size.filter(|size| *size < documents.len() as u64) };
    let source = Box::new(ListedDocuments::new(documents));
    let cursor = ClientCursor::new(namespace, source).with_session(arguments.generic.session);
    let cursor = cursor.with_transaction(cursors.txn_number);
    write_first_batch(cursors, cursor, limit, false, reply)
}

/// Whether a document is wanted by an optional filter.
pub(crate) fn is_wanted(filter: Option<&Filter>, document: &RawDocument) -> Result<bool> {
    match filter {
        Some(filter) => Ok(filter.matches(document)?),
        None => Ok(true),
    }
}

/// Reads `scale`: what sizes are divided by.
fn scale(field: Field<'_>) -> Result<u64> {
    let value = field.integer()?.unwrap_or(1);
    match u64::try_from(value) {
        Ok(scale) if scale >= 1 => Ok(scale),
        _ => {
            Err(CommandError::numbered(51024, format!("BSON field 'scale' value must be >= 1, actual value '{value}'")))
        }
    }
}
