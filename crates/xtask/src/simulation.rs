//! `cargo xtask simulate`: the deterministic simulator over many seeds.
//!
//! Called by people, with the simulator's own options, and by `cargo xtask test`: the same seeds every time, and then some
//! that are new each time. The simulator prints the seed of a failure and the command that repeats it.

use std::env::consts::EXE_SUFFIX;
use std::path::Path;
use std::process::Command;

use crate::test_run::{Ended, run_counted};
use crate::{Outcome, failures, step};

/// Seeds that every run of the tests has.
const FIXED_SEEDS: usize = 2_000;
/// Seeds that are drawn anew for each run.
const NEW_SEEDS: usize = 500;
/// Seeds with flipped bits and a repair, which are few among the others.
const FLIPPED_SEEDS: usize = 500;
/// Seeds with a full disk that is encrypted: few of the others have both.
const FULL_ENCRYPTED_SEEDS: usize = 500;
/// Seeds of whole replica sets: those that every run has, and new ones. Ten take a second of one processor at least.
const SET_SEEDS: usize = 1_500;
const NEW_SET_SEEDS: usize = 500;
/// Seeds that are run twice: what a seed does must be the same every time, or a failure could not be looked at.
const REPEATED_SEEDS: usize = 100;

/// Runs the simulator with these options.
///
/// # Errors
/// A seed failed, or the simulator could not be built.
pub fn run(root: &Path, options: &[&str]) -> Outcome {
    let mut command = step::cargo(&["run", "--quiet", "--profile", "simulation", "-p", "simulator", "--"]);
    command.args(options).current_dir(root);
    step::run(&mut command)
}

/// What `cargo xtask test` runs, with the program that is built in a folder.
pub(crate) fn test(root: &Path, programs: &Path) -> Result<Ended, String> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from).to_string();
    let program = programs.join(format!("simulator{EXE_SUFFIX}"));
    let runs: [(usize, &[&str]); 8] = [
        (FIXED_SEEDS, &["--from", "1"]),
        (REPEATED_SEEDS, &["--from", "1", "--twice"]),
        (FLIPPED_SEEDS, &["--from", "1", "--trouble", "bit-flips"]),
        (FULL_ENCRYPTED_SEEDS, &["--from", "1", "--trouble", "full-disk", "--encrypted"]),
        (NEW_SEEDS, &[]),
        (SET_SEEDS, &["--set", "--from", "1"]),
        (REPEATED_SEEDS, &["--set", "--from", "1", "--twice"]),
        (NEW_SET_SEEDS, &["--set"]),
    ];
    let mut all = Ended::default();
    for (seeds, options) in runs {
        let mut command = Command::new(&program);
        command.args(options).args(["--seeds", &seeds.to_string(), "--threads", &threads]).current_dir(root);
        let (run, succeeded) = run_counted(&mut command, |_| None, failures::OF_SIMULATOR)?;
        all.failures += &run.failures;
        if succeeded {
            all.tally.passed += seeds;
        } else {
            all.tally.failed += 1;
        }
    }
    Ok(all)
}
