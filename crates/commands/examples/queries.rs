//! What queries cost: the table of speed, in documents a second of CPU time of one thread.
//!
//! `cargo xtask bench queries`, or `cargo run --release -p commands --example queries [DOCUMENTS] [PART OF A NAME] [RUNS]`. A server
//! without a network, on a disk in memory, runs each command three times over documents of 250 bytes in its cache; the best is
//! printed, as Linux accounts for the thread's time, while each command has one thread. Then each runs three times with
//! a second thread for long scans, and the best by the clock on the wall is printed beside that of one thread: in
//! thousands a second, too.
#![allow(clippy::unwrap_used, clippy::expect_used)]

#[path = "../tests/generated/small_server.rs"]
#[allow(dead_code, reason = "the tests use the rest")]
mod small_server;

use std::time::{Duration, Instant};

use bson::{Document, doc};
use small_server::SmallServer;

/// `{_id, group, category, score, date, text}`, of some 250 bytes.
fn document(number: i64) -> Document {
    let scattered = number.wrapping_mul(7_919).rem_euclid(1_000_003);
    doc! {
        "_id": number, "three": number % 3, "thousand": scattered % 1_000, "unique": scattered, "score": (scattered % 100) as f64 / 4.0,
        "kind": format!("kind {}", scattered % 17), "when": bson::DateTime::from_millis(1_700_000_000_000 + number * 1_000),
        "text": "x".repeat(110),
    }
}

#[allow(clippy::disallowed_methods, reason = "the kernel's figures are in no data directory")]
fn cpu_time() -> Duration {
    let figures = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    Duration::from_nanos(figures.split(' ').next().and_then(|figure| figure.parse().ok()).unwrap_or(0))
}

/// When long scans get a second thread.
fn sharing(when: &str) -> Document {
    doc! { "setParameter": 1, "plimsollScanSharing": when, "$db": "admin" }
}

/// The least time of some runs of a command: of the thread, and by the clock.
#[allow(clippy::disallowed_methods, reason = "what is measured is time")]
fn best(server: &mut SmallServer, command: &Document, runs: u32) -> (Duration, Duration) {
    let mut best = (Duration::MAX, Duration::MAX);
    for _ in 0..runs {
        let (begun, began) = (cpu_time(), Instant::now());
        sound(server, command);
        best.1 = best.1.min(began.elapsed());
        best.0 = best.0.min(cpu_time().saturating_sub(begun));
    }
    best
}

fn sound(server: &mut SmallServer, command: &Document) -> Document {
    let reply = server.send(command).unwrap();
    assert!(reply.get_f64("ok").ok() == Some(1.0), "{command}: {reply}");
    reply
}

fn load(server: &mut SmallServer, documents: i64) {
    for first in (0..documents).step_by(1_000) {
        let batch: Vec<Document> = (first..documents.min(first + 1_000)).map(document).collect();
        sound(server, &doc! { "insert": "c", "documents": batch });
    }
    let index = |key: Document, name: &str| doc! { "key": key, "name": name };
    let indexes = [index(doc! { "unique": 1 }, "unique"), index(doc! { "thousand": 1, "score": 1 }, "thousand")];
    sound(server, &doc! { "createIndexes": "c", "indexes": indexes.to_vec() });
}

/// A line of the table: its name, the documents or keys that it is about, and its command.
type Line = (&'static str, i64, Document);

fn pipeline(stages: Vec<Document>) -> Document {
    doc! { "aggregate": "c", "pipeline": stages, "cursor": {}, "allowDiskUse": true }
}

/// One that reads the whole collection.
fn scanning(stages: Vec<Document>) -> Document {
    let mut command = pipeline(stages);
    command.insert("hint", doc! { "$natural": 1 });
    command
}

/// What reads all documents.
fn scans(documents: i64) -> Vec<Line> {
    let by = |path: &str| doc! { "$group": { "_id": path, "n": { "$sum": 1 }, "mean": { "$avg": "$score" } } };
    let counted = doc! { "count": "c", "query": { "three": 1, "score": { "$gt": 5 } }, "hint": { "$natural": 1 } };
    let computed = vec![
        doc! { "$project": { "sum": { "$add": ["$score", "$three"] }, "kind": 1 } },
        doc! { "$match": { "sum": { "$gt": 26.5 } } },
        doc! { "$count": "n" },
    ];
    let each = vec![doc! { "$group": { "_id": "$unique", "n": { "$sum": 1 } } }, doc! { "$limit": 1 }];
    let top = vec![doc! { "$sort": { "score": -1, "_id": 1 } }, doc! { "$limit": 10 }];
    let sorted = vec![doc! { "$sort": { "kind": 1, "score": 1 } }, doc! { "$skip": documents - 1 }];
    let groups = doc! { "$group": { "_id": "$three", "n": { "$sum": 1 } } };
    let facet = doc! { "$facet": { "groups": [groups], "count": [{ "$count": "n" }] } };
    vec![
        ("collection scan, two-field filter, count", documents, counted),
        ("$group by 3 values, $sum, $avg", documents, scanning(vec![by("$three")])),
        ("$group by 1,000 values, $sum, $avg", documents, scanning(vec![by("$thousand")])),
        ("$group with a group for each", documents, scanning(each)),
        ("computed $project, then $match", documents, scanning(computed)),
        ("top-10 sort without index", documents, scanning(top)),
        ("full sort", documents, scanning(sorted)),
        ("$facet of a group and a count", documents, scanning(vec![facet])),
        ("distinct of 17 values without index", documents, doc! { "distinct": "c", "key": "kind" }),
    ]
}

/// What reads indexes.
fn by_index(documents: i64) -> Vec<Line> {
    let range = doc! { "unique": { "$gte": 1_000_003 / 5 } };
    let (keys, joined) = (documents * 4 / 5, documents / 10);
    let counted = doc! { "count": "c", "query": range.clone() };
    let count_documents = vec![doc! { "$match": range }, doc! { "$group": { "_id": 1, "n": { "$sum": 1 } } }];
    let covered = vec![
        doc! { "$match": { "thousand": { "$gte": 0 } } },
        doc! { "$group": { "_id": "$thousand", "sum": { "$sum": "$score" } } },
    ];
    let values = vec![doc! { "$group": { "_id": "$thousand" } }, doc! { "$count": "n" }];
    let join = vec![
        doc! { "$match": { "_id": { "$lt": joined } } },
        doc! { "$lookup": { "from": "c", "localField": "unique", "foreignField": "_id", "as": "other" } },
        doc! { "$group": { "_id": { "$size": "$other" }, "n": { "$sum": 1 } } },
    ];
    vec![
        ("count by index range, keys", keys, counted),
        ("countDocuments by index range, keys", keys, pipeline(count_documents)),
        ("covered $group over an index", documents, pipeline(covered)),
        ("$group of only _id over an index", documents, pipeline(values)),
        ("indexed $lookup by _id", joined, pipeline(join)),
    ]
}

fn main() {
    let documents = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(1_000_000);
    let mut server = SmallServer::with_memory(2 << 30, 1 << 30);
    load(&mut server, documents);
    println!(
        "{documents} documents; thousands a second of one thread's time, and by the clock with one thread and two"
    );
    let part = std::env::args().nth(2).unwrap_or_default();
    let runs = std::env::args().nth(3).and_then(|text| text.parse().ok()).unwrap_or(3);
    let lines = scans(documents).into_iter().chain(by_index(documents));
    for (name, count, command) in lines.filter(|(name, ..)| name.contains(&part)) {
        let rate = |best: Duration| count as f64 / best.as_secs_f64() / 1_000.0;
        sound(&mut server, &sharing("never"));
        let (processor, alone) = best(&mut server, &command, runs);
        sound(&mut server, &sharing("whenSpare"));
        let (_, shared) = best(&mut server, &command, runs);
        println!("{name:45} {:10.0} {:10.0} {:10.0}", rate(processor), rate(alone), rate(shared));
    }
}
