//! PyMongo's own tests, from its source distribution.
//!
//! Run by `suites`. The version is that of `tests/requirements.txt`; the tests' own requirements come with the distribution.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Ending, Finished};
use crate::driver_tests::target_folder;
use crate::test_run::stream_lines;
use crate::{Outcome, step};

/// No test may take longer, in seconds.
const TEST_SECONDS_MAX: &str = "180";

/// Runs the tests of the synchronous driver against the server at `port`, those in `only` or all; the asynchronous one sends the same.
pub(super) fn run(root: &Path, port: u16, only: &[String]) -> Result<Vec<Finished>, String> {
    let (python, sources) = install(root)?;
    let mut command = Command::new(python);
    command.args(["-m", "pytest", "-v", "--color=no", "-p", "no:cacheprovider", "--timeout", TEST_SECONDS_MAX]);
    // Markers keep what needs more than a server from being run; what is named is run whatever its markers.
    match only.is_empty() {
        true => command.args(["-m", "default", "test"]),
        false => command.args(["-m", ""]).args(only),
    };
    command.current_dir(sources);
    command.env("DB_IP", "127.0.0.1").env("DB_PORT", port.to_string());
    let mut finished: Vec<Finished> = Vec::new();
    // That some tests fail is expected, so how the runner ended says nothing.
    stream_lines(&mut command, |line| {
        if let Some(test) = parse(line) {
            // A test that passes and whose end fails is told twice: the failure counts.
            match finished.iter_mut().rev().take(2).find(|earlier| earlier.test == test.test) {
                Some(earlier) if test.ending == Ending::Failed => earlier.ending = Ending::Failed,
                Some(_) => {}
                None => finished.push(test),
            }
        }
    })?;
    if finished.is_empty() { Err("no test was run".to_owned()) } else { Ok(finished) }
}

/// `test/test_bulk.py::TestBulk::test_upsert PASSED [ 5%]`
fn parse(line: &str) -> Option<Finished> {
    let (test, rest) = line.split_once(' ')?;
    let ending = match rest.split_whitespace().next()? {
        "PASSED" | "XFAIL" => Ending::Passed,
        "FAILED" | "ERROR" | "XPASS" => Ending::Failed,
        "SKIPPED" => Ending::Skipped,
        _ => return None,
    };
    test.contains("::").then(|| Finished { test: test.to_owned(), ending })
}

/// The folder of the distribution.
pub(super) fn sources(root: &Path) -> Result<PathBuf, String> {
    install(root).map(|(_, sources)| sources)
}

/// The Python that has what the tests need, and the folder of the distribution.
fn install(root: &Path) -> Result<(PathBuf, PathBuf), String> {
    let version = pinned_version(root)?;
    let folder = target_folder(root).join("suites").join(format!("pymongo-{version}"));
    let (python, sources) = (folder.join("venv/bin/python"), folder.join(format!("pymongo-{version}")));
    let stamp = folder.join("installed");
    if !stamp.exists() {
        fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        step::run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(folder.join("venv")))?;
        fetch(&python, &folder, &version)?;
        let requirements = sources.join("requirements/test.txt");
        pip(
            &python,
            &["install", &format!("pymongo=={version}"), "pytest-timeout==2.4.0", "--requirement"],
            &requirements,
        )?;
        fs::write(&stamp, "").map_err(|error| format!("{}: {error}", stamp.display()))?;
    }
    Ok((python, sources))
}

/// Unpacks the source distribution into `folder`.
fn fetch(python: &Path, folder: &Path, version: &str) -> Outcome {
    let package = format!("pymongo=={version}");
    pip(python, &["download", "--no-deps", "--no-binary", ":all:", &package, "--dest"], folder)?;
    let archive = folder.join(format!("pymongo-{version}.tar.gz"));
    step::run(Command::new("tar").arg("-xzf").arg(archive).arg("-C").arg(folder))
}

fn pip(python: &Path, arguments: &[&str], path: &Path) -> Outcome {
    let mut command = Command::new(python);
    command.args(["-m", "pip", arguments[0], "--quiet", "--disable-pip-version-check"]).args(&arguments[1..]);
    step::run(command.arg(path))
}

fn pinned_version(root: &Path) -> Result<String, String> {
    let path = root.join("tests/requirements.txt");
    let text = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    let pinned = text.lines().find_map(|line| line.strip_prefix("pymongo=="));
    pinned.map(|version| version.trim().to_owned()).ok_or_else(|| format!("{} pins no pymongo", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_runner_are_read() {
        let line = "test/test_bulk.py::TestBulk::test_upsert PASSED                [  5%]";
        let upsert = |ending| Some(Finished { test: "test/test_bulk.py::TestBulk::test_upsert".to_owned(), ending });
        assert_eq!(parse(line), upsert(Ending::Passed));
        assert_eq!(
            parse("test/test_bulk.py::TestBulk::test_upsert SKIPPED (no reason) [  5%]"),
            upsert(Ending::Skipped)
        );
        assert_eq!(parse("test/test_bulk.py::TestBulk::test_upsert ERROR [  5%]"), upsert(Ending::Failed));
        assert_eq!(parse("FAILED test/test_bulk.py::TestBulk::test_upsert - AssertionError"), None);
    }
}
