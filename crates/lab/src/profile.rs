//! `plimsoll profile`: samples a server process, or reads profiles that others made, and says where the time goes.
//!
//! `sampler` takes a profile: through perf (`record`), by asking our own server to sample itself (`server_sampler`), or
//! from `/proc` (`threads`); `read` takes folded stacks, `perf script` output and flame-graph SVGs; `stacks` holds
//! them, with times where they are known, so that `stalls` of a run can be cut out; `table` and `flame` show them.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use serde::Serialize;

use crate::error::LabError;
use crate::output::{OutputDirectory, default_directory, print};
use crate::result::RunResult;
use crate::server_process::ServerProcess;
use crate::target::Target;

pub(crate) mod flame;
mod perf_script;
pub(crate) mod read;
pub(crate) mod record;
pub(crate) mod sampler;
mod server_sampler;
pub(crate) mod stacks;
pub(crate) mod stalls;
mod svg;
pub(crate) mod table;
mod threads;

pub(crate) use perf_script::plain_name;
use record::{Unwinding, What};
use sampler::{Means, Sampler, Sampling};
use stacks::Profile;
use table::{FrameShare, SortBy};

/// Options of `plimsoll profile`.
#[derive(Debug, Clone, Args)]
pub struct ProfileArguments {
    /// Process to sample
    #[arg(long, value_name = "PID", conflicts_with_all = ["target", "read"])]
    pid: Option<u32>,
    /// Server on this machine whose process to sample
    #[arg(long, value_name = "URI", conflicts_with = "read")]
    target: Option<String>,
    /// Read profiles instead: folded stacks, `perf script` output, SVGs of flame graphs
    #[arg(long, value_name = "FILE", num_args = 1..)]
    read: Vec<PathBuf>,
    /// How long to sample
    #[arg(long, value_name = "N", default_value_t = 10.0)]
    seconds: f64,
    /// Samples a second
    #[arg(long, value_name = "HZ", default_value_t = 199, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    frequency: u32,
    /// How callers are found
    #[arg(long, value_name = "HOW", default_value = "dwarf")]
    unwinding: Unwinding,
    /// What samples [default: perf; where it is missing or refused our own server itself; otherwise threads without functions]
    #[arg(long, value_name = "WHAT")]
    sampler: Option<Means>,
    /// Sample where threads wait instead of where they compute
    #[arg(long)]
    off_cpu: bool,
    /// Functions of the table
    #[arg(long, value_name = "N", default_value_t = 20)]
    top: usize,
    /// What the table is sorted by [default: two tables, by self and by frame]
    #[arg(long, value_name = "BY")]
    sort: Option<SortBy>,
    /// Print the table as JSON
    #[arg(long)]
    json: bool,
    /// Only the samples from here, seconds from the first sample
    #[arg(long, value_name = "SECONDS")]
    from: Option<f64>,
    /// Only the samples up to here, seconds from the first sample
    #[arg(long, value_name = "SECONDS")]
    to: Option<f64>,
    /// Only the samples of the stalled moments of the run in this result directory
    #[arg(long, value_name = "DIR", conflicts_with_all = ["from", "to"])]
    stalls_of: Option<PathBuf>,
    /// Directory for folded stacks, flame graph and report; when reading, nothing is written without it
    #[arg(long, value_name = "DIR")]
    output: Option<PathBuf>,
}

/// What `--json` prints.
#[derive(Debug, Serialize)]
struct Listing {
    profile: String,
    unit: String,
    total: u64,
    frames: Vec<FrameShare>,
}

/// Runs `plimsoll profile`.
///
/// # Errors
/// Nothing to sample or read, perf missing or refused, files of another kind.
pub async fn run(arguments: ProfileArguments) -> Result<ExitCode, LabError> {
    let mut profiles = Vec::new();
    if arguments.read.is_empty() {
        let directory = arguments.output.clone().unwrap_or_else(|| default_directory("profile"));
        let output = OutputDirectory::create_at(&directory)?;
        profiles.push(sample(&arguments, &output).await?);
    } else {
        for path in &arguments.read {
            let name =
                path.file_name().map_or_else(|| path.display().to_string(), |name| name.to_string_lossy().into_owned());
            profiles.push((name, read::read(path)?));
        }
    }
    for (title, profile) in &mut profiles {
        if let Some(windows) = windows(&arguments, profile)? {
            *profile = profile.cut(&windows);
            if profile.total() == 0 {
                return Err(LabError::Unsupported(format!(
                    "{title}: no sample lies in the chosen time (or it has no times)"
                )));
            }
        }
    }
    show(&arguments, &profiles)?;
    write(&arguments, &profiles)?;
    Ok(ExitCode::SUCCESS)
}

/// Samples with what was asked for, or with the best that works. Gives a title, too.
async fn sample(arguments: &ProfileArguments, output: &OutputDirectory) -> Result<(String, Profile), LabError> {
    let target = match &arguments.target {
        Some(uri) => Some(Target::connect_to(uri, None, 1).await?),
        None if arguments.pid.is_some() => None,
        None => {
            let missing = "name what to profile: --pid PID, --target URI or --read FILE";
            return Err(LabError::Unsupported(missing.to_owned()));
        }
    };
    let process = target.as_ref().and_then(|target| target.process).map(|process| process.pid);
    let sampling = Sampling {
        pid: arguments.pid.or(process),
        client: target.as_ref().map(|target| target.observing_client.clone()),
        frequency: arguments.frequency,
        unwinding: arguments.unwinding,
        what: if arguments.off_cpu { What::OffCpu } else { What::OnCpu },
        file: output.path("perf.data"),
    };
    if let Some(pid) = arguments.pid.filter(|pid| ServerProcess { pid: *pid }.sample().is_none()) {
        return Err(LabError::Unsupported(format!("there is no process {pid} on this machine")));
    }
    let sampler = Sampler::start(&sampling, arguments.sampler).await?;
    let subject = match (target, sampling.pid) {
        (Some(target), _) => target.description.in_one_line(),
        (None, pid) => format!("process {}", pid.unwrap_or_default()),
    };
    let title = format!("{subject}, {}", sampler.means.in_words());
    eprintln!("{title}, for {} s (Ctrl-C ends it early)", arguments.seconds);
    sampler::wait(Duration::from_secs_f64(arguments.seconds.clamp(0.1, 86_400.0))).await;
    Ok((title, sampler.finish().await?))
}

/// The machine's monotonic clock, which perf's samples carry too.
pub(crate) fn monotonic_seconds() -> f64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as f64 + now.tv_nsec as f64 / 1e9
}

/// The windows of time that were chosen, on the profile's clock.
fn windows(arguments: &ProfileArguments, profile: &Profile) -> Result<Option<Vec<(f64, f64)>>, LabError> {
    if let Some(directory) = &arguments.stalls_of {
        let result = RunResult::read(directory)?;
        let of_phase = |phase: &crate::result::PhaseResult| {
            let start = phase.started_monotonic_seconds;
            stalls::windows(phase).into_iter().map(move |(from, to)| (start + from, start + to)).collect::<Vec<_>>()
        };
        return Ok(Some(result.phases.iter().flat_map(of_phase).collect()));
    }
    if arguments.from.is_none() && arguments.to.is_none() {
        return Ok(None);
    }
    let (first, last) = profile.span().unwrap_or((0.0, 0.0));
    let from = first + arguments.from.unwrap_or(0.0);
    let to = arguments.to.map_or(last + 1.0, |to| first + to);
    Ok(Some(vec![(from, to)]))
}

fn show(arguments: &ProfileArguments, profiles: &[(String, Profile)]) -> Result<(), LabError> {
    if !arguments.json {
        let sorts = arguments.sort.map_or(vec![SortBy::Own, SortBy::Largest], |sort| vec![sort]);
        for sort in sorts {
            print(&format!("{}\n", table::side_by_side(profiles, sort, arguments.top)));
        }
        return Ok(());
    }
    let listings: Vec<Listing> = profiles
        .iter()
        .map(|(title, profile)| Listing {
            profile: title.clone(),
            unit: profile.unit.clone(),
            total: profile.total(),
            frames: table::top(profile, arguments.sort.unwrap_or(SortBy::Largest), arguments.top),
        })
        .collect();
    let text = serde_json::to_string_pretty(&listings);
    print(&format!("{}\n", text.map_err(|error| LabError::Unsupported(error.to_string()))?));
    Ok(())
}

fn write(arguments: &ProfileArguments, profiles: &[(String, Profile)]) -> Result<(), LabError> {
    let directory = match (&arguments.output, arguments.read.is_empty()) {
        (Some(directory), _) => directory.clone(),
        (None, true) => default_directory("profile"),
        (None, false) => return Ok(()),
    };
    let output = OutputDirectory::create_at(&directory)?;
    for (number, (title, profile)) in profiles.iter().enumerate() {
        let name = if profiles.len() == 1 { "profile".to_owned() } else { format!("profile-{}", number + 1) };
        let svg = write_profile(&output, &name, title, profile)?;
        let top = |sort| table::top(profile, sort, arguments.top);
        let report = crate::report::profile(title, &top(SortBy::Own), &top(SortBy::Largest), &profile.folded(), &svg);
        output.write(&format!("{name}.html"), &report)?;
    }
    eprintln!("written: {}", directory.display());
    Ok(())
}

/// Writes a profile as folded stacks (with times, where it has them) and as a flame graph, which it gives.
pub(crate) fn write_profile(
    output: &OutputDirectory,
    name: &str,
    title: &str,
    profile: &Profile,
) -> Result<String, LabError> {
    output.write(&format!("{name}.folded"), &profile.folded())?;
    if profile.span().is_some() {
        output.write(&format!("{name}.timed"), &profile.timed())?;
    }
    let subtitle = format!("{} {}", crate::chart::grouped(profile.total() as f64), profile.unit);
    let svg = flame::draw(profile, title, &subtitle)?;
    output.write(&format!("{name}.svg"), &svg)?;
    Ok(svg)
}

/// The profile of a result directory, when one was taken.
pub(crate) fn of_directory(directory: &Path) -> Option<Profile> {
    ["profile.timed", "profile.folded"].iter().find_map(|name| read::read(&directory.join(name)).ok())
}

#[cfg(test)]
mod tests;
