//! Looks at the server beside the workload, four times a second: its counters, its process, and whether it still lives.
//! Writes a JSON line a second and the live display.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use mongodb::Client;
use serde::Serialize;

use super::lane::{PhaseShared, lock};
use crate::chart::grouped;
use crate::output::JsonLines;
use crate::progress::Progress;
use crate::server_counters::{CacheFill, ServerStatus};
use crate::server_process::{ProcessSample, ServerProcess};
use crate::throughput::CounterSample;

/// Time between two looks at the server.
pub(super) const OBSERVATION_INTERVAL: Duration = Duration::from_millis(250);
/// A server that takes longer to answer `serverStatus` is observed without it.
const STATUS_TIMEOUT: Duration = Duration::from_secs(1);

/// Counters by path.
pub(super) type Counters = BTreeMap<String, f64>;

/// What is looked at.
pub(super) struct Observer {
    pub(super) client: Client,
    pub(super) process: Option<ServerProcess>,
    pub(super) lines: Option<JsonLines>,
}

/// What a phase's observer has seen.
pub(super) struct Observations {
    pub(super) phase: String,
    /// Which of `metrics.document` counts the phase's documents.
    pub(super) counted_as: Option<&'static str>,
    pub(super) seen: Vec<Observation>,
    pub(super) first_counters: Option<Counters>,
    pub(super) last_counters: Option<Counters>,
    line_counters: Option<Counters>,
    pub(super) progress: Option<Progress>,
}

/// A look at the server.
#[derive(Debug, Clone)]
pub(super) struct Observation {
    /// Since the series began; 0 in the warm-up.
    pub(super) seconds: f64,
    pub(super) documents_counter: Option<u64>,
    pub(super) transactions_counter: Option<u64>,
    pub(super) process: Option<ProcessSample>,
    pub(super) cache: Option<CacheFill>,
    pub(super) held_back_microseconds: Option<f64>,
    pub(super) operations: u64,
    pub(super) documents: u64,
}

/// One line of `series.jsonl`.
#[derive(Debug, Serialize)]
struct Line<'o> {
    phase: &'o str,
    seconds: f64,
    operations: u64,
    documents: u64,
    errors: u64,
    last_error: Option<String>,
    server_cpu_microseconds: Option<u64>,
    server_resident_bytes: Option<u64>,
    /// How much each number of serverStatus changed since the line before.
    counters: Counters,
}

impl Observations {
    pub(super) fn new(phase: String, counted_as: Option<&'static str>, progress: Option<Progress>) -> Self {
        Self {
            phase,
            counted_as,
            seen: Vec::new(),
            first_counters: None,
            last_counters: None,
            line_counters: None,
            progress,
        }
    }

    /// A counter's samples, for the throughput of each second.
    pub(super) fn samples(&self, counter: impl Fn(&Observation) -> Option<u64>) -> Vec<CounterSample> {
        let sample = |seen: &Observation| Some(CounterSample { at: seen.seconds, value: counter(seen)? });
        self.seen.iter().filter_map(sample).collect()
    }

    /// Whether the server's process was there and is gone.
    pub(super) fn process_has_ended(&self) -> bool {
        let last = self.seen.last().is_some_and(|last| last.process.is_none());
        last && self.seen.iter().any(|seen| seen.process.is_some())
    }

    /// Documents or operations of a second, and how many in all, as the live display shows them: by the server's own
    /// counter where it follows the phase, because one `updateMany` is acknowledged once for thousands.
    pub(super) fn live_rate(&self) -> (u64, f64) {
        let Some(now) = self.seen.last() else { return (0, 0.0) };
        let before = self.seen.iter().rev().find(|seen| now.seconds - seen.seconds >= 1.0).or(self.seen.first());
        let (Some(before), Some(first)) = (before, self.seen.first()) else { return (0, 0.0) };
        let length = (now.seconds - before.seconds).max(1e-3);
        let counter = |seen: &Observation| seen.documents_counter;
        if let (Some(value), Some(earlier), Some(start)) = (counter(now), counter(before), counter(first)) {
            let total = value.saturating_sub(start);
            if total > 0 && total >= now.documents / 10 * 9 {
                return (total, value.saturating_sub(earlier) as f64 / length);
            }
        }
        if self.counted_as.is_some() {
            return (now.documents, now.documents.saturating_sub(before.documents) as f64 / length);
        }
        (now.operations, now.operations.saturating_sub(before.operations) as f64 / length)
    }
}

impl Observer {
    /// Looks once.
    pub(super) async fn observe(&mut self, series_start: Instant, shared: &PhaseShared, into: &mut Observations) {
        let status = tokio::time::timeout(STATUS_TIMEOUT, ServerStatus::fetch(&self.client)).await;
        let status = status.ok().and_then(Result::ok);
        let counter = |path: &str| status.as_ref()?.numbers.get(path).map(|number| *number as u64);
        let seconds = Instant::now().checked_duration_since(series_start).map_or(0.0, |since| since.as_secs_f64());
        let load = |count: &std::sync::atomic::AtomicU64| count.load(std::sync::atomic::Ordering::Relaxed);
        let observation = Observation {
            seconds,
            documents_counter: into.counted_as.and_then(|name| counter(&format!("metrics.document.{name}"))),
            transactions_counter: counter("wiredTiger.transaction.transactions committed"),
            process: self.process.and_then(ServerProcess::sample),
            cache: status.as_ref().and_then(ServerStatus::cache),
            held_back_microseconds: status.as_ref().and_then(ServerStatus::held_back_microseconds),
            operations: load(&shared.live.operations),
            documents: load(&shared.live.documents),
        };
        let is_new_second = into.seen.last().is_none_or(|last| last.seconds.floor() < seconds.floor());
        into.seen.push(observation.clone());
        if let Some(status) = status {
            into.first_counters.get_or_insert_with(|| status.numbers.clone());
            into.last_counters = Some(status.numbers);
        }
        if is_new_second {
            self.write_line(&observation, shared, into);
        }
        show(&observation, shared, into);
    }

    fn write_line(&mut self, seen: &Observation, shared: &PhaseShared, into: &mut Observations) {
        let Some(lines) = &mut self.lines else { return };
        let now = into.last_counters.clone().unwrap_or_default();
        let counters = differences(into.line_counters.as_ref().unwrap_or(&now), &now);
        into.line_counters = Some(now);
        let line = Line {
            phase: &into.phase,
            seconds: seen.seconds,
            operations: seen.operations,
            documents: seen.documents,
            errors: shared.live.errors.load(std::sync::atomic::Ordering::Relaxed),
            last_error: lock(&shared.last_error).clone(),
            server_cpu_microseconds: seen.process.map(|process| process.cpu_microseconds),
            server_resident_bytes: seen.process.map(|process| process.resident_bytes),
            counters,
        };
        // The lines repeat what the result will hold; failing to write one must not end a run of hours.
        if let Err(error) = lines.write(&line) {
            eprintln!("{error}");
        }
    }
}

fn show(seen: &Observation, shared: &PhaseShared, into: &mut Observations) {
    let (done, rate) = into.live_rate();
    let errors = shared.live.errors.load(std::sync::atomic::Ordering::Relaxed);
    let mut detail = String::new();
    if let Some(process) = seen.process {
        detail = format!("RSS {} MiB", grouped((process.resident_bytes >> 20) as f64));
    }
    if errors > 0 {
        detail = format!("{detail} {} errors", grouped(errors as f64));
    }
    if let Some(progress) = &mut into.progress {
        progress.show(done, rate, &detail);
    }
}

/// What changed from one look to a later one.
pub(super) fn differences(before: &Counters, after: &Counters) -> Counters {
    let change = |(path, value): (&String, &f64)| {
        let difference = value - before.get(path)?;
        (difference != 0.0).then(|| (path.clone(), difference))
    };
    after.iter().filter_map(change).collect()
}
