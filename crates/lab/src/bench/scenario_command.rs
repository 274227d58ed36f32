//! `plimsoll bench NAME|FILE.yaml`: the options that all scenarios share, and one for each parameter of the scenario.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Arg, ArgMatches, Args, Command, FromArgMatches};

use crate::error::LabError;
use crate::output::default_directory;
use crate::scenario::{Outcome, RunOptions, Scenario, run as run_scenario, shipped_scenarios};
use crate::target::TargetArguments;

/// Options of every scenario.
#[derive(Debug, Clone, Args)]
struct ScenarioArguments {
    #[command(flatten)]
    target: TargetArguments,
    /// Change a parameter of the scenario; `--NAME VALUE` does the same
    #[arg(long = "set", value_name = "NAME=VALUE", value_parser = parse_change)]
    changes: Vec<(String, String)>,
    /// Directory for the results [default: bench-results/NAME-TIME]
    #[arg(long, value_name = "DIR", help_heading = "Output")]
    output: Option<PathBuf>,
    /// Sample the server meanwhile (perf, or our own server itself): flame graphs of the run and of its stalled moments
    #[arg(long, help_heading = "Output")]
    profile: bool,
    /// Leave the collections in place at the end
    #[arg(long, help_heading = "Output")]
    keep: bool,
    /// Threads of the load generator [default: as many as processors]
    #[arg(long, value_name = "N", help_heading = "Load generator")]
    lanes: Option<usize>,
    /// Of the random numbers in documents, filters and arrivals
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "Load generator")]
    seed: u64,
    /// Only check the scenario and say what it would do
    #[arg(long)]
    check: bool,
}

fn parse_change(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("write NAME=VALUE")?;
    Ok((name.trim().to_owned(), value.trim().to_owned()))
}

/// The shipped scenarios, for the help.
pub(super) fn listing() -> String {
    let mut text = "Scenarios (`plimsoll bench NAME --help` lists the parameters of one):\n".to_owned();
    for (name, description) in shipped_scenarios() {
        text += &format!("  {name:<18} {description}\n");
    }
    text + "  FILE.yaml          a scenario of your own"
}

/// Runs the scenario that the first argument names.
pub(super) async fn run(arguments: Vec<OsString>) -> Result<ExitCode, LabError> {
    let name = arguments.first().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let scenario = Scenario::find(&name, &[])?;
    let matches = command(&name, &scenario).get_matches_from(&arguments);
    let parsed = ScenarioArguments::from_arg_matches(&matches);
    let parsed = parsed.map_err(|error| LabError::Unsupported(error.to_string()))?;
    let scenario = Scenario::find(&name, &changes(&scenario, &parsed, &matches))?;
    if parsed.check {
        println!("{}: {}", scenario.name(), scenario.description());
        scenario.parameters().iter().for_each(|(name, value)| println!("  {name} = {value}"));
        return Ok(ExitCode::SUCCESS);
    }
    let directory = parsed.output.unwrap_or_else(|| default_directory(scenario.name()));
    let options = RunOptions {
        pid: parsed.target.pid,
        output: Some(directory.clone()),
        lanes: parsed.lanes,
        seed: parsed.seed,
        progress: true,
        profile: parsed.profile,
        keep: parsed.keep,
        ..RunOptions::new(&parsed.target.target)
    };
    let outcome = run_scenario(&scenario, options).await?;
    print_summary(&outcome, &directory);
    Ok(if outcome.result.complete { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The command line of one scenario.
fn command(name: &str, scenario: &Scenario) -> Command {
    let command = Command::new(name.to_owned()).bin_name(format!("plimsoll bench {name}"));
    let mut command = ScenarioArguments::augment_args(command.about(scenario.description().to_owned()));
    let taken: Vec<String> = command.get_arguments().filter_map(|taken| taken.get_long().map(str::to_owned)).collect();
    for (parameter, default) in scenario.parameters() {
        let long = parameter.replace('_', "-");
        if taken.contains(&long) {
            continue;
        }
        let argument = Arg::new(format!("parameter:{parameter}"))
            .long(long)
            .value_name("VALUE")
            .help(format!("Parameter of the scenario [default: {default}]"))
            .help_heading("Parameters");
        command = command.arg(argument);
    }
    command
}

/// What `--set` and the parameters' own options say, in this order.
fn changes(scenario: &Scenario, parsed: &ScenarioArguments, matches: &ArgMatches) -> Vec<(String, String)> {
    let mut changes = parsed.changes.clone();
    for (parameter, _) in scenario.parameters() {
        let given = matches.try_get_one::<String>(&format!("parameter:{parameter}")).ok().flatten();
        changes.extend(given.map(|value| (parameter, value.clone())));
    }
    changes
}

fn print_summary(outcome: &Outcome, directory: &Path) {
    let result = &outcome.result;
    println!("{} against {}", result.scenario, result.target.in_one_line());
    for phase in &result.phases {
        println!("{:>12}: {}", phase.name, phase.in_one_line());
        for step in phase.steps.iter().filter(|_| phase.steps.len() > 1) {
            let latency = &step.latency_microseconds;
            println!(
                "{:>12}  {}: {} operations, p50 {:.2} ms, p99 {:.2} ms, longest {:.1} ms, {} failed",
                "",
                step.name,
                step.operations,
                latency.p50 / 1e3,
                latency.p99 / 1e3,
                latency.maximum / 1e3,
                step.errors
            );
        }
        println!("{:>12}  throughput by second from {}", "", phase.throughput_source_explanation);
        let overhead = &phase.overhead;
        println!(
            "{:>12}  load generator: {:.1} us CPU per operation, {:.0} % of the machine",
            "",
            overhead.client_cpu_microseconds_per_operation,
            overhead.client_share_of_machine * 100.0
        );
    }
    let others = result.phases.iter().map(|phase| phase.overhead.others_share_of_machine).fold(0.0, f64::max);
    if others > 0.1 {
        println!("     caution: other work took up to {:.0} % of the machine", others * 100.0);
    }
    if let Some(failure) = &result.failure {
        println!("      FAILED: {failure}; the results are partial");
    }
    println!("     written: {}", directory.display());
}
