//! `dbStats`: figures of a database, the sums over its collections.

use collection::check_database_name;
use transaction::Store;

use super::disk_sizes::SizeEstimator;
use super::scale;
use crate::DocumentWriter;
use crate::handlers::command::Command;
use crate::handlers::views;
use crate::request::arguments::Arguments;
use crate::request::declaration::{Declaration, Needs, Sees};
use crate::request::error::Result;
use crate::request::privileges::{Action, on_database};
use crate::state::operations::Operation;
use crate::state::queries::Queries;

/// Sums over the collections.
#[derive(Default)]
struct Totals {
    collections: u64,
    documents: u64,
    document_bytes: u64,
    record_bytes: u64,
    indexes: u64,
    index_bytes: u64,
    has_estimates: bool,
}

pub(crate) static COMMAND: Command = Command::new(
    |context, arguments, reply| {
        let (queries, database) = (context.server.queries(), context.request.database);
        run(queries, &context.operation, database, arguments, reply)
    },
    Declaration {
        sees: Sees::Newest,
        aliases: &["dbstats"],
        ..Declaration::new("dbStats", "Figures of a database.", Needs::Data, &[on_database(Action::DbStats)])
    },
);

/// Runs the command.
pub(crate) fn run(
    queries: Queries<'_>,
    operation: &Operation<'_>,
    database: &str,
    mut arguments: Arguments<'_>,
    reply: &mut DocumentWriter<'_>,
) -> Result<()> {
    check_database_name(database)?;
    let (mut scale_factor, mut with_free_storage) = (1, false);
    for field in arguments.fields() {
        match field.name() {
            "scale" => scale_factor = scale(field)?,
            "freeStorage" => with_free_storage = field.boolean()?,
            _ => arguments.generic(field)?,
        }
    }
    operation.set_time_limit(arguments.generic.max_time)?;
    let totals = sum(queries.store, operation, database)?;
    let scaled = |bytes: u64| bytes as f64 / scale_factor as f64;
    reply.string("db", database);
    reply.size("collections", totals.collections);
    reply.size("views", views::all(queries, database)?.len() as u64);
    reply.size("objects", totals.documents);
    reply.double("avgObjSize", totals.document_bytes as f64 / totals.documents.max(1) as f64);
    reply.double("dataSize", scaled(totals.document_bytes));
    reply.double("storageSize", scaled(totals.record_bytes));
    // What is free belongs to no database: it is there for all.
    if with_free_storage {
        reply.double("freeStorageSize", 0.0);
    }
    reply.size("indexes", totals.indexes);
    reply.double("indexSize", scaled(totals.index_bytes));
    if with_free_storage {
        reply.double("indexFreeStorageSize", 0.0);
    }
    reply.double("totalSize", scaled(totals.record_bytes + totals.index_bytes));
    if with_free_storage {
        reply.double("totalFreeStorageSize", 0.0);
    }
    reply.size("scaleFactor", scale_factor);
    if let Some((used, total)) = queries.store.file_system() {
        reply.double("fsUsedSize", scaled(used));
        reply.double("fsTotalSize", scaled(total));
    }
    reply.document("plimsoll", |section| section.boolean("diskSizesAreEstimates", totals.has_estimates));
    Ok(())
}

fn sum(store: &Store, operation: &Operation<'_>, database: &str) -> Result<Totals> {
    let estimator = SizeEstimator::new(store)?;
    let mut totals = Totals::default();
    for collection in store.catalog().collections_of(database) {
        operation.check_interrupt()?;
        let sizes = estimator.sizes(&collection)?;
        totals.collections += 1;
        totals.documents += collection.counts().documents();
        totals.document_bytes += collection.counts().bytes();
        totals.record_bytes += sizes.record_bytes;
        totals.indexes += sizes.indexes.len() as u64;
        totals.index_bytes += sizes.index_bytes();
        totals.has_estimates |= sizes.is_estimate;
    }
    Ok(totals)
}
