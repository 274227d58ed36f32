//! What a document change costs below the wire: inserts, the founding update with ten indexes, and replay of it all.
//!
//! `cargo run --release -p transaction --example document_updates -- DIR [DOCUMENTS] [PASSES] [INDEXES]`
//!
//! Documents and indexes are those of SERVER-44991. Single-threaded; prints microseconds per document and the replay's rate.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::disallowed_methods, missing_docs)]

use std::sync::Arc;
use std::time::{Duration, Instant};

use bson::{RawDocument, rawdoc};
use collection::{IndexSpecification, Namespace, RecordId, Validation};
use platform::{RealDisk, SystemClock, SystemRandom};
use transaction::*;

fn open(directory: &str) -> Arc<Store> {
    let disk = Arc::new(RealDisk::new(directory).unwrap());
    let options = StoreOptions {
        engine: storage_engine::EngineOptions { cache_bytes: 1 << 30, ..Default::default() },
        checkpoint_log_bytes: u64::MAX,
        checkpoint_interval: Duration::from_secs(1 << 20),
        ..StoreOptions::default()
    };
    Store::open(disk, Arc::new(SystemClock::new()), Arc::new(SystemRandom), options).unwrap()
}

fn timed(what: &str, count: i32, work: impl FnOnce()) {
    let start = Instant::now();
    work();
    let micros = start.elapsed().as_secs_f64() * 1e6;
    println!("{what}: {count} in {:.2} s, {:.2} us each", micros / 1e6, micros / f64::from(count));
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let number = |at: usize, default: i32| arguments.get(at).map_or(default, |text| text.parse().unwrap());
    let directory = arguments.get(1).expect("a directory").clone();
    let (documents, passes, indexes) = (number(2, 100_000), number(3, 5), number(4, 10));
    let store = open(&directory);
    store.start_background().unwrap();
    let collection = store.collection_or_create(&Namespace::parse("bench.c").unwrap()).unwrap();
    let specifications = (0..indexes).map(|number| {
        let field = format!("b{number}");
        let mut key = rawdoc! { "x": 1, "a": 1, "_id": 1 };
        key.append(<&bson::raw::CStr>::try_from(field.as_str()).unwrap(), 1);
        IndexSpecification::parse(&rawdoc! { "key": key, "name": field }).unwrap()
    });
    store.create_indexes(&collection, specifications.collect()).unwrap();
    let mut context = WriteContext::new();
    let document = |id: i32, a: i32| {
        rawdoc! {
            "_id": id, "x": "xxxxxxxxxxxxxxxxxxxx", "a": a, "b0": 0, "b1": 0, "b2": 0, "b3": 0, "b4": 0, "b5": 0, "b6": 0,
            "b7": 0, "b8": 0, "b9": 0,
        }
    };
    timed("insert", documents, || {
        for id in 0..documents {
            store.insert_document(&mut context, &collection, &document(id, 0), Validation::Enforce).unwrap();
        }
    });
    timed("update", documents * passes, || {
        for pass in 1..=passes {
            for id in 0..documents {
                let increment = |old: &RawDocument, new: &mut Vec<u8>| -> Result<Decision> {
                    new.extend_from_slice(old.as_bytes());
                    // The value of `a` is behind `_id` (9 bytes), `x` (28) and its own type and name (3).
                    new[4 + 9 + 28 + 3..][..4].copy_from_slice(&pass.to_le_bytes());
                    Ok(Decision::Replace)
                };
                let record_id = RecordId(i64::from(id) + 2);
                let done = store.change_document(&mut context, &collection, record_id, Validation::Enforce, increment);
                assert!(matches!(done.unwrap(), ChangeOutcome::Replaced(_)));
            }
        }
    });
    oplog::Oplog::flush_step(store.oplog()).unwrap();
    let logged = oplog::Oplog::statistics(store.oplog());
    println!(
        "oplog: {} entries, {:.1} bytes each",
        logged.appended_entries,
        logged.appended_bytes as f64 / logged.appended_entries as f64
    );
    // As a kill would: nothing but the oplog and no checkpoint is left.
    std::mem::forget(store);
    let copy = format!("{directory}-replayed");
    std::fs::create_dir_all(&copy).unwrap();
    std::process::Command::new("cp").args(["-r", &format!("{directory}/oplog"), &copy]).status().unwrap();
    let start = Instant::now();
    let store = open(&copy);
    let (seconds, replayed) = (start.elapsed().as_secs_f64(), store.recovery());
    println!(
        "replay: {} entries in {seconds:.2} s, {:.1} us each, {:.0} MB/s",
        replayed.entries,
        seconds * 1e6 / replayed.entries as f64,
        replayed.bytes as f64 / 1e6 / seconds
    );
    assert_eq!(store.catalog().lookup("bench.c").unwrap().counts().documents(), documents as u64);
    store.shutdown().unwrap();
}
