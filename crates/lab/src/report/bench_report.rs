//! The report of a run.

use super::page::{Page, Tone};
use crate::chart::{LineChart, Series, grouped};
use crate::profile::stalls;
use crate::result::{PhaseResult, RunResult};

/// Counters that are listed.
const COUNTERS_LISTED: usize = 60;

/// `pictures` are flame graphs with their captions.
pub(crate) fn bench(result: &RunResult, pictures: &[(String, String)]) -> String {
    let mut page = Page::new(&format!("{} against {}", result.scenario, result.target.in_one_line()));
    page.faint(&result.description);
    match &result.failure {
        Some(failure) => page.banner(Tone::Bad, &format!("Partial results: {failure}.")),
        None => page.banner(Tone::Neutral, "The run reached its end; every reply was as it must be."),
    }
    let machine = &result.machine;
    page.faint(&format!(
        "{}; {} processors ({}), {} MiB of memory, Linux {}; load generator: {}, {} threads",
        result.started_at,
        machine.processors,
        machine.processor,
        grouped((machine.memory_bytes >> 20) as f64),
        machine.kernel,
        result.client,
        result.lanes
    ));
    let parameters: Vec<String> = result.parameters.iter().map(|(name, value)| format!("{name} = {value}")).collect();
    if !parameters.is_empty() {
        page.faint(&format!("Parameters: {}", parameters.join(", ")));
    }
    for phase in result.phases.iter().filter(|phase| !phase.preparation || !phase.complete) {
        page.heading(&format!("Phase {}", phase.name));
        write_phase(&mut page, phase);
    }
    if let (Some(profile), []) = (&result.profile, pictures) {
        page.faint(&format!("A profile was asked for: {profile}."));
    }
    for (caption, svg) in pictures {
        page.flame_graph(caption, svg);
    }
    for phase in result.phases.iter().filter(|phase| phase.preparation && phase.complete) {
        page.folded(&format!("Preparation: phase {}, {}", phase.name, phase.in_one_line()), |page| {
            write_phase(page, phase)
        });
    }
    page.finish(result)
}

fn write_phase(page: &mut Page, phase: &PhaseResult) {
    if let Some(failure) = &phase.failure {
        page.banner(Tone::Bad, &format!("Stopped early: {failure}. The figures are of what was done until then."));
    }
    page.figures(&key_figures(phase));
    let stalls = stalls::windows(phase);
    let middle = |second: &crate::throughput::Second| {
        (f64::from(second.second) + second.length_seconds / 2.0, second.per_second)
    };
    let throughput = LineChart {
        title: "Throughput by second",
        unit: &format!("{}/s", phase.throughput_unit),
        across: "seconds",
        series: vec![Series { name: "throughput", points: phase.seconds.iter().map(middle).collect() }],
        shaded: stalls.clone(),
        shaded_meaning: "stalls (below a fifth of the usual)",
        logarithmic: false,
    };
    page.raw(&throughput.html());
    if !phase.seconds.is_empty() {
        page.faint(&format!(
            "From {}. Longest gap {:.2} s, {}.",
            phase.throughput_source_explanation, phase.longest_gap.seconds, phase.longest_gap_explanation
        ));
    }
    write_latencies(page, phase, stalls);
    write_server(page, phase);
    write_steps(page, phase);
    write_overhead(page, phase);
    write_counters(page, phase);
}

fn key_figures(phase: &PhaseResult) -> Vec<(String, String)> {
    let latency = &phase.latency_microseconds;
    let mut figures = vec![
        (format!("{}/s", grouped(phase.operations_per_second)), "operations".to_owned()),
        (format!("{}/s", grouped(phase.goodput_per_second)), "goodput (within 1 s)".to_owned()),
        (format!("{}/s", grouped(phase.documents_per_second)), "documents".to_owned()),
        (milliseconds(latency.p50), "latency p50".to_owned()),
        (milliseconds(latency.p99), "latency p99".to_owned()),
        (milliseconds(latency.p99_9), "latency p99.9".to_owned()),
        (milliseconds(latency.maximum), "longest latency".to_owned()),
    ];
    if !phase.longest_gap_explanation.is_empty() {
        figures.push((format!("{:.2} s", phase.longest_gap.seconds), "longest gap".to_owned()));
    }
    if let Some(cpu) = phase.server_cpu_microseconds_per_unit {
        figures.push((format!("{cpu:.1} us"), format!("server CPU / {}", phase.throughput_unit.trim_end_matches('s'))));
    }
    if let Some(bytes) = phase.server_resident_bytes_maximum {
        figures.push((format!("{} MiB", grouped((bytes >> 20) as f64)), "server memory, highest".to_owned()));
    }
    if let Some(bytes) = phase.storage_bytes {
        figures.push((format!("{} MiB", grouped(bytes as f64 / 1_048_576.0)), "storage at the end".to_owned()));
    }
    if let Some(offered) = phase.offered_per_second {
        figures.push((format!("{}/s", grouped(offered)), "offered".to_owned()));
        figures.push((grouped(phase.unstarted as f64), "never started".to_owned()));
    }
    let failed: u64 = phase.errors.values().sum();
    figures.push((grouped(failed as f64), "failed operations".to_owned()));
    figures
}

fn milliseconds(microseconds: f64) -> String {
    format!("{} ms", grouped(microseconds / 1e3))
}

fn write_latencies(page: &mut Page, phase: &PhaseResult, shaded: Vec<(f64, f64)>) {
    let by_second = |values: &[f64]| -> Vec<(f64, f64)> {
        let points = values.iter().enumerate().filter(|(_, value)| **value > 0.0);
        points.map(|(second, value)| (second as f64 + 0.5, value / 1e3)).collect()
    };
    let latencies = &phase.second_latencies;
    let chart = LineChart {
        title: "Latency by second, from the intended start",
        unit: "ms, by powers of ten",
        across: "seconds",
        series: vec![
            Series { name: "p50", points: by_second(&latencies.p50) },
            Series { name: "p99", points: by_second(&latencies.p99) },
            Series { name: "longest", points: by_second(&latencies.maximum) },
        ],
        shaded,
        shaded_meaning: "stalls",
        logarithmic: true,
    };
    page.raw(&chart.html());
    if phase.tenths.operations.is_empty() {
        return;
    }
    page.folded("Operations by 0.1 s", |page| {
        let points = phase.tenths.operations.iter().enumerate();
        let chart = LineChart {
            title: "Operations in each 0.1 s",
            unit: "operations",
            across: "seconds",
            series: vec![Series {
                name: "operations",
                points: points.map(|(tenth, count)| (tenth as f64 / 10.0, *count as f64)).collect(),
            }],
            shaded: Vec::new(),
            shaded_meaning: "",
            logarithmic: false,
        };
        page.raw(&chart.html());
    });
}

fn write_server(page: &mut Page, phase: &PhaseResult) {
    if phase.server_series.cpu_microseconds.is_empty() {
        return;
    }
    let by_second = |values: &[u64], unit: f64| -> Vec<(f64, f64)> {
        values.iter().enumerate().map(|(second, value)| (second as f64 + 0.5, *value as f64 / unit)).collect()
    };
    for (title, unit, points) in [
        ("CPU of the server", "processors", by_second(&phase.server_series.cpu_microseconds, 1e6)),
        ("Memory of the server", "MiB resident", by_second(&phase.server_series.resident_bytes, 1_048_576.0)),
    ] {
        let series = vec![Series { name: title, points }];
        let chart = LineChart {
            title,
            unit,
            across: "seconds",
            series,
            shaded: Vec::new(),
            shaded_meaning: "",
            logarithmic: false,
        };
        page.raw(&chart.html());
    }
}

fn write_steps(page: &mut Page, phase: &PhaseResult) {
    page.small_heading("Kinds of operations");
    let rows: Vec<Vec<String>> = phase
        .steps
        .iter()
        .map(|step| {
            let latency = &step.latency_microseconds;
            vec![
                step.name.clone(),
                grouped(step.operations as f64),
                milliseconds(latency.p50),
                milliseconds(latency.p99),
                milliseconds(latency.maximum),
                milliseconds(step.service_microseconds.p99),
                grouped(step.errors as f64),
            ]
        })
        .collect();
    page.table(&["operation", "#count", "#p50", "#p99", "#longest", "#p99 once sent", "#failed"], &rows);
    if !phase.errors.is_empty() {
        let rows: Vec<Vec<String>> =
            phase.errors.iter().map(|(name, count)| vec![name.clone(), grouped(*count as f64)]).collect();
        page.table(&["failure", "#count"], &rows);
    }
}

fn write_overhead(page: &mut Page, phase: &PhaseResult) {
    let overhead = &phase.overhead;
    let mut text = format!(
        "The load generator itself took {:.1} us of CPU an operation, {:.0} % of the machine's processors",
        overhead.client_cpu_microseconds_per_operation,
        overhead.client_share_of_machine * 100.0
    );
    if overhead.client_resident_bytes > 0 {
        text += &format!(", and {} MiB", grouped((overhead.client_resident_bytes >> 20) as f64));
    }
    let delay = &overhead.start_delay_microseconds;
    if delay.count > 0 {
        text += &format!(
            "; operations with a free client were sent {:.0} us late at p50, {:.0} us at p99",
            delay.p50, delay.p99
        );
    }
    let with_own_waits = &overhead.latency_with_own_waits_microseconds;
    if with_own_waits.count > 0 {
        text += &format!(
            "; its threads' waits for a processor are left out of these latencies: with them p99 is {:.0} us",
            with_own_waits.p99
        );
    }
    if overhead.stolen_share_of_machine > 0.01 {
        text += &format!(
            "; the host of this virtual machine took {:.1} % of it: without the operations of those moments p99 is {:.0} us",
            overhead.stolen_share_of_machine * 100.0,
            overhead.latency_undisturbed_microseconds.p99
        );
    }
    if overhead.others_share_of_machine > 0.1 {
        text += &format!(
            ". Other work took {:.0} % of the machine meanwhile: figures in seconds are uncertain",
            overhead.others_share_of_machine * 100.0
        );
    }
    page.faint(&format!("{text}."));
}

fn write_counters(page: &mut Page, phase: &PhaseResult) {
    if phase.counters.is_empty() {
        return;
    }
    page.folded(&format!("Counters of the server that changed ({})", phase.counters.len()), |page| {
        let mut changed: Vec<(&String, &f64)> = phase.counters.iter().collect();
        changed.sort_by(|a, b| b.1.abs().total_cmp(&a.1.abs()));
        let units = phase.documents.max(phase.operations).max(1) as f64;
        let rows: Vec<Vec<String>> = changed
            .into_iter()
            .take(COUNTERS_LISTED)
            .map(|(path, change)| vec![path.clone(), grouped(*change), format!("{:.4}", change / units)])
            .collect();
        page.table(&["number of serverStatus", "#change", "#for each document"], &rows);
        page.faint("The largest; all are in the raw data.");
    });
}
