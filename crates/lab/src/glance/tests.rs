//! What `plimsoll status` and `top` make of replies.

use bson::{doc, rawdoc};

use super::*;

fn text(before: &bson::RawDocument, after: &bson::RawDocument) -> String {
    in_text(&rows(&Glance::new(before, after)))
}

#[test]
fn figures_are_of_the_time_between_and_what_is_not_told_has_no_row() {
    let counters = |count: i64| rawdoc! { "insert": count, "query": 0_i64, "update": 0_i64, "delete": 0_i64, "getmore": 0_i64, "command": count * 2 };
    let latencies = |count: i64| {
        let one = rawdoc! { "ops": count, "latency": count * 1_500 };
        rawdoc! { "reads": one.clone(), "writes": { "ops": 0_i64, "latency": 0_i64 }, "commands": one }
    };
    let before = rawdoc! { "host": "a:1", "uptime": 90_000.0, "uptimeMillis": 90_000_000_i64, "opcounters": counters(100), "opLatencies": latencies(10) };
    let after = rawdoc! { "host": "a:1", "uptime": 90_002.0, "uptimeMillis": 90_002_000_i64, "opcounters": counters(3_100), "opLatencies": latencies(30) };
    let text = text(&before, &after);
    assert!(text.contains("up 1 d 1 h"), "{text}");
    assert!(text.contains("insert 1,500") && text.contains("command 3,000"), "{text}");
    assert!(text.contains("reads 1.5 ms  writes none"), "{text}");
    assert!(!text.contains("cache") && !text.contains("held back"), "{text}");
}

#[test]
fn what_is_wrong_is_shown_with_what_to_do() {
    let status = rawdoc! { "plimsoll": {
        "writes": { "areAccepted": false, "stoppedBecause": "the disk failed", "advice": "start again" },
        "heldBack": { "explanations": ["one", "two"] },
        "warnings": [{ "severity": "severe", "what": "it burns", "advice": "water" }],
        "setAside": [{ "what": "index", "ns": "a.b", "reason": "a flipped bit", "advice": "reIndex" }],
    } };
    let text = text(&status, &status);
    for line in [
        "NOT TAKEN: the disk failed. start again",
        "one; two",
        "severe     it burns: water",
        "set aside  index a.b: a flipped bit; reIndex",
    ] {
        assert!(text.contains(line), "{line} is not in\n{text}");
    }
}

#[test]
fn the_busiest_collection_comes_first() {
    let of = |micros: i64, reads: i64, writes: i64| {
        doc! { "total": { "time": micros, "count": reads + writes }, "readLock": { "count": reads }, "writeLock": { "count": writes } }
    };
    let before =
        doc! { "note": "times in microseconds", "a.x": of(0, 0, 0), "a.y": of(1_000_000, 5, 5), "a.z": of(7, 1, 1) };
    let after = doc! { "note": "times in microseconds", "a.x": of(500_000, 20, 0), "a.y": of(2_500_000, 5, 15), "a.z": of(7, 1, 1) };
    let text = operations::busiest(&before, &after, 2.0, 10);
    let lines: Vec<&str> = text.lines().filter(|line| line.contains("a.")).collect();
    assert_eq!(lines.len(), 2, "{text}");
    assert!(lines[0].contains("75.0") && lines[0].ends_with("a.y") && lines[1].ends_with("a.x"), "{text}");
}

#[test]
fn the_longest_operation_comes_first_and_the_question_itself_is_none() {
    let of = |micros: i64, command: Document| doc! { "opid": micros, "op": "command", "ns": "a.b", "microsecs_running": micros, "command": command };
    let current = doc! { "inprog": [of(10, doc! { "find": "x\u{1b}[2J" }), of(5_000_000, doc! { "aggregate": "y" }), of(9, doc! { "currentOp": 1 })] };
    let text = operations::longest(&current, 10);
    let lines: Vec<&str> = text.lines().skip(2).collect();
    assert_eq!(lines.len(), 2, "{text}");
    assert!(lines[0].contains("5.00") && lines[0].contains("aggregate"), "{text}");
    assert!(!text.contains('\u{1b}'), "a client's text must not steer the terminal");
}
