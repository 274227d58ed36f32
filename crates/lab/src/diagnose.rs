//! `plimsoll diagnose DIR|URI`: what a server's recorded figures say, as one report.
//!
//! It reads the files of the flight recorder, of a server that runs or not, on this machine or brought from another, or asks a server for
//! them (`over_the_wire`). The crate `flight_recorder` knows their format and the patterns of trouble; `charts` says which figures are drawn.

mod charts;
mod moment;
mod over_the_wire;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use flight_recorder::patterns::{self, Finding, Severity};
use flight_recorder::{Chunk, Recording, blocks, file_names};
use serde::Serialize;

use crate::error::LabError;
use crate::output::{print, time_now};

pub(crate) use charts::{CHARTS, Chart, Line, Shown};
pub(crate) use moment::in_words;

/// Options of `plimsoll diagnose`.
#[derive(Debug, Clone, Args)]
pub struct DiagnoseArguments {
    /// A data directory, a folder with the files of its folder `figures`, or the connection string of a running server
    source: String,
    /// From when on, as 2026-11-28T20:00:00Z, or how long before the end, as 90m, 6h or 2d [default: all that is kept]
    #[arg(long, value_name = "TIME")]
    from: Option<String>,
    /// Until when, in the same ways [default: the last figures]
    #[arg(long, value_name = "TIME")]
    to: Option<String>,
    /// File for the report
    #[arg(long, value_name = "FILE", default_value = "diagnosis.html")]
    output: PathBuf,
    /// Print what is found as JSON
    #[arg(long)]
    json: bool,
}

/// What was found: printed as JSON, and in the report for programs.
#[derive(Debug, Serialize)]
pub(crate) struct Diagnosis {
    pub(crate) made_at: String,
    pub(crate) host: String,
    pub(crate) version: String,
    pub(crate) from: String,
    pub(crate) to: String,
    /// Seconds of which there are figures.
    pub(crate) moments: usize,
    /// When the server was started meanwhile.
    pub(crate) starts: Vec<String>,
    pub(crate) findings: Vec<Found>,
    /// For how much of the time each cause held writes back, of 1, and how strongly at most.
    pub(crate) held_back: BTreeMap<String, (f64, f64)>,
    /// What could not be read.
    pub(crate) unreadable: Vec<String>,
}

/// A finding as it is told.
#[derive(Debug, Serialize)]
pub(crate) struct Found {
    pub(crate) pattern: &'static str,
    pub(crate) severity: &'static str,
    pub(crate) is_severe: bool,
    pub(crate) from: String,
    pub(crate) to: String,
    pub(crate) what: String,
    pub(crate) advice: &'static str,
}

/// Runs `plimsoll diagnose`.
///
/// # Errors
/// There are no figures, a time makes no sense, or the report cannot be written.
pub async fn run(arguments: DiagnoseArguments) -> Result<ExitCode, LabError> {
    let mut unreadable = Vec::new();
    let source = &arguments.source;
    let is_server = ["mongodb://", "mongodb+srv://"].iter().any(|scheme| source.starts_with(scheme));
    let files = match is_server {
        true => over_the_wire::read(source).await?,
        false => read(Path::new(source))?,
    };
    let chunks = decode(&files, &mut unreadable);
    let times = || chunks.iter().flat_map(|chunk| chunk.times.iter().copied());
    let (Some(first), Some(last)) = (times().min(), times().max()) else {
        let reason = match unreadable.first() {
            Some(reason) => reason.clone(),
            None if is_server => return Err(LabError::Unsupported("the server has recorded no figures".to_owned())),
            None => "no figures are recorded here: is it a data directory?".to_owned(),
        };
        return Err(LabError::Input { path: PathBuf::from(source), reason });
    };
    let moment = |text: &Option<String>, usual: i64| match text {
        None => Ok(usual),
        Some(text) => moment::parse(text, last).map_err(LabError::Unsupported),
    };
    let (from, to) = (moment(&arguments.from, first)?, moment(&arguments.to, last)?);
    let mut recording = Recording::default();
    chunks.into_iter().for_each(|chunk| recording.add(chunk, from, to));
    recording.sort();
    if recording.times().is_empty() {
        let reason = format!(
            "there are figures from {} to {}, and none between {} and {}",
            in_words(first),
            in_words(last),
            in_words(from),
            in_words(to)
        );
        return Err(LabError::Unsupported(reason));
    }
    let findings = patterns::findings(&recording);
    let diagnosis = of(&recording, &findings, unreadable);
    let report = crate::report::diagnosis(&diagnosis, &recording, &findings);
    std::fs::write(&arguments.output, report)
        .map_err(|source| LabError::Output { path: arguments.output.clone(), source })?;
    if arguments.json {
        let text = serde_json::to_string_pretty(&diagnosis);
        print(&format!("{}\n", text.map_err(|error| LabError::Unsupported(error.to_string()))?));
    } else {
        print(&in_text(&diagnosis, &arguments.output));
    }
    Ok(ExitCode::SUCCESS)
}

/// Names and contents of the files.
type Files = Vec<(String, Vec<u8>)>;

/// The files of a directory, in no order.
fn read(directory: &Path) -> Result<Files, LabError> {
    let inner = directory.join(file_names::DIRECTORY);
    let folder = if inner.is_dir() { inner } else { directory.to_owned() };
    let cannot = |error: std::io::Error| LabError::Input { path: folder.clone(), reason: error.to_string() };
    let mut files = Files::new();
    for entry in std::fs::read_dir(&folder).map_err(cannot)? {
        let entry = entry.map_err(cannot)?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if file_names::begin(&name).is_none() && name != file_names::CURRENT {
            continue;
        }
        // A server that runs may have replaced it since it was listed.
        let Ok(bytes) = std::fs::read(entry.path()) else { continue };
        files.push((name, bytes));
    }
    Ok(files)
}

/// The chunks of all files.
fn decode(files: &Files, unreadable: &mut Vec<String>) -> Vec<Chunk> {
    let mut chunks = Vec::new();
    for (name, bytes) in files {
        for block in blocks(bytes) {
            let chunk = block.map_err(|error| error.to_string());
            match chunk.and_then(|block| Chunk::decode(&block).map_err(|error| error.to_string())) {
                Ok(chunk) => chunks.push(chunk),
                Err(reason) => unreadable.push(format!("{name}: {reason}")),
            }
        }
    }
    chunks
}

fn of(recording: &Recording, findings: &[Finding], unreadable: Vec<String>) -> Diagnosis {
    let text = |path: &str| recording.texts(path).last().map_or_else(String::new, |(_, text)| text.clone());
    let times = recording.times();
    let end = |time: Option<&i64>| time.copied().map_or_else(String::new, in_words);
    let found = |finding: &Finding| Found {
        pattern: finding.pattern,
        severity: finding.severity.name(),
        is_severe: finding.severity == Severity::Severe,
        from: in_words(finding.from),
        to: in_words(finding.to),
        what: finding.what.clone(),
        advice: finding.advice,
    };
    let mut held_back = BTreeMap::new();
    for cause in recording.names_below(charts::PRESSURE) {
        let series = recording.series(&format!("{}{cause}", charts::PRESSURE));
        let present = series.iter().filter(|(_, pressure)| *pressure > 0.0).count();
        let most = series.iter().map(|(_, pressure)| *pressure).fold(0.0, f64::max);
        held_back.insert(cause.to_owned(), (present as f64 / series.len().max(1) as f64, most));
    }
    Diagnosis {
        made_at: time_now(),
        host: text("host"),
        version: text("version"),
        from: end(times.first()),
        to: end(times.last()),
        moments: times.len(),
        starts: recording.starts().into_iter().map(in_words).collect(),
        findings: findings.iter().map(found).collect(),
        held_back,
        unreadable,
    }
}

fn in_text(diagnosis: &Diagnosis, report: &Path) -> String {
    let mut text =
        format!("{}, from {} to {}: {} s recorded\n", diagnosis.host, diagnosis.from, diagnosis.to, diagnosis.moments);
    for start in &diagnosis.starts {
        text += &format!("  started     {start}\n");
    }
    for found in &diagnosis.findings {
        text += &format!(
            "  {:<10}  {} to {}: {}\n              {}\n",
            found.severity, found.from, found.to, found.what, found.advice
        );
    }
    if diagnosis.findings.is_empty() {
        text += "  nothing wrong is seen\n";
    }
    diagnosis.unreadable.iter().for_each(|reason| text += &format!("  left out: {reason}\n"));
    text + &format!("report: {}\n", report.display())
}

#[cfg(test)]
mod tests;
