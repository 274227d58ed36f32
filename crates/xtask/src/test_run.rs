//! `cargo xtask test`: every test there is, and one line at the end that says how many passed.
//!
//! The Rust tests first, then the simulator, then the suites of `tests/` that drive the server through real drivers. All of it is one build: the programs
//! and examples are those that `cargo test` makes. It is the `dev` profile with a little optimisation ([`OPTIMISATION`]), so that it fits into CI.

use std::env::consts::EXE_SUFFIX;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use crate::failures::{self, Failures, Marks};
use crate::{Outcome, driver_tests, races, simulation, step};

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

/// What came of a suite: the counts, and what its runner says of failures, which is said again at the end of all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ended {
    pub(crate) tally: Tally,
    pub(crate) failures: String,
}

impl From<Tally> for Ended {
    fn from(tally: Tally) -> Ended {
        Ended { tally, failures: String::new() }
    }
}

/// What all suites together came to.
#[derive(Default)]
struct Total {
    tally: Tally,
    /// The suites that could not be run to their end, and why.
    broken: Vec<String>,
    failures: Vec<String>,
}

/// Runs all tests.
///
/// # Errors
/// A test failed, or something could not be built or installed.
pub fn run_all(root: &Path) -> Outcome {
    let mut total = Total::default();
    let began = Instant::now();
    if let Err(message) = step::run(&mut optimised(root, &["test", "--workspace", "--no-run", "--quiet"])) {
        total.broken.push(message);
        return total.conclude();
    }
    println!("everything is built, in {} s", began.elapsed().as_secs());
    let programs = driver_tests::target_folder(root).join("debug");
    total.record("Rust tests", || rust_tests(root));
    total.record("simulator", || simulation::test(root, &programs));
    total.record("data races", || races::test(root));
    total.record("comparison of storage engines", || engine_peer(root).map(Ended::from));
    let server = programs.join(format!("plimsoll{EXE_SUFFIX}"));
    let examples = programs.join("examples");
    total.record("driver suites", || driver_tests::suites(root, &server, Some(&examples)));
    total.conclude()
}

/// Runs only the suites of `tests/`.
///
/// # Errors
/// As [`run_all`].
pub fn run_drivers(root: &Path) -> Outcome {
    let mut total = Total::default();
    let server = driver_tests::build_server(root)?;
    total.record("driver suites", || driver_tests::suites(root, &server, None));
    total.conclude()
}

impl Total {
    /// Runs a suite and says what came of it, and in how long: CI has a limit.
    fn record(&mut self, name: &str, suite: impl FnOnce() -> Result<Ended, String>) {
        let began = Instant::now();
        match suite() {
            Ok(ended) => {
                let Tally { passed, failed, skipped } = ended.tally;
                let seconds = began.elapsed().as_secs();
                println!("{name}: {passed} passed, {failed} failed, {skipped} skipped in {seconds} s");
                self.tally += ended.tally;
                if !ended.failures.is_empty() {
                    self.failures.push(format!("{name}, what failed:\n{}", ended.failures));
                }
            }
            Err(message) => self.broken.push(format!("{name}: {message}")),
        }
    }

    fn conclude(self) -> Outcome {
        for message in self.failures.iter().chain(&self.broken) {
            println!("{message}");
        }
        let (passed, failed) = (self.tally.passed, self.tally.failed + self.broken.len());
        println!("{passed} passed, {failed} failed");
        if failed == 0 { Ok(()) } else { Err("the tests failed".to_owned()) }
    }
}

fn optimised(root: &Path, arguments: &[&str]) -> Command {
    let mut command = step::cargo(arguments);
    command.args(OPTIMISATION).current_dir(root);
    command
}

fn rust_tests(root: &Path) -> Result<Ended, String> {
    let mut tests = optimised(root, &["test", "--workspace", "--no-fail-fast"]);
    let (ended, succeeded) = run_counted(&mut tests, cargo_line, failures::OF_CARGO)?;
    if ended.tally.failed == 0 && !succeeded {
        return Err("cargo test failed before the tests could run".to_owned());
    }
    Ok(ended)
}

/// What lies outside of the workspace and uses its crates: it must compile.
fn engine_peer(root: &Path) -> Result<Tally, String> {
    let manifest = "benchmarks/engines/plimsoll/Cargo.toml";
    let target = root.join("target/engine-peer");
    let arguments = ["check", "--quiet", "--manifest-path", manifest];
    step::run(step::cargo(&arguments).current_dir(root).env("CARGO_TARGET_DIR", target))?;
    Ok(Tally { passed: 1, ..Tally::default() })
}

/// Runs a program, passes on what it prints, counts the results that `read_line` finds in it, and gathers what stands
/// between `marks`. The second value is whether the program succeeded.
pub(crate) fn run_counted(
    command: &mut Command,
    read_line: fn(&str) -> Option<Tally>,
    marks: Marks,
) -> Result<(Ended, bool), String> {
    let mut tally = Tally::default();
    let mut failures = Failures::new(marks);
    let succeeded = stream_lines(command, |line| {
        failures.read(line);
        if let Some(counted) = read_line(line) {
            tally += counted;
        }
    })?;
    Ok((Ended { tally, failures: failures.into_text() }, succeeded))
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
pub(crate) fn cargo_line(line: &str) -> Option<Tally> {
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
