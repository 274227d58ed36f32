//! What figures say about trouble, in words: what is seen, since when, and what to do.
//!
//! The server asks every few seconds about its last minutes and shows the answers in `serverStatus.plimsoll.warnings`; `plimsoll diagnose` asks about
//! all that it was given. Most patterns are seen before anybody has to wait.
//!
//! A pattern is a condition on figures that holds for some time. The table says which; nothing here depends on the machine.

use crate::recording::{Recording, Series};

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// It may become trouble.
    Warning,
    /// Clients feel it.
    Severe,
}

impl Severity {
    /// As it is shown.
    pub fn name(self) -> &'static str {
        match self {
            Severity::Warning => "warning",
            Severity::Severe => "severe",
        }
    }
}

/// Something that was seen.
#[derive(Debug, Clone, PartialEq)]
pub struct Finding {
    /// The pattern's name.
    pub pattern: &'static str,
    /// How bad it is.
    pub severity: Severity,
    /// From when, in milliseconds since 1970.
    pub from: i64,
    /// Until when.
    pub to: i64,
    /// What was seen, in a sentence.
    pub what: String,
    /// What to do about it.
    pub advice: &'static str,
}

/// A condition, and what to say when it holds for `seconds`.
struct Pattern {
    name: &'static str,
    severity: Severity,
    /// The value is looked at in each moment: what `value` makes of the recording.
    value: fn(&Recording) -> Series,
    /// From this value on the condition holds.
    threshold: f64,
    seconds: f64,
    /// What is said of the greatest value meanwhile.
    what: fn(f64) -> String,
    advice: &'static str,
}

const DIRTY: &str = "plimsoll.cache.dirtyBytes";
const CACHE: &str = "plimsoll.cache.bytes";
const END: &str = "plimsoll.oplog.endPosition";
const DURABLE: &str = "plimsoll.oplog.durablePosition";
const OLDEST_TRANSACTION: &str = "transactions.oldest.timeOpenMicros";
const OLDEST_SNAPSHOT: &str = "plimsoll.snapshots.oldest";
const NOW: &str = "localTime";
const CONFLICTS: &str = "metrics.operation.writeConflicts";
const READS_WAIT: &str = "plimsoll.admission.reads.waiting";
const WRITES_WAIT: &str = "plimsoll.admission.writes.waiting";
const READS_REJECTED: &str = "plimsoll.admission.reads.rejected";
const WRITES_REJECTED: &str = "plimsoll.admission.writes.rejected";
const ACCEPTED: &str = "plimsoll.writes.areAccepted";
const NEEDS_SPACE: &str = "plimsoll.writes.needSpace";
const REFUSED: &str = "plimsoll.memory.refused";
const CONNECTIONS: &str = "connections.current";
const CONNECTIONS_LEFT: &str = "connections.available";
const SCANS: &str = "metrics.queryExecutor.collectionScans.total";
const EXAMINED: &str = "metrics.queryExecutor.scannedObjects";
const RETURNED: &str = "metrics.document.returned";
const SET_ASIDE: &str = "plimsoll.setAside";
const FAILED_LOGINS: &str = "security.authentication.failed";
const CERTIFICATE: &str = "security.SSLServerCertificateExpirationDate";
const EXPIRY_LAG: &str = "metrics.ttl.lagSeconds";
const DELAY: &str = "plimsoll.heldBack.delayMicros";
const FOLLOWERS: &str = "plimsoll.oplog.listenersHeldBackBytes";
const ARCHIVE_LAG: &str = "plimsoll.backups.archive.lagSeconds";
const MEMBERS_LAG: &str = "plimsoll.replicaSet.lagSecondsMax";
const SILENT_MEMBERS: &str = "plimsoll.replicaSet.silentMembers";
const HAS_PRIMARY: &str = "plimsoll.replicaSet.hasPrimary";
const LOG_ANSWERS: &str = "plimsoll.replicaSet.confirmations.logAnswers";

/// The figures that patterns look at: who keeps only some needs these.
pub const PATHS: &[&str] = &[
    DIRTY,
    CACHE,
    END,
    DURABLE,
    OLDEST_TRANSACTION,
    OLDEST_SNAPSHOT,
    NOW,
    CONFLICTS,
    READS_WAIT,
    WRITES_WAIT,
    READS_REJECTED,
    WRITES_REJECTED,
    ACCEPTED,
    NEEDS_SPACE,
    REFUSED,
    CONNECTIONS,
    CONNECTIONS_LEFT,
    SCANS,
    EXAMINED,
    RETURNED,
    SET_ASIDE,
    FAILED_LOGINS,
    CERTIFICATE,
    EXPIRY_LAG,
    DELAY,
    FOLLOWERS,
    ARCHIVE_LAG,
    MEMBERS_LAG,
    SILENT_MEMBERS,
    HAS_PRIMARY,
    LOG_ANSWERS,
];

const MIB: f64 = 1_048_576.0;
const DAY_SECONDS: f64 = 86_400.0;

const PATTERNS: &[Pattern] = &[
    Pattern {
        name: "writesStopped",
        severity: Severity::Severe,
        value: |recording| mapped(recording, ACCEPTED, |accepted| 1.0 - accepted),
        threshold: 1.0,
        seconds: 0.0,
        what: |_| "no writes are taken".to_owned(),
        advice: "serverStatus.plimsoll.writes says why and what to do",
    },
    Pattern {
        name: "diskNearlyFull",
        severity: Severity::Severe,
        value: |recording| recording.series(NEEDS_SPACE).to_vec(),
        threshold: 1.0,
        seconds: 0.0,
        what: |_| "the disk is short of space: writes will stop when there is none".to_owned(),
        advice: "make room on the disk; drop collections or indexes that nobody needs",
    },
    Pattern {
        name: "setAside",
        severity: Severity::Severe,
        value: |recording| recording.series(SET_ASIDE).to_vec(),
        threshold: 1.0,
        seconds: 0.0,
        what: |count| format!("{count} parts are damaged and set aside, so that the rest is served"),
        advice: "serverStatus.plimsoll.setAside names each and says what to do",
    },
    Pattern {
        name: "diskSilent",
        severity: Severity::Severe,
        value: silence,
        threshold: 2.0,
        seconds: 0.0,
        what: |seconds| format!("the disk answered no write for {seconds:.0} s while clients waited for one"),
        advice: "look at what else uses this disk, and at its health; a disk of its own for the data ends this",
    },
    Pattern {
        name: "cacheFullOfChangedPages",
        severity: Severity::Warning,
        value: |recording| share(recording, DIRTY, CACHE, |_| 0.0),
        threshold: 0.35,
        seconds: 20.0,
        what: |share| {
            format!(
                "{:.0} % of the cache is changed and not yet written: the disk takes pages slower than they change",
                share * 100.0
            )
        },
        advice: "writes are slowed before the cache is full; a faster disk, more cache, or fewer indexes on what changes much",
    },
    Pattern {
        name: "writesHeldBack",
        severity: Severity::Severe,
        value: |recording| mapped(recording, DELAY, |micros| micros / 1000.0),
        threshold: 1.0,
        seconds: 10.0,
        what: |millis| format!("each write is held back by up to {millis:.0} ms"),
        advice: "serverStatus.plimsoll.heldBack says which resource is short",
    },
    Pattern {
        name: "longTransaction",
        severity: Severity::Warning,
        value: |recording| mapped(recording, OLDEST_TRANSACTION, |micros| micros / 1e6),
        threshold: 30.0,
        seconds: 0.0,
        what: |seconds| {
            format!("a transaction has been open for {seconds:.0} s and holds old versions of what others change")
        },
        advice: "serverStatus.transactions.oldest says whose it is; killSessions ends it",
    },
    Pattern {
        name: "oldSnapshot",
        severity: Severity::Warning,
        value: snapshot_age,
        threshold: 300.0,
        seconds: 0.0,
        what: |seconds| {
            format!("a reader sees the state of {seconds:.0} s ago, and all versions since then are kept for it")
        },
        advice: "currentOp with idleCursors shows who reads for so long; killCursors or killOp ends it",
    },
    Pattern {
        name: "ticketsExhausted",
        severity: Severity::Warning,
        value: |recording| sum(recording.series(READS_WAIT), recording.series(WRITES_WAIT)),
        threshold: 1.0,
        seconds: 10.0,
        what: |waiting| {
            format!(
                "up to {waiting:.0} commands waited at once for their turn: clients ask for more than the machine does"
            )
        },
        advice: "find what is expensive in the slow operations of the log; fewer clients at once are served faster",
    },
    Pattern {
        name: "commandsRejected",
        severity: Severity::Severe,
        value: |recording| sum(&recording.rate(READS_REJECTED), &recording.rate(WRITES_REJECTED)),
        threshold: 0.001,
        seconds: 0.0,
        what: |rate| {
            format!("up to {rate:.1} commands a second were refused with 462, since they would have waited too long")
        },
        advice: "the machine is overloaded: drivers try again, but the load has to become less",
    },
    Pattern {
        name: "hotDocuments",
        severity: Severity::Warning,
        value: |recording| recording.rate(CONFLICTS),
        threshold: 50.0,
        seconds: 5.0,
        what: |rate| format!("up to {rate:.0} writes a second met another write to the same document"),
        advice: "spread what is counted or queued in one document over several",
    },
    Pattern {
        name: "memoryRefused",
        severity: Severity::Severe,
        value: |recording| recording.rate(REFUSED),
        threshold: 0.001,
        seconds: 0.0,
        what: |rate| format!("up to {rate:.1} commands a second were refused memory"),
        advice: "raise --memory, or look for the operations that want so much (currentOp, the log)",
    },
    Pattern {
        name: "connectionsNearlyExhausted",
        severity: Severity::Warning,
        value: |recording| share(recording, CONNECTIONS, CONNECTIONS_LEFT, |current| current),
        threshold: 0.8,
        seconds: 0.0,
        what: |share| format!("{:.0} % of the connections that may be are open", share * 100.0),
        advice: "smaller pools in the applications; --max-connections and the limit of open files say how many there may be",
    },
    Pattern {
        name: "collectionScans",
        severity: Severity::Warning,
        value: needless_reads,
        threshold: 100_000.0,
        seconds: 10.0,
        what: |rate| format!("queries without an index looked at up to {rate:.0} documents a second in vain"),
        advice: "the slow operations of the log with planSummary COLLSCAN say which queries want an index",
    },
    Pattern {
        name: "loginsFail",
        severity: Severity::Warning,
        value: |recording| recording.rate(FAILED_LOGINS),
        threshold: 1.0,
        seconds: 5.0,
        what: |rate| format!("up to {rate:.0} logins a second failed"),
        advice: "a wrong password in an application, or somebody who tries: the log names addresses and users",
    },
    Pattern {
        name: "certificateExpires",
        severity: Severity::Warning,
        value: certificate_urgency,
        threshold: 0.0,
        seconds: 0.0,
        what: |urgency| format!("the server's certificate ends in {:.0} days", (14.0 - urgency).max(0.0)),
        advice: "put a new one in its place, then rotateCertificates or SIGHUP",
    },
    Pattern {
        name: "expiryBehind",
        severity: Severity::Warning,
        value: |recording| recording.series(EXPIRY_LAG).to_vec(),
        threshold: 600.0,
        seconds: 0.0,
        what: |seconds| format!("documents that have expired are removed {seconds:.0} s too late"),
        advice: "more expires than the disk can remove beside what clients do; remove by dropping collections by time instead",
    },
    Pattern {
        name: "followersBehind",
        severity: Severity::Warning,
        value: |recording| mapped(recording, FOLLOWERS, |bytes| bytes / MIB),
        threshold: 64.0,
        seconds: 10.0,
        what: |mebibytes| format!("change streams and tailable cursors are {mebibytes:.0} MiB of the oplog behind"),
        advice: "all processors are busy with what goes first; fewer listeners, or more processors",
    },
    Pattern {
        name: "noPrimary",
        severity: Severity::Severe,
        value: |recording| mapped(recording, HAS_PRIMARY, |has_primary| 1.0 - has_primary),
        threshold: 1.0,
        seconds: 15.0,
        what: |_| "no member of the replica set leads: nobody takes writes".to_owned(),
        advice: "see whether the members run and reach the shared log; replSetFreeze 0 ends a freeze",
    },
    Pattern {
        name: "sharedLogSilent",
        severity: Severity::Severe,
        value: |recording| mapped(recording, LOG_ANSWERS, |answers| 1.0 - answers),
        threshold: 1.0,
        seconds: 0.0,
        what: |_| "the shared log does not answer: writes are refused, reads go on".to_owned(),
        advice: "look at the brokers, or at the file system of the log; writes go on by themselves when it answers",
    },
    Pattern {
        name: "memberSilent",
        severity: Severity::Warning,
        value: |recording| recording.series(SILENT_MEMBERS).to_vec(),
        threshold: 1.0,
        seconds: 20.0,
        what: |members| format!("{members} members of the replica set are silent"),
        advice: "rs.status() names them: start them, or leave out with rs.reconfig who is gone for good",
    },
    Pattern {
        name: "memberBehind",
        severity: Severity::Warning,
        value: |recording| recording.series(MEMBERS_LAG).to_vec(),
        threshold: 30.0,
        seconds: 10.0,
        what: |seconds| format!("a member of the replica set is {seconds:.0} s behind"),
        advice: "serverStatus.plimsoll.replicaSet.members says which; w with the number of members slows writers down",
    },
    Pattern {
        name: "archiveBehind",
        severity: Severity::Warning,
        value: |recording| recording.series(ARCHIVE_LAG).to_vec(),
        threshold: 60.0,
        seconds: 0.0,
        what: |seconds| {
            format!("the archive of the oplog is {seconds:.0} s behind: so much would be lost with the machine")
        },
        advice: "serverStatus.plimsoll.backups.archive.error says why; the oplog is kept here meanwhile, and takes space",
    },
];

/// What the figures show, the worst first, then the earliest.
pub fn findings(recording: &Recording) -> Vec<Finding> {
    let mut found: Vec<Finding> = PATTERNS.iter().flat_map(|pattern| of_pattern(pattern, recording)).collect();
    found.sort_by_key(|finding| (std::cmp::Reverse(finding.severity), finding.from));
    found
}

/// What they show at their last moment: of what holds still.
pub fn present_findings(recording: &Recording) -> Vec<Finding> {
    let Some(now) = recording.times().last() else { return Vec::new() };
    findings(recording).into_iter().filter(|finding| finding.to == *now).collect()
}

/// Gaps in the figures of up to so many milliseconds do not end what was seen before.
const GAP_MILLIS_MAX: i64 = 10_000;

fn of_pattern(pattern: &Pattern, recording: &Recording) -> Vec<Finding> {
    let mut spans: Vec<(i64, i64, f64)> = Vec::new();
    let mut is_open = false;
    for (time, value) in (pattern.value)(recording) {
        if value < pattern.threshold {
            is_open = false;
            continue;
        }
        match spans.last_mut() {
            Some((_, to, greatest)) if is_open && time - *to <= GAP_MILLIS_MAX => {
                *to = time;
                *greatest = greatest.max(value);
            }
            _ => spans.push((time, time, value)),
        }
        is_open = true;
    }
    let lasts = |(from, to, _): &(i64, i64, f64)| (to - from) as f64 / 1000.0 >= pattern.seconds;
    let finding = |(from, to, greatest): (i64, i64, f64)| Finding {
        pattern: pattern.name,
        severity: pattern.severity,
        from,
        to,
        what: (pattern.what)(greatest),
        advice: pattern.advice,
    };
    spans.into_iter().filter(lasts).map(finding).collect()
}

fn mapped(recording: &Recording, path: &str, map: fn(f64) -> f64) -> Series {
    recording.series(path).iter().map(|(time, value)| (*time, map(*value))).collect()
}

/// `part / (whole + beside(part))` of each moment that has both.
fn share(recording: &Recording, part: &str, whole: &str, beside: fn(f64) -> f64) -> Series {
    both(recording.series(part), recording.series(whole), |part, whole| part / (whole + beside(part)).max(1.0))
}

fn both(left: &[(i64, f64)], right: &[(i64, f64)], combine: impl Fn(f64, f64) -> f64) -> Series {
    let value_at = |time: i64| right.binary_search_by_key(&time, |(at, _)| *at).ok().map(|place| right[place].1);
    left.iter().filter_map(|(time, value)| Some((*time, combine(*value, value_at(*time)?)))).collect()
}

fn sum(left: &[(i64, f64)], right: &[(i64, f64)]) -> Series {
    both(left, right, |left, right| left + right)
}

/// For how long what was written before is not yet durable, in seconds.
fn silence(recording: &Recording) -> Series {
    let durable = recording.series(DURABLE);
    let waits = both(recording.series(END), durable, |end, durable| f64::from(u8::from(end > durable)));
    let mut since: Option<(i64, f64)> = None;
    let mut silences = Vec::new();
    for ((time, is_waiting), (_, position)) in waits.into_iter().zip(durable) {
        let goes_on = since.is_some_and(|(_, before)| before == *position);
        match (is_waiting > 0.0, goes_on) {
            (false, _) => since = None,
            (true, false) => since = Some((time, *position)),
            (true, true) => {}
        }
        silences.push((time, since.map_or(0.0, |(from, _)| (time - from) as f64 / 1000.0)));
    }
    silences
}

fn snapshot_age(recording: &Recording) -> Series {
    both(recording.series(OLDEST_SNAPSHOT), recording.series(NOW), |seen, now| now / 1000.0 - seen)
}

/// Documents a second that were looked at and not returned, while there were collection scans.
fn needless_reads(recording: &Recording) -> Series {
    let in_vain = both(&recording.rate(EXAMINED), &recording.rate(RETURNED), |examined, returned| examined - returned);
    both(&in_vain, &recording.rate(SCANS), |in_vain, scans| if scans > 0.0 { in_vain } else { 0.0 })
}

/// Days of the last fortnight of the certificate that are gone; below zero before.
fn certificate_urgency(recording: &Recording) -> Series {
    both(recording.series(CERTIFICATE), recording.series(NOW), |end, now| 14.0 - (end - now) / 1000.0 / DAY_SECONDS)
}

#[cfg(test)]
mod tests;
