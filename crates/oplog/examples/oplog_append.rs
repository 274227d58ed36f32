//! Measures the log on the disk that holds the current directory (or the one given): cost of an append, group commit, replay.
//!
//! `cargo run --release -p oplog --example oplog_append [directory]`

#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "a measurement, not the server")]

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use oplog::{LocalOplog, Oplog, OplogOptions};
use platform::{RealDisk, SystemClock};

fn open(directory: &PathBuf) -> LocalOplog {
    let disk = Arc::new(RealDisk::new(directory).unwrap());
    LocalOplog::open(disk, Arc::new(SystemClock::new()), OplogOptions::default()).unwrap()
}

fn with_flusher(oplog: &LocalOplog, body: impl FnOnce()) {
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| oplog.run_flusher(&stop));
        body();
        stop.store(true, Ordering::Release);
    });
}

fn append_without_waiting(oplog: &LocalOplog, payload: &[u8], entries: usize, buffered: &str) {
    let began = Instant::now();
    for _ in 0..entries {
        oplog.append(&mut |_, bytes| bytes.extend_from_slice(payload), &mut |_, _| {}).unwrap();
    }
    let nanoseconds = began.elapsed().as_nanos() as usize / entries;
    println!("append of {} bytes, {buffered}: {nanoseconds} ns", payload.len());
}

fn group_commit(oplog: &LocalOplog, threads: usize, time: Duration) {
    let before = oplog.statistics();
    let began = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                let payload = [7; 300];
                while began.elapsed() < time {
                    let appended =
                        oplog.append(&mut |_, bytes| bytes.extend_from_slice(&payload), &mut |_, _| {}).unwrap();
                    oplog.wait_durable(appended.end).unwrap();
                }
            });
        }
    });
    let after = oplog.statistics();
    let (entries, flushes) = (after.appended_entries - before.appended_entries, after.flushes - before.flushes);
    println!(
        "{threads} threads waiting for durability: {:.0} commits/s, {:.1} commits a flush, {:.0} us a flush",
        entries as f64 / time.as_secs_f64(),
        entries as f64 / flushes.max(1) as f64,
        (after.flush_time - before.flush_time).as_micros() as f64 / flushes.max(1) as f64,
    );
}

fn replay(directory: &PathBuf) {
    let began = Instant::now();
    let oplog = open(directory);
    println!("open: {:.1} ms", began.elapsed().as_secs_f64() * 1e3);
    let began = Instant::now();
    let mut reader = oplog.read_from(oplog.first_position()).unwrap();
    let (mut entries, mut bytes) = (0_u64, 0_u64);
    while let Some(entry) = reader.next_entry().unwrap() {
        entries += 1;
        bytes += entry.payload.len() as u64;
    }
    let seconds = began.elapsed().as_secs_f64();
    println!("replay: {entries} entries, {:.2} GiB/s", bytes as f64 / seconds / (1 << 30) as f64);
}

fn main() {
    let parent = std::env::args().nth(1).map_or_else(|| PathBuf::from("."), PathBuf::from);
    let directory = parent.join("oplog-append-measurement");
    let oplog = open(&directory);
    for (bytes, entries) in [(100, 30_000), (1_000, 10_000), (10_000, 1_200)] {
        // Under the bound of the buffer, so that this is the cost of the append alone; the first round warms it up.
        for round in ["cold buffer", "warm buffer", "warm buffer"] {
            append_without_waiting(&oplog, &vec![7; bytes], entries, round);
            oplog.flush_step().unwrap();
        }
    }
    with_flusher(&oplog, || append_without_waiting(&oplog, &[7; 1_000], 1 << 20, "flusher writing beside"));
    for threads in [1, 4, 16, 64] {
        with_flusher(&oplog, || group_commit(&oplog, threads, Duration::from_secs(2)));
    }
    drop(oplog);
    replay(&directory);
    std::fs::remove_dir_all(&directory).unwrap();
}
