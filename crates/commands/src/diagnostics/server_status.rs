//! `serverStatus`: figures of the server, in MongoDB's sections as far as they mean something here, and `plimsoll`.
//!
//! A figure that is not counted is left out: zeros would be read as facts.

use std::sync::atomic::{AtomicU64, Ordering};

use bson::DateTime;
use platform::MemoryUse;

use super::hello::write_identity;
use super::versions::VERSION;
use super::{engine_figures, short_host};
use crate::DocumentWriter;
use crate::arguments::Arguments;
use crate::context::{Context, ServerContext};
use crate::error::Result;

type WriteSection = fn(&ServerContext, &mut DocumentWriter<'_>) -> Result<()>;

/// Our sections.
const SECTIONS: &[(&str, WriteSection)] = &[
    ("connections", write_connections),
    ("logicalSessionRecordCache", write_sessions),
    ("mem", write_memory),
    ("metrics", write_metrics),
    ("opcounters", write_operation_counts),
    ("plimsoll", write_plimsoll),
    ("repl", write_replication),
    ("storageEngine", write_storage_engine),
    ("transactions", write_transactions),
];

/// Sections of MongoDB that we do not have. Asking to leave them out is fine.
const UNKNOWN_SECTIONS: &[&str] = &[
    "asserts",
    "batchedDeletes",
    "catalogStats",
    "changeStreamPreImages",
    "defaultRWConcern",
    "electionMetrics",
    "encryptionAtRest",
    "extra_info",
    "featureCompatibilityVersion",
    "flowControl",
    "freeMonitoring",
    "globalLock",
    "hedgingMetrics",
    "indexBuilds",
    "indexBulkBuilder",
    "indexStats",
    "latchAnalysis",
    "locks",
    "mirroredReads",
    "network",
    "opLatencies",
    "opReadConcernCounters",
    "opWriteConcernCounters",
    "opcountersRepl",
    "oplog",
    "oplogTruncation",
    "operationTime",
    "planCache",
    "queryAnalyzers",
    "queryStats",
    "querySettings",
    "readConcernCounters",
    "readPreferenceCounters",
    "recordStats",
    "security",
    "sharding",
    "shardingStatistics",
    "shardedIndexConsistency",
    "tcmalloc",
    "tenantMigrations",
    "trafficRecording",
    "transportSecurity",
    "twoPhaseCommitCoordinator",
    "watchdog",
    "wiredTiger",
    "writeBacksQueued",
];

/// Runs the command.
pub(crate) fn run(
    context: &mut Context<'_>,
    mut arguments: Arguments<'_>,
    reply: &mut DocumentWriter<'_>,
) -> Result<()> {
    let (mut excluded, mut shows_by_default) = (Vec::new(), true);
    let mut included = Vec::new();
    for field in arguments.fields() {
        let is_ours = SECTIONS.iter().any(|(name, _)| *name == field.name());
        match field.name() {
            _ if is_ours && field.is_null() => {}
            "none" => shows_by_default = !field.boolean()?,
            "all" => shows_by_default |= field.boolean()?,
            name if is_ours && field.boolean()? => included.push(name),
            name if is_ours => excluded.push(name),
            name if UNKNOWN_SECTIONS.contains(&name) => {
                // `recordStats: 1` and its like name what was removed from MongoDB itself, or what we do not count.
                if field.boolean()? {
                    return Err(field.not_implemented());
                }
            }
            _ => arguments.generic(field)?,
        }
    }
    let server = context.server;
    write_basics(server, reply);
    for (name, write) in SECTIONS {
        // As a router, which a server of its own plays, has none.
        let is_there = *name != "repl" || !server.replica_set.is_alone();
        let is_shown = is_there && (included.contains(name) || (shows_by_default && !excluded.contains(name)));
        if is_shown {
            let mut written = Ok(());
            reply.document(name, |section| written = write(server, section));
            written?;
        }
    }
    Ok(())
}

fn write_basics(server: &ServerContext, reply: &mut DocumentWriter<'_>) {
    let uptime = server.clock.monotonic().saturating_sub(server.started);
    reply.string("host", &short_host(&server.facts));
    reply.string("version", VERSION);
    reply.string("process", "plimsoll");
    reply.int64("pid", i64::from(std::process::id()));
    reply.double("uptime", uptime.as_secs() as f64);
    reply.size("uptimeMillis", uptime.as_millis() as u64);
    reply.size("uptimeEstimate", uptime.as_secs());
    reply.date("localTime", DateTime::from_millis(server.clock.wall_millis()));
}

fn write_connections(server: &ServerContext, section: &mut DocumentWriter<'_>) -> Result<()> {
    let (current, created) = server.hooks.connections();
    section.count("current", current);
    section.count("available", server.facts.connections_max.saturating_sub(current));
    section.count("totalCreated", created);
    Ok(())
}

fn write_sessions(server: &ServerContext, section: &mut DocumentWriter<'_>) -> Result<()> {
    section.count("activeSessionsCount", server.store.sessions().count() as u64);
    Ok(())
}

/// Open transactions, and whose is the oldest: it is what holds old versions.
fn write_transactions(server: &ServerContext, section: &mut DocumentWriter<'_>) -> Result<()> {
    let (open, oldest) = server.store.open_transactions();
    section.count("currentOpen", open as u64);
    if let Some((session, transaction)) = oldest {
        section.document("oldest", |fields| {
            fields.document("lsid", |lsid| lsid.uuid("id", session));
            fields.int64("txnNumber", transaction.txn_number);
            let age = server.clock.monotonic().saturating_sub(transaction.began);
            fields.size("timeOpenMicros", age.as_micros() as u64);
            let time = transaction.transaction.read_view().timestamp();
            fields.timestamp("readTimestamp", crate::cluster_time::bson_timestamp(time));
        });
    }
    Ok(())
}

fn write_replication(server: &ServerContext, section: &mut DocumentWriter<'_>) -> Result<()> {
    server.topology.write_version(section);
    write_identity(server, section);
    Ok(())
}

fn write_memory(_server: &ServerContext, section: &mut DocumentWriter<'_>) -> Result<()> {
    let memory = platform::process_memory();
    section.int32("bits", usize::BITS as i32);
    if let Some(memory) = memory {
        section.count("resident", memory.resident_bytes >> 20);
        section.count("virtual", memory.virtual_bytes >> 20);
    }
    section.boolean("supported", memory.is_some());
    Ok(())
}

fn write_plimsoll(server: &ServerContext, section: &mut DocumentWriter<'_>) -> Result<()> {
    section.document("memory", |memory| write_budget(server, memory));
    engine_figures::write(server, section)
}

/// The memory budget, and what it is used for.
fn write_budget(server: &ServerContext, section: &mut DocumentWriter<'_>) {
    let budget = server.memory.budget();
    section.size("limitBytes", budget.limit());
    section.size("reservedBytes", budget.used());
    section.document("uses", |uses| {
        MemoryUse::ALL.iter().for_each(|purpose| uses.size(purpose.name(), budget.used_for(*purpose)));
    });
    section.size("operationBytesMax", server.memory.share());
    section.size("refused", budget.refused());
    let (runs, bytes) = server.memory.temporary().totals();
    section.document("temporaryFiles", |files| {
        files.size("runs", runs);
        files.size("bytesWritten", bytes);
    });
}

fn write_operation_counts(server: &ServerContext, section: &mut DocumentWriter<'_>) -> Result<()> {
    let counts = &server.counts;
    let figures = [
        ("insert", &counts.insert),
        ("query", &counts.query),
        ("update", &counts.update),
        ("delete", &counts.delete),
        ("getmore", &counts.get_more),
        ("command", &counts.command),
    ];
    write_counters(&figures, section);
    Ok(())
}

fn write_metrics(server: &ServerContext, section: &mut DocumentWriter<'_>) -> Result<()> {
    let counts = &server.counts;
    section.document("cursor", |cursor| {
        let (open, opened, timed_out) = server.cursors.counts();
        cursor.size("timedOut", timed_out);
        cursor.size("totalOpened", opened);
        cursor.document("open", |figures| figures.size("total", open));
    });
    section.document("document", |documents| {
        let figures = [
            ("deleted", &counts.documents_deleted),
            ("inserted", &counts.documents_inserted),
            ("returned", &counts.documents_returned),
            ("updated", &counts.documents_updated),
        ];
        write_counters(&figures, documents);
    });
    let expiry = server.store.expiry_statistics();
    section.document("ttl", |ttl| {
        ttl.size("deletedDocuments", expiry.deleted);
        ttl.size("passes", expiry.passes);
        if let Some(lag) = expiry.lag {
            ttl.double("lagSeconds", lag.as_secs_f64());
        }
    });
    Ok(())
}

fn write_counters(counters: &[(&str, &AtomicU64)], section: &mut DocumentWriter<'_>) {
    counters.iter().for_each(|(name, counter)| section.size(name, counter.load(Ordering::Relaxed)));
}

fn write_storage_engine(_server: &ServerContext, section: &mut DocumentWriter<'_>) -> Result<()> {
    section.string("name", "plimsoll");
    section.boolean("supportsCommittedReads", true);
    section.boolean("supportsSnapshotReadConcern", true);
    section.boolean("readOnly", false);
    section.boolean("persistent", true);
    Ok(())
}
