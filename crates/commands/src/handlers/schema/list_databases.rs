//! `listDatabases`: the databases, sorted by name, with about how much space they take.
//!
//! Those of the server itself are there from the beginning, whatever is in them.

use std::collections::BTreeSet;

use authentication::Target;
use bson::RawDocumentBuf;
use transaction::Store;

use super::disk_sizes::SizeEstimator;
use super::{is_wanted, list_filter};
use crate::DocumentWriter;
use crate::handlers::command::Command;
use crate::handlers::oplog_entries;
use crate::request::arguments::Arguments;
use crate::request::declaration::{Declaration, Needs, StableApi};
use crate::request::document_writer::document_of;
use crate::request::error::Result;
use crate::request::privileges::Action;
use crate::state::operations::Operation;
use crate::state::rights::Rights;

/// What is there without being made.
pub(crate) const OWN_DATABASES: [&str; 3] = ["admin", "config", "local"];

pub(crate) static COMMAND: Command = Command::new(
    |context, arguments, reply| run(&context.server.store, &context.operation, context.rights(), arguments, reply),
    Declaration {
        is_admin_only: true,
        stable_api: StableApi::Version1,
        ..Declaration::new("listDatabases", "Lists the databases.", Needs::Data, &[])
    },
);

/// Runs the command.
pub(crate) fn run(
    store: &Store,
    operation: &Operation<'_>,
    rights: Rights<'_>,
    mut arguments: Arguments<'_>,
    reply: &mut DocumentWriter<'_>,
) -> Result<()> {
    operation.set_time_limit(arguments.time_limit())?;
    let (mut filter, mut is_name_only, mut only_own) = (None, false, None);
    for field in arguments.fields() {
        match field.name() {
            "filter" => filter = list_filter(field)?,
            "nameOnly" => is_name_only = field.boolean()?,
            "authorizedDatabases" => only_own = field.optional_boolean()?,
            _ => arguments.generic(field)?,
        }
    }
    // Who may not list all is shown those that he may do something with.
    let lists_all = rights.allows(Target::Cluster, Action::ListDatabases);
    if only_own == Some(false) {
        rights.require(Target::Cluster, Action::ListDatabases)?;
    }
    let is_shown = |name: &str| (lists_all && only_own != Some(true)) || rights.allows_any_in(name);
    let (mut documents, mut total) = (Vec::new(), 0);
    let stored: BTreeSet<String> = store.catalog().databases().into_iter().collect();
    let own = OWN_DATABASES.iter().map(|name| (*name).to_owned());
    for name in stored.iter().cloned().chain(own).collect::<BTreeSet<String>>() {
        operation.check_interrupt()?;
        if !is_shown(&name) {
            continue;
        }
        let size = if is_name_only { 0 } else { disk_bytes(store, operation, &name)? };
        let is_empty = name != oplog_entries::DATABASE && !stored.contains(&name);
        let document = describe(&name, (!is_name_only).then_some((size, is_empty)))?;
        if is_wanted(filter.as_ref(), &document)? {
            documents.push(document);
            total += size;
        }
    }
    reply.array("databases", |list| documents.iter().for_each(|document| list.push(document)));
    if !is_name_only {
        reply.size("totalSize", total);
        reply.size("totalSizeMb", total >> 20);
    }
    Ok(())
}

fn disk_bytes(store: &Store, operation: &Operation<'_>, database: &str) -> Result<u64> {
    let estimator = SizeEstimator::new(store)?;
    let mut bytes = 0;
    for collection in store.catalog().collections_of(database) {
        operation.check_interrupt()?;
        bytes += estimator.sizes(&collection)?.total_bytes();
    }
    if database == oplog_entries::DATABASE {
        bytes += oplog_entries::bytes(store);
    }
    Ok(bytes)
}

fn describe(name: &str, size: Option<(u64, bool)>) -> Result<RawDocumentBuf> {
    document_of(|document| {
        document.string("name", name);
        if let Some((bytes, is_empty)) = size {
            document.size("sizeOnDisk", bytes);
            document.boolean("empty", is_empty);
        }
    })
}
