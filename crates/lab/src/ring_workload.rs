//! `plimsoll bench server-17561`: the workloads of SERVER-17561 on a capped collection of any server, lap after lap.
//!
//! Reports inserts per second by lap, latencies while the collection is filled for the first time and afterwards, the longest time without an insert, and, of a server that tells positions, how linear the collection lies
//! afterwards, beside the allocator of the ticket given the same sizes (`freelist_allocator`).

mod freelist_allocator;
mod sizes;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bson::spec::BinarySubtype;
use bson::{Binary, Document, doc};
use mongodb::{Client, Database};

use crate::error::LabError;
use crate::latency::Latencies;
use crate::layout::{Panel, fragmentation, from_server, svg};
use crate::random::Random;
use freelist_allocator::FreelistAllocator;
use sizes::Case;

const COLLECTION: &str = "ring";

/// The arguments of `plimsoll bench server-17561`.
#[derive(Debug, Clone, clap::Args)]
pub struct RingWorkloadArguments {
    /// Connection string of the server
    #[arg(long, value_name = "URI", default_value = "mongodb://127.0.0.1:27017")]
    target: String,
    /// Which workload of the ticket
    #[arg(long, value_enum, default_value = "small")]
    case: Case,
    /// Megabytes of the capped collection
    #[arg(long, value_name = "MB", default_value_t = 100)]
    size: u64,
    /// How many times the collection is filled
    #[arg(long, default_value_t = 20)]
    laps: u64,
    /// Connections that insert
    #[arg(long, default_value_t = 16)]
    connections: u64,
    /// Database; its collection `ring` is dropped first
    #[arg(long, default_value = "server_17561")]
    database: String,
    /// Draw the layout, and that of the ticket's allocator, here (.svg)
    #[arg(long, value_name = "FILE")]
    picture: Option<PathBuf>,
}

/// What the writers share.
struct Shared {
    database: Database,
    case: Case,
    ring_bytes: u64,
    total_bytes: u64,
    written: AtomicU64,
    number: AtomicU64,
    began: Instant,
    /// Milliseconds from the beginning to the last insert.
    last_insert: AtomicU64,
    longest_gap: AtomicU64,
    /// Inserts, and when a lap ended.
    laps: Laps,
}

/// Laps that have ended: how many inserts there were until then, and when that was.
#[derive(Default)]
struct Laps(Mutex<Vec<(u64, Duration)>>);

impl Laps {
    fn push(&self, inserts: u64, at: Duration) {
        if let Ok(mut laps) = self.0.lock() {
            laps.push((inserts, at));
        }
    }

    fn all(&self) -> Vec<(u64, Duration)> {
        self.0.lock().map(|laps| laps.clone()).unwrap_or_default()
    }
}

/// Runs it.
///
/// # Errors
/// When the server cannot be reached or refuses a command; when the picture cannot be written.
pub(crate) async fn run(arguments: RingWorkloadArguments) -> Result<ExitCode, LabError> {
    let client = connect(&arguments.target).await?;
    let database = client.database(&arguments.database);
    let ring_bytes = arguments.size << 20;
    database.run_command(doc! { "drop": COLLECTION }).await.ok();
    let create = doc! { "create": COLLECTION, "capped": true, "size": ring_bytes as i64 };
    database.run_command(create).await.map_err(LabError::command("create"))?;
    let shared = Arc::new(Shared {
        database: database.clone(),
        case: arguments.case,
        ring_bytes,
        total_bytes: ring_bytes * arguments.laps,
        written: AtomicU64::new(0),
        number: AtomicU64::new(0),
        began: Instant::now(),
        last_insert: AtomicU64::new(0),
        longest_gap: AtomicU64::new(0),
        laps: Laps::default(),
    });
    let writers: Vec<_> = (0..arguments.connections)
        .map(|number| tokio::spawn(insert(shared.clone(), Random::stream(17_561, number))))
        .collect();
    let mut all = Measured::new();
    for writer in writers {
        let measured = writer.await.map_err(|error| LabError::Worker(error.to_string()))??;
        all.filling.merge(&measured.filling);
        all.full.merge(&measured.full);
    }
    report(&arguments, &shared, &all).await?;
    Ok(ExitCode::SUCCESS)
}

async fn connect(target: &str) -> Result<Client, LabError> {
    Client::with_uri_str(target).await.map_err(|error| LabError::BadTarget(Box::new(error)))
}

/// Latencies of inserts into a collection that is not full yet, and into one that has to overtake.
struct Measured {
    filling: Latencies,
    full: Latencies,
}

impl Measured {
    fn new() -> Measured {
        Measured { filling: Latencies::new(), full: Latencies::new() }
    }
}

async fn insert(shared: Arc<Shared>, mut random: Random) -> Result<Measured, LabError> {
    let collection = shared.database.collection::<Document>(COLLECTION);
    let mut measured = Measured::new();
    loop {
        let before = shared.written.load(Ordering::Relaxed);
        if before >= shared.total_bytes {
            return Ok(measured);
        }
        let number = shared.number.fetch_add(1, Ordering::Relaxed);
        let progress = before as f64 / shared.total_bytes as f64;
        let bytes = shared.case.bytes(number, progress, shared.ring_bytes, &mut random);
        let payload = Binary { subtype: BinarySubtype::Generic, bytes: vec![0x5a; bytes.saturating_sub(40) as usize] };
        let began = Instant::now();
        let inserted = collection.insert_one(doc! { "_id": number as i64, "b": payload }).await;
        let latencies = if before < shared.ring_bytes { &mut measured.filling } else { &mut measured.full };
        latencies.record(began.elapsed());
        inserted.map_err(LabError::command("insert"))?;
        shared.note(number, bytes);
    }
}

impl Shared {
    fn note(&self, number: u64, bytes: u64) {
        let now = self.began.elapsed();
        let milliseconds = now.as_millis() as u64;
        let last = self.last_insert.fetch_max(milliseconds, Ordering::Relaxed);
        self.longest_gap.fetch_max(milliseconds.saturating_sub(last), Ordering::Relaxed);
        let before = self.written.fetch_add(bytes, Ordering::Relaxed);
        if before / self.ring_bytes != (before + bytes) / self.ring_bytes {
            self.laps.push(number + 1, now);
        }
    }
}

async fn report(arguments: &RingWorkloadArguments, shared: &Shared, measured: &Measured) -> Result<(), LabError> {
    let (mut last_inserts, mut last_time) = (0, Duration::ZERO);
    for (lap, (inserts, at)) in shared.laps.all().into_iter().enumerate() {
        let rate = inserts.saturating_sub(last_inserts) as f64 / (at - last_time).as_secs_f64();
        println!("lap {:>3}   {rate:>9.0} inserts/s", lap + 1);
        (last_inserts, last_time) = (inserts, at);
    }
    let seconds = shared.began.elapsed().as_secs_f64();
    let (filling, full) = (measured.filling.summary(), measured.full.summary());
    let count = filling.count + full.count;
    println!("inserts   {count} in {seconds:.1} s, {:.0}/s", count as f64 / seconds);
    for (name, summary) in [("filling", filling), ("full", full)] {
        println!(
            "{name:<10}p50 {:.0} us, p99 {:.0} us, p99.9 {:.0} us, max {:.0} us of {} inserts",
            summary.p50, summary.p99, summary.p99_9, summary.maximum, summary.count
        );
    }
    println!("longest time without an insert {} ms", shared.longest_gap.load(Ordering::Relaxed));
    let statistics = shared.database.run_command(doc! { "collStats": COLLECTION }).await;
    let statistics = statistics.map_err(LabError::command("collStats"))?;
    for name in ["count", "size", "maxSize", "storageSize", "extentCount", "deletedCount"] {
        if let Some(value) = statistics.get(name) {
            println!("{name:<10}{value}");
        }
    }
    let scan = time_scan(&shared.database).await?;
    if let (Ok(size), true) =
        (statistics.get_i64("size").or_else(|_| statistics.get_i32("size").map(i64::from)), scan > 0.0)
    {
        println!("natural scan {:.0} MB/s", size as f64 / 1e6 / scan);
    }
    let model = model(shared);
    let positions = from_server(&arguments.target, &format!("{}.{COLLECTION}", arguments.database)).await;
    let mut panels = Vec::new();
    match positions {
        Ok(positions) => panels.push(Panel { title: "this server".to_owned(), positions }),
        Err(error) => println!("the server does not tell positions: {error}"),
    }
    panels.push(Panel { title: "the allocator of SERVER-17561".to_owned(), positions: model.positions() });
    for panel in &panels {
        let figure = fragmentation(&panel.positions).map_or("none".to_owned(), |figure| format!("{figure:.2}"));
        println!("fragmentation of {}: {figure}", panel.title);
    }
    println!("the model deleted up to {} documents for one insert", model.deleted_at_once_max);
    match &arguments.picture {
        Some(path) => {
            std::fs::write(path, svg(&panels)).map_err(|source| LabError::Output { path: path.clone(), source })
        }
        None => Ok(()),
    }
}

/// Seconds of a scan of everything in natural order by the server alone; the best of five.
async fn time_scan(database: &Database) -> Result<f64, LabError> {
    let mut best = f64::INFINITY;
    for _ in 0..5 {
        let began = Instant::now();
        let nothing = doc! { "count": COLLECTION, "query": { "nowhere": 1 }, "hint": { "$natural": 1 } };
        database.run_command(nothing).await.map_err(LabError::command("count"))?;
        best = best.min(began.elapsed().as_secs_f64());
    }
    Ok(best)
}

/// The model after the same workload.
fn model(shared: &Shared) -> FreelistAllocator {
    let mut allocator = FreelistAllocator::new(shared.ring_bytes);
    let mut random = Random::stream(17_561, 0);
    let (mut written, mut number) = (0, 0);
    while written < shared.total_bytes {
        let progress = written as f64 / shared.total_bytes as f64;
        let bytes = shared.case.bytes(number, progress, shared.ring_bytes, &mut random);
        allocator.insert(bytes);
        written += bytes;
        number += 1;
    }
    allocator
}
