//! `cargo xtask simulate`: the deterministic simulator over many seeds.
//!
//! Called by people, with the simulator's own options, and by `cargo xtask test`: the same seeds every time, and then some
//! that are new each time. The simulator prints the seed of a failure and the command that repeats it.

use std::path::Path;

use crate::test_run::Tally;
use crate::{Outcome, step};

/// Seeds that every run of the tests has.
const FIXED_SEEDS: usize = 2_000;
/// Seeds that are drawn anew for each run.
const NEW_SEEDS: usize = 500;
/// Seeds with flipped bits and a repair, which are few among the others.
const FLIPPED_SEEDS: usize = 500;
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

/// What `cargo xtask test` runs.
pub(crate) fn test(root: &Path) -> Result<Tally, String> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from).to_string();
    let (fixed, new) = (FIXED_SEEDS.to_string(), NEW_SEEDS.to_string());
    let (flipped, repeated) = (FLIPPED_SEEDS.to_string(), REPEATED_SEEDS.to_string());
    run(root, &["--from", "1", "--seeds", &fixed, "--threads", &threads])?;
    run(root, &["--from", "1", "--seeds", &repeated, "--threads", &threads, "--twice"])?;
    run(root, &["--from", "1", "--seeds", &flipped, "--threads", &threads, "--trouble", "bit-flips"])?;
    run(root, &["--seeds", &new, "--threads", &threads])?;
    Ok(Tally { passed: FIXED_SEEDS + NEW_SEEDS + FLIPPED_SEEDS + REPEATED_SEEDS, ..Tally::default() })
}
