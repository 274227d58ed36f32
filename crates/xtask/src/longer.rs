//! `cargo xtask longer`: what is too long for every change, and is to pass before a release: some two hours.
//!
//! Each part by its name, or all of them. Every part runs even when an earlier one failed, so that one run shows everything.

use std::path::Path;
use std::process::Command;

use crate::{Outcome, chaos, driver_tests, simulation, step, suites};

/// How long honest clients live beside hostile ones.
const CHAOS_MINUTES: &str = "5";
/// How long each fuzz target runs.
const FUZZ_SECONDS: u32 = 600;
/// What one input may take of time and memory before it counts as found.
const FUZZ_INPUT_SECONDS_MAX: u32 = 20;
const FUZZ_MEMORY_MIB_MAX: u32 = 2048;
/// Seeds of the simulator, new ones each time.
const SEEDS: &str = "20000";

type Part = (&'static str, fn(&Path) -> Outcome);

const PARTS: &[Part] = &[
    ("chaos", |root| chaos::run(root, &["--minutes", CHAOS_MINUTES])),
    ("simulator", simulator),
    ("fuzz", fuzz),
    ("suites", |root| suites::run(root, &[])),
];

/// Runs the parts of these names, or all.
///
/// # Errors
/// There is no such part; or which parts failed, and why.
pub fn run(root: &Path, names: &[&str]) -> Outcome {
    run_parts(PARTS, root, names)
}

fn run_parts(parts: &[Part], root: &Path, names: &[&str]) -> Outcome {
    if let Some(unknown) = names.iter().find(|name| parts.iter().all(|(part, _)| part != *name)) {
        let known: Vec<&str> = parts.iter().map(|(part, _)| *part).collect();
        return Err(format!("no part {unknown:?}; there are: {}", known.join(", ")));
    }
    let mut failed = Vec::new();
    for (name, part) in parts.iter().filter(|(name, _)| names.is_empty() || names.contains(name)) {
        println!("longer: {name}");
        if let Err(message) = part(root) {
            eprintln!("{name}: {message}");
            failed.push(format!("{name}: {message}"));
        }
    }
    if failed.is_empty() {
        println!("longer: all parts passed");
        return Ok(());
    }
    Err(format!("longer: failed:\n{}", failed.join("\n")))
}

fn simulator(root: &Path) -> Outcome {
    let threads = std::thread::available_parallelism().map_or(1, usize::from).to_string();
    simulation::run(root, &["--seeds", SEEDS, "--threads", &threads])
}

/// Every target of `fuzz/`; what they find interesting is kept beside the build.
fn fuzz(root: &Path) -> Outcome {
    if !step::is_installed("cargo", &["+nightly", "fuzz", "--version"]) {
        return Err("cargo-fuzz is not installed, so nothing was fuzzed: `rustup toolchain install nightly`, then `cargo install cargo-fuzz`".to_owned());
    }
    let corpora = driver_tests::target_folder(root).join("fuzz-corpus");
    let failed: Vec<String> = fuzz_targets(root)?
        .iter()
        .filter_map(|target| {
            let corpus = corpora.join(target);
            let made = std::fs::create_dir_all(&corpus).map_err(|error| format!("{}: {error}", corpus.display()));
            made.and_then(|()| step::run(&mut fuzz_command(root, target, &corpus))).err()
        })
        .collect();
    if failed.is_empty() { Ok(()) } else { Err(failed.join("\n")) }
}

fn fuzz_command(root: &Path, target: &str, corpus: &Path) -> Command {
    let mut command = Command::new("cargo");
    command.args(["+nightly", "fuzz", "run", target]).arg(corpus).arg("--").current_dir(root);
    command.arg(format!("-max_total_time={FUZZ_SECONDS}")).arg(format!("-timeout={FUZZ_INPUT_SECONDS_MAX}"));
    command.arg(format!("-rss_limit_mb={FUZZ_MEMORY_MIB_MAX}"));
    command
}

/// The names of the files in `fuzz/fuzz_targets`.
fn fuzz_targets(root: &Path) -> Result<Vec<String>, String> {
    let folder = root.join("fuzz/fuzz_targets");
    let entries = std::fs::read_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut targets: Vec<String> = entries
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "rs"))
        .filter_map(|path| path.file_stem().map(|stem| stem.to_string_lossy().into_owned()))
        .collect();
    targets.sort();
    Ok(targets)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAMPLE: &[Part] =
        &[("good", |_| Ok(())), ("bad", |_| Err("broken".to_owned())), ("worse", |_| Err("gone".to_owned()))];

    #[test]
    fn every_part_runs_and_each_failure_is_told() {
        let root = Path::new(".");
        assert_eq!(run_parts(SAMPLE, root, &["good"]), Ok(()));
        assert_eq!(run_parts(SAMPLE, root, &[]), Err("longer: failed:\nbad: broken\nworse: gone".to_owned()));
        assert!(run_parts(SAMPLE, root, &["other"]).is_err_and(|message| message.contains("good, bad, worse")));
    }

    #[test]
    fn all_targets_are_fuzzed() {
        assert_eq!(fuzz_targets(&crate::workspace::root()), Ok(vec!["commands".to_owned(), "frames".to_owned()]));
    }
}
