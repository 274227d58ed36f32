//! `listDatabases`: the databases, sorted by name, with about how much space they take.

use bson::RawDocumentBuf;

use super::disk_sizes::SizeEstimator;
use super::{document_of, is_wanted, list_filter};
use crate::DocumentWriter;
use crate::arguments::Arguments;
use crate::context::Context;
use crate::error::Result;

/// Runs the command.
pub(crate) fn run(
    context: &mut Context<'_>,
    mut arguments: Arguments<'_>,
    reply: &mut DocumentWriter<'_>,
) -> Result<()> {
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
    context.operation.set_time_limit(arguments.generic.max_time)?;
    let (mut documents, mut total) = (Vec::new(), 0);
    for name in context.server.store.catalog().databases() {
        context.operation.check_interrupt()?;
        let size = if is_name_only { 0 } else { disk_bytes(context, &name)? };
        let document = describe(&name, (!is_name_only).then_some(size))?;
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
        bytes += estimator.sizes(&collection)?.total_bytes();
    }
    Ok(bytes)
}

fn describe(name: &str, size: Option<u64>) -> Result<RawDocumentBuf> {
    document_of(|document| {
        document.string("name", name);
        if let Some(size) = size {
            document.size("sizeOnDisk", size);
            // A database is there as long as it has a collection.
            document.boolean("empty", false);
        }
    })
}
