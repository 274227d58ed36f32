//! The sections of `serverStatus` that MongoDB has, too, with what is counted here.
//!
//! Names are MongoDB's, as monitoring programs read them; a figure that has no counterpart here is left out. In `wiredTiger` are the figures of
//! our engine that answer the same questions: how full the cache is, how much goes to and from the disk.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use oplog::Oplog;
use storage_engine::PAGE_BYTES;
use transaction::{ExpiryStatistics, Store};

use crate::DocumentWriter;
use crate::request::declaration::Class;
use crate::request::error::Result;
use crate::state::access_control::AccessControl;
use crate::state::admission::Admission;
use crate::state::client_cursors::ClientCursors;
use crate::state::command_figures::CommandFigures;
use crate::state::context::{OperationCounts, ServerFacts};
use crate::state::operations::Operations;
use crate::state::server_hooks::ServerHooks;

pub(super) fn write_errors(figures: &CommandFigures, section: &mut DocumentWriter<'_>) -> Result<()> {
    figures.write_errors(section);
    Ok(())
}

pub(super) fn write_catalog(store: &Store, section: &mut DocumentWriter<'_>) -> Result<()> {
    let all = store.catalog().all_collections();
    let is_internal = |database: &str| matches!(database, "admin" | "config" | "local");
    let is_own = |collection: &collection::Collection| {
        let namespace = collection.namespace();
        is_internal(namespace.database()) || namespace.collection().starts_with("system.")
    };
    let internal = all.iter().filter(|collection| is_own(collection)).count();
    let capped = all.iter().filter(|collection| collection.ring().is_some()).count();
    section.count("collections", (all.len() - internal) as u64);
    section.count("capped", capped as u64);
    section.count("internalCollections", internal as u64);
    Ok(())
}

pub(super) fn write_connections(
    facts: &ServerFacts,
    hooks: &dyn ServerHooks,
    section: &mut DocumentWriter<'_>,
) -> Result<()> {
    let (current, created) = hooks.connections();
    section.count("current", current);
    section.count("available", facts.connections_max.saturating_sub(current));
    section.count("totalCreated", created);
    section.count("rejected", hooks.network().connections_refused);
    section.count("active", hooks.network().connections_active);
    Ok(())
}

pub(super) fn write_process(section: &mut DocumentWriter<'_>) -> Result<()> {
    section.string("note", "fields vary by platform");
    let Some(usage) = platform::process_usage() else { return Ok(()) };
    section.size("user_time_us", usage.user_time.as_micros() as u64);
    section.size("system_time_us", usage.system_time.as_micros() as u64);
    section.size("maximum_resident_set_kb", usage.resident_bytes_max >> 10);
    section.size("page_reclaims", usage.minor_page_faults);
    section.size("page_faults", usage.major_page_faults);
    section.size("voluntary_context_switches", usage.voluntary_context_switches);
    section.size("involuntary_context_switches", usage.involuntary_context_switches);
    section.size("threads", usage.threads);
    Ok(())
}

/// Commands that run, and that wait for a ticket. There is no lock that all take; what stands in its place is admission.
pub(super) fn write_queues(admission: &Admission, uptime: Duration, section: &mut DocumentWriter<'_>) -> Result<()> {
    let load = |class| admission.load(class);
    let (readers, writers) = (load(Class::Read), load(Class::Write));
    let write = |counts: &mut DocumentWriter<'_>, readers: u64, writers: u64| {
        counts.count("total", readers + writers);
        counts.count("readers", readers);
        counts.count("writers", writers);
    };
    section.size("totalTime", uptime.as_micros() as u64);
    section.document("currentQueue", |counts| write(counts, readers.waiting, writers.waiting));
    section.document("activeClients", |counts| write(counts, readers.running, writers.running));
    Ok(())
}

pub(super) fn write_sessions(store: &Store, section: &mut DocumentWriter<'_>) -> Result<()> {
    section.count("activeSessionsCount", store.sessions().count() as u64);
    Ok(())
}

pub(super) fn write_memory(section: &mut DocumentWriter<'_>) -> Result<()> {
    let memory = platform::process_memory();
    section.int32("bits", usize::BITS as i32);
    if let Some(memory) = memory {
        section.count("resident", memory.resident_bytes >> 20);
        section.count("virtual", memory.virtual_bytes >> 20);
    }
    section.boolean("supported", memory.is_some());
    Ok(())
}

pub(super) fn write_network(hooks: &dyn ServerHooks, section: &mut DocumentWriter<'_>) -> Result<()> {
    let network = hooks.network();
    section.size("bytesIn", network.bytes_in);
    section.size("bytesOut", network.bytes_out);
    section.size("physicalBytesIn", network.physical_bytes_in);
    section.size("physicalBytesOut", network.physical_bytes_out);
    section.size("numRequests", network.requests);
    Ok(())
}

pub(super) fn write_operation_counts(counts: &OperationCounts, section: &mut DocumentWriter<'_>) -> Result<()> {
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

/// Nothing is replicated to this server.
pub(super) fn write_replicated_counts(section: &mut DocumentWriter<'_>) -> Result<()> {
    ["insert", "query", "update", "delete", "getmore", "command"].iter().for_each(|name| section.size(name, 0));
    Ok(())
}

/// Logins.
pub(super) fn write_security(
    access: &AccessControl,
    hooks: &dyn ServerHooks,
    section: &mut DocumentWriter<'_>,
) -> Result<()> {
    let logins = &access.failed;
    let transport = hooks.transport();
    if let Some(certificate) = &transport.certificate {
        section.string("SSLServerSubjectName", &certificate.subject);
        section.boolean("SSLServerHasCertificateAuthority", certificate.has_authority);
        let expires = bson::DateTime::from_millis(certificate.expires_millis);
        section.date("SSLServerCertificateExpirationDate", expires);
    }
    if let Some(sink) = hooks.audit() {
        let (written, lost) = sink.figures();
        section.document("audit", |figures| {
            figures.size("written", written);
            figures.size("lost", lost);
        });
    }
    section.document("authentication", |counts| {
        counts.size("saslSupportedMechsReceived", access.logins.mechanisms_asked.load(Ordering::Relaxed));
        access.logins.write_mechanisms(counts);
        counts.size("successful", logins.succeeded.load(Ordering::Relaxed));
        counts.size("failed", logins.failed.load(Ordering::Relaxed));
        counts.size("slowed", logins.slowed.load(Ordering::Relaxed));
    });
    Ok(())
}

/// Encrypted connections by version; older versions than these are never spoken.
pub(super) fn write_transport(hooks: &dyn ServerHooks, section: &mut DocumentWriter<'_>) -> Result<()> {
    let figures = hooks.transport();
    let by_version = [("1.0", 0), ("1.1", 0), ("1.2", figures.tls_1_2), ("1.3", figures.tls_1_3), ("unknown", 0)];
    by_version.iter().for_each(|(name, count)| section.size(name, *count));
    Ok(())
}

pub(super) fn write_metrics(
    counts: &OperationCounts,
    figures: &CommandFigures,
    cursors: &ClientCursors,
    expiry: ExpiryStatistics,
    section: &mut DocumentWriter<'_>,
) -> Result<()> {
    section.document("commands", |commands| figures.write_commands(commands));
    section.document("cursor", |cursor| {
        let (open, opened, timed_out) = cursors.counts();
        let (pinned, without_timeout) = cursors.open_by_kind();
        cursor.size("timedOut", timed_out);
        cursor.size("totalOpened", opened);
        cursor.document("open", |figures| {
            figures.size("noTimeout", without_timeout);
            figures.size("pinned", pinned);
            figures.size("total", open);
        });
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
    section.document("operation", |operation| {
        let figures = [("scanAndOrder", &counts.sorts), ("writeConflicts", &counts.write_conflicts)];
        write_counters(&figures, operation);
    });
    section.document("queryExecutor", |executor| {
        let figures = [("scanned", &counts.keys_examined), ("scannedObjects", &counts.docs_examined)];
        write_counters(&figures, executor);
        executor.document("collectionScans", |scans| write_counters(&[("total", &counts.collection_scans)], scans));
    });
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

/// Open transactions, and whose is the oldest: it is what holds old versions.
pub(super) fn write_transactions(
    store: &Store,
    operations: &Operations,
    now: Duration,
    section: &mut DocumentWriter<'_>,
) -> Result<()> {
    let (open, oldest) = store.open_transactions();
    let active = operations.sessions_in_transactions();
    let totals = store.transaction_totals();
    section.count("currentActive", (active as u64).min(open as u64));
    section.count("currentInactive", open.saturating_sub(active) as u64);
    section.count("currentOpen", open as u64);
    section.size("totalStarted", totals.started);
    section.size("totalCommitted", totals.committed);
    section.size("totalAborted", totals.aborted);
    if let Some((session, transaction)) = oldest {
        section.document("oldest", |fields| {
            fields.document("lsid", |lsid| lsid.uuid("id", session));
            fields.int64("txnNumber", transaction.txn_number);
            let age = now.saturating_sub(transaction.began);
            fields.size("timeOpenMicros", age.as_micros() as u64);
            let time = transaction.transaction.read_view().timestamp();
            fields.timestamp("readTimestamp", crate::request::cluster_time::bson_timestamp(time));
        });
    }
    Ok(())
}

pub(super) fn write_engine(store: &Store, admission: &Admission, section: &mut DocumentWriter<'_>) -> Result<()> {
    let engine = store.engine().statistics()?;
    let oplog = store.oplog().statistics();
    let pages = &engine.store;
    let write = |section: &mut DocumentWriter<'_>, figures: &[(&str, u64)]| {
        figures.iter().for_each(|(name, value)| section.size(name, *value));
    };
    section.document("block-manager", |blocks| {
        let figures = [
            ("blocks read", pages.blocks_read),
            ("blocks written", pages.blocks_written),
            ("bytes read", pages.bytes_read),
            ("bytes written", pages.bytes_written),
        ];
        write(blocks, &figures);
    });
    section.document("cache", |cache| {
        let figures = [
            ("bytes currently in the cache", engine.cache_used_bytes),
            ("bytes read into cache", engine.pages_read * PAGE_BYTES as u64),
            ("bytes written from cache", engine.pages_written * PAGE_BYTES as u64),
            ("maximum bytes configured", engine.cache_bytes),
            ("pages currently held in the cache", engine.cache_used_bytes / PAGE_BYTES as u64),
            ("pages read into cache", engine.pages_read),
            ("pages written from cache", engine.pages_written),
            ("tracked dirty bytes in the cache", engine.cache_dirty_bytes),
            ("tracked dirty pages in the cache", engine.cache_dirty_bytes / PAGE_BYTES as u64),
        ];
        write(cache, &figures);
    });
    section.document("concurrentTransactions", |gates| {
        for (name, class) in [("write", Class::Write), ("read", Class::Read)] {
            let load = admission.load(class);
            gates.document(name, |gate| {
                gate.count("out", load.running);
                gate.count("available", load.limit.saturating_sub(load.running));
                gate.count("totalTickets", load.limit);
            });
        }
    });
    section.document("log", |log| {
        let figures = [
            ("log bytes written", oplog.appended_bytes),
            ("log sync operations", oplog.flushes),
            ("log write operations", oplog.appended_entries),
        ];
        write(log, &figures);
    });
    section.document("transaction", |transactions| {
        write(transactions, &[("transaction checkpoints", engine.checkpoints)]);
    });
    Ok(())
}
