//! `listDatabases`: the databases, sorted by name, with about how much space they take.
//!
//! Those of the server itself are there from the beginning, whatever is in them.

use std::collections::BTreeSet;

use bson::RawDocumentBuf;

use super::disk_sizes::SizeEstimator;
use super::{is_wanted, list_filter};
use crate::DocumentWriter;
use crate::handlers::command::Command;
use crate::handlers::oplog_view;
use crate::request::arguments::Arguments;
use crate::request::declaration::{Declaration, Needs, StableApi};
use crate::request::document_writer::document_of;
use crate::request::error::Result;
use crate::request::privileges::{Action, on_cluster};
use crate::state::context::Context;

/// What is there without being made.
pub(crate) const OWN_DATABASES: [&str; 3] = ["admin", "config", "local"];

pub(crate) static COMMAND: Command = Command::new(
    run,
    Declaration {
        is_admin_only: true,
        stable_api: StableApi::Version1,
        ..Declaration::new("listDatabases", "Lists the databases.", Needs::Data, &[on_cluster(Action::ListDatabases)])
    },
);

/// Runs the command.
pub(crate) fn run(
    context: &mut Context<'_>,
    mut arguments: Arguments<'_>,
    reply: &mut DocumentWriter<'_>,
) -> Result<()> {
    context.operation.set_time_limit(arguments.time_limit())?;
    let (mut filter, mut is_name_only) = (None, false);
    for field in arguments.fields() {
        match field.name() {
            "filter" => filter = list_filter(field)?,
            "nameOnly" => is_name_only = field.boolean()?,
            // Without access control everybody is authorized for everything.
            "authorizedDatabases" => drop(field.boolean()?),
            _ => arguments.generic(field)?,
        }
    }
    let (mut documents, mut total) = (Vec::new(), 0);
    let stored: BTreeSet<String> = context.server.store.catalog().databases().into_iter().collect();
    let own = OWN_DATABASES.iter().map(|name| (*name).to_owned());
    for name in stored.iter().cloned().chain(own).collect::<BTreeSet<String>>() {
        context.operation.check_interrupt()?;
        let size = if is_name_only { 0 } else { disk_bytes(context, &name)? };
        let is_empty = name != oplog_view::DATABASE && !stored.contains(&name);
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

fn disk_bytes(context: &Context<'_>, database: &str) -> Result<u64> {
    let store = &context.server.store;
    let estimator = SizeEstimator::new(store)?;
    let mut bytes = 0;
    for collection in store.catalog().collections_of(database) {
        context.operation.check_interrupt()?;
        bytes += estimator.sizes(&collection)?.total_bytes();
    }
    if database == oplog_view::DATABASE {
        bytes += oplog_view::bytes(context.server);
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
