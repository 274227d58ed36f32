//! `serverStatus`: figures of the server, in MongoDB's sections as far as they mean something here, and `plimsoll`.
//!
//! A figure that is not counted is left out: zeros would be read as facts.

use bson::{DateTime, RawBsonRef};
use platform::memory_check::MemoryCheckFigures;
use platform::{MemoryUse, WorkingMemory};
use transaction::{Store, WRITES_STOPPED_ADVICE};

use super::hello::write_identity;
use super::{engine_figures, replica_set_figures, server_status_sections as sections, short_host};
use crate::DocumentWriter;
use crate::handlers::command::Command;
use crate::request::arguments::{Arguments, Field};
use crate::request::declaration::{Declaration, Needs};
use crate::request::error::Result;
use crate::request::privileges::{Action, on_cluster};
use crate::state::command_figures::CommandFigures;
use crate::state::context::ServerContext;
use crate::state::versions::VERSION;

type WriteSection = fn(&ServerContext, &mut DocumentWriter<'_>) -> Result<()>;

/// Our sections.
const SECTIONS: &[(&str, WriteSection)] = &[
    ("asserts", |server, section| sections::write_errors(&server.figures, section)),
    ("catalogStats", |server, section| sections::write_catalog(&server.store, section)),
    ("connections", |server, section| sections::write_connections(&server.facts, &*server.hooks, section)),
    ("extra_info", |_, section| sections::write_process(section)),
    ("globalLock", |server, section| sections::write_queues(&server.admission, server.uptime(), section)),
    ("logicalSessionRecordCache", |server, section| sections::write_sessions(&server.store, section)),
    ("mem", |_, section| sections::write_memory(section)),
    ("metrics", write_metrics),
    ("network", |server, section| sections::write_network(&*server.hooks, section)),
    ("opLatencies", |server, section| write_latencies(&server.figures, false, section)),
    ("opcounters", |server, section| sections::write_operation_counts(&server.counts, section)),
    ("opcountersRepl", |_, section| sections::write_replicated_counts(section)),
    ("plimsoll", write_plimsoll),
    ("repl", write_replication),
    ("security", |server, section| sections::write_security(&server.access, &*server.hooks, section)),
    ("storageEngine", write_storage_engine),
    ("transactions", write_transactions),
    ("transportSecurity", |server, section| sections::write_transport(&*server.hooks, section)),
    ("wiredTiger", |server, section| sections::write_engine(&server.store, &server.admission, section)),
];

/// Sections of MongoDB that we do not have, as servers of MongoDB built in another way have not either: asking for one shows nothing.
const UNKNOWN_SECTIONS: &[&str] = &[
    "batchedDeletes",
    "changeStreamPreImages",
    "defaultRWConcern",
    "electionMetrics",
    "encryptionAtRest",
    "featureCompatibilityVersion",
    "flowControl",
    "freeMonitoring",
    "hedgingMetrics",
    "indexBuilds",
    "indexBulkBuilder",
    "indexStats",
    "latchAnalysis",
    "locks",
    "mirroredReads",
    "opReadConcernCounters",
    "opWriteConcernCounters",
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
    "sharding",
    "shardingStatistics",
    "shardedIndexConsistency",
    "tcmalloc",
    "tenantMigrations",
    "trafficRecording",
    "twoPhaseCommitCoordinator",
    "watchdog",
    "writeBacksQueued",
];

pub(crate) static COMMAND: Command = Command::new(
    |context, arguments, reply| run(context.server, arguments, reply),
    Declaration::new("serverStatus", "Figures of the server.", Needs::Nothing, &[on_cluster(Action::ServerStatus)]),
);

/// Runs the command.
pub(crate) fn run(server: &ServerContext, mut arguments: Arguments<'_>, reply: &mut DocumentWriter<'_>) -> Result<()> {
    let (mut excluded, mut shows_by_default) = (Vec::new(), true);
    let (mut included, mut with_histograms) = (Vec::new(), false);
    for field in arguments.fields() {
        let is_ours = SECTIONS.iter().any(|(name, _)| *name == field.name());
        match field.name() {
            _ if is_ours && field.is_null() => {}
            "none" => shows_by_default = !field.boolean()?,
            "all" => shows_by_default |= field.boolean()?,
            // `{histograms: true}` is what this section can be asked for in more detail.
            "opLatencies" if matches!(field.value(), RawBsonRef::Document(_)) => with_histograms = histograms(field)?,
            name if is_ours && field.boolean()? => included.push(name),
            name if is_ours => excluded.push(name),
            name if UNKNOWN_SECTIONS.contains(&name) => drop(field.boolean()?),
            _ => arguments.generic(field)?,
        }
    }
    // As a router, which a server of its own plays, has none.
    let is_there = |name| name != "repl" || !server.replica_set.is_alone();
    let is_wanted = |name| included.contains(&name) || (shows_by_default && !excluded.contains(&name));
    write_sections(server, |name| is_there(name) && is_wanted(name), with_histograms, reply)
}

/// Everything, with histograms: for those inside the program who watch it. No command is counted.
pub(crate) fn write_all(server: &ServerContext, reply: &mut DocumentWriter<'_>) -> Result<()> {
    write_sections(server, |_| true, true, reply)
}

fn write_sections(
    server: &ServerContext,
    is_shown: impl Fn(&'static str) -> bool,
    with_histograms: bool,
    reply: &mut DocumentWriter<'_>,
) -> Result<()> {
    write_basics(server, reply);
    for (name, write) in SECTIONS.iter().filter(|(name, _)| is_shown(name)) {
        let mut written = Ok(());
        reply.document(name, |section| {
            written = match (*name, with_histograms) {
                ("opLatencies", true) => write_latencies(&server.figures, true, section),
                _ => write(server, section),
            };
        });
        written?;
    }
    Ok(())
}

fn write_basics(server: &ServerContext, reply: &mut DocumentWriter<'_>) {
    let uptime = server.uptime();
    reply.string("host", &short_host(&server.facts));
    reply.string("version", VERSION);
    reply.string("process", "plimsoll");
    reply.int64("pid", i64::from(std::process::id()));
    reply.double("uptime", uptime.as_secs() as f64);
    reply.size("uptimeMillis", uptime.as_millis() as u64);
    reply.size("uptimeEstimate", uptime.as_secs());
    reply.date("localTime", DateTime::from_millis(server.clock.wall_millis()));
}

fn histograms(field: Field<'_>) -> Result<bool> {
    let mut wanted = false;
    for element in document::elements(field.required(Field::document)?) {
        let option = Field::of("serverStatus.opLatencies", element);
        match option.name() {
            "histograms" => wanted = option.boolean()?,
            _ => return Err(option.unknown()),
        }
    }
    Ok(wanted)
}

fn write_replication(server: &ServerContext, section: &mut DocumentWriter<'_>) -> Result<()> {
    server.topology.write_version(section);
    write_identity(server.identity(), section);
    Ok(())
}

/// With histograms: how many operations fell into which range.
fn write_latencies(figures: &CommandFigures, with_histograms: bool, section: &mut DocumentWriter<'_>) -> Result<()> {
    figures.write_latencies(with_histograms, section);
    Ok(())
}

fn write_metrics(server: &ServerContext, section: &mut DocumentWriter<'_>) -> Result<()> {
    let expiry = server.store.expiry_statistics();
    sections::write_metrics(&server.counts, &server.figures, &server.cursors, expiry, section)
}

fn write_transactions(server: &ServerContext, section: &mut DocumentWriter<'_>) -> Result<()> {
    sections::write_transactions(&server.store, &server.operations, server.clock.monotonic(), section)
}

fn write_plimsoll(server: &ServerContext, section: &mut DocumentWriter<'_>) -> Result<()> {
    section.document("writes", |writes| write_writes(&server.store, writes));
    section.array("setAside", |list| {
        for work in server.store.set_aside_work() {
            list.push_document(|report| {
                report.string("what", work.what);
                report.string("ns", &work.namespace);
                report.string("index", &work.index);
                report.string("reason", &work.reason);
                report.string("advice", work.advice);
            });
        }
    });
    section.array("warnings", |list| {
        for warning in server.hooks.warnings() {
            list.push_document(|report| {
                report.string("pattern", warning.pattern);
                report.string("severity", warning.severity);
                report.date("since", DateTime::from_millis(warning.since_millis));
                report.string("what", &warning.what);
                report.string("advice", warning.advice);
            });
        }
    });
    if !server.replica_set.is_alone() {
        section.document("replicaSet", |figures| {
            replica_set_figures::write(&server.replica_set, &server.store, figures);
        });
    }
    let archive = server.hooks.archive();
    section.document("backups", |backups| server.backups.write_status(archive.as_ref(), backups));
    if let Some(traces) = &server.traces {
        let figures = traces.sink().figures();
        section.document("traces", |traces| {
            traces.size("sent", figures.sent);
            traces.size("dropped", figures.dropped);
            traces.size("failed", figures.failed);
        });
    }
    section.document("memory", |memory| write_budget(&server.memory, memory));
    engine_figures::write(&server.store, &server.admission, section)
}

/// Whether anything can be written, and if not, why and what to do.
fn write_writes(store: &Store, section: &mut DocumentWriter<'_>) {
    let stopped = store.writes_stopped();
    section.boolean("areAccepted", stopped.is_none());
    if let Some(reason) = stopped {
        section.string("stoppedBecause", &reason);
        section.string("advice", WRITES_STOPPED_ADVICE);
    }
    section.boolean("needSpace", store.is_short_of_space());
}

/// The memory budget, and what it is used for.
fn write_budget(memory: &WorkingMemory, section: &mut DocumentWriter<'_>) {
    let budget = memory.budget();
    section.size("limitBytes", budget.limit());
    section.size("reservedBytes", budget.used());
    section.document("uses", |uses| {
        MemoryUse::ALL.iter().for_each(|purpose| uses.size(purpose.name(), budget.used_for(*purpose)));
    });
    if let Some(check) = platform::memory_check::figures() {
        section.document("check", |section| write_memory_check(&check, section));
    }
    section.size("operationBytesMax", memory.share());
    section.size("refused", budget.refused());
    let (runs, bytes) = memory.temporary().totals();
    section.document("temporaryFiles", |files| {
        files.size("runs", runs);
        files.size("bytesWritten", bytes);
    });
}

/// What is allocated against what is accounted for (`--check-memory`).
fn write_memory_check(check: &MemoryCheckFigures, section: &mut DocumentWriter<'_>) {
    section.int64("allocatedBytes", check.allocated);
    section.int64("accountedBytes", check.accounted);
    section.int64("unaccountedBytesMax", check.unaccounted_max);
    section.int64("boundBytes", check.bound);
    section.size("timesBeyond", check.times_beyond);
}

fn write_storage_engine(server: &ServerContext, section: &mut DocumentWriter<'_>) -> Result<()> {
    section.string("name", "plimsoll");
    section.boolean("supportsCommittedReads", true);
    section.boolean("supportsSnapshotReadConcern", true);
    section.boolean("readOnly", server.store.writes_stopped().is_some());
    section.boolean("persistent", true);
    Ok(())
}
