//! The families of metrics: name, help, and where in `serverStatus` their figures are.
//!
//! Read by `exposition`. Names follow <https://prometheus.io/docs/practices/naming/>: base units, `_total` for what only grows.

/// What a family counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Only grows.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Times, by ranges.
    Histogram,
}

impl Kind {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

/// Figures of one name.
pub(super) struct Family {
    pub(super) name: &'static str,
    pub(super) help: &'static str,
    pub(super) kind: Kind,
    pub(super) samples: &'static [Samples],
}

/// Where figures are. A path has dots between its names.
pub(super) enum Samples {
    /// A number (of a list: how many it has), to be multiplied by `unit`; `labels` as they are written.
    Number { labels: &'static str, path: &'static str, unit: f64 },
    /// The constant 1, with these texts as labels.
    Facts(&'static [(&'static str, &'static str)]),
    /// Each field of the document at `path`, its name the value of `label`; its number, or that at `inner` within it.
    Each { label: &'static str, path: &'static str, inner: &'static str, unit: f64 },
    /// `opLatencies`: each field a kind of operation.
    Latencies { label: &'static str, path: &'static str },
}

const ONE: f64 = 1.0;
const MICROSECONDS: f64 = 1e-6;
const MILLISECONDS: f64 = 1e-3;
const MEBIBYTES: f64 = 1_048_576.0;

const fn counter(name: &'static str, help: &'static str, samples: &'static [Samples]) -> Family {
    Family { name, help, kind: Kind::Counter, samples }
}

const fn gauge(name: &'static str, help: &'static str, samples: &'static [Samples]) -> Family {
    Family { name, help, kind: Kind::Gauge, samples }
}

const fn is(labels: &'static str, path: &'static str, unit: f64) -> Samples {
    Samples::Number { labels, path, unit }
}

const fn each(label: &'static str, path: &'static str, inner: &'static str, unit: f64) -> Samples {
    Samples::Each { label, path, inner, unit }
}

/// All of them, in the order in which they are written.
pub(super) const FAMILIES: &[Family] = &[
    gauge("plimsoll_info", "The version that is told to clients.", &[Samples::Facts(&[("version", "version")])]),
    gauge(
        "plimsoll_uptime_seconds",
        "For how long the server has been running.",
        &[is("", "uptimeMillis", MILLISECONDS)],
    ),
    counter(
        "process_cpu_seconds_total",
        "Processor time.",
        &[
            is("mode=\"user\"", "extra_info.user_time_us", MICROSECONDS),
            is("mode=\"system\"", "extra_info.system_time_us", MICROSECONDS),
        ],
    ),
    gauge("process_resident_memory_bytes", "Memory in use.", &[is("", "mem.resident", MEBIBYTES)]),
    gauge("process_virtual_memory_bytes", "Addresses in use.", &[is("", "mem.virtual", MEBIBYTES)]),
    gauge("process_threads", "Threads.", &[is("", "extra_info.threads", ONE)]),
    counter(
        "process_major_page_faults_total",
        "Page faults that waited for the disk.",
        &[is("", "extra_info.page_faults", ONE)],
    ),
    gauge(
        "plimsoll_connections",
        "Connections of clients: open, with a command that runs, and how many more there may be.",
        &[
            is("state=\"current\"", "connections.current", ONE),
            is("state=\"active\"", "connections.active", ONE),
            is("state=\"available\"", "connections.available", ONE),
        ],
    ),
    counter(
        "plimsoll_connections_created_total",
        "Connections that were accepted.",
        &[is("", "connections.totalCreated", ONE)],
    ),
    counter(
        "plimsoll_connections_refused_total",
        "Connections beyond what is allowed.",
        &[is("", "connections.rejected", ONE)],
    ),
    counter(
        "plimsoll_network_received_bytes_total",
        "Bytes of requests: as they came, and decompressed.",
        &[is("layer=\"physical\"", "network.physicalBytesIn", ONE), is("layer=\"logical\"", "network.bytesIn", ONE)],
    ),
    counter(
        "plimsoll_network_sent_bytes_total",
        "Bytes of replies: as they went, and before compression.",
        &[is("layer=\"physical\"", "network.physicalBytesOut", ONE), is("layer=\"logical\"", "network.bytesOut", ONE)],
    ),
    counter("plimsoll_network_requests_total", "Requests of clients.", &[is("", "network.numRequests", ONE)]),
    counter(
        "plimsoll_operations_total",
        "Operations by kind; an insert counts its documents.",
        &[each("kind", "opcounters", "", ONE)],
    ),
    counter("plimsoll_commands_total", "Commands by name.", &[each("command", "metrics.commands", "total", ONE)]),
    counter(
        "plimsoll_commands_failed_total",
        "Commands that ended with an error.",
        &[each("command", "metrics.commands", "failed", ONE)],
    ),
    Family {
        name: "plimsoll_operation_duration_seconds",
        help: "How long operations took, waiting included.",
        kind: Kind::Histogram,
        samples: &[Samples::Latencies { label: "kind", path: "opLatencies" }],
    },
    counter(
        "plimsoll_errors_total",
        "Errors by whose they are.",
        &[
            is("kind=\"regular\"", "asserts.regular", ONE),
            is("kind=\"warning\"", "asserts.warning", ONE),
            is("kind=\"internal\"", "asserts.msg", ONE),
            is("kind=\"user\"", "asserts.user", ONE),
        ],
    ),
    counter(
        "plimsoll_documents_total",
        "Documents by what became of them.",
        &[each("action", "metrics.document", "", ONE)],
    ),
    counter(
        "plimsoll_index_keys_examined_total",
        "Keys of indexes that queries looked at.",
        &[is("", "metrics.queryExecutor.scanned", ONE)],
    ),
    counter(
        "plimsoll_documents_examined_total",
        "Documents that queries looked at.",
        &[is("", "metrics.queryExecutor.scannedObjects", ONE)],
    ),
    counter(
        "plimsoll_collection_scans_total",
        "Queries that read a whole collection, for want of an index.",
        &[is("", "metrics.queryExecutor.collectionScans.total", ONE)],
    ),
    counter(
        "plimsoll_sorts_total",
        "Queries that sorted, for want of an index.",
        &[is("", "metrics.operation.scanAndOrder", ONE)],
    ),
    counter(
        "plimsoll_write_conflicts_total",
        "Writes that met another's.",
        &[is("", "metrics.operation.writeConflicts", ONE)],
    ),
    gauge(
        "plimsoll_cursors",
        "Open cursors; those in use, and those that do not time out.",
        &[
            is("state=\"open\"", "metrics.cursor.open.total", ONE),
            is("state=\"pinned\"", "metrics.cursor.open.pinned", ONE),
            is("state=\"without_timeout\"", "metrics.cursor.open.noTimeout", ONE),
        ],
    ),
    counter("plimsoll_cursors_opened_total", "Cursors that were opened.", &[is("", "metrics.cursor.totalOpened", ONE)]),
    counter(
        "plimsoll_cursors_timed_out_total",
        "Cursors that nobody used for too long.",
        &[is("", "metrics.cursor.timedOut", ONE)],
    ),
    counter(
        "plimsoll_expired_documents_total",
        "Documents that expiry removed.",
        &[is("", "metrics.ttl.deletedDocuments", ONE)],
    ),
    gauge("plimsoll_expiry_lag_seconds", "How far expiry is behind.", &[is("", "metrics.ttl.lagSeconds", ONE)]),
    gauge("plimsoll_sessions", "Sessions of clients.", &[is("", "logicalSessionRecordCache.activeSessionsCount", ONE)]),
    gauge(
        "plimsoll_transactions",
        "Open transactions: with an operation that runs, and without.",
        &[
            is("state=\"active\"", "transactions.currentActive", ONE),
            is("state=\"inactive\"", "transactions.currentInactive", ONE),
        ],
    ),
    counter(
        "plimsoll_transactions_started_total",
        "Transactions that began.",
        &[is("", "transactions.totalStarted", ONE)],
    ),
    counter(
        "plimsoll_transactions_committed_total",
        "Transactions that were committed.",
        &[is("", "transactions.totalCommitted", ONE)],
    ),
    counter(
        "plimsoll_transactions_aborted_total",
        "Transactions that were given up.",
        &[is("", "transactions.totalAborted", ONE)],
    ),
    gauge(
        "plimsoll_transaction_oldest_seconds",
        "The age of the oldest transaction.",
        &[is("", "transactions.oldest.timeOpenMicros", MICROSECONDS)],
    ),
    counter(
        "plimsoll_logins_total",
        "Logins.",
        &[
            is("outcome=\"successful\"", "security.authentication.successful", ONE),
            is("outcome=\"failed\"", "security.authentication.failed", ONE),
            is("outcome=\"slowed\"", "security.authentication.slowed", ONE),
        ],
    ),
    counter(
        "plimsoll_audit_events_total",
        "Events of the audit log: written, and lost.",
        &[each("outcome", "security.audit", "", ONE)],
    ),
    gauge(
        "plimsoll_tls_certificate_expires_timestamp_seconds",
        "When the server's certificate ends.",
        &[is("", "security.SSLServerCertificateExpirationDate", MILLISECONDS)],
    ),
    counter(
        "plimsoll_tls_connections_total",
        "Encrypted connections by version.",
        &[each("version", "transportSecurity", "", ONE)],
    ),
    gauge("plimsoll_memory_limit_bytes", "The budget for all memory.", &[is("", "plimsoll.memory.limitBytes", ONE)]),
    gauge(
        "plimsoll_memory_reserved_bytes",
        "What the budget is used for.",
        &[each("use", "plimsoll.memory.uses", "", ONE)],
    ),
    counter(
        "plimsoll_memory_refusals_total",
        "Requests for memory that were refused.",
        &[is("", "plimsoll.memory.refused", ONE)],
    ),
    counter(
        "plimsoll_temporary_written_bytes_total",
        "What operations wrote to disk since it exceeded their memory.",
        &[is("", "plimsoll.memory.temporaryFiles.bytesWritten", ONE)],
    ),
    gauge(
        "plimsoll_cache_bytes",
        "The page cache: its size, what is in use, what is changed and not yet written.",
        &[
            is("state=\"limit\"", "plimsoll.cache.bytes", ONE),
            is("state=\"used\"", "plimsoll.cache.usedBytes", ONE),
            is("state=\"dirty\"", "plimsoll.cache.dirtyBytes", ONE),
        ],
    ),
    counter(
        "plimsoll_cache_pages_read_total",
        "Pages that were read into the cache.",
        &[is("", "plimsoll.cache.pagesRead", ONE)],
    ),
    counter(
        "plimsoll_cache_pages_written_total",
        "Pages that were written from the cache.",
        &[is("", "plimsoll.cache.pagesWritten", ONE)],
    ),
    gauge("plimsoll_writes_accepted", "1 while writes are taken.", &[is("", "plimsoll.writes.areAccepted", ONE)]),
    gauge(
        "plimsoll_writes_need_space",
        "1 while the disk is short of space.",
        &[is("", "plimsoll.writes.needSpace", ONE)],
    ),
    gauge(
        "plimsoll_set_aside",
        "What is damaged and set aside, so that the rest is served.",
        &[is("", "plimsoll.setAside", ONE)],
    ),
    gauge(
        "plimsoll_write_delay_seconds",
        "For how long a write is held back.",
        &[is("", "plimsoll.heldBack.delayMicros", MICROSECONDS)],
    ),
    gauge(
        "plimsoll_pressure_ratio",
        "What holds writes back: 0 is nothing, 1 all.",
        &[each("cause", "plimsoll.heldBack.pressure", "", ONE)],
    ),
    gauge(
        "plimsoll_tickets",
        "How many commands may run at once.",
        &[
            is("class=\"reads\"", "plimsoll.admission.reads.limit", ONE),
            is("class=\"writes\"", "plimsoll.admission.writes.limit", ONE),
        ],
    ),
    gauge(
        "plimsoll_commands_running",
        "Commands that run.",
        &[
            is("class=\"reads\"", "plimsoll.admission.reads.running", ONE),
            is("class=\"writes\"", "plimsoll.admission.writes.running", ONE),
        ],
    ),
    gauge(
        "plimsoll_commands_waiting",
        "Commands that wait for a ticket.",
        &[
            is("class=\"reads\"", "plimsoll.admission.reads.waiting", ONE),
            is("class=\"writes\"", "plimsoll.admission.writes.waiting", ONE),
        ],
    ),
    counter(
        "plimsoll_commands_queued_seconds_total",
        "Time that commands waited for a ticket.",
        &[
            is("class=\"reads\"", "plimsoll.admission.reads.queuedMicros", MICROSECONDS),
            is("class=\"writes\"", "plimsoll.admission.writes.queuedMicros", MICROSECONDS),
        ],
    ),
    counter(
        "plimsoll_commands_rejected_total",
        "Commands that were refused, as too many waited.",
        &[
            is("class=\"reads\"", "plimsoll.admission.reads.rejected", ONE),
            is("class=\"writes\"", "plimsoll.admission.writes.rejected", ONE),
        ],
    ),
    gauge("plimsoll_snapshots", "Open snapshots.", &[is("", "plimsoll.snapshots.open", ONE)]),
    gauge(
        "plimsoll_snapshot_oldest_timestamp_seconds",
        "The moment that the oldest snapshot sees.",
        &[is("", "plimsoll.snapshots.oldest", ONE)],
    ),
    gauge(
        "plimsoll_history_bytes",
        "Old versions that are kept for snapshots.",
        &[
            is("place=\"memory\"", "plimsoll.history.memoryBytes", ONE),
            is("place=\"disk\"", "plimsoll.history.spilledBytes", ONE),
        ],
    ),
    counter("plimsoll_checkpoints_total", "Checkpoints.", &[is("", "plimsoll.checkpoints", ONE)]),
    gauge(
        "plimsoll_storage_bytes",
        "The page file: its length, what it takes of the disk, and what of it is in use.",
        &[
            is("part=\"file\"", "plimsoll.pageStore.fileBytes", ONE),
            is("part=\"backed\"", "plimsoll.pageStore.backedBytes", ONE),
            is("part=\"live\"", "plimsoll.pageStore.liveBytes", ONE),
            is("part=\"superseded\"", "plimsoll.pageStore.supersededBytes", ONE),
        ],
    ),
    counter(
        "plimsoll_storage_read_bytes_total",
        "Bytes that were read from the page file.",
        &[is("", "plimsoll.pageStore.bytesRead", ONE)],
    ),
    counter(
        "plimsoll_storage_written_bytes_total",
        "Bytes that were written to the page file.",
        &[is("", "plimsoll.pageStore.bytesWritten", ONE)],
    ),
    counter(
        "plimsoll_storage_relocated_bytes_total",
        "Bytes that cleaning moved.",
        &[is("", "plimsoll.pageStore.bytesRelocated", ONE)],
    ),
    counter("plimsoll_oplog_entries_total", "Entries of the oplog.", &[is("", "plimsoll.oplog.appendedEntries", ONE)]),
    counter(
        "plimsoll_oplog_written_bytes_total",
        "Bytes of the oplog.",
        &[is("", "plimsoll.oplog.appendedBytes", ONE)],
    ),
    counter(
        "plimsoll_oplog_flushes_total",
        "How often the oplog was made durable.",
        &[is("", "plimsoll.oplog.flushes", ONE)],
    ),
    counter(
        "plimsoll_oplog_flush_seconds_total",
        "Time that took.",
        &[is("", "plimsoll.oplog.flushMicros", MICROSECONDS)],
    ),
    gauge(
        "plimsoll_oplog_flush_longest_seconds",
        "The longest time that took.",
        &[is("", "plimsoll.oplog.flushMicrosMax", MICROSECONDS)],
    ),
    gauge("plimsoll_oplog_segments", "Files of the oplog.", &[is("", "plimsoll.oplog.segments", ONE)]),
    gauge(
        "plimsoll_followers_behind_bytes",
        "How much of the oplog change streams and tailable cursors are behind, as all processors are busy.",
        &[is("", "plimsoll.oplog.listenersHeldBackBytes", ONE)],
    ),
    gauge(
        "plimsoll_replica_set_state",
        "What this member is: 0 not initiated, 1 primary, 2 secondary, 3 not caught up yet.",
        &[is("", "plimsoll.replicaSet.stateCode", ONE)],
    ),
    gauge("plimsoll_replica_set_term", "The newest term.", &[is("", "plimsoll.replicaSet.term", ONE)]),
    gauge(
        "plimsoll_replica_set_has_primary",
        "1 while this member knows of a primary.",
        &[is("", "plimsoll.replicaSet.hasPrimary", ONE)],
    ),
    gauge(
        "plimsoll_replica_set_position_bytes",
        "How far this member is, in bytes of the oplog: logged here, durable here, confirmed by the shared log, seen by readers.",
        &[each("of", "plimsoll.replicaSet.positions", "", ONE)],
    ),
    counter(
        "plimsoll_replica_set_confirmation_waits_total",
        "How often somebody waited until the shared log had what he was to be told of.",
        &[is("", "plimsoll.replicaSet.confirmations.waits", ONE)],
    ),
    counter(
        "plimsoll_replica_set_confirmation_seconds_total",
        "Time that took.",
        &[is("", "plimsoll.replicaSet.confirmations.waitedMicros", MICROSECONDS)],
    ),
    gauge(
        "plimsoll_replica_set_log_answers",
        "0 while a primary refuses writes, as the shared log does not answer.",
        &[is("", "plimsoll.replicaSet.confirmations.logAnswers", ONE)],
    ),
    gauge(
        "plimsoll_replica_set_log_record",
        "Records of the shared log, by number: the one that is read next, the one that a restart would read first, and the oldest, as a primary has last seen it.",
        &[
            is("which=\"next\"", "plimsoll.replicaSet.log.nextRecord", ONE),
            is("which=\"needed\"", "plimsoll.replicaSet.log.neededRecord", ONE),
            is("which=\"first\"", "plimsoll.replicaSet.log.firstRecord", ONE),
        ],
    ),
    counter(
        "plimsoll_replica_set_log_trimmed_records_total",
        "Records of the shared log that this member has removed by itself.",
        &[is("", "plimsoll.replicaSet.log.trimmed.records", ONE)],
    ),
    counter(
        "plimsoll_replica_set_log_removed_copies_total",
        "Copies of the data beside the shared log that this member has removed by itself.",
        &[is("", "plimsoll.replicaSet.log.trimmed.copies", ONE)],
    ),
    gauge(
        "plimsoll_replica_set_log_kept_beyond_window",
        "1 while the shared log keeps more than twice its window, because it cannot be trimmed.",
        &[is("", "plimsoll.replicaSet.log.keptBecause", ONE)],
    ),
    gauge(
        "plimsoll_replica_set_member_state",
        "What each member is, as this one sees it: 1 primary, 2 secondary, 3 not caught up yet, 8 down.",
        &[each("member", "plimsoll.replicaSet.members", "stateCode", ONE)],
    ),
    gauge(
        "plimsoll_replica_set_member_up",
        "1 while something was heard of the member within ten seconds.",
        &[each("member", "plimsoll.replicaSet.members", "isAlive", ONE)],
    ),
    gauge(
        "plimsoll_replica_set_member_applied_bytes",
        "Up to where in the oplog each member has applied it.",
        &[each("member", "plimsoll.replicaSet.members", "appliedPosition", ONE)],
    ),
    gauge(
        "plimsoll_replica_set_member_durable_bytes",
        "Up to where each member has the oplog on its disk.",
        &[each("member", "plimsoll.replicaSet.members", "durablePosition", ONE)],
    ),
    gauge(
        "plimsoll_replica_set_member_lag_seconds",
        "How far the readers of each member are behind the newest commit that is known of.",
        &[each("member", "plimsoll.replicaSet.members", "lagSeconds", ONE)],
    ),
    gauge(
        "plimsoll_replica_set_member_heard_timestamp_seconds",
        "When this member last heard of each.",
        &[each("member", "plimsoll.replicaSet.members", "heard", MILLISECONDS)],
    ),
    gauge(
        "plimsoll_replica_set_members_waiting_for_copy",
        "New members that wait for a copy of a member's data.",
        &[is("", "plimsoll.replicaSet.waitForCopy", ONE)],
    ),
    gauge(
        "plimsoll_archive_lag_seconds",
        "For how long there has been something that is not archived: so much would be lost with the machine.",
        &[is("", "plimsoll.backups.archive.lagSeconds", ONE)],
    ),
    gauge(
        "plimsoll_archive_behind_bytes",
        "Bytes of the oplog that are not archived.",
        &[is("", "plimsoll.backups.archive.bytesBehind", ONE)],
    ),
    gauge(
        "plimsoll_archive_newest_timestamp_seconds",
        "The time of the newest operation that is archived.",
        &[is("", "plimsoll.backups.archive.upTo", MILLISECONDS)],
    ),
    gauge(
        "plimsoll_backup_last_timestamp_seconds",
        "When the last backup became whole.",
        &[is("", "plimsoll.backups.last.ended", MILLISECONDS)],
    ),
    counter(
        "plimsoll_trace_spans_total",
        "Spans of operations: taken by the collector, lost as the queue was full, not taken.",
        &[
            is("outcome=\"sent\"", "plimsoll.traces.sent", ONE),
            is("outcome=\"dropped\"", "plimsoll.traces.dropped", ONE),
            is("outcome=\"failed\"", "plimsoll.traces.failed", ONE),
        ],
    ),
    gauge(
        "plimsoll_collections",
        "Collections of users; those that are capped; those of the server.",
        &[
            is("kind=\"users\"", "catalogStats.collections", ONE),
            is("kind=\"capped\"", "catalogStats.capped", ONE),
            is("kind=\"internal\"", "catalogStats.internalCollections", ONE),
        ],
    ),
];
