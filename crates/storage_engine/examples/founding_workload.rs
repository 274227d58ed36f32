//! The SERVER-44991 workload at key-value level, on the engine alone: for comparison with other engines and for profiles.
//!
//! `cargo run --release -p storage_engine --example founding_workload -- --dir DIR --docs 100000 --cache-mb 128`
//!
//! Collections of documents of 177 bytes, one `_id` index and ten indexes with keys of the shape `{x, a, _id, bN}`. Each
//! update reads a record, writes it, and removes and inserts a key in each index, in one commit. One JSON line a phase;
//! with `WINDOWS=DIR` in the environment, the operations of each 0.1 s in `DIR/PHASE.windows`.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::disallowed_methods, missing_docs)]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use platform::{RealDisk, SystemClock, Timestamp};
use storage_engine::{Batch, CheckpointMark, Engine, EngineOptions, TreeId};

struct Arguments {
    directory: String,
    collections: usize,
    documents: u64,
    indexes: usize,
    cache_mb: usize,
    passes: u64,
    random_s: u64,
    random_cache_mb: usize,
    checkpoint_ms: u64,
}

impl Arguments {
    fn parse() -> Self {
        let mut parsed = Self {
            directory: "data/founding-workload".into(),
            collections: 5,
            documents: 100_000,
            indexes: 10,
            cache_mb: 128,
            passes: 20,
            random_s: 0,
            random_cache_mb: 64,
            checkpoint_ms: 60_000,
        };
        let mut words = std::env::args().skip(1);
        while let (Some(name), Some(value)) = (words.next(), words.next()) {
            match name.as_str() {
                "--dir" => parsed.directory = value,
                "--collections" => parsed.collections = value.parse().unwrap(),
                "--docs" => parsed.documents = value.parse().unwrap(),
                "--indexes" => parsed.indexes = value.parse().unwrap(),
                "--cache-mb" => parsed.cache_mb = value.parse().unwrap(),
                "--passes" => parsed.passes = value.parse().unwrap(),
                "--random-cache-mb" => parsed.random_cache_mb = value.parse().unwrap(),
                "--checkpoint-ms" => parsed.checkpoint_ms = value.parse().unwrap(),
                "--random-s" => parsed.random_s = value.parse().unwrap(),
                _ => panic!("unknown option {name}"),
            }
        }
        parsed
    }
}

fn put_number(key: &mut Vec<u8>, number: u64) {
    if number == 0 {
        return key.push(0x29);
    }
    let length = (64 - (number << 1).leading_zeros() as usize).div_ceil(8);
    key.push(0x2a + length as u8);
    key.extend_from_slice(&(number << 1).to_be_bytes()[8 - length..]);
}

fn index_key(key: &mut Vec<u8>, a: u64, id: u64) {
    key.clear();
    key.push(0x3c);
    key.extend_from_slice(&[b'x'; 20]);
    key.push(0);
    put_number(key, a);
    put_number(key, id);
    put_number(key, 0);
    key.push(4);
    key.extend_from_slice(&(id as u32 + 1).to_be_bytes());
}

const A_OFFSET: usize = 48;

fn record(id: u64) -> Vec<u8> {
    let mut bytes = vec![0; 4];
    let double = |bytes: &mut Vec<u8>, name: &str, value: f64| {
        bytes.push(1);
        bytes.extend_from_slice(name.as_bytes());
        bytes.push(0);
        bytes.extend_from_slice(&value.to_le_bytes());
    };
    double(&mut bytes, "_id", id as f64);
    bytes.extend_from_slice(b"\x02x\0\x15\0\0\0xxxxxxxxxxxxxxxxxxxx\0");
    double(&mut bytes, "a", 0.0);
    for number in 0..10 {
        double(&mut bytes, &format!("b{number}"), 0.0);
    }
    bytes.push(0);
    let length = bytes.len() as u32;
    bytes[..4].copy_from_slice(&length.to_le_bytes());
    bytes
}

struct Collection {
    records: TreeId,
    id_index: TreeId,
    indexes: Vec<TreeId>,
}

struct Run {
    engine: Arc<Engine>,
    collections: Vec<Collection>,
    clock: AtomicU64,
    in_flight: parking_lot::Mutex<std::collections::BTreeSet<u64>>,
    operations: AtomicU64,
}

impl Run {
    fn commit(&self, batch: &Batch) {
        let pause = self.engine.pace();
        if !pause.is_zero() {
            std::thread::sleep(pause);
        }
        let timestamp = {
            let mut in_flight = self.in_flight.lock();
            let timestamp = self.clock.fetch_add(1, Ordering::Relaxed) + 1;
            in_flight.insert(timestamp);
            timestamp
        };
        self.engine.apply(batch, Timestamp(timestamp)).unwrap();
        let mut in_flight = self.in_flight.lock();
        in_flight.remove(&timestamp);
        let visible = in_flight.first().map_or(self.clock.load(Ordering::Relaxed), |first| first - 1);
        self.engine.set_visible(Timestamp(visible));
    }

    fn load(&self, collection: &Collection, documents: u64) {
        let (mut batch, mut key) = (Batch::new(), Vec::new());
        for id in 0..documents {
            batch.clear();
            batch.put(collection.records, &(id + 1).to_be_bytes(), &record(id));
            key.clear();
            put_number(&mut key, id);
            key.push(4);
            key.extend_from_slice(&(id as u32 + 1).to_be_bytes());
            batch.blind_insert(collection.id_index, &key, &[]);
            index_key(&mut key, 0, id);
            for index in &collection.indexes {
                batch.blind_insert(*index, &key, &[0x55]);
            }
            self.commit(&batch);
            self.operations.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn update(&self, collection: &Collection, id: u64, batch: &mut Batch, key: &mut Vec<u8>, value: &mut Vec<u8>) {
        let record_key = (id + 1).to_be_bytes();
        self.engine.get_latest(collection.records, &record_key, value).unwrap().expect("the record");
        let a = f64::from_le_bytes(value[A_OFFSET..A_OFFSET + 8].try_into().unwrap()) as u64;
        value[A_OFFSET..A_OFFSET + 8].copy_from_slice(&((a + 1) as f64).to_le_bytes());
        batch.clear();
        batch.put(collection.records, &record_key, value);
        index_key(key, a, id);
        for index in &collection.indexes {
            batch.blind_remove(*index, key);
        }
        index_key(key, a + 1, id);
        for index in &collection.indexes {
            batch.blind_insert(*index, key, &[0x55]);
        }
        self.commit(batch);
        self.operations.fetch_add(1, Ordering::Relaxed);
    }

    fn update_pass(&self, collection: &Collection, remainder: u64) {
        let snapshot = self.engine.begin_snapshot();
        let mut cursor = self.engine.cursor(&snapshot, collection.id_index);
        let (mut batch, mut key, mut value) = (Batch::new(), Vec::new(), Vec::new());
        while cursor.next().unwrap() {
            let bytes = cursor.key();
            let length = usize::from(bytes[0].saturating_sub(0x2a)).min(8);
            let id = bytes[1..=length].iter().fold(0u64, |id, byte| id << 8 | u64::from(*byte)) >> 1;
            if id % 100 == remainder {
                self.update(collection, id, &mut batch, &mut key, &mut value);
            }
        }
    }
}

fn cpu_seconds() -> f64 {
    let text = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<&str> = text.rsplit(')').next().unwrap().split_whitespace().collect();
    (fields[11].parse::<f64>().unwrap() + fields[12].parse::<f64>().unwrap()) / 100.0
}

fn rss_mb() -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = text.lines().find(|line| line.starts_with("VmRSS")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() / 1024
}

fn phase(name: &str, run: &Run, work: impl Fn(&Run, usize) + Send + Sync) {
    run.operations.store(0, Ordering::Relaxed);
    let (started, cpu, before) = (Instant::now(), cpu_seconds(), run.engine.statistics().unwrap());
    let stop = AtomicBool::new(false);
    let windows = std::thread::scope(|scope| {
        let sampler = scope.spawn(|| {
            let (mut windows, mut last) = (Vec::new(), 0);
            while !stop.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(100));
                let now = run.operations.load(Ordering::Relaxed);
                windows.push(now - last);
                last = now;
            }
            windows
        });
        std::thread::scope(|workers| {
            for worker in 0..run.collections.len() {
                let work = &work;
                workers.spawn(move || work(run, worker));
            }
        });
        stop.store(true, Ordering::Relaxed);
        sampler.join().unwrap()
    });
    let operations = run.operations.load(Ordering::Relaxed).max(1);
    let (seconds, cpu) = (started.elapsed().as_secs_f64(), cpu_seconds() - cpu);
    let after = run.engine.statistics().unwrap();
    if let Ok(directory) = std::env::var("WINDOWS") {
        let lines: Vec<String> = windows.iter().map(ToString::to_string).collect();
        std::fs::write(format!("{directory}/{name}.windows"), lines.join("\n")).unwrap();
    }
    let mut sorted = windows.clone();
    sorted.sort_unstable();
    let median = sorted.get(sorted.len() / 2).copied().unwrap_or(0);
    println!(
        "{{\"phase\":\"{name}\",\"operations\":{operations},\"seconds\":{seconds:.1},\"per_s\":{:.0},\"cpu_us\":{:.1},\
         \"window_median\":{median},\"window_min\":{},\"rss_mb\":{},\"disk_mb\":{},\"live_mb\":{},\"pages_read\":{},\"pages_written\":{},\
         \"written_mb\":{},\"moved_mb\":{},\"checkpoints\":{},\"keys_materialised\":{},\"client_page_writes\":{}}}",
        operations as f64 / seconds,
        cpu * 1e6 / operations as f64,
        sorted.first().copied().unwrap_or(0),
        rss_mb(),
        after.store.backed_bytes >> 20,
        after.store.live_bytes >> 20,
        after.pages_read - before.pages_read,
        after.pages_written - before.pages_written,
        (after.store.bytes_written - before.store.bytes_written) >> 20,
        (after.store.bytes_relocated - before.store.bytes_relocated) >> 20,
        after.checkpoints - before.checkpoints,
        after.keys_materialised_writing_pages,
        after.client_page_writes,
    );
}

fn open(arguments: &Arguments, cache_mb: usize) -> Arc<Engine> {
    let disk = Arc::new(RealDisk::new(&arguments.directory).unwrap());
    let options = EngineOptions { cache_bytes: cache_mb << 20, ..EngineOptions::default() };
    let engine = Engine::open(disk, Arc::new(SystemClock::new()), options).unwrap();
    engine.start_background().unwrap();
    engine
}

fn checkpoint(engine: &Engine) {
    let mark = CheckpointMark { oplog_position: 0, timestamp: engine.visible(), oplog_end: 0 };
    engine.checkpoint(mark, || Ok(0)).unwrap();
}

fn spread_checkpoint(engine: &Engine, duration: Duration, stopped: &AtomicBool) {
    let mark = CheckpointMark { oplog_position: 0, oplog_end: 0, timestamp: engine.visible() };
    let mut begun = engine.begin_checkpoint(mark).unwrap();
    while engine.prepare_checkpoint_step(&mut begun).unwrap() {}
    engine.freeze_checkpoint(&mut begun).unwrap();
    while engine.checkpoint_step(&mut begun).unwrap() {
        let hurry = || stopped.load(Ordering::Relaxed);
        engine.pause_checkpoint(&begun, duration, &hurry).unwrap();
    }
    engine.publish_checkpoint(&mut begun, 0).unwrap();
}

/// Makes checkpoints every minute until told to stop.
struct Checkpointer {
    stop: Arc<AtomicBool>,
    thread: std::thread::JoinHandle<()>,
}

impl Checkpointer {
    fn start(engine: &Arc<Engine>, interval: Duration) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let (engine, stopped) = (engine.clone(), stop.clone());
        let thread = std::thread::spawn(move || {
            storage_engine::mark_background_thread();
            let mut last = Instant::now();
            while !stopped.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(50));
                let is_due = last.elapsed() > interval;
                if is_due || engine.space_wants_checkpoint(last.elapsed(), is_due) {
                    last = Instant::now();
                    spread_checkpoint(&engine, interval / 6, &stopped);
                }
            }
        });
        Self { stop, thread }
    }

    fn stop(self) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap();
    }
}

fn random_updates(run: &Run, worker: usize, documents: u64, end: Instant) {
    let mut random = worker as u64 + 88_172_645_463_325_252;
    let (mut batch, mut key, mut value) = (Batch::new(), Vec::new(), Vec::new());
    while Instant::now() < end {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        // Two threads must not change one document at a time: there are no record locks here.
        run.update(&run.collections[worker], random % documents, &mut batch, &mut key, &mut value);
    }
}

fn main() {
    let arguments = Arguments::parse();
    let _ = std::fs::remove_dir_all(&arguments.directory);
    std::fs::create_dir_all(&arguments.directory).unwrap();
    let engine = open(&arguments, arguments.cache_mb);
    let make = |_| Collection {
        records: engine.create_tree().unwrap(),
        id_index: engine.create_tree().unwrap(),
        indexes: (0..arguments.indexes).map(|_| engine.create_tree().unwrap()).collect(),
    };
    let collections = (0..arguments.collections).map(make).collect();
    let mut run = Run {
        engine,
        collections,
        clock: AtomicU64::new(0),
        in_flight: Default::default(),
        operations: AtomicU64::new(0),
    };
    let interval = Duration::from_millis(arguments.checkpoint_ms);
    let checkpointer = Checkpointer::start(&run.engine, interval);
    phase("load", &run, |run, worker| run.load(&run.collections[worker], arguments.documents));
    phase("update", &run, |run, worker| {
        (0..arguments.passes).for_each(|pass| run.update_pass(&run.collections[worker], pass));
    });
    checkpointer.stop();
    verify(&run, arguments.documents, "updated");
    if arguments.random_s > 0 {
        checkpoint(&run.engine);
        run.engine.stop_background();
        // The old engine's memory and files go before the new one opens.
        let placeholder = Engine::open(
            Arc::new(platform::SimulatedDisk::new(0)),
            Arc::new(SystemClock::new()),
            EngineOptions { cache_bytes: 0, ..EngineOptions::default() },
        );
        drop(std::mem::replace(&mut run.engine, placeholder.unwrap()));
        run.engine = open(&arguments, arguments.random_cache_mb);
        verify(&run, arguments.documents, "opened again");
        let checkpointer = Checkpointer::start(&run.engine, interval);
        let end = Instant::now() + Duration::from_secs(arguments.random_s);
        phase("random", &run, |run, worker| random_updates(run, worker, arguments.documents, end));
        checkpointer.stop();
    }
    run.engine.stop_background();
    verify(&run, arguments.documents, "at the end");
}

fn verify(run: &Run, documents: u64, when: &str) {
    for (number, collection) in run.collections.iter().enumerate() {
        for (place, tree) in [collection.records, collection.id_index].iter().chain(&collection.indexes).enumerate() {
            let report = run.engine.verify_tree(*tree).unwrap();
            let (entries, errors) = (report.entries, &report.errors);
            let is_whole = report.is_ok() && entries == documents;
            assert!(is_whole, "{when}: collection {number}, tree {place}: {entries} entries, {errors:?}");
        }
    }
    println!("verified: {when}");
}
