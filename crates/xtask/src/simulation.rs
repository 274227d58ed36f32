//! `cargo xtask simulate`: the deterministic simulator over many seeds.
//!
//! Called by people, with the simulator's own options, and by `cargo xtask test`: the same seeds every time, and then some
//! that are new each time. The simulator prints the seed of a failure and the command that repeats it.

use std::env::consts::EXE_SUFFIX;
use std::path::Path;
use std::process::Command;

use crate::test_run::Tally;
use crate::{Outcome, step};

/// Seeds that every run of the tests has.
const FIXED_SEEDS: usize = 2_000;
/// Seeds that are drawn anew for each run.
const NEW_SEEDS: usize = 500;
/// Seeds with flipped bits and a repair, which are few among the others.
const FLIPPED_SEEDS: usize = 500;
/// Seeds with a full disk that is encrypted: few of the others have both.
const FULL_ENCRYPTED_SEEDS: usize = 500;
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
pub(crate) fn test(root: &Path, programs: &Path) -> Result<Tally, String> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from).to_string();
    let (fixed, new) = (FIXED_SEEDS.to_string(), NEW_SEEDS.to_string());
    let (flipped, repeated) = (FLIPPED_SEEDS.to_string(), REPEATED_SEEDS.to_string());
    let full = FULL_ENCRYPTED_SEEDS.to_string();
    let simulate = |options: &[&str]| {
        let program = programs.join(format!("simulator{EXE_SUFFIX}"));
        step::run(Command::new(program).args(options).args(["--threads", &threads]).current_dir(root))
    };
    simulate(&["--from", "1", "--seeds", &fixed])?;
    simulate(&["--from", "1", "--seeds", &repeated, "--twice"])?;
    simulate(&["--from", "1", "--seeds", &flipped, "--trouble", "bit-flips"])?;
    simulate(&["--from", "1", "--seeds", &full, "--trouble", "full-disk", "--encrypted"])?;
    simulate(&["--seeds", &new])?;
    let passed = FIXED_SEEDS + NEW_SEEDS + FLIPPED_SEEDS + FULL_ENCRYPTED_SEEDS + REPEATED_SEEDS;
    Ok(Tally { passed, ..Tally::default() })
}
