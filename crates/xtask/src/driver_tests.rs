//! The suites of `tests/`: real drivers against the real binary.
//!
//! Called by `test_run`. What they need is installed under `target/driver-tests`, in the versions that
//! `tests/requirements.txt` and `tests/package.json` pin, and again only when those files change.

use std::env::consts::EXE_SUFFIX;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::suite_files::{self, NODE_ENDING, Ran};
use crate::test_run::{Ended, Tally, number_before};
use crate::{Outcome, failures, package, step};

/// Builds the server, and the lab beside it, and says where it is.
pub(crate) fn build_server(root: &Path) -> Result<PathBuf, String> {
    let programs = ["--package", "server", "--bin", "plimsoll", "--package", "lab", "--bin", "plimsoll-lab"];
    step::run(step::cargo(&["build"]).args(programs).current_dir(root))?;
    Ok(target_folder(root).join("debug").join(format!("plimsoll{EXE_SUFFIX}")))
}

/// Builds the server, optimised, and says where it is.
pub(crate) fn build_released_server(root: &Path) -> Result<PathBuf, String> {
    step::run(step::cargo(&["build", "--release", "--package", "server", "--bin", "plimsoll"]).current_dir(root))?;
    Ok(target_folder(root).join("release").join(format!("plimsoll{EXE_SUFFIX}")))
}

/// PyMongo, mongosh, the crash tests, the Node driver and the console; one more file at once than there are processors, as most wait now
/// and then.
pub(crate) fn suites(root: &Path, server: &Path, examples: Option<&Path>) -> Result<Ended, String> {
    let python = install_python(root)?;
    let modules = install_node(root)?;
    let packages = package::build(root, server.parent().unwrap_or(root))?;
    let packages = packages.first().and_then(|package| package.parent()).unwrap_or(root);
    let runner = |file: &Path| {
        let mut command = if is_of_node(file) { node() } else { pytest(&python) };
        command
            .current_dir(root)
            .env("PLIMSOLL_BINARY", server)
            .env("PLIMSOLL_MONGOSH", modules.join(".bin/mongosh"))
            .env("PLIMSOLL_NODE_MODULES", &modules)
            .env("PLIMSOLL_PACKAGES", packages);
        examples.map(|folder| command.env("PLIMSOLL_EXAMPLES", folder));
        command
    };
    let at_once = std::thread::available_parallelism().map_or(1, usize::from) + 1;
    let ended = suite_files::run(root, at_once, runner, file_ended)?;
    if ended.tally.passed + ended.tally.failed == 0 {
        return Err("no test was run".to_owned());
    }
    Ok(ended)
}

fn pytest(python: &Path) -> Command {
    let mut command = Command::new(python);
    command.args(["-m", "pytest", "-v", "--durations=5", "--durations-min=3", "--color=no"]);
    command.env("PYTHONDONTWRITEBYTECODE", "1");
    command
}

fn node() -> Command {
    let mut command = Command::new("node");
    command.args(["--test", "--test-reporter=tap"]);
    command
}

fn is_of_node(file: &Path) -> bool {
    file.to_string_lossy().ends_with(NODE_ENDING)
}

/// What came of one file. One that could not be collected, or was ended, counts as a failure.
fn file_ended(ran: &Ran) -> Ended {
    type Reader = (fn(&str) -> Option<Tally>, failures::Marks);
    let (read_line, marks): Reader =
        if is_of_node(&ran.file) { (tap_line, failures::OF_TAP) } else { (pytest_line, failures::OF_PYTEST) };
    let mut tally = Tally::default();
    ran.output.lines().filter_map(read_line).for_each(|counted| tally += counted);
    if !ran.succeeded && tally.failed == 0 {
        println!("{}: its runner failed", ran.file.display());
        tally.failed = 1;
    }
    let mut failures = failures::told_in(&ran.output, marks);
    if tally.failed > 0 {
        failures = format!("{}\n{failures}\n", ran.file.display());
    }
    Ended { tally, failures }
}

/// A virtual environment with what `tests/requirements.txt` names; gives its Python.
pub(crate) fn install_python(root: &Path) -> Result<PathBuf, String> {
    let folder = target_folder(root).join("driver-tests/python");
    let python = folder.join("bin/python");
    install_once(&root.join("tests/requirements.txt"), &folder, |requirements| {
        step::run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&folder))?;
        let mut install = Command::new(&python);
        install.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--requirement"]);
        step::run(install.arg(requirements))
    })?;
    Ok(python)
}

/// A folder with what `tests/package.json` names; gives its `node_modules`. No install scripts are run: the native
/// modules that they would build are optional.
fn install_node(root: &Path) -> Result<PathBuf, String> {
    let folder = target_folder(root).join("driver-tests/node");
    install_once(&root.join("tests/package.json"), &folder, |package| {
        fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        fs::copy(package, folder.join("package.json")).map_err(|error| format!("{}: {error}", package.display()))?;
        let arguments = ["install", "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error"];
        step::run(Command::new("npm").args(arguments).current_dir(&folder))
    })?;
    Ok(folder.join("node_modules"))
}

/// Runs `install` unless it was run before for the same content of `manifest`.
pub(crate) fn install_once(manifest: &Path, folder: &Path, install: impl FnOnce(&Path) -> Outcome) -> Outcome {
    let wanted = fs::read_to_string(manifest).map_err(|error| format!("{}: {error}", manifest.display()))?;
    let stamp = folder.join("installed");
    if fs::read_to_string(&stamp).is_ok_and(|installed| installed == wanted) {
        return Ok(());
    }
    install(manifest)?;
    fs::write(&stamp, wanted).map_err(|error| format!("{}: {error}", stamp.display()))
}

/// Where cargo builds, and where what the tests need is installed.
pub(crate) fn target_folder(root: &Path) -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), |folder| root.join(folder))
}

/// `==== 2 failed, 120 passed, 1 skipped in 30.10s ====`
fn pytest_line(line: &str) -> Option<Tally> {
    if !line.starts_with("==") || !line.contains(" in ") {
        return None;
    }
    Some(Tally {
        passed: number_before(line, " passed"),
        failed: number_before(line, " failed") + number_before(line, " error"),
        skipped: number_before(line, " skipped"),
    })
}

/// `# pass 3`, `# fail 0`, `# skipped 1`
fn tap_line(line: &str) -> Option<Tally> {
    let count = |prefix: &str| line.strip_prefix(prefix).and_then(|number| number.trim().parse().ok());
    let mut tally = Tally::default();
    if let Some(passed) = count("# pass ") {
        tally.passed = passed;
    } else if let Some(failed) = count("# fail ").or_else(|| count("# cancelled ")) {
        tally.failed = failed;
    } else if let Some(skipped) = count("# skipped ") {
        tally.skipped = skipped;
    } else {
        return None;
    }
    Some(tally)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn summaries_of_both_runners_are_read() {
        let pytest = pytest_line("===== 2 failed, 120 passed, 1 skipped, 1 error in 30.10s =====");
        assert_eq!(pytest, Some(Tally { passed: 120, failed: 3, skipped: 1 }));
        assert_eq!(pytest_line("===== slowest 5 durations ====="), None);
        assert_eq!(tap_line("# pass 3"), Some(Tally { passed: 3, ..Tally::default() }));
        assert_eq!(tap_line("# tests 3"), None);
    }

    #[test]
    fn a_file_whose_run_failed_without_saying_so_is_a_failure() {
        let of = |file: &str, output: &str, succeeded| Ran {
            file: file.into(),
            output: output.to_owned(),
            succeeded,
            took: std::time::Duration::ZERO,
        };
        let ran = |output: &str, succeeded| of("tests/test_a.py", output, succeeded);
        let summary = "===== 3 passed, 1 skipped in 2.00s =====\n";
        assert_eq!(file_ended(&ran(summary, true)).tally, Tally { passed: 3, failed: 0, skipped: 1 });
        assert_eq!(file_ended(&ran("===== 1 failed in 2.00s =====", false)).tally.failed, 1);
        assert_eq!(file_ended(&ran(summary, false)).tally.failed, 1, "killed behind its summary");
        assert_eq!(file_ended(&ran("", false)).tally.failed, 1);
        assert_eq!(file_ended(&ran("", false)).failures, "tests/test_a.py\n\n", "the file is named at the end");
        assert_eq!(file_ended(&ran(summary, true)).failures, "");
        let tap = |output: &str, succeeded| file_ended(&of("tests/node/a.test.mjs", output, succeeded)).tally;
        assert_eq!(tap("# pass 3\n# fail 0\n", true), Tally { passed: 3, ..Tally::default() });
        assert_eq!(tap("# pass 3\n# fail 1\n", false), Tally { passed: 3, failed: 1, skipped: 0 });
        assert_eq!(tap("", false).failed, 1);
    }
}
