//! The figures that are compared, and what a difference in each must at least be to matter.

use super::statistics::Sample;
use crate::result::{PhaseResult, RunResult};

/// Which direction is good.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Better {
    Higher,
    Lower,
}

/// A kind of figure.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Kind {
    pub(crate) name: &'static str,
    pub(crate) unit: &'static str,
    pub(crate) better: Better,
    /// A smaller relative difference does not matter, however sure it is.
    pub(crate) relevant: f64,
    /// Standard deviation between runs of the same build, as a part of 1, assumed when only one run a side is there.
    pub(crate) run_noise: f64,
    /// Added before logarithms are taken: differences below it are nothing.
    pub(crate) offset: f64,
    /// Whether other work on the machine changes it.
    pub(crate) suffers_from_others: bool,
    pub(crate) take: fn(&PhaseResult) -> Option<Sample>,
}

/// How much more runs differ on a machine that is wholly taken by other work.
const NOISE_OF_OTHERS: f64 = 10.0;

/// All kinds, as they are listed.
pub(crate) const KINDS: &[Kind] = &[
    Kind {
        name: "throughput",
        unit: "/s",
        better: Better::Higher,
        relevant: 0.03,
        run_noise: 0.06,
        offset: 0.01,
        suffers_from_others: true,
        take: throughput,
    },
    Kind {
        name: "goodput",
        unit: "/s",
        better: Better::Higher,
        relevant: 0.03,
        run_noise: 0.06,
        offset: 0.01,
        suffers_from_others: true,
        take: goodput,
    },
    Kind {
        name: "server CPU",
        unit: "us",
        better: Better::Lower,
        relevant: 0.03,
        run_noise: 0.06,
        offset: 0.05,
        suffers_from_others: true,
        take: server_cpu,
    },
    Kind {
        name: "latency p50",
        unit: "us",
        better: Better::Lower,
        relevant: 0.05,
        run_noise: 0.1,
        offset: 20.0,
        suffers_from_others: true,
        take: p50,
    },
    Kind {
        name: "latency p99",
        unit: "us",
        better: Better::Lower,
        relevant: 0.1,
        run_noise: 0.25,
        offset: 200.0,
        suffers_from_others: true,
        take: p99,
    },
    Kind {
        name: "latency p99.9",
        unit: "us",
        better: Better::Lower,
        relevant: 0.2,
        run_noise: 0.5,
        offset: 1000.0,
        suffers_from_others: true,
        take: p99_9,
    },
    Kind {
        name: "longest gap",
        unit: "s",
        better: Better::Lower,
        relevant: 0.5,
        run_noise: 0.6,
        offset: 0.25,
        suffers_from_others: true,
        take: gap,
    },
    Kind {
        name: "failed operations",
        unit: "of 1",
        better: Better::Lower,
        relevant: 0.5,
        run_noise: 0.5,
        offset: 0.002,
        suffers_from_others: true,
        take: failed,
    },
    Kind {
        name: "memory",
        unit: "bytes",
        better: Better::Lower,
        relevant: 0.05,
        run_noise: 0.05,
        // What allocators and threads keep of earlier runs, when both sides are runs against one server.
        offset: 48e6,
        suffers_from_others: false,
        take: memory,
    },
    Kind {
        name: "storage",
        unit: "bytes",
        better: Better::Lower,
        relevant: 0.05,
        run_noise: 0.1,
        offset: 32e6,
        suffers_from_others: false,
        take: storage,
    },
];

impl Kind {
    /// Instructions of the server for an operation, where they were counted. Several clients at once change trees in an
    /// order of their own in every run, which one client does not.
    pub(crate) const fn instructions(several_clients: bool) -> Self {
        Self {
            name: "instructions",
            unit: "per operation",
            better: Better::Lower,
            relevant: 0.02,
            run_noise: if several_clients { 0.03 } else { 0.006 },
            offset: 1.0,
            suffers_from_others: false,
            take: |_| None,
        }
    }

    /// The standard deviation to assume between runs during which other work took a part of the machine.
    pub(crate) fn noise_beside(&self, others: f64) -> f64 {
        if self.suffers_from_others { self.run_noise * (1.0 + NOISE_OF_OTHERS * others) } else { self.run_noise }
    }

    /// What each run says of it in a phase; nothing when any run says nothing.
    pub(crate) fn samples(&self, runs: &[RunResult], phase: &str) -> Option<Vec<Sample>> {
        runs.iter().map(|run| (self.take)(run.phase(phase)?)).collect()
    }
}

/// Of whole seconds only: the rate of the last part of one is mostly noise.
fn throughput(phase: &PhaseResult) -> Option<Sample> {
    if phase.offered_per_second.is_some() {
        return None;
    }
    let value =
        if phase.throughput_unit == "documents" { phase.documents_per_second } else { phase.operations_per_second };
    let whole = phase.seconds.iter().filter(|second| second.length_seconds >= 1.0);
    Some(Sample { value, series: whole.map(|second| second.per_second).collect() })
}

/// Of open loops: in closed ones it is the throughput.
fn goodput(phase: &PhaseResult) -> Option<Sample> {
    phase.offered_per_second?;
    Some(Sample { value: phase.goodput_per_second, series: Vec::new() })
}

fn server_cpu(phase: &PhaseResult) -> Option<Sample> {
    // Ticks of 10 ms: below half a second they are too coarse.
    phase.server_cpu_seconds.filter(|seconds| *seconds >= 0.5)?;
    Some(Sample { value: phase.server_cpu_microseconds_per_unit?, series: Vec::new() })
}

fn p50(phase: &PhaseResult) -> Option<Sample> {
    let latency = &phase.latency_microseconds;
    (latency.count >= 100).then(|| Sample { value: latency.p50, series: whole(&phase.second_latencies.p50) })
}

fn p99(phase: &PhaseResult) -> Option<Sample> {
    let latency = &phase.latency_microseconds;
    (latency.count >= 1000).then(|| Sample { value: latency.p99, series: whole(&phase.second_latencies.p99) })
}

fn p99_9(phase: &PhaseResult) -> Option<Sample> {
    let latency = &phase.latency_microseconds;
    (latency.count >= 10_000).then(|| Sample { value: latency.p99_9, series: Vec::new() })
}

fn gap(phase: &PhaseResult) -> Option<Sample> {
    Some(Sample { value: phase.longest_gap.seconds, series: Vec::new() })
}

fn failed(phase: &PhaseResult) -> Option<Sample> {
    let failed: u64 = phase.errors.values().sum::<u64>() + phase.unstarted + phase.unanswered;
    let all = phase.operations + failed;
    (all > 0).then(|| Sample { value: failed as f64 / all as f64, series: Vec::new() })
}

fn memory(phase: &PhaseResult) -> Option<Sample> {
    Some(Sample { value: phase.server_resident_bytes_maximum? as f64, series: Vec::new() })
}

fn storage(phase: &PhaseResult) -> Option<Sample> {
    Some(Sample { value: phase.storage_bytes? as f64, series: Vec::new() })
}

fn whole(series: &[f64]) -> Vec<f64> {
    series.iter().take(series.len().saturating_sub(1)).copied().collect()
}
