//! `plimsoll history DIR`: over many results of the same scenario, when did a figure change, worst first.
//!
//! Results are grouped by scenario and parameters and sorted by time; `change_points` finds where the level of a figure
//! moved for good. One odd run is no change.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use serde::{Deserialize, Serialize};

use crate::chart::grouped;
use crate::compare::figures::{Better, KINDS};
use crate::compare::find_results;
use crate::error::LabError;
use crate::output::{OutputDirectory, print, time_now};
use crate::result::RunResult;

mod change_points;

/// Options of `plimsoll history`.
#[derive(Debug, Clone, Args)]
pub struct HistoryArguments {
    /// Directory with result directories in it
    directory: PathBuf,
    /// Directory for the report; nothing is written without it
    #[arg(long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// Print everything as JSON
    #[arg(long)]
    json: bool,
}

/// The file `history.json`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct History {
    pub(crate) made_at: String,
    pub(crate) results: usize,
    /// Results that could not be read.
    pub(crate) unreadable: Vec<String>,
    /// Worst first.
    pub(crate) changes: Vec<Change>,
    pub(crate) lines: Vec<Line>,
}

/// A figure over time.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Line {
    pub(crate) scenario: String,
    pub(crate) parameters: String,
    pub(crate) phase: String,
    pub(crate) figure: String,
    pub(crate) unit: String,
    pub(crate) points: Vec<Point>,
}

/// A figure of one run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Point {
    pub(crate) at: String,
    pub(crate) build: String,
    pub(crate) value: f64,
}

/// A figure that moved for good.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Change {
    pub(crate) scenario: String,
    pub(crate) phase: String,
    pub(crate) figure: String,
    pub(crate) unit: String,
    /// Of the first run of the new level.
    pub(crate) at: String,
    pub(crate) build_before: String,
    pub(crate) build: String,
    pub(crate) before: f64,
    pub(crate) after: f64,
    /// After against before, minus 1.
    pub(crate) change: f64,
    pub(crate) is_worse: bool,
}

/// Runs `plimsoll history`.
///
/// # Errors
/// No result is found, or the report cannot be written.
pub async fn run(arguments: HistoryArguments) -> Result<ExitCode, LabError> {
    let mut directories = Vec::new();
    find_results(&arguments.directory, 0, &mut directories);
    let mut results = Vec::new();
    let mut unreadable = Vec::new();
    for directory in &directories {
        match RunResult::read(directory) {
            Ok(result) => results.push(result),
            Err(error) => unreadable.push(error.to_string()),
        }
    }
    if results.is_empty() {
        let reason = unreadable.first().cloned().unwrap_or_else(|| "there are no results in it".to_owned());
        return Err(LabError::Input { path: arguments.directory.clone(), reason });
    }
    let history = History { unreadable, ..of(results) };
    if let Some(directory) = &arguments.output {
        let output = OutputDirectory::create_at(directory)?;
        output.write_json("history.json", &history)?;
        output.write("report.html", &crate::report::history(&history))?;
    }
    if arguments.json {
        let text = serde_json::to_string_pretty(&history);
        print(&format!("{}\n", text.map_err(|error| LabError::Unsupported(error.to_string()))?));
    } else {
        print(&in_text(&history));
    }
    Ok(ExitCode::SUCCESS)
}

/// The history of results, in any order. Those cut short are left out.
pub(crate) fn of(mut results: Vec<RunResult>) -> History {
    results.sort_by(|a, b| a.started_at.cmp(&b.started_at));
    let count = results.len();
    let mut groups: BTreeMap<(String, String), Vec<RunResult>> = BTreeMap::new();
    for result in results.into_iter().filter(|result| result.complete) {
        let parameters: Vec<String> = result.parameters.iter().map(|(name, value)| format!("{name}={value}")).collect();
        groups.entry((result.scenario.clone(), parameters.join(" "))).or_default().push(result);
    }
    let mut history =
        History { made_at: time_now(), results: count, unreadable: Vec::new(), changes: Vec::new(), lines: Vec::new() };
    for ((scenario, parameters), runs) in groups {
        let phases = runs.iter().flat_map(|run| run.phases.iter().filter(|phase| !phase.preparation));
        let mut names: Vec<String> = phases.map(|phase| phase.name.clone()).collect();
        names.sort();
        names.dedup();
        for phase in names {
            for kind in KINDS {
                let point = |run: &RunResult| {
                    let value = kind.samples(std::slice::from_ref(run), &phase)?.first()?.value;
                    Some(Point { at: run.started_at.clone(), build: build_of(run), value })
                };
                let points: Vec<Point> = runs.iter().filter_map(point).collect();
                let line = Line {
                    scenario: scenario.clone(),
                    parameters: parameters.clone(),
                    phase: phase.clone(),
                    figure: kind.name.to_owned(),
                    unit: kind.unit.to_owned(),
                    points,
                };
                let minimum = kind.relevant.max(kind.run_noise / 2.0);
                history.changes.extend(changes_of(&line, kind.better, kind.offset, minimum));
                history.lines.push(line);
            }
        }
    }
    let badness =
        |change: &Change| if change.is_worse { change.change.abs().ln_1p() + 100.0 } else { change.change.abs() };
    history.changes.sort_by(|a, b| badness(b).total_cmp(&badness(a)));
    history
}

fn changes_of(line: &Line, better: Better, offset: f64, minimum: f64) -> Vec<Change> {
    let logarithms: Vec<f64> = line.points.iter().map(|point| (point.value.max(0.0) + offset).ln()).collect();
    let mut changes = Vec::new();
    for found in change_points::find(&logarithms) {
        let change = (found.after - found.before).exp_m1();
        let (Some(first), Some(last)) = (line.points.get(found.position), line.points.get(found.position - 1)) else {
            continue;
        };
        if change.abs() < minimum {
            continue;
        }
        changes.push(Change {
            scenario: line.scenario.clone(),
            phase: line.phase.clone(),
            figure: line.figure.clone(),
            unit: line.unit.clone(),
            at: first.at.clone(),
            build_before: last.build.clone(),
            build: first.build.clone(),
            before: found.before.exp() - offset,
            after: found.after.exp() - offset,
            change,
            is_worse: (change > 0.0) == (better == Better::Lower),
        });
    }
    changes
}

fn build_of(run: &RunResult) -> String {
    let target = &run.target;
    let parts = [&target.program, &target.version, &target.git_version];
    let parts: Vec<&str> = parts.into_iter().flatten().map(String::as_str).collect();
    parts.join(" ")
}

fn in_text(history: &History) -> String {
    let mut text = format!("{} results, {} figures over time\n", history.results, history.lines.len());
    for change in &history.changes {
        let direction = if change.is_worse { "WORSE " } else { "better" };
        text += &format!(
            "{direction} {:+.1} %  {} / {} / {}: {} -> {} {}, from {} ({} -> {})\n",
            change.change * 100.0,
            change.scenario,
            change.phase,
            change.figure,
            grouped(change.before),
            grouped(change.after),
            change.unit,
            change.at,
            change.build_before,
            change.build
        );
    }
    if history.changes.is_empty() {
        text += "no figure has changed for good\n";
    }
    for unreadable in &history.unreadable {
        text += &format!("note: left out: {unreadable}\n");
    }
    text
}

#[cfg(test)]
mod tests;
