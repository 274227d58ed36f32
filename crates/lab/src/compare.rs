//! `plimsoll compare A B`: is B better or worse than A, and why.
//!
//! A and B are result directories (one run, or several in it), connection strings of servers, or server programs; servers
//! and programs are run in turn, so that what changes on the machine meanwhile meets both. `figures` says what is
//! compared, `statistics` how sure a difference is, `verdict` what it is, `explain` and `difference` what lies behind it.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use serde::{Deserialize, Serialize};

use crate::chart::grouped;
use crate::error::LabError;
use crate::output::{OutputDirectory, default_directory, print, time_now};
use crate::profile::stacks::Profile;
use crate::result::{RESULT_FILE, RunResult};

mod difference;
mod explain;
pub(crate) mod figures;
mod interleaved;
pub(crate) mod statistics;
pub(crate) mod verdict;

use explain::{CounterChange, FunctionChange};
use verdict::{Judged, Verdict};

/// The exit code when a figure is worse.
const WORSE: u8 = 3;
/// Results below a directory are looked for this deep.
const DEPTH_MAX: usize = 3;

/// Options of `plimsoll compare`.
#[derive(Debug, Clone, Args)]
pub struct CompareArguments {
    /// What is known: a result directory, mongodb:// address or server program
    a: String,
    /// What is in question, of the same kind
    b: String,
    /// Scenario to run against addresses or programs
    #[arg(long, value_name = "NAME|FILE", default_value = "point-mix")]
    scenario: String,
    /// Change a parameter of the scenario
    #[arg(long = "set", value_name = "NAME=VALUE")]
    changes: Vec<String>,
    /// How often each side is run, in turn
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,
    /// How a server program is started
    #[arg(long, value_name = "COMMAND", default_value = crate::launch::DEFAULT_COMMAND)]
    command: String,
    /// Sample each run with perf, for the functions behind a difference
    #[arg(long)]
    profile: bool,
    /// Run programs under valgrind's callgrind and compare instructions instead of seconds: slow, but hardly any noise
    #[arg(long)]
    instructions: bool,
    /// Directory for the comparison [default: bench-results/compare-TIME]
    #[arg(long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// Print the comparison as JSON
    #[arg(long)]
    json: bool,
}

/// The file `comparison.json`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Comparison {
    pub(crate) made_at: String,
    pub(crate) a: SideDescription,
    pub(crate) b: SideDescription,
    pub(crate) verdict: Verdict,
    pub(crate) sentence: String,
    /// What limits the verdict: runs cut short, different parameters, one run a side.
    pub(crate) remarks: Vec<String>,
    pub(crate) figures: Vec<Judged>,
    /// Unit of the functions' costs.
    pub(crate) cost_unit: String,
    pub(crate) functions: Vec<FunctionChange>,
    pub(crate) counters: Vec<CounterChange>,
}

/// One side, for the reader.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct SideDescription {
    pub(crate) named: String,
    pub(crate) server: String,
    pub(crate) scenario: String,
    pub(crate) runs: usize,
}

/// The runs of a side.
pub(crate) struct Side {
    pub(crate) named: String,
    pub(crate) runs: Vec<RunResult>,
    pub(crate) profile: Option<Profile>,
}

/// Runs `plimsoll compare`. The exit code is 3 when a figure is worse, 0 when none is.
///
/// # Errors
/// A side cannot be read or run, or the two have nothing in common.
pub async fn run(arguments: CompareArguments) -> Result<ExitCode, LabError> {
    let directory = arguments.output.clone().unwrap_or_else(|| default_directory("compare"));
    let (a, b) = if Path::new(&arguments.a).is_dir() && Path::new(&arguments.b).is_dir() {
        (read_side(&arguments.a)?, read_side(&arguments.b)?)
    } else {
        interleaved::run(&arguments, &directory).await?
    };
    let comparison = compare(&a, &b)?;
    let output = OutputDirectory::create_at(&directory)?;
    output.write_json("comparison.json", &comparison)?;
    let mut drawn = None;
    if let (Some(profile_a), Some(profile_b)) = (&a.profile, &b.profile) {
        let svg =
            difference::draw((profile_a, &a.runs), (profile_b, &b.runs), &format!("{} against {}", b.named, a.named))?;
        output.write("difference.svg", &svg)?;
        drawn = Some(svg);
    }
    output.write("report.html", &crate::report::comparison(&comparison, drawn.as_deref()))?;
    if arguments.json {
        let text = serde_json::to_string_pretty(&comparison);
        print(&format!("{}\n", text.map_err(|error| LabError::Unsupported(error.to_string()))?));
    } else {
        print(&in_text(&comparison));
        print(&format!("written: {}\n", directory.display()));
    }
    Ok(if comparison.verdict == Verdict::Worse { ExitCode::from(WORSE) } else { ExitCode::SUCCESS })
}

/// All results in a directory: its own, or those of the directories in it.
pub(crate) fn read_side(named: &str) -> Result<Side, LabError> {
    let path = Path::new(named);
    let mut directories = Vec::new();
    find_results(path, 0, &mut directories);
    if directories.is_empty() {
        return Err(LabError::Input { path: path.to_owned(), reason: format!("there is no {RESULT_FILE} in it") });
    }
    let runs = directories.iter().map(|directory| RunResult::read(directory)).collect::<Result<Vec<_>, _>>()?;
    let mut profile: Option<Profile> = None;
    for directory in &directories {
        if let Some(of_run) = crate::profile::of_directory(directory) {
            match &mut profile {
                Some(profile) => profile.extend(&of_run),
                None => profile = Some(of_run),
            }
        }
    }
    Ok(Side { named: named.to_owned(), runs, profile })
}

/// The directories with a result, sorted by name.
pub(crate) fn find_results(directory: &Path, depth: usize, into: &mut Vec<PathBuf>) {
    if directory.join(RESULT_FILE).is_file() {
        into.push(directory.to_owned());
        return;
    }
    if depth >= DEPTH_MAX {
        return;
    }
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let mut inside: Vec<PathBuf> = entries.map(|entry| entry.path()).filter(|path| path.is_dir()).collect();
    inside.sort();
    inside.iter().for_each(|inside| find_results(inside, depth + 1, into));
}

/// Judges and explains.
pub(crate) fn compare(a: &Side, b: &Side) -> Result<Comparison, LabError> {
    let figures = verdict::judge(&a.runs, &b.runs, 7);
    if figures.is_empty() {
        let phases = |side: &Side| {
            let phases = side.runs.iter().flat_map(|run| run.phases.iter().map(|phase| phase.name.clone()));
            phases.collect::<std::collections::BTreeSet<_>>().into_iter().collect::<Vec<_>>().join(", ")
        };
        let message =
            format!("nothing to compare: {} has the phases {}; {} has {}", a.named, phases(a), b.named, phases(b));
        return Err(LabError::Unsupported(message));
    }
    let costs = explain::instruction_costs(&a.runs)
        .zip(explain::instruction_costs(&b.runs))
        .map(|costs| (costs, "instructions an operation"));
    let sampled = || {
        let costs_a = explain::sampled_costs(a.profile.as_ref()?, &a.runs)?;
        let costs_b = explain::sampled_costs(b.profile.as_ref()?, &b.runs)?;
        Some(((costs_a, costs_b), "us of CPU a unit of work"))
    };
    let ((costs_a, costs_b), cost_unit) = costs.or_else(sampled).unwrap_or_default();
    let functions = explain::functions(&costs_a, &costs_b);
    let totals_a = a.profile.as_ref().and_then(|profile| explain::sampled_totals(profile, &a.runs));
    let totals_b = b.profile.as_ref().and_then(|profile| explain::sampled_totals(profile, &b.runs));
    let guilty = totals_a.zip(totals_b).and_then(|(a, b)| explain::guilty(&a, &b));
    let counters = explain::counters(&a.runs, &b.runs);
    let has = |verdict| figures.iter().any(|figure| figure.verdict == verdict);
    let verdict = [Verdict::Worse, Verdict::Better].into_iter().find(|verdict| has(*verdict)).unwrap_or(Verdict::Noise);
    Ok(Comparison {
        made_at: time_now(),
        a: describe(a),
        b: describe(b),
        verdict,
        sentence: explain::sentence(&figures, guilty.as_ref(), &functions, cost_unit, &counters),
        remarks: remarks(a, b),
        figures,
        cost_unit: cost_unit.to_owned(),
        functions,
        counters,
    })
}

fn describe(side: &Side) -> SideDescription {
    let first = side.runs.first();
    SideDescription {
        named: side.named.clone(),
        server: first.map(|run| run.target.in_one_line()).unwrap_or_default(),
        scenario: first.map(|run| run.scenario.clone()).unwrap_or_default(),
        runs: side.runs.len(),
    }
}

fn remarks(a: &Side, b: &Side) -> Vec<String> {
    let mut remarks = Vec::new();
    for (name, side) in [("A", a), ("B", b)] {
        let partial = side.runs.iter().filter(|run| !run.complete).count();
        if partial > 0 {
            remarks.push(format!(
                "{partial} of the {} runs of {name} ended early; its figures are of what was done",
                side.runs.len()
            ));
        }
    }
    let first = |side: &Side| side.runs.first().map(|run| (run.scenario.clone(), run.parameters.clone()));
    if first(a) != first(b) {
        remarks.push("the two sides ran different scenarios or parameters".to_owned());
    }
    let others = verdict::others(&a.runs).max(verdict::others(&b.runs));
    if others > 0.1 {
        remarks.push(format!(
            "other work took up to {:.0} % of the machine: figures in seconds are uncertain, instructions are not",
            others * 100.0
        ));
    }
    if a.runs.len().min(b.runs.len()) < 3 {
        remarks.push(
            "with fewer than three runs a side, how much runs differ is assumed; only large differences are told"
                .to_owned(),
        );
    }
    remarks
}

fn in_text(comparison: &Comparison) -> String {
    let mut text = String::new();
    for (name, side) in [("A", &comparison.a), ("B", &comparison.b)] {
        text += &format!("{name}: {} ({}, {}, {} runs)\n", side.named, side.server, side.scenario, side.runs);
    }
    let header = ["phase", "figure", "A", "B", "change", "95 % interval"];
    text += &format!(
        "{:<14}{:<18}{:>14}{:>14}{:>10}{:>22}  verdict\n",
        header[0], header[1], header[2], header[3], header[4], header[5]
    );
    for figure in &comparison.figures {
        text += &format!(
            "{:<14}{:<18}{:>14}{:>14}{:>8.1} %{:>22}  {}\n",
            figure.phase,
            figure.figure,
            grouped(figure.a),
            grouped(figure.b),
            figure.change * 100.0,
            figure.interval_in_words(),
            figure.verdict.in_words()
        );
    }
    if !comparison.functions.is_empty() {
        text += &format!("\nfunctions by change, {}\n", comparison.cost_unit);
        for function in comparison.functions.iter().take(10) {
            text += &format!("{:>12.2}{:>12.2}  {}\n", function.a, function.b, function.name);
        }
    }
    if !comparison.counters.is_empty() {
        text += "\ncounters by change, for a unit of work\n";
        for counter in comparison.counters.iter().take(10) {
            text += &format!("{:>14.4}{:>14.4}  {} ({})\n", counter.a, counter.b, counter.path, counter.phase);
        }
    }
    for remark in &comparison.remarks {
        text += &format!("note: {remark}\n");
    }
    text + &format!("\n{}\n", comparison.sentence)
}

#[cfg(test)]
mod tests;
