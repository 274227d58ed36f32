//! What each pattern sees, and that a healthy server has none.

use bson::{RawDocumentBuf, rawdoc};

use super::*;

/// A recording of one moment a second.
fn recorded(moments: impl IntoIterator<Item = RawDocumentBuf>) -> Recording {
    let mut recording = Recording::default();
    for (second, status) in (1_000_i64..).zip(moments) {
        recording.observe(second * 1_000, &status, PATHS, 0);
    }
    recording
}

fn names(recording: &Recording) -> Vec<&'static str> {
    findings(recording).iter().map(|finding| finding.pattern).collect()
}

#[test]
fn a_healthy_server_has_no_findings() {
    let status = |second: i64| {
        rawdoc! {
            "localTime": bson::DateTime::from_millis(second * 1_000),
            "connections": { "current": 10_i64, "available": 1_000_i64 },
            "metrics": { "operation": { "writeConflicts": second }, "queryExecutor": { "scannedObjects": second * 1_000_000, "collectionScans": { "total": 0_i64 } },
                "document": { "returned": second * 1_000_000 } },
            "plimsoll": {
                "writes": { "areAccepted": true, "needSpace": false }, "setAside": [],
                "cache": { "bytes": 100_i64, "dirtyBytes": 10_i64 },
                "oplog": { "endPosition": second * 10 + 5, "durablePosition": second * 10 },
                "admission": { "reads": { "waiting": 0_i64, "rejected": 3_i64 }, "writes": { "waiting": 0_i64, "rejected": 0_i64 } },
                "memory": { "refused": 4_i64 }, "heldBack": { "delayMicros": 0_i64 },
            },
        }
    };
    assert_eq!(names(&recorded((0..60).map(status))), [""; 0]);
}

#[test]
fn a_silent_disk_is_seen_only_while_somebody_waits_for_it() {
    let status = |end: i64, durable: i64| rawdoc! { "plimsoll": { "oplog": { "endPosition": end, "durablePosition": durable } } };
    let idle = recorded((0..30).map(|_| status(7, 7)));
    assert_eq!(names(&idle), [""; 0]);
    let silent = recorded((0..10).map(|second| if second < 4 { status(second, second) } else { status(50, 4) }));
    let found = findings(&silent);
    assert_eq!(found.len(), 1);
    assert_eq!((found[0].pattern, found[0].to), ("diskSilent", 1_009_000));
    assert!(found[0].what.contains("5 s"), "{}", found[0].what);
}

#[test]
fn a_replica_set_is_judged_by_who_leads_who_is_there_and_who_is_behind() {
    let set = |has_primary: bool, answers: bool, silent: i64, lag: f64| {
        rawdoc! { "plimsoll": { "replicaSet": {
            "hasPrimary": has_primary, "confirmations": { "logAnswers": answers }, "silentMembers": silent, "lagSecondsMax": lag,
        } } }
    };
    let seen = |status: RawDocumentBuf| names(&recorded((0..60).map(|_| status.clone())));
    assert_eq!(seen(set(true, true, 0, 2.0)), [""; 0]);
    assert_eq!(seen(set(false, true, 0, 0.0)), ["noPrimary"]);
    assert_eq!(seen(set(true, false, 0, 0.0)), ["sharedLogSilent"]);
    assert_eq!(seen(set(true, true, 1, 0.0)), ["memberSilent"]);
    assert_eq!(seen(set(true, true, 0, 31.0)), ["memberBehind"]);
    // Whoever takes the lead, and a start, are no trouble.
    let brief =
        (0..60).map(|second| set(second > 10, true, i64::from(second < 15), if second < 5 { 900.0 } else { 0.0 }));
    assert_eq!(names(&recorded(brief)), [""; 0]);
}

#[test]
fn an_archive_that_is_behind_is_told_with_how_much_would_be_lost() {
    let status = |lag: f64| rawdoc! { "plimsoll": { "backups": { "archive": { "lagSeconds": lag } } } };
    assert_eq!(names(&recorded((0..20).map(|second| status(f64::from(second % 4))))), [""; 0]);
    let behind = recorded((0..90).map(|second| status(f64::from(second))));
    assert_eq!(names(&behind), ["archiveBehind"]);
    assert!(findings(&behind)[0].what.contains("89 s behind"));
}

#[test]
fn what_holds_only_briefly_is_no_finding_and_what_has_ended_is_none_of_now() {
    let dirty = |share: i64| rawdoc! { "plimsoll": { "cache": { "bytes": 100_i64, "dirtyBytes": share } } };
    let brief = recorded((0..40).map(|second| dirty(if second < 15 { 80 } else { 5 })));
    assert_eq!(names(&brief), [""; 0]);
    let ended = recorded((0..40).map(|second| dirty(if second < 25 { 40 + second } else { 5 })));
    assert_eq!(names(&ended), ["cacheFullOfChangedPages"]);
    assert!(findings(&ended)[0].what.starts_with("64 %"));
    assert_eq!(present_findings(&ended), []);
    let lasts = recorded((0..40).map(|_| dirty(80)));
    assert_eq!(present_findings(&lasts).len(), 1);
}

#[test]
fn rates_are_judged_by_growth() {
    let status = |total: i64| rawdoc! { "plimsoll": { "memory": { "refused": total } }, "metrics": { "operation": { "writeConflicts": total * 100 } } };
    assert_eq!(names(&recorded((0..10).map(status))), ["memoryRefused", "hotDocuments"]);
}

#[test]
fn readers_and_transactions_of_long_ago() {
    let status = |second: i64| {
        let now = bson::DateTime::from_millis((1_000 + second) * 1_000);
        let oldest = bson::Timestamp { time: 600, increment: 1 };
        rawdoc! { "localTime": now, "plimsoll": { "snapshots": { "oldest": oldest } }, "transactions": { "oldest": { "timeOpenMicros": 31_000_000_i64 } } }
    };
    assert_eq!(names(&recorded((0..3).map(status))), ["longTransaction", "oldSnapshot"]);
}

#[test]
fn a_certificate_of_the_last_days() {
    let status = |days: i64| {
        let (now, end) = (bson::DateTime::from_millis(0), bson::DateTime::from_millis(days * 86_400_000));
        rawdoc! { "localTime": now, "security": { "SSLServerCertificateExpirationDate": end } }
    };
    assert_eq!(names(&recorded([status(30)])), [""; 0]);
    let soon = findings(&recorded([status(3)]));
    assert!(soon[0].what.ends_with("in 3 days"), "{}", soon[0].what);
}

#[test]
fn patterns_have_names_of_their_own_and_look_only_at_what_is_kept() {
    let mut names: Vec<_> = PATTERNS.iter().map(|pattern| pattern.name).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), PATTERNS.len());
    assert!(PATTERNS.iter().all(|pattern| !pattern.advice.is_empty()));
}
