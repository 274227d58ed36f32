//! The files of a run: one directory with a report (JSON), the observations of each second (JSON lines, written as they are
//! made so that a run that is killed leaves them), and a chart (SVG).

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde::Serialize;

use crate::chart::{LineChart, Series, grouped, standalone};
use crate::error::LabError;
use crate::result::{PhaseResult, RESULT_FILE, RunResult};
use crate::throughput::{Second, ThroughputSource};

/// Where a run writes.
pub(crate) struct OutputDirectory {
    directory: PathBuf,
}

/// An open file of JSON lines.
pub(crate) struct JsonLines {
    path: PathBuf,
    file: File,
}

/// The directory of a run when none is named: `bench-results/<scenario>-<time>`.
pub(crate) fn default_directory(scenario: &str) -> PathBuf {
    Path::new("bench-results").join(format!("{scenario}-{}", time_stamp()))
}

impl OutputDirectory {
    /// Creates the directory.
    pub(crate) fn create_at(directory: &Path) -> Result<Self, LabError> {
        fs::create_dir_all(directory).map_err(LabError::output(directory))?;
        Ok(Self { directory: directory.to_owned() })
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    /// Opens `<name>.jsonl`.
    pub(crate) fn lines(&self, name: &str) -> Result<JsonLines, LabError> {
        let path = self.path(&format!("{name}.jsonl"));
        let file = File::create(&path).map_err(LabError::output(&path))?;
        Ok(JsonLines { path, file })
    }

    /// Writes a file as JSON.
    pub(crate) fn write_json(&self, name: &str, content: &impl Serialize) -> Result<(), LabError> {
        let path = self.path(name);
        let bytes = serde_json::to_vec_pretty(content).map_err(|error| LabError::output(&path)(error.into()))?;
        fs::write(&path, bytes).map_err(LabError::output(&path))
    }

    /// Writes a file.
    pub(crate) fn write(&self, name: &str, content: &str) -> Result<(), LabError> {
        let path = self.path(name);
        fs::write(&path, content).map_err(LabError::output(&path))
    }

    /// Writes `result.json` and what is made of it.
    pub(crate) fn write_result(&self, result: &RunResult) -> Result<(), LabError> {
        self.write_json(RESULT_FILE, result)?;
        self.write("throughput.svg", &throughput_chart(result))?;
        self.write("latency.hlog", &histogram_log(result))
    }
}

/// Throughput over time, a chart a phase.
fn throughput_chart(result: &RunResult) -> String {
    let parameters: Vec<String> = result.parameters.iter().map(|(name, value)| format!("{name} {value}")).collect();
    let captions: Vec<(String, String)> = result.phases.iter().map(captions).collect();
    let charts: Vec<LineChart<'_>> =
        result.phases.iter().zip(&captions).map(|(phase, (title, unit))| phase_chart(phase, title, unit)).collect();
    let title = format!("{}: {}", result.scenario, result.target.in_one_line());
    standalone(&title, &format!("{}; {}", parameters.join(", "), result.started_at), &charts)
}

/// What is said of a phase, and what is counted.
fn captions(phase: &PhaseResult) -> (String, String) {
    let is_documents = phase.throughput_unit == "documents";
    let mean = if is_documents { phase.documents_per_second } else { phase.operations_per_second };
    let count = if is_documents { phase.documents } else { phase.operations };
    let stopped = if phase.complete { "" } else { " (stopped early)" };
    let cpu = phase.server_cpu_microseconds_per_unit;
    let cpu = cpu.map(|cpu| format!(", server CPU {cpu:.1} us for each")).unwrap_or_default();
    let title = format!(
        "{}{stopped}: {} {} in {:.1} s, mean {}/s{cpu}",
        phase.name,
        grouped(count as f64),
        phase.throughput_unit,
        phase.duration_seconds,
        grouped(mean)
    );
    (title, format!("{} / s, from {}", phase.throughput_unit, phase.throughput_source_explanation))
}

fn phase_chart<'p>(phase: &'p PhaseResult, title: &'p str, unit: &'p str) -> LineChart<'p> {
    let middle = |second: &Second| (f64::from(second.second) + second.length_seconds / 2.0, second.per_second);
    let gap = phase.longest_gap;
    let is_told = phase.throughput_source != ThroughputSource::SpreadOverCommands && gap.seconds >= 1.0;
    LineChart {
        title,
        unit,
        across: "seconds",
        series: vec![Series { name: &phase.name, points: phase.seconds.iter().map(middle).collect() }],
        shaded: is_told.then_some((gap.start, gap.start + gap.seconds)).into_iter().collect(),
        shaded_meaning: "the longest gap",
        logarithmic: false,
    }
}

/// All latency histograms in the format of HDR histogram logs, one interval a kind of operation, tagged with phase and name.
fn histogram_log(result: &RunResult) -> String {
    let mut log = format!(
        "#[Latencies of {} against {}, nanoseconds]\n#[Histogram log format version 1.3]\n\
         \"StartTimestamp\",\"Interval_Length\",\"Interval_Max\",\"Interval_Compressed_Histogram\"\n",
        result.scenario, result.target.addresses
    );
    let mut start = 0.0;
    for phase in &result.phases {
        for step in phase.steps.iter().filter(|step| !step.histogram.is_empty()) {
            let tag = format!("{}/{}", phase.name, step.name).replace([',', ' '], "_");
            let maximum = step.latency_microseconds.maximum / 1e3;
            log += &format!("Tag={tag},{start:.3},{:.3},{maximum:.3},{}\n", phase.duration_seconds, step.histogram);
        }
        start += phase.duration_seconds;
    }
    log
}

impl JsonLines {
    /// Appends one line; it reaches the file at once.
    pub(crate) fn write(&mut self, line: &impl Serialize) -> Result<(), LabError> {
        let mut bytes = serde_json::to_vec(line).map_err(|error| LabError::output(&self.path)(error.into()))?;
        bytes.push(b'\n');
        self.file.write_all(&bytes).map_err(LabError::output(&self.path))
    }
}

/// Writes to standard output. A reader that has gone (`| head`) is no failure.
pub(crate) fn print(text: &str) {
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

/// The time now in UTC, as RFC 3339.
pub(crate) fn time_now() -> String {
    bson::DateTime::from_system_time(SystemTime::now()).try_to_rfc3339_string().unwrap_or_default()
}

/// The time now, fit for a file's name: `20261121T013700Z`.
fn time_stamp() -> String {
    let now = time_now();
    let seconds = now.split(['.', 'Z']).next().unwrap_or_default();
    seconds.chars().filter(|character| !"-:".contains(*character)).chain(['Z']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_stamps_sort_and_fit_file_names() {
        let stamp = time_stamp();
        assert_eq!(stamp.len(), "20261121T013700Z".len(), "{stamp}");
        assert!(stamp.chars().all(|character| character.is_ascii_alphanumeric()), "{stamp}");
    }
}
