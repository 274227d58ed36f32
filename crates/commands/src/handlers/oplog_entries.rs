//! The entries of `local.oplog.rs`, read straight from the oplog's segments, and what is said of it as a collection.
//!
//! Read by `oplog_view` and by pipelines. A lower bound on `ts` is where reading begins; backward it goes segment by
//! segment.

use std::sync::Arc;

use aggregation::{AggregationError, BoxSource, DocumentSource};
use bson::{RawBsonRef, RawDocument, RawDocumentBuf};
use collection::{is_local, served_entry};
use oplog::{Oplog, OplogError, OplogPosition};
use planner::CanonicalQuery;
use storage_engine::Timestamp;
use transaction::{BackwardOplog, OplogFollower, Store, TransactionError};

use crate::DocumentWriter;
use crate::request::document_writer::document_of;
use crate::request::error::{CommandError, Result};
use crate::state::replica_set::terms::Terms;

/// The collection's database.
pub(crate) const DATABASE: &str = "local";

pub(crate) const COLLECTION: &str = "oplog.rs";

/// The entries, from where the filter begins.
pub(crate) fn entries(
    store: &Arc<Store>,
    terms: Arc<Terms>,
    filter: Option<&RawDocument>,
    is_backward: bool,
) -> Result<BoxSource> {
    if is_backward {
        return Ok(Box::new(Backward { oplog: store.oplog_backward()?, terms }));
    }
    let from = match filter.and_then(lower_bound) {
        Some(timestamp) => store.oplog().position_at(timestamp)?,
        None => store.oplog().first_position(),
    };
    Ok(Box::new(Forward { follower: follow(store, from)?, terms }))
}

/// The entries that match, for who reads the oplog as a foreign collection. `filter` is the query's, as it was sent.
pub(crate) fn matching_entries(
    store: &Arc<Store>,
    terms: Arc<Terms>,
    query: CanonicalQuery,
    filter: &RawDocument,
) -> Result<BoxSource> {
    Ok(Box::new(Matching { entries: entries(store, terms, Some(filter), false)?, query }))
}

struct Matching {
    entries: BoxSource,
    query: CanonicalQuery,
}

impl DocumentSource for Matching {
    fn next(&mut self) -> aggregation::Result<Option<RawDocumentBuf>> {
        while let Some(entry) = self.entries.next()? {
            if self
                .query
                .filter
                .matches(&entry)
                .map_err(|error| AggregationError::Host(Box::new(CommandError::from(error))))?
            {
                return Ok(Some(entry));
            }
        }
        Ok(None)
    }
}

fn follow(store: &Arc<Store>, from: OplogPosition) -> Result<OplogFollower> {
    Ok(store.follow_oplog(from)?)
}

/// What the filter says of the least `ts`.
fn lower_bound(filter: &RawDocument) -> Option<Timestamp> {
    let number = |value: RawBsonRef<'_>| match value {
        RawBsonRef::Timestamp(timestamp) => {
            Some(Timestamp(u64::from(timestamp.time) << 32 | u64::from(timestamp.increment)))
        }
        _ => None,
    };
    match document::get_field(filter, "ts")? {
        RawBsonRef::Document(bounds) => {
            ["$gte", "$gt", "$eq"].into_iter().find_map(|operator| number(document::get_field(bounds, operator)?))
        }
        value => number(value),
    }
}

struct Forward {
    follower: OplogFollower,
    terms: Arc<Terms>,
}

impl DocumentSource for Forward {
    fn next(&mut self) -> aggregation::Result<Option<RawDocumentBuf>> {
        loop {
            let entry = self.follower.next().map_err(|error| AggregationError::Host(Box::new(position_lost(error))))?;
            let Some(entry) = entry else { return Ok(None) };
            if !is_local(&entry.payload) {
                return Ok(Some(served_entry(entry.timestamp, self.terms.at(entry.timestamp), &entry.payload)));
            }
        }
    }
}

/// A reader whose place was given up.
fn position_lost(error: TransactionError) -> CommandError {
    match error {
        TransactionError::Oplog(OplogError::PositionTruncated { .. }) => {
            CommandError::named("CappedPositionLost", "the oplog was truncated beyond the place that was being read")
        }
        error => error.into(),
    }
}

struct Backward {
    oplog: BackwardOplog,
    terms: Arc<Terms>,
}

impl DocumentSource for Backward {
    fn next(&mut self) -> aggregation::Result<Option<RawDocumentBuf>> {
        loop {
            let entry =
                self.oplog.previous().map_err(|error| AggregationError::Host(Box::new(CommandError::from(error))))?;
            let Some((timestamp, payload)) = entry else { return Ok(None) };
            if !is_local(&payload) {
                return Ok(Some(served_entry(timestamp, self.terms.at(timestamp), &payload)));
            }
        }
    }
}

/// What `listCollections` says of it.
pub(crate) fn description(store: &Store) -> Result<RawDocumentBuf> {
    let (bytes, _) = store.oplog_retention();
    document_of(|document| {
        document.string("name", COLLECTION);
        document.string("type", "collection");
        document.document("options", |options| {
            options.boolean("capped", true);
            options.count("size", bytes);
        });
        document.document("info", |info| info.boolean("readOnly", false));
    })
}

/// How many bytes it has.
pub(crate) fn bytes(store: &Store) -> u64 {
    let statistics = store.oplog().statistics();
    statistics.end_position.0 - statistics.first_position.0
}

/// What `collStats` says of it.
pub(crate) fn write_statistics(store: &Store, scale: u64, reply: &mut DocumentWriter<'_>) {
    let statistics = store.oplog().statistics();
    let (size, (bytes, _)) = (bytes(store), store.oplog_retention());
    reply.count("size", size / scale);
    reply.count("storageSize", size / scale);
    reply.boolean("capped", true);
    reply.count("maxSize", bytes / scale);
    reply.count("extentCount", statistics.segments);
    reply.int32("nindexes", 0);
    reply.int32("totalIndexSize", 0);
    reply.count("totalSize", size / scale);
    reply.document("indexSizes", |_| {});
    reply.count("scaleFactor", scale);
}
