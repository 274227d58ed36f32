//! `dbHash`: a hash of each collection of a database, over its documents in the order of `_id`, so that copies can be compared.

use std::collections::HashSet;
use std::sync::Arc;

use bson::{RawDocument, rawdoc};
use collection::{Collection, check_database_name};
use executor::{QueryExecutor, Target};
use md5::{Digest, Md5};
use planner::{Hint, ScanDirection};
use query_language::expression::sort_pattern::SortPattern;

use crate::DocumentWriter;
use crate::handlers::command::Command;
use crate::handlers::crud::query_arguments::{query, variables};
use crate::request::arguments::Arguments;
use crate::request::declaration::{Declaration, Needs};
use crate::request::error::{CommandError, Result};
use crate::request::privileges::{Action, on_database};
use crate::state::context::ServerFacts;
use crate::state::operations::Operation;
use crate::state::reading::Reading;

pub(crate) static COMMAND: Command = Command::new(
    |context, arguments, reply| run(context.reading(), &context.operation, &context.server.facts, arguments, reply),
    Declaration::new("dbHash", "A hash of each collection of a database.", Needs::Data, &[on_database(Action::DbHash)]),
);

/// Runs the command.
pub(crate) fn run(
    reading: Reading<'_>,
    operation: &Operation<'_>,
    facts: &ServerFacts,
    mut arguments: Arguments<'_>,
    reply: &mut DocumentWriter<'_>,
) -> Result<()> {
    let database = reading.database;
    check_database_name(database)?;
    let mut wanted = HashSet::new();
    for field in arguments.fields() {
        match field.name() {
            "collections" => wanted = names(field)?,
            "$_internalReadAtClusterTime" | "skipTempCollections" => return Err(field.not_implemented()),
            _ => arguments.generic(field)?,
        }
    }
    operation.set_time_limit(arguments.generic.max_time)?;
    let mut collections = reading.queries.store.catalog().collections_of(database);
    collections.retain(|collection| {
        let namespace = collection.namespace();
        let name = namespace.collection();
        // Records of the profiler are each server's own.
        name != crate::handlers::diagnostics::profile::COLLECTION && (wanted.is_empty() || wanted.contains(name))
    });
    let view = reading.view();
    let (mut hashes, mut all) = (Vec::new(), Md5::new());
    for collection in &collections {
        let hash = hash(reading, operation, view.clone(), collection)?;
        all.update(&hash);
        hashes.push(hash);
    }
    let name = |collection: &Arc<Collection>| collection.namespace().collection().to_owned();
    reply.string("host", &crate::handlers::diagnostics::host_and_port(facts));
    reply.document("collections", |list| {
        collections.iter().zip(&hashes).for_each(|(collection, hash)| list.string(&name(collection), hash));
    });
    reply.array("capped", |list| {
        let capped = collections.iter().filter(|collection| collection.ring().is_some());
        capped.for_each(|collection| list.push_string(&name(collection)));
    });
    reply.document("uuids", |list| {
        collections.iter().for_each(|collection| list.uuid(&name(collection), collection.uuid()));
    });
    reply.string("md5", &hex(&all.finalize()));
    reply.count("timeMillis", operation.elapsed().as_millis() as u64);
    Ok(())
}

fn names(field: crate::request::arguments::Field<'_>) -> Result<HashSet<String>> {
    let name = |element: document::Element<'_>| match element.value() {
        bson::RawBsonRef::String(name) => Ok(name.to_owned()),
        _ => Err(CommandError::bad_value("collections entries have to be strings")),
    };
    field.array()?.into_iter().flat_map(document::array_elements).map(name).collect()
}

fn hash(
    reading: Reading<'_>,
    operation: &Operation<'_>,
    view: transaction::ReadView,
    collection: &Arc<Collection>,
) -> Result<String> {
    let mut ordered = query(None, &variables(reading, None)?)?;
    if collection.ring().is_some() {
        ordered.hint = Hint::Natural(ScanDirection::Forward);
    } else {
        let order: &RawDocument = &rawdoc! { "_id": 1 };
        ordered.sort = Some(SortPattern::parse(order)?);
        ordered.hint = Hint::parse(bson::RawBsonRef::Document(order))?;
    }
    let services = reading.queries.services();
    let mut found = QueryExecutor::new(&services, view, Target::of(collection), Arc::new(ordered), operation)?;
    let mut hash = Md5::new();
    while let Some(row) = found.next(operation)? {
        hash.update(row.document.as_bytes());
    }
    Ok(hex(&hash.finalize()))
}

/// Bytes as MongoDB writes hashes.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
