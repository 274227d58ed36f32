//! Profiles beside a run: all of it without its preparations, and its stalled moments alone.

use crate::error::LabError;
use crate::output::OutputDirectory;
use crate::profile::record::{Recording, Sampling, Unwinding, What};
use crate::profile::{stalls, write_profile};
use crate::result::{PhaseResult, RunResult};
use crate::scenario::RunOptions;
use crate::server_process::ServerProcess;

/// Samples a second and thread: a run of a minute stays below some hundred megabytes.
const FREQUENCY: u32 = 99;

/// Starts sampling when it was asked for.
pub(super) fn start(
    options: &RunOptions,
    process: Option<ServerProcess>,
    output: Option<&OutputDirectory>,
) -> Result<Option<Recording>, LabError> {
    let (true, Some(output)) = (options.profile, output) else { return Ok(None) };
    let Some(process) = process else {
        return Err(LabError::Unsupported("--profile samples servers of this machine only".to_owned()));
    };
    let sampling = Sampling {
        pid: process.pid,
        frequency: FREQUENCY,
        unwinding: Unwinding::Dwarf,
        what: What::OnCpu,
        file: output.path("perf.data"),
    };
    Recording::start(&sampling).map(Some)
}

/// Stops sampling and writes the profiles. Gives the flame graphs with their captions.
pub(super) fn finish(
    recording: Recording,
    output: &OutputDirectory,
    result: &RunResult,
) -> Result<Vec<(String, String)>, LabError> {
    let profile = recording.finish()?;
    let measured = || result.phases.iter().filter(|phase| !phase.preparation);
    let shifted = |phase: &PhaseResult, (from, to): (f64, f64)| {
        (phase.started_monotonic_seconds + from, phase.started_monotonic_seconds + to)
    };
    let whole: Vec<_> = measured().map(|phase| shifted(phase, (0.0, phase.duration_seconds))).collect();
    let title = format!("{} against {}", result.scenario, result.target.in_one_line());
    let cut = profile.cut(&whole);
    let mut pictures = Vec::new();
    if cut.total() > 0 {
        let svg = write_profile(output, "profile", &title, &cut)?;
        pictures.push(("Flame graph of the server, preparations left out".to_owned(), svg));
    }
    let stalled: Vec<_> =
        measured().flat_map(|phase| stalls::windows(phase).into_iter().map(|window| shifted(phase, window))).collect();
    let of_stalls = profile.cut(&stalled);
    if of_stalls.total() > 0 {
        let seconds: f64 = stalled.iter().map(|(from, to)| to - from).sum();
        let title = format!("{title}: the {} stalled moments, {seconds:.1} s", stalled.len());
        let svg = write_profile(output, "stalls", &title, &of_stalls)?;
        pictures.push((format!("Flame graph of the {} stalled moments alone ({seconds:.1} s)", stalled.len()), svg));
    }
    Ok(pictures)
}
