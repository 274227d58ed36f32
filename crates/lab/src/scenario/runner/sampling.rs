//! Profiles beside a run: all of it without its preparations, and its stalled moments alone.

use crate::error::LabError;
use crate::output::OutputDirectory;
use crate::profile::record::{Unwinding, What};
use crate::profile::sampler::{Sampler, Sampling};
use crate::profile::stacks::Profile;
use crate::profile::{stalls, write_profile};
use crate::result::{PhaseResult, RunResult};
use crate::scenario::RunOptions;
use crate::target::Target;

/// Samples a second and thread: a run of a minute stays below some hundred megabytes.
const FREQUENCY: u32 = 99;

/// Flame graphs with their captions.
type Pictures = Vec<(String, String)>;

/// Starts sampling when it was asked for.
pub(super) async fn start(
    options: &RunOptions,
    target: &Target,
    output: Option<&OutputDirectory>,
) -> Result<Option<Sampler>, LabError> {
    let (true, Some(output)) = (options.profile, output) else { return Ok(None) };
    let sampling = Sampling {
        pid: target.process.map(|process| process.pid),
        client: Some(target.observing_client.clone()),
        frequency: FREQUENCY,
        unwinding: Unwinding::Dwarf,
        what: What::OnCpu,
        file: output.path("perf.data"),
    };
    Sampler::start(&sampling, None).await.map(Some)
}

/// Stops sampling and writes the profiles. Where there is none after all, the result says why: the run itself is worth
/// keeping.
pub(super) async fn finish(sampler: Sampler, output: &OutputDirectory, result: &mut RunResult) -> Pictures {
    let means = sampler.means.in_words();
    let written = match sampler.finish().await {
        Ok(profile) => write(&profile, means, output, result),
        Err(error) => Err(error),
    };
    let (pictures, said) = match written {
        Ok(pictures) if pictures.is_empty() => (pictures, "no samples of the server were taken".to_owned()),
        Ok(pictures) => (pictures, means.to_owned()),
        Err(error) => (Vec::new(), format!("there is no profile: {error}")),
    };
    result.profile = Some(said);
    pictures
}

fn write(profile: &Profile, means: &str, output: &OutputDirectory, result: &RunResult) -> Result<Pictures, LabError> {
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
        pictures.push((format!("Flame graph of the server, preparations left out ({means})"), svg));
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
