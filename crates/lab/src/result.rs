//! The result of a run, `result.json`: what `bench` writes and `compare`, `history` and the reports read.
//!
//! Fields are added, never renamed; a reader takes what it knows. Times are in seconds or microseconds as their names say,
//! series begin at the end of the phase's warm-up.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::error::LabError;
use crate::latency::{Latencies, LatencySummary};
use crate::target::TargetDescription;
use crate::throughput::{Gap, Second, ThroughputSource};

/// Name of the file in a result directory.
pub const RESULT_FILE: &str = "result.json";
/// Of this module.
pub const FORMAT: u32 = 1;

/// A run, complete or cut short.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct RunResult {
    /// [`FORMAT`] of the program that wrote it.
    pub format: u32,
    /// Name of the scenario.
    pub scenario: String,
    /// What the scenario says of itself.
    pub description: String,
    /// False when any phase stopped early: the figures are of what was done until then.
    pub complete: bool,
    /// Why it stopped.
    pub failure: Option<String>,
    /// UTC, RFC 3339.
    pub started_at: String,
    /// The scenario's, as they were set.
    pub parameters: BTreeMap<String, String>,
    /// The server.
    pub target: TargetDescription,
    /// Where the load generator ran.
    pub machine: Machine,
    /// Name and version of the load generator.
    pub client: String,
    /// Threads of the load generator, each with a driver client of its own.
    pub lanes: usize,
    /// In the order in which they ran.
    pub phases: Vec<PhaseResult>,
    /// Instructions and functions, where they were counted.
    pub instructions: Option<InstructionCount>,
    /// How the server was sampled meanwhile, or why there is no profile although one was asked for.
    pub profile: Option<String>,
}

/// The machine of the load generator.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Machine {
    /// Logical processors.
    pub processors: usize,
    /// As the system names it.
    pub processor: String,
    /// Of the whole machine.
    pub memory_bytes: u64,
    /// Kernel release.
    pub kernel: String,
}

/// One phase.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct PhaseResult {
    /// As the scenario names it.
    pub name: String,
    /// That sent operations at once.
    pub clients: u64,
    /// Prepared the next phase and is not compared.
    pub preparation: bool,
    /// False when it stopped early.
    pub complete: bool,
    /// Why.
    pub failure: Option<String>,
    /// Without the warm-up.
    pub duration_seconds: f64,
    /// Successful ones.
    pub operations: u64,
    /// Successful ones.
    pub operations_per_second: f64,
    /// Successful ones that were answered within a second of their intended start.
    pub goodput_per_second: f64,
    /// Successful ones that were answered within a second of being sent.
    pub answered_in_time_per_second: f64,
    /// Open loop: operations a second that were to be sent.
    pub offered_per_second: Option<f64>,
    /// Open loop: operations whose time came but that no client was free for before the end.
    pub unstarted: u64,
    /// Sent but not answered when the phase was given up.
    pub unanswered: u64,
    /// Documents read or changed.
    pub documents: u64,
    /// Documents read or changed.
    pub documents_per_second: f64,
    /// Failed operations by code or kind.
    pub errors: BTreeMap<String, u64>,
    /// Of those kinds of failures, the labels that all of a kind carried.
    pub error_labels: BTreeMap<String, BTreeSet<String>>,
    /// Of all successful operations, from their intended start, in microseconds.
    pub latency_microseconds: LatencySummary,
    /// Each kind of operation.
    pub steps: Vec<StepResult>,
    /// Longest time in which nothing was acknowledged or counted by the server.
    pub longest_gap: Gap,
    /// How `longest_gap` was seen.
    pub longest_gap_explanation: String,
    /// Whole seconds in which nothing was done.
    pub seconds_without_progress: usize,
    /// Where `seconds` comes from.
    pub throughput_source: ThroughputSource,
    /// In words.
    pub throughput_source_explanation: String,
    /// What `seconds` counts: `operations` or `documents`.
    pub throughput_unit: String,
    /// Each second.
    pub seconds: Vec<Second>,
    /// Latencies of each second, microseconds.
    pub second_latencies: SecondLatencies,
    /// Each 0.1 s.
    pub tenths: Tenths,
    /// CPU seconds of the server's process, when local.
    pub server_cpu_seconds: Option<f64>,
    /// Per document of a phase that changes several at once, otherwise per operation.
    pub server_cpu_microseconds_per_unit: Option<f64>,
    /// Each second's CPU time of the server in microseconds and resident bytes, when local.
    pub server_series: ServerSeries,
    /// Highest resident size of the server.
    pub server_resident_bytes_maximum: Option<u64>,
    /// What the load generator cost.
    pub overhead: Overhead,
    /// How much each number of `serverStatus` rose or fell over the phase, by its path.
    pub counters: BTreeMap<String, f64>,
    /// Bytes on disk at the end, as `dbStats` counts them.
    pub storage_bytes: Option<u64>,
    /// Monotonic clock of the machine at the start of the series, for joining with profiles.
    pub started_monotonic_seconds: f64,
}

/// One kind of operation of a phase.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct StepResult {
    /// As the scenario names it; with the group's name before it when there are several groups.
    pub name: String,
    /// Successful ones.
    pub operations: u64,
    /// Documents read or changed.
    pub documents: u64,
    /// Failed ones.
    pub errors: u64,
    /// From the intended start.
    pub latency_microseconds: LatencySummary,
    /// From when it was sent.
    pub service_microseconds: LatencySummary,
    /// HDR histogram of the latencies in nanoseconds: V2, compressed, base 64.
    pub histogram: String,
}

/// Percentiles of each second, microseconds; 0 where nothing was answered.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
#[allow(missing_docs)]
pub struct SecondLatencies {
    pub p50: Vec<f64>,
    pub p99: Vec<f64>,
    pub maximum: Vec<f64>,
    /// What they are taken from; not kept in files.
    #[serde(skip)]
    pub(crate) histograms: Vec<Latencies>,
    /// As those, without the operations from which the host of a virtual machine took processors away.
    #[serde(skip)]
    pub(crate) undisturbed: Vec<Latencies>,
}

/// What was acknowledged in each 0.1 s.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Tenths {
    /// Successful ones.
    pub operations: Vec<u64>,
    /// Of those.
    pub documents: Vec<u64>,
    /// Failed operations.
    pub errors: Vec<u64>,
    /// Longest latency answered, microseconds.
    pub latency_maximum: Vec<u64>,
}

/// The server's process by second.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
#[allow(missing_docs)]
pub struct ServerSeries {
    pub cpu_microseconds: Vec<u64>,
    pub resident_bytes: Vec<u64>,
    /// Of the server's cache, as it says itself, at the end of each second: parts of 1.
    pub cache_used_share: Vec<f64>,
    pub cache_dirty_share: Vec<f64>,
    /// How long a write is held back before it begins, where the server says it.
    pub held_back_microseconds: Vec<f64>,
}

/// What the load generator itself cost, so that nobody takes it for the server.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Overhead {
    /// CPU of the load generator.
    pub client_cpu_seconds: f64,
    /// Per operation, failed ones included.
    pub client_cpu_microseconds_per_operation: f64,
    /// Of all processors of the machine.
    pub client_share_of_machine: f64,
    /// Of all processors, what neither the load generator nor a server of this machine used: other work, which makes
    /// figures in seconds uncertain.
    pub others_share_of_machine: f64,
    /// Open loop: how much later than intended operations were sent though a client was free.
    pub start_delay_microseconds: LatencySummary,
    /// Latencies with what the load generator's own threads waited for a processor, where the phase's latencies leave that out.
    pub latency_with_own_waits_microseconds: LatencySummary,
    /// Latencies of the operations from which the host of a virtual machine took no processor away.
    pub latency_undisturbed_microseconds: LatencySummary,
    /// Of all processors of the machine, what the host of a virtual machine took.
    pub stolen_share_of_machine: f64,
    /// Highest resident size of the load generator.
    pub client_resident_bytes: u64,
}

/// Instructions of the server, by valgrind or the processor's counter.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct InstructionCount {
    /// `callgrind` or `perf`.
    pub counted_by: String,
    /// From the start of the process to its end.
    pub instructions: u64,
    /// Operations of all phases.
    pub operations: u64,
    /// Instructions of each function itself, without what it calls.
    pub functions: BTreeMap<String, u64>,
}

impl RunResult {
    /// Reads the result in a directory, or a result file.
    ///
    /// # Errors
    /// There is none, or it is not one.
    pub fn read(path: &Path) -> Result<Self, LabError> {
        let file = if path.is_dir() { path.join(RESULT_FILE) } else { path.to_owned() };
        let cannot = |reason: String| LabError::Input { path: file.clone(), reason };
        let text = fs::read_to_string(&file).map_err(|error| cannot(error.to_string()))?;
        let result: Self = serde_json::from_str(&text).map_err(|error| cannot(format!("not a result: {error}")))?;
        if result.format == 0 || result.format > FORMAT {
            return Err(cannot(format!("format {} of a result; this program knows up to {FORMAT}", result.format)));
        }
        Ok(result)
    }

    /// The phase of a name.
    pub fn phase(&self, name: &str) -> Option<&PhaseResult> {
        self.phases.iter().find(|phase| phase.name == name)
    }
}

impl PhaseResult {
    /// Latencies without the operations from which the host of a virtual machine took processors away, as long as they are the
    /// fewer: what the server's are when it has the machine. Otherwise, of all.
    pub(crate) fn undisturbed_latency(&self) -> &LatencySummary {
        self.overhead.latency_undisturbed_microseconds.most_of(&self.latency_microseconds)
    }
}

impl Machine {
    /// This one.
    pub(crate) fn this() -> Self {
        let first_value = |path: &str, name: &str| {
            let text = fs::read_to_string(path).unwrap_or_default();
            let line = text.lines().find(|line| line.starts_with(name)).and_then(|line| line.split_once(':'));
            line.map(|(_, value)| value.trim().to_owned()).unwrap_or_default()
        };
        let kibibytes = first_value("/proc/meminfo", "MemTotal");
        let kibibytes: u64 = kibibytes.split_whitespace().next().and_then(|number| number.parse().ok()).unwrap_or(0);
        Self {
            processors: std::thread::available_parallelism().map_or(1, usize::from),
            processor: first_value("/proc/cpuinfo", "model name"),
            memory_bytes: kibibytes * 1024,
            kernel: fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim().to_owned(),
        }
    }
}
