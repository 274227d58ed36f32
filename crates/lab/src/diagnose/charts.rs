//! Which recorded figures are drawn together. Read by the report of `plimsoll diagnose`.

/// The figures of what holds writes back.
pub(super) const PRESSURE: &str = "plimsoll.heldBack.pressure.";

/// A line: its name, the path of its figure, and what to make of it.
pub(crate) struct Line {
    pub(crate) name: &'static str,
    pub(crate) path: &'static str,
    pub(crate) shown: Shown,
    /// What a figure is multiplied by.
    pub(crate) unit: f64,
}

/// How a figure is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shown {
    /// As it is.
    Value,
    /// How much it grows in a second.
    Rate,
    /// How much it grows, divided by how much the figure at this path grows.
    Per(&'static str),
}

/// Up to three lines of one unit.
pub(crate) struct Chart {
    pub(crate) title: &'static str,
    pub(crate) unit: &'static str,
    pub(crate) lines: &'static [Line],
}

const MIB: f64 = 1.0 / 1_048_576.0;
const MILLIS: f64 = 1e-3;

const fn value(name: &'static str, path: &'static str, unit: f64) -> Line {
    Line { name, path, shown: Shown::Value, unit }
}

const fn rate(name: &'static str, path: &'static str, unit: f64) -> Line {
    Line { name, path, shown: Shown::Rate, unit }
}

const fn per(name: &'static str, path: &'static str, of: &'static str, unit: f64) -> Line {
    Line { name, path, shown: Shown::Per(of), unit }
}

const fn chart(title: &'static str, unit: &'static str, lines: &'static [Line]) -> Chart {
    Chart { title, unit, lines }
}

/// In the order of the report.
pub(crate) const CHARTS: &[Chart] = &[
    chart(
        "Operations",
        "a second",
        &[
            rate("reads", "opLatencies.reads.ops", 1.0),
            rate("writes", "opLatencies.writes.ops", 1.0),
            rate("commands", "opLatencies.commands.ops", 1.0),
        ],
    ),
    chart(
        "How long an operation takes, mean of each second",
        "ms",
        &[
            per("reads", "opLatencies.reads.latency", "opLatencies.reads.ops", MILLIS),
            per("writes", "opLatencies.writes.latency", "opLatencies.writes.ops", MILLIS),
            per("commands", "opLatencies.commands.latency", "opLatencies.commands.ops", MILLIS),
        ],
    ),
    chart(
        "Documents",
        "a second",
        &[
            rate("examined", "metrics.queryExecutor.scannedObjects", 1.0),
            rate("returned", "metrics.document.returned", 1.0),
            rate("index keys examined", "metrics.queryExecutor.scanned", 1.0),
        ],
    ),
    chart(
        "Page cache",
        "MiB",
        &[
            value("used", "plimsoll.cache.usedBytes", MIB),
            value("changed, not yet written", "plimsoll.cache.dirtyBytes", MIB),
            value("size", "plimsoll.cache.bytes", MIB),
        ],
    ),
    chart("How long a write is held back", "ms", &[value("delay", "plimsoll.heldBack.delayMicros", MILLIS)]),
    chart(
        "Commands",
        "at the moment",
        &[
            value("reads that wait", "plimsoll.admission.reads.waiting", 1.0),
            value("writes that wait", "plimsoll.admission.writes.waiting", 1.0),
        ],
    ),
    chart(
        "Commands that run",
        "at the moment",
        &[
            value("reads", "plimsoll.admission.reads.running", 1.0),
            value("writes", "plimsoll.admission.writes.running", 1.0),
        ],
    ),
    chart(
        "Refused",
        "a second",
        &[
            rate("reads, 462", "plimsoll.admission.reads.rejected", 1.0),
            rate("writes, 462", "plimsoll.admission.writes.rejected", 1.0),
            rate("memory", "plimsoll.memory.refused", 1.0),
        ],
    ),
    chart(
        "Disk",
        "MiB a second",
        &[
            rate("pages read", "plimsoll.pageStore.bytesRead", MIB),
            rate("pages written", "plimsoll.pageStore.bytesWritten", MIB),
            rate("oplog", "plimsoll.oplog.appendedBytes", MIB),
        ],
    ),
    chart(
        "A flush of the oplog, mean of each second",
        "ms",
        &[per("flush", "plimsoll.oplog.flushMicros", "plimsoll.oplog.flushes", MILLIS)],
    ),
    chart(
        "Old versions kept for snapshots",
        "MiB",
        &[
            value("in memory", "plimsoll.history.memoryBytes", MIB),
            value("on disk", "plimsoll.history.spilledBytes", MIB),
        ],
    ),
    chart(
        "Page file",
        "MiB",
        &[
            value("takes of the disk", "plimsoll.pageStore.backedBytes", MIB),
            value("in use", "plimsoll.pageStore.liveBytes", MIB),
        ],
    ),
    chart(
        "Memory",
        "MiB",
        &[
            value("resident", "mem.resident", 1.0),
            value("reserved", "plimsoll.memory.reservedBytes", MIB),
            value("budget", "plimsoll.memory.limitBytes", MIB),
        ],
    ),
    chart(
        "Processors in use",
        "processors",
        &[rate("user", "extra_info.user_time_us", 1e-6), rate("system", "extra_info.system_time_us", 1e-6)],
    ),
    chart(
        "Connections",
        "at the moment",
        &[value("open", "connections.current", 1.0), value("active", "connections.active", 1.0)],
    ),
    chart(
        "Transactions",
        "a second",
        &[
            rate("committed", "transactions.totalCommitted", 1.0),
            rate("given up", "transactions.totalAborted", 1.0),
            rate("write conflicts", "metrics.operation.writeConflicts", 1.0),
        ],
    ),
    chart("The oldest transaction", "s", &[value("open for", "transactions.oldest.timeOpenMicros", 1e-6)]),
    chart(
        "Network",
        "MiB a second",
        &[rate("received", "network.physicalBytesIn", MIB), rate("sent", "network.physicalBytesOut", MIB)],
    ),
];
