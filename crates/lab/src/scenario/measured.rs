//! The figures of a finished phase, from what the lanes recorded and the observer saw.

use std::time::Duration;

use super::observer::{Observation, Observations, differences};
use super::plan::{Pace, PlannedPhase, Work};
use super::recorder::{Live, Record};
use crate::chart::grouped;
use crate::error::LabError;
use crate::latency::Latencies;
use crate::result::{Overhead, PhaseResult, SecondLatencies, ServerSeries, StepResult, Tenths};
use crate::server_process::{MachineSample, ProcessSample};
use crate::throughput::{self, Gap, Second, ThroughputSource};

/// What there is to say of a phase.
pub(super) struct Measured<'m> {
    pub(super) phase: &'m PlannedPhase,
    pub(super) record: Record,
    pub(super) live: &'m Live,
    pub(super) observations: &'m Observations,
    /// From the end of the warm-up.
    pub(super) length: Duration,
    pub(super) failure: Option<LabError>,
    /// Of this process, before and after.
    pub(super) client: (ProcessSample, ProcessSample),
    /// Of the machine, before and after.
    pub(super) machine: (MachineSample, MachineSample),
    pub(super) storage_bytes: Option<u64>,
    pub(super) started_monotonic_seconds: f64,
}

/// The series of a phase and where it comes from.
struct Throughput {
    source: ThroughputSource,
    unit: &'static str,
    seconds: Vec<Second>,
    gap: Gap,
    gap_explanation: &'static str,
}

impl Measured<'_> {
    pub(super) fn result(self) -> PhaseResult {
        let (operations, documents) = self.totals();
        // A phase that ended by itself lasted until its last success; one of a set time, or broken, until it was ended.
        let last = self.live.last_success().as_secs_f64();
        let ended_by_itself = self.failure.is_none() && self.phase.seconds.is_none() && last > 0.0;
        let duration = if ended_by_itself { last } else { self.length.as_secs_f64() }.max(1e-9);
        let throughput = self.throughput(operations, documents, duration);
        let units = if throughput.unit == "documents" { documents } else { operations };
        let server_cpu = cpu_seconds(&self.observations.seen);
        let per_unit = server_cpu.filter(|_| units > 0).map(|seconds| seconds * 1e6 / units as f64);
        let mut all = Latencies::new();
        self.record.steps.iter().for_each(|step| all.merge(&step.latencies));
        let whole_empty = |second: &&Second| second.length_seconds >= 1.0 && second.count < 0.5;
        PhaseResult {
            name: self.phase.name.clone(),
            clients: self.phase.groups.iter().map(|group| u64::from(group.threads)).sum(),
            preparation: self.phase.preparation,
            complete: self.failure.is_none(),
            failure: self.failure.as_ref().map(ToString::to_string),
            duration_seconds: duration,
            operations,
            operations_per_second: operations as f64 / duration,
            goodput_per_second: self.record.good as f64 / duration,
            answered_in_time_per_second: self.record.answered_in_time as f64 / duration,
            offered_per_second: self.offered(),
            unstarted: self.record.unstarted,
            unanswered: self.record.unanswered,
            documents,
            documents_per_second: documents as f64 / duration,
            errors: self.record.errors.clone(),
            error_labels: self.record.error_labels.clone(),
            latency_microseconds: all.summary(),
            steps: self.steps(),
            longest_gap: throughput.gap,
            longest_gap_explanation: throughput.gap_explanation.to_owned(),
            seconds_without_progress: throughput.seconds.iter().filter(whole_empty).count(),
            throughput_source: throughput.source,
            throughput_source_explanation: throughput.source.explanation().to_owned(),
            throughput_unit: throughput.unit.to_owned(),
            seconds: throughput.seconds,
            second_latencies: self.second_latencies(),
            tenths: self.tenths(),
            server_cpu_seconds: server_cpu,
            server_cpu_microseconds_per_unit: per_unit,
            server_series: server_series(&self.observations.seen),
            server_resident_bytes_maximum: resident_maximum(&self.observations.seen),
            overhead: self.overhead(operations),
            counters: match (&self.observations.first_counters, &self.observations.last_counters) {
                (Some(first), Some(last)) => differences(first, last),
                _ => Default::default(),
            },
            storage_bytes: self.storage_bytes,
            started_monotonic_seconds: self.started_monotonic_seconds,
        }
    }

    fn totals(&self) -> (u64, u64) {
        let steps = self.record.steps.iter();
        steps.fold((0, 0), |(operations, documents), step| (operations + step.operations, documents + step.documents))
    }

    /// Documents where commands change many at once, otherwise operations.
    fn throughput(&self, operations: u64, documents: u64, duration: f64) -> Throughput {
        let counts_documents = self.observations.counted_as.is_some() && documents > operations;
        if !counts_documents {
            let counts: Vec<u64> = self.record.tenths.iter().map(|tenth| tenth.operations).collect();
            return Throughput {
                source: ThroughputSource::Acknowledgements,
                unit: "operations",
                seconds: throughput::from_tenths(&counts, duration),
                gap: self.gap_of_acknowledgements(duration),
                gap_explanation: "between two successful replies of any client",
            };
        }
        let spans = &self.record.spans;
        let documents_counter = self.observations.samples(|seen| seen.documents_counter);
        let transactions_counter = self.observations.samples(|seen| seen.transactions_counter);
        let source = throughput::choose_source(&documents_counter, &transactions_counter, spans, documents);
        let chosen = match source {
            ThroughputSource::ServerDocumentCounter => documents_counter,
            ThroughputSource::ServerTransactionCounter => transactions_counter,
            ThroughputSource::SpreadOverCommands | ThroughputSource::Acknowledgements => {
                return Throughput {
                    source: ThroughputSource::SpreadOverCommands,
                    unit: "documents",
                    seconds: throughput::spread_over_commands(spans, duration),
                    gap: self.gap_of_acknowledgements(duration),
                    gap_explanation: "between two acknowledged commands of any client: commands that change many documents make it long by themselves",
                };
            }
        };
        Throughput {
            source,
            unit: "documents",
            seconds: throughput::from_counter(&chosen, documents, duration),
            gap: throughput::longest_gap_of_counter(&chosen, duration),
            gap_explanation: "between two samples that saw the server's counter rise; samples are 0.25 s apart, so 0.25-0.5 s means no gap",
        }
    }

    fn gap_of_acknowledgements(&self, duration: f64) -> Gap {
        let last = self.live.last_success().as_secs_f64();
        let tail = Gap { start: last, seconds: (duration - last).max(0.0) };
        if tail.seconds > self.record.longest_gap.seconds { tail } else { self.record.longest_gap }
    }

    fn offered(&self) -> Option<f64> {
        let rates = self.phase.groups.iter().filter_map(|group| match group.pace {
            Pace::Open { rate, .. } => Some(rate),
            Pace::Closed { .. } => None,
        });
        Some(rates.sum::<f64>()).filter(|rate| *rate > 0.0)
    }

    fn steps(&self) -> Vec<StepResult> {
        let several = self.phase.groups.len() > 1;
        let names = self.phase.groups.iter().flat_map(|group| {
            let names: Vec<String> = match &group.work {
                Work::Load { .. } => vec!["insertMany".to_owned()],
                Work::Mix { steps, .. } => steps.iter().map(|step| step.name.clone()).collect(),
            };
            names
                .into_iter()
                .map(|name| if several { format!("{}: {name}", group.name) } else { name })
                .collect::<Vec<_>>()
        });
        let steps = names.zip(&self.record.steps).map(|(name, step)| StepResult {
            name,
            operations: step.operations,
            documents: step.documents,
            errors: step.errors,
            latency_microseconds: step.latencies.summary(),
            service_microseconds: step.service.summary(),
            histogram: step.latencies.encoded(),
        });
        steps.collect()
    }

    fn second_latencies(&self) -> SecondLatencies {
        let summaries: Vec<_> = self.record.seconds.iter().map(Latencies::summary).collect();
        SecondLatencies {
            p50: summaries.iter().map(|summary| summary.p50).collect(),
            p99: summaries.iter().map(|summary| summary.p99).collect(),
            maximum: summaries.iter().map(|summary| summary.maximum).collect(),
            histograms: self.record.seconds.clone(),
            undisturbed: self.record.undisturbed_seconds.clone(),
        }
    }

    fn tenths(&self) -> Tenths {
        let tenths = &self.record.tenths;
        Tenths {
            operations: tenths.iter().map(|tenth| tenth.operations).collect(),
            documents: tenths.iter().map(|tenth| tenth.documents).collect(),
            errors: tenths.iter().map(|tenth| tenth.errors).collect(),
            latency_maximum: tenths.iter().map(|tenth| tenth.latency_maximum).collect(),
        }
    }

    /// The part of the machine that something else used.
    fn others(&self, client_microseconds: f64) -> f64 {
        let (before, after) = self.machine;
        let busy = after.busy_microseconds.saturating_sub(before.busy_microseconds) as f64;
        let server = cpu_seconds(&self.observations.seen).unwrap_or(0.0) * 1e6;
        ((busy - client_microseconds - server) / self.machine_microseconds()).clamp(0.0, 1.0)
    }

    /// The part of the machine that its host took.
    fn stolen(&self) -> f64 {
        let (before, after) = self.machine;
        after.stolen_microseconds.saturating_sub(before.stolen_microseconds) as f64 / self.machine_microseconds()
    }

    /// Of all its processors; at least one.
    fn machine_microseconds(&self) -> f64 {
        let (before, after) = self.machine;
        after.total_microseconds.saturating_sub(before.total_microseconds).max(1) as f64
    }

    fn overhead(&self, operations: u64) -> Overhead {
        let (before, after) = self.client;
        let microseconds = after.cpu_microseconds.saturating_sub(before.cpu_microseconds) as f64;
        let failed: u64 = self.record.errors.values().sum();
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        Overhead {
            client_cpu_seconds: microseconds / 1e6,
            client_cpu_microseconds_per_operation: microseconds / (operations + failed).max(1) as f64,
            client_share_of_machine: microseconds / 1e6 / self.length.as_secs_f64().max(1e-9) / processors as f64,
            others_share_of_machine: self.others(microseconds),
            start_delay_microseconds: self.record.start_delays.summary(),
            latency_with_own_waits_microseconds: self.record.with_own_waits.summary(),
            latency_undisturbed_microseconds: self.record.undisturbed.summary(),
            stolen_share_of_machine: self.stolen(),
            client_resident_bytes: after.resident_peak_bytes,
        }
    }
}

/// CPU between the first and the last look that had it.
fn cpu_seconds(seen: &[Observation]) -> Option<f64> {
    let mut used = seen.iter().filter_map(|seen| Some(seen.process?.cpu_microseconds));
    let first = used.next()?;
    Some(used.next_back()?.saturating_sub(first) as f64 / 1e6)
}

/// The largest resident size seen, or the process's own peak when that rose during the phase.
fn resident_maximum(seen: &[Observation]) -> Option<u64> {
    let sampled = seen.iter().filter_map(|seen| Some(seen.process?.resident_bytes)).max()?;
    let mut peaks = seen.iter().filter_map(|seen| Some(seen.process?.resident_peak_bytes));
    let first = peaks.next()?;
    let last = peaks.next_back().unwrap_or(first);
    Some(if last > first { last } else { sampled })
}

/// The process's CPU and memory at the start of each second.
fn server_series(seen: &[Observation]) -> ServerSeries {
    let mut series = ServerSeries::default();
    let mut before: Option<(usize, u64)> = None;
    for seen in seen {
        let Some(process) = seen.process else { continue };
        let second = seen.seconds as usize;
        let Some((last, cpu)) = before else {
            before = Some((second, process.cpu_microseconds));
            continue;
        };
        if second > last {
            let share = process.cpu_microseconds.saturating_sub(cpu) / (second - last) as u64;
            for _ in last..second {
                series.cpu_microseconds.push(share);
                series.resident_bytes.push(process.resident_bytes);
            }
            before = Some((second, process.cpu_microseconds));
        }
    }
    let by_second = |value: fn(&Observation) -> Option<f64>| last_of_each_second(seen, value);
    series.cache_used_share = by_second(|seen| Some(seen.cache?.used_share));
    series.cache_dirty_share = by_second(|seen| Some(seen.cache?.dirty_share));
    series.held_back_microseconds = by_second(|seen| seen.held_back_microseconds);
    series
}

/// What was seen last in each second; a second in which nothing was seen repeats the one before. Empty where nothing was.
fn last_of_each_second(seen: &[Observation], value: impl Fn(&Observation) -> Option<f64>) -> Vec<f64> {
    let mut series: Vec<f64> = Vec::new();
    for (second, value) in seen.iter().filter_map(|seen| Some((seen.seconds as usize, value(seen)?))) {
        let before = series.last().copied().unwrap_or(value);
        series.resize(series.len().max(second + 1), before);
        if let Some(last) = series.last_mut() {
            *last = value;
        }
    }
    series
}

impl PhaseResult {
    /// For the terminal.
    pub(crate) fn in_one_line(&self) -> String {
        let (count, rate) = match self.throughput_unit.as_str() {
            "documents" => (self.documents, self.documents_per_second),
            _ => (self.operations, self.operations_per_second),
        };
        let unit = self.throughput_unit.trim_end_matches('s');
        let mut line = format!(
            "{} {} in {:.1} s, {}/s",
            grouped(count as f64),
            self.throughput_unit,
            self.duration_seconds,
            grouped(rate)
        );
        if let Some(cpu) = self.server_cpu_microseconds_per_unit {
            line += &format!(", server CPU {cpu:.1} us/{unit}");
        }
        if let Some(bytes) = self.server_resident_bytes_maximum {
            line += &format!(", RSS up to {} MiB", bytes >> 20);
        }
        let latency = &self.latency_microseconds;
        line += &format!(
            "; latency p50 {} ms, p99 {} ms, longest {} ms; longest gap {:.2} s",
            grouped(latency.p50 / 1e3),
            grouped(latency.p99 / 1e3),
            grouped(latency.maximum / 1e3),
            self.longest_gap.seconds
        );
        let failed: u64 = self.errors.values().sum();
        if failed > 0 {
            line += &format!("; {} failed", grouped(failed as f64));
        }
        if self.unstarted > 0 {
            line += &format!("; {} were never started", grouped(self.unstarted as f64));
        }
        if let Some(failure) = &self.failure {
            line += &format!(" - STOPPED EARLY: {failure}");
        }
        line
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_look_of_a_second_counts_and_gaps_repeat_the_one_before() {
        let look = |seconds: f64, delay: Option<f64>| Observation {
            seconds,
            documents_counter: None,
            transactions_counter: None,
            process: None,
            cache: None,
            held_back_microseconds: delay,
            operations: 0,
            documents: 0,
        };
        let seen =
            [look(0.0, Some(1.0)), look(0.9, Some(2.0)), look(1.5, None), look(3.1, Some(5.0)), look(3.9, Some(6.0))];
        assert_eq!(last_of_each_second(&seen, |seen| seen.held_back_microseconds), [2.0, 2.0, 2.0, 6.0]);
        assert!(last_of_each_second(&seen[2..3], |seen| seen.held_back_microseconds).is_empty());
    }
}
