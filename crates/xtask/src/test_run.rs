//! `cargo xtask test`: every test there is, and one line at the end that says how many passed.
//!
//! The Rust tests first, then the simulator, then the suites of `tests/` that drive the server through real drivers. All of it is one build: the programs
//! and examples are those that `cargo test` makes. It is the `dev` profile with a little optimisation ([`OPTIMISATION`]), so that it fits into CI.

use std::env::consts::EXE_SUFFIX;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use crate::{Outcome, driver_tests, simulation, step};

/// What the programs of a whole run are compiled with: what that takes is less than what the tests gain, but for the lab, which is
/// large and waits for servers.
const OPTIMISATION: [&str; 4] =
    ["--config", "profile.dev.opt-level=1", "--config", "profile.dev.package.lab.opt-level=0"];

/// How many tests passed and failed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) passed: usize,
    pub(crate) failed: usize,
    pub(crate) skipped: usize,
}

impl std::ops::AddAssign for Tally {
    fn add_assign(&mut self, other: Tally) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
    }
}

/// Runs all tests.
///
/// # Errors
/// A test failed, or something could not be built or installed.
pub fn run_all(root: &Path) -> Outcome {
    let mut tally = Tally::default();
    let mut broken = Vec::new();
    let began = Instant::now();
    if let Err(message) = step::run(&mut optimised(root, &["test", "--workspace", "--no-run", "--quiet"])) {
        return conclude(tally, &[message]);
    }
    println!("everything is built, in {} s", began.elapsed().as_secs());
    let programs = driver_tests::target_folder(root).join("debug");
    record("Rust tests", || rust_tests(root), &mut tally, &mut broken);
    record("simulator", || simulation::test(root, &programs), &mut tally, &mut broken);
    record("comparison of storage engines", || engine_peer(root), &mut tally, &mut broken);
    let server = programs.join(format!("plimsoll{EXE_SUFFIX}"));
    run_driver_suites(root, &server, Some(&programs.join("examples")), &mut tally, &mut broken);
    conclude(tally, &broken)
}

/// Runs only the suites of `tests/`.
///
/// # Errors
/// As [`run_all`].
pub fn run_drivers(root: &Path) -> Outcome {
    let mut tally = Tally::default();
    let mut broken = Vec::new();
    let server = driver_tests::build_server(root)?;
    run_driver_suites(root, &server, None, &mut tally, &mut broken);
    conclude(tally, &broken)
}

/// `examples` is where the lab's are built, if they are.
fn run_driver_suites(root: &Path, server: &Path, examples: Option<&Path>, tally: &mut Tally, broken: &mut Vec<String>) {
    record("Python suites", || driver_tests::python_suites(root, server, examples), tally, broken);
    record("Node suites", || driver_tests::node_suites(root, server), tally, broken);
}

fn optimised(root: &Path, arguments: &[&str]) -> Command {
    let mut command = step::cargo(arguments);
    command.args(OPTIMISATION).current_dir(root);
    command
}

/// Runs a suite and says what came of it, and in how long: CI has a limit.
fn record(name: &str, suite: impl FnOnce() -> Result<Tally, String>, tally: &mut Tally, broken: &mut Vec<String>) {
    let began = Instant::now();
    match suite() {
        Ok(suite) => {
            let Tally { passed, failed, skipped } = suite;
            let seconds = began.elapsed().as_secs();
            println!("{name}: {passed} passed, {failed} failed, {skipped} skipped in {seconds} s");
            *tally += suite;
        }
        Err(message) => broken.push(format!("{name}: {message}")),
    }
}

fn conclude(tally: Tally, broken: &[String]) -> Outcome {
    for message in broken {
        println!("{message}");
    }
    println!("{} passed, {} failed", tally.passed, tally.failed + broken.len());
    if tally.failed == 0 && broken.is_empty() { Ok(()) } else { Err("the tests failed".to_owned()) }
}

fn rust_tests(root: &Path) -> Result<Tally, String> {
    let (tally, succeeded) = run_counted(&mut optimised(root, &["test", "--workspace", "--no-fail-fast"]), cargo_line)?;
    if tally.failed == 0 && !succeeded {
        return Err("cargo test failed before the tests could run".to_owned());
    }
    Ok(tally)
}

/// What lies outside of the workspace and uses its crates: it must compile.
fn engine_peer(root: &Path) -> Result<Tally, String> {
    let manifest = "benchmarks/engines/plimsoll/Cargo.toml";
    let target = root.join("target/engine-peer");
    let arguments = ["check", "--quiet", "--manifest-path", manifest];
    step::run(step::cargo(&arguments).current_dir(root).env("CARGO_TARGET_DIR", target))?;
    Ok(Tally { passed: 1, ..Tally::default() })
}

/// Runs a program, passes on what it prints, and counts the results that `read_line` finds in it. The second value is
/// whether the program succeeded.
pub(crate) fn run_counted(
    command: &mut Command,
    read_line: fn(&str) -> Option<Tally>,
) -> Result<(Tally, bool), String> {
    let mut tally = Tally::default();
    let succeeded = stream_lines(command, |line| {
        if let Some(counted) = read_line(line) {
            tally += counted;
        }
    })?;
    Ok((tally, succeeded))
}

/// Runs a program, passes on what it prints, and has `read_line` see each line. Whether the program succeeded.
pub(crate) fn stream_lines(command: &mut Command, mut read_line: impl FnMut(&str)) -> Result<bool, String> {
    step::announce(command);
    let describe = |error: std::io::Error| error.to_string();
    let mut child = command.stdout(Stdio::piped()).spawn().map_err(describe)?;
    if let Some(output) = child.stdout.take() {
        for line in BufReader::new(output).split(b'\n') {
            let line = String::from_utf8_lossy(&line.map_err(describe)?).into_owned();
            println!("{line}");
            read_line(&line);
        }
    }
    Ok(child.wait().map_err(describe)?.success())
}

/// `test result: ok. 5 passed; 0 failed; 1 ignored; ...`
fn cargo_line(line: &str) -> Option<Tally> {
    let rest = line.strip_prefix("test result: ")?;
    Some(Tally {
        passed: number_before(rest, " passed"),
        failed: number_before(rest, " failed"),
        skipped: number_before(rest, " ignored"),
    })
}

/// The number that stands before `word`, or 0.
pub(crate) fn number_before(line: &str, word: &str) -> usize {
    let Some(position) = line.find(word) else {
        return 0;
    };
    let digits = line[..position].rsplit(|c: char| !c.is_ascii_digit()).next().unwrap_or_default();
    digits.parse().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_counted() {
        let line = "test result: FAILED. 12 passed; 3 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.01s";
        assert_eq!(cargo_line(line), Some(Tally { passed: 12, failed: 3, skipped: 1 }));
        assert_eq!(cargo_line("test a ... ok"), None);
    }
}
