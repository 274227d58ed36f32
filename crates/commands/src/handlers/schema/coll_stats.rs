//! `collStats`, and the document of the `$collStats` stage: figures of a collection.

use std::fmt::Display;

use bson::{RawDocument, RawDocumentBuf};
use collection::Collection;
use platform::Clock;
use storage_engine::Ring;
use transaction::Store;

use super::disk_sizes::SizeEstimator;
use super::{existing_collection, scale, target_namespace};
use crate::DocumentWriter;
use crate::handlers::command::Command;
use crate::handlers::diagnostics::host_and_port;
use crate::handlers::oplog_entries;
use crate::handlers::read_source::{OPLOG, ReadSource};
use crate::handlers::views;
use crate::request::arguments::{Arguments, Field};
use crate::request::declaration::{Declaration, Needs, Sees};
use crate::request::document_writer::document_of;
use crate::request::error::Result;
use crate::request::privileges::{Action, on_collection};
use crate::state::context::ServerFacts;
use crate::state::namespace_usage::{NamespaceUsage, OTHERS, READS, WRITES};
use crate::state::operations::Operation;
use crate::state::queries::Queries;

pub(crate) static COMMAND: Command = Command::new(
    |context, arguments, reply| {
        run(context.server.queries(), &context.operation, context.request.database, arguments, reply)
    },
    Declaration {
        sees: Sees::Newest,
        aliases: &["collstats"],
        ..Declaration::new("collStats", "Figures of a collection.", Needs::Data, &[on_collection(Action::CollStats)])
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
    let namespace = target_namespace(database, &arguments)?;
    let mut scale_factor = 1;
    for field in arguments.fields() {
        match field.name() {
            "scale" => scale_factor = scale(field)?,
            "waitForLock" | "numericOnly" => field.refuse_unless_null()?,
            _ => arguments.generic(field)?,
        }
    }
    operation.set_time_limit(arguments.generic.max_time)?;
    reply.string("ns", namespace.as_str());
    match ReadSource::now(queries, namespace)? {
        ReadSource::View(view) => match view.own_series() {
            Some(series) => write_storage(queries.store, &series.collection, scale_factor, reply)?,
            None => return Err(views::not_on_view(&view.namespace)),
        },
        ReadSource::Oplog => oplog_entries::write_statistics(queries.store, scale_factor, reply),
        ReadSource::Stored(stored) => match stored.collection() {
            Some(collection) => write_storage(queries.store, collection, scale_factor, reply)?,
            None => write_nothing(scale_factor, reply),
        },
    }
    Ok(())
}

/// The one document that `$collStats` yields for `database.collection`.
///
/// # Errors
/// `NamespaceNotFound` when figures are asked for and there is no such collection; NotImplemented for the kinds of figures that are not kept.
pub(crate) fn collection_statistics(
    queries: Queries<'_>,
    usage: &NamespaceUsage,
    facts: &ServerFacts,
    clock: &dyn Clock,
    namespace: impl Display,
    options: &RawDocument,
) -> Result<RawDocumentBuf> {
    let namespace = &namespace.to_string();
    let (mut storage, mut counts, mut latencies) = (None, false, None);
    for element in document::elements(options) {
        let field = Field::of("$collStats", element);
        match field.name() {
            "storageStats" => storage = field.document()?.map(storage_scale).transpose()?,
            "count" => counts = field.document()?.is_some(),
            "latencyStats" => latencies = field.document()?.map(with_histograms).transpose()?,
            "queryExecStats" => field.refuse_unless_null()?,
            _ => return Err(field.unknown()),
        }
    }
    let mut result = Ok(());
    let document = document_of(|document| {
        document.string("ns", namespace);
        document.string("host", &host_and_port(facts));
        document.date("localTime", bson::DateTime::from_millis(clock.wall_millis()));
        if let Some(with_histograms) = latencies {
            document.document("latencyStats", |section| write_latencies(usage, namespace, with_histograms, section));
        }
        result = write_sections(queries, namespace, storage, counts, document);
    });
    result.and(document)
}

fn with_histograms(options: &RawDocument) -> Result<bool> {
    let mut with_histograms = false;
    for element in document::elements(options) {
        let field = Field::of("$collStats.latencyStats", element);
        match field.name() {
            "histograms" => with_histograms = field.boolean()?,
            _ => return Err(field.unknown()),
        }
    }
    Ok(with_histograms)
}

/// How long operations on the collection took since the start. Those in transactions are among the others.
fn write_latencies(usage: &NamespaceUsage, namespace: &str, with_histograms: bool, section: &mut DocumentWriter<'_>) {
    let figures = usage.figures_of(namespace);
    for (name, kinds) in [("reads", READS), ("writes", WRITES), ("commands", OTHERS), ("transactions", &[])] {
        let used = figures.of(kinds);
        section.document(name, |latency| {
            if with_histograms {
                usage.ranges_of(namespace, kinds).write(latency);
            }
            latency.size("latency", used.microseconds);
            latency.size("ops", used.operations);
        });
    }
}

fn storage_scale(options: &RawDocument) -> Result<u64> {
    let mut factor = 1;
    for element in document::elements(options) {
        let field = Field::of("$collStats.storageStats", element);
        match field.name() {
            "scale" => factor = scale(field)?,
            _ => return Err(field.unknown()),
        }
    }
    Ok(factor)
}

fn write_sections(
    queries: Queries<'_>,
    namespace: &str,
    storage_scale: Option<u64>,
    counts: bool,
    document: &mut DocumentWriter<'_>,
) -> Result<()> {
    let find = |what: &str| {
        let missing = || {
            format!("Unable to retrieve {what} in $collStats stage :: caused by :: Collection [{namespace}] not found.")
        };
        existing_collection(queries, namespace, missing)
    };
    if let (Some(scale_factor), OPLOG) = (storage_scale, namespace) {
        document
            .document("storageStats", |section| oplog_entries::write_statistics(queries.store, scale_factor, section));
        return Ok(());
    }
    if let Some(scale_factor) = storage_scale {
        let collection = find("storageStats")?;
        let mut result = Ok(());
        document.document("storageStats", |section| {
            result = write_storage(queries.store, &collection, scale_factor, section);
        });
        result?;
    }
    if counts {
        document.count("count", find("count")?.counts().documents());
    }
    Ok(())
}

fn write_storage(
    store: &Store,
    collection: &Collection,
    scale_factor: u64,
    reply: &mut DocumentWriter<'_>,
) -> Result<()> {
    let (documents, bytes) = (collection.counts().documents(), collection.counts().bytes());
    let sizes = SizeEstimator::new(store)?.sizes(collection)?;
    reply.count("size", bytes / scale_factor);
    reply.count("count", documents);
    if let Some(average) = bytes.checked_div(documents) {
        reply.count("avgObjSize", average);
    }
    // There is one server.
    reply.int32("numOrphanDocs", 0);
    reply.count("storageSize", sizes.record_bytes / scale_factor);
    // What is free belongs to no collection: it is there for all.
    reply.int32("freeStorageSize", 0);
    write_capped(collection, scale_factor, reply)?;
    write_series(collection, reply);
    reply.count("nindexes", sizes.indexes.len() as u64);
    write_index_details(collection, reply);
    let building =
        collection.indexes().all().iter().filter(|index| index.state().is_being_filled()).cloned().collect::<Vec<_>>();
    reply.array("indexBuilds", |list| building.iter().for_each(|index| list.push_string(index.name())));
    reply.count("totalIndexSize", sizes.index_bytes() / scale_factor);
    reply.count("totalSize", sizes.total_bytes() / scale_factor);
    reply.document("indexSizes", |list| {
        sizes.indexes.iter().for_each(|(name, size)| list.count(name, size / scale_factor));
    });
    reply.count("scaleFactor", scale_factor);
    reply.document("plimsoll", |section| section.boolean("diskSizesAreEstimates", sizes.is_estimate));
    Ok(())
}

fn write_index_details(collection: &Collection, reply: &mut DocumentWriter<'_>) {
    let indexes = collection.indexes();
    reply.document("indexDetails", |details| {
        for index in indexes.complete() {
            details.document(index.name(), |detail| {
                detail.string("type", "tree");
                detail.boolean("isMultiKey", index.multikey_paths().iter().any(|paths| *paths != 0));
                detail.size("tree", index.tree().0);
            });
        }
    });
}

/// Of the buckets of a time series: how many there are.
fn write_series(collection: &Collection, reply: &mut DocumentWriter<'_>) {
    if collection.definition().options.time_series.is_none() {
        return;
    }
    let (buckets, bytes) = (collection.counts().documents(), collection.counts().bytes());
    reply.document("timeseries", |section| {
        section.string("bucketsNs", collection.namespace().as_str());
        section.count("bucketCount", buckets);
        section.count("avgBucketSize", bytes.checked_div(buckets).unwrap_or_default());
    });
}

/// Whether the collection is capped; its bounds, and what its ring is like.
fn write_capped(collection: &Collection, scale_factor: u64, reply: &mut DocumentWriter<'_>) -> Result<()> {
    let capped = collection.definition().options.capped;
    reply.boolean("capped", capped.is_some());
    let (Some(capped), Some(ring)) = (capped, collection.ring()) else { return Ok(()) };
    reply.count("max", capped.max.unwrap_or(0));
    reply.count("maxSize", capped.size / scale_factor);
    write_ring(ring, reply);
    Ok(())
}

/// What `collStats` and `validate` say of a ring: extents of its region, and slots of documents that were deleted and not overtaken yet.
pub(crate) fn write_ring(ring: &Ring, reply: &mut DocumentWriter<'_>) {
    let state = ring.state();
    reply.count("extentCount", ring.capacity().div_ceil(state.extent_bytes.max(1)));
    reply.count("deletedCount", state.slots.saturating_sub(state.documents));
}

/// The figures of a collection that does not exist.
fn write_nothing(scale_factor: u64, reply: &mut DocumentWriter<'_>) {
    for name in ["size", "count", "storageSize", "totalSize", "nindexes", "totalIndexSize"] {
        reply.int32(name, 0);
    }
    reply.document("indexSizes", |_| {});
    reply.count("scaleFactor", scale_factor);
}
