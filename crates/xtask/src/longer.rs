//! `cargo xtask longer`: what is too long for every change, and is to pass before a release: some two hours.
//!
//! Each part by its name, or all of them. Every part runs even when an earlier one failed, so that one run shows everything.

use std::path::Path;

use crate::{Outcome, chaos, fuzz, simulation, step, suites};

/// How long honest clients live beside hostile ones.
const CHAOS_MINUTES: &str = "5";
/// How long each fuzz target runs.
const FUZZ_SECONDS: &str = "600";
/// Seeds of the simulator, and as many of whole replica sets, new ones each time.
const SEEDS: &str = "20000";

type Part = (&'static str, fn(&Path) -> Outcome);

const PARTS: &[Part] = &[
    ("chaos", |root| chaos::run(root, &["--minutes", CHAOS_MINUTES])),
    ("simulator", simulator),
    ("shared-log", shared_log),
    ("fuzz", |root| fuzz::run(root, &["--seconds", FUZZ_SECONDS])),
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
    simulation::run(root, &["--seeds", SEEDS, "--threads", &threads])?;
    simulation::run(root, &["--set", "--seeds", SEEDS, "--threads", &threads])
}

fn shared_log(root: &Path) -> Outcome {
    let words =
        ["test", "--profile", "simulation", "-p", "shared_log", "very_many_runs", "--", "--ignored", "--nocapture"];
    step::run(step::cargo(&words).current_dir(root))
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
}
