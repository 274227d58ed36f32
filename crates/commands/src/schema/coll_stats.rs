//! `collStats`, and the document of the `$collStats` stage: figures of a collection.

use std::fmt::Display;

use bson::{RawDocument, RawDocumentBuf};
use collection::Collection;
use storage_engine::Ring;

use super::disk_sizes::SizeEstimator;
use super::{document_of, existing_collection, scale, target_namespace};
use crate::DocumentWriter;
use crate::arguments::{Arguments, Field};
use crate::context::{Context, ServerContext};
use crate::diagnostics::host_and_port;
use crate::error::Result;
use crate::oplog_view;

/// Runs the command.
pub(crate) fn run(
    context: &mut Context<'_>,
    mut arguments: Arguments<'_>,
    reply: &mut DocumentWriter<'_>,
) -> Result<()> {
    let namespace = target_namespace(context, &arguments)?;
    let mut scale_factor = 1;
    for field in arguments.fields() {
        match field.name() {
            "scale" => scale_factor = scale(field)?,
            "waitForLock" | "numericOnly" => field.refuse_unless_null()?,
            _ => arguments.generic(field)?,
        }
    }
    context.operation.set_time_limit(arguments.generic.max_time)?;
    reply.string("ns", namespace.as_str());
    if oplog_view::is_oplog(&namespace) {
        oplog_view::write_statistics(context.server, scale_factor, reply);
        return Ok(());
    }
    match context.server.store.catalog().lookup(namespace.as_str()) {
        Some(collection) => write_storage(context.server, &collection, scale_factor, reply),
        None => {
            write_nothing(scale_factor, reply);
            Ok(())
        }
    }
}

/// The one document that `$collStats` yields for `database.collection`.
///
/// # Errors
/// `NamespaceNotFound` when figures are asked for and there is no such collection; NotImplemented for the kinds of figures that are not kept.
pub(crate) fn collection_statistics(
    server: &ServerContext,
    namespace: impl Display,
    options: &RawDocument,
) -> Result<RawDocumentBuf> {
    let namespace = &namespace.to_string();
    let (mut storage, mut counts) = (None, false);
    for element in document::elements(options) {
        let field = Field::of("$collStats", element);
        match field.name() {
            "storageStats" => storage = field.document()?.map(storage_scale).transpose()?,
            "count" => counts = field.document()?.is_some(),
            "latencyStats" | "queryExecStats" => field.refuse_unless_null()?,
            _ => return Err(field.unknown()),
        }
    }
    let mut result = Ok(());
    let document = document_of(|document| {
        document.string("ns", namespace);
        document.string("host", &host_and_port(&server.facts));
        document.date("localTime", bson::DateTime::from_millis(server.clock.wall_millis()));
        result = write_sections(server, namespace, storage, counts, document);
    });
    result.and(document)
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
    server: &ServerContext,
    namespace: &str,
    storage_scale: Option<u64>,
    counts: bool,
    document: &mut DocumentWriter<'_>,
) -> Result<()> {
    let find = |what: &str| {
        let missing = || {
            format!("Unable to retrieve {what} in $collStats stage :: caused by :: Collection [{namespace}] not found.")
        };
        existing_collection(server, namespace, missing)
    };
    if let (Some(scale_factor), oplog_view::NAMESPACE) = (storage_scale, namespace) {
        document.document("storageStats", |section| oplog_view::write_statistics(server, scale_factor, section));
        return Ok(());
    }
    if let Some(scale_factor) = storage_scale {
        let collection = find("storageStats")?;
        let mut result = Ok(());
        document.document("storageStats", |section| {
            result = write_storage(server, &collection, scale_factor, section);
        });
        result?;
    }
    if counts {
        document.count("count", find("count")?.counts().documents());
    }
    Ok(())
}

fn write_storage(
    server: &ServerContext,
    collection: &Collection,
    scale_factor: u64,
    reply: &mut DocumentWriter<'_>,
) -> Result<()> {
    let (documents, bytes) = (collection.counts().documents(), collection.counts().bytes());
    let sizes = SizeEstimator::new(&server.store)?.sizes(collection)?;
    reply.count("size", bytes / scale_factor);
    reply.count("count", documents);
    if let Some(average) = bytes.checked_div(documents) {
        reply.count("avgObjSize", average);
    }
    reply.count("storageSize", sizes.record_bytes / scale_factor);
    write_capped(collection, scale_factor, reply)?;
    reply.count("nindexes", sizes.indexes.len() as u64);
    let building = collection.indexes().all().iter().filter(|index| !index.is_ready()).cloned().collect::<Vec<_>>();
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
