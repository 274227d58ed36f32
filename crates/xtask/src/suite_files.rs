//! The files of `tests/` that a runner runs: several at once, each in a process of its own, and in which order.
//!
//! Called by `driver_tests`. Every file starts servers of its own, so files do not disturb each other, but for the processors' time. What mostly waits
//! begins first, beside the others. What measures memory or counts threads, connections or times of its own runs alone when those have ended.

use std::collections::VecDeque;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::test_run::Ended;

/// They mostly wait, or last long: they begin first.
const FIRST: &[&str] = &[
    "tests/crash/test_replica_set.py",
    "tests/drivers/test_staying_connected.py",
    "tests/crash/test_kill.py",
    "tests/drivers/test_other_drivers.py",
    "tests/applications/test_applications.py",
    "tests/reports/test_reports.py",
    "tests/pymongo/test_interruption.py",
    "tests/crash/test_transaction_histories.py",
];
/// What the name of a file begins with that measures what others would disturb.
const ALONE: &[&str] = &["test_memory", "test_admission"];
/// What the name of a file ends with that Node's runner runs; the others are pytest's.
pub(crate) const NODE_ENDING: &str = ".test.mjs";
/// So many of the slowest are named at the end.
const SLOWEST_SHOWN: usize = 10;

/// A file that was run.
pub(crate) struct Ran {
    pub(crate) file: PathBuf,
    pub(crate) output: String,
    pub(crate) succeeded: bool,
    pub(crate) took: Duration,
}

/// Runs all files, each with what `command` gives for it, `at_once` of them at a time; prints each one's output when it ends.
///
/// # Errors
/// A file that is named here is not there, or a program cannot be run.
pub(crate) fn run(
    root: &Path,
    at_once: usize,
    command: impl Fn(&Path) -> Command + Sync,
    count: impl Fn(&Ran) -> Ended + Sync,
) -> Result<Ended, String> {
    let (beside, alone) = in_order(&found(root)?)?;
    let total = Mutex::new((Ended::default(), Vec::new()));
    let run_one = |file: &PathBuf| -> Result<(), String> {
        println!("> {}", file.display());
        let ran = run_file(&mut command(file), file)?;
        println!("{}", ran.output);
        let ended = count(&ran);
        let mut total = total.lock().unwrap_or_else(PoisonError::into_inner);
        total.0.tally += ended.tally;
        total.0.failures.push_str(&ended.failures);
        total.1.push((ran.took, file.clone()));
        Ok(())
    };
    at_the_same_time(beside, at_once, &run_one)?;
    at_the_same_time(alone, 1, &run_one)?;
    let (ended, mut times) = total.into_inner().unwrap_or_else(PoisonError::into_inner);
    times.sort();
    for (took, file) in times.iter().rev().take(SLOWEST_SHOWN) {
        println!("{:4} s  {}", took.as_secs(), file.display());
    }
    Ok(ended)
}

/// Every `test_*.py` and `*.test.mjs`, by its path from the root.
fn found(root: &Path) -> Result<Vec<PathBuf>, String> {
    let mut files = Vec::new();
    let mut folders = vec![root.join("tests")];
    while let Some(folder) = folders.pop() {
        let entries = fs::read_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        for path in entries.flatten().map(|entry| entry.path()) {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if path.is_dir() {
                folders.push(path);
            } else if name.starts_with("test_") && name.ends_with(".py") || name.ends_with(NODE_ENDING) {
                files.push(path.strip_prefix(root).unwrap_or(&path).to_owned());
            }
        }
    }
    files.sort();
    Ok(files)
}

/// The files that run beside others, those first that are to begin first, and those that run alone.
fn in_order(files: &[PathBuf]) -> Result<(Vec<PathBuf>, Vec<PathBuf>), String> {
    let is_named = |name: &&str| files.iter().any(|file| file == Path::new(name));
    if let Some(missing) = FIRST.iter().find(|name| !is_named(name)) {
        return Err(format!("{missing} is to begin first and does not exist (crates/xtask/src/suite_files.rs)"));
    }
    let is_alone = |file: &PathBuf| {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        ALONE.iter().any(|beginning| name.starts_with(beginning))
    };
    let (alone, mut beside): (Vec<PathBuf>, Vec<PathBuf>) = files.iter().cloned().partition(is_alone);
    let rank = |file: &PathBuf| FIRST.iter().position(|name| file == Path::new(name)).unwrap_or(FIRST.len());
    beside.sort_by_key(rank);
    Ok((beside, alone))
}

fn at_the_same_time(
    files: Vec<PathBuf>,
    at_once: usize,
    run_one: &(impl Fn(&PathBuf) -> Result<(), String> + Sync),
) -> Result<(), String> {
    let waiting = Mutex::new(VecDeque::from(files));
    let next = || waiting.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
    std::thread::scope(|scope| {
        let work = || -> Result<(), String> {
            while let Some(file) = next() {
                run_one(&file)?;
            }
            Ok(())
        };
        let workers: Vec<_> = (0..at_once).map(|_| scope.spawn(work)).collect();
        // Everything that can run does: an error is told when all have ended.
        let ends: Vec<_> = workers.into_iter().map(|worker| worker.join()).collect();
        ends.into_iter().try_for_each(|end| end.unwrap_or_else(|_| Err("a test runner's thread panicked".to_owned())))
    })
}

fn run_file(command: &mut Command, file: &Path) -> Result<Ran, String> {
    let began = Instant::now();
    // What a test prints to the error stream comes at once: also the stacks of one that hangs.
    let output = command
        .arg(file)
        .stderr(std::process::Stdio::inherit())
        .output()
        .map_err(|error| format!("{}: {error}", file.display()))?;
    Ok(Ran {
        file: file.to_owned(),
        output: String::from_utf8_lossy(&output.stdout).into_owned(),
        succeeded: output.status.success(),
        took: began.elapsed(),
    })
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::test_run::Tally;

    #[test]
    fn what_waits_comes_first_and_what_measures_runs_alone() {
        let mut files: Vec<PathBuf> = FIRST.iter().map(PathBuf::from).collect();
        files.extend(["tests/pymongo/test_find.py", "tests/pymongo/test_memory_clients.py"].map(PathBuf::from));
        files.sort();
        let (beside, alone) = in_order(&files).unwrap();
        assert_eq!(beside.first(), Some(&PathBuf::from(FIRST[0])));
        assert_eq!(beside.last(), Some(&PathBuf::from("tests/pymongo/test_find.py")));
        assert_eq!(alone, [PathBuf::from("tests/pymongo/test_memory_clients.py")]);
        files.remove(0);
        assert!(in_order(&files).is_err(), "a name without a file is told");
    }

    #[test]
    fn files_are_found_run_and_counted() {
        let root = std::env::temp_dir().join(format!("python-files-{}", std::process::id()));
        let names = FIRST.iter().copied().chain([
            "tests/pymongo/test_find.py",
            "tests/pymongo/test_memory.py",
            "tests/node/a.test.mjs",
        ]);
        for name in names.chain(["tests/pymongo/helpers.py", "tests/node/helpers.mjs"]) {
            let path = root.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        let shell = |_: &Path| {
            let mut command = Command::new("sh");
            command.args(["-c", "echo ran $0; case $0 in *find*) exit 1;; esac"]);
            command
        };
        let count = |ran: &Ran| {
            assert_eq!(ran.output, format!("ran {}\n", ran.file.display()));
            let failures = if ran.succeeded { String::new() } else { ran.file.display().to_string() };
            let tally = Tally { passed: usize::from(ran.succeeded), failed: usize::from(!ran.succeeded), skipped: 0 };
            Ended { tally, failures }
        };
        let ended = run(&root, 3, shell, count);
        fs::remove_dir_all(&root).unwrap();
        let tally = Tally { passed: FIRST.len() + 2, failed: 1, skipped: 0 };
        assert_eq!(ended, Ok(Ended { tally, failures: "tests/pymongo/test_find.py".to_owned() }));
    }

    #[test]
    fn every_file_runs_once_and_a_failure_is_told_when_the_others_have_run() {
        let files: Vec<PathBuf> = (0..20).map(|number| PathBuf::from(number.to_string())).collect();
        let ran = AtomicUsize::new(0);
        let run_one = |file: &PathBuf| {
            ran.fetch_add(1, Ordering::Relaxed);
            if file == Path::new("3") { Err("cannot be run".to_owned()) } else { Ok(()) }
        };
        assert!(at_the_same_time(files, 3, &run_one).is_err());
        assert_eq!(ran.load(Ordering::Relaxed), 20);
    }
}
