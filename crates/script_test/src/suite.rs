//! Runs every script of a folder and compares outcomes with expectations, or records them.

use crate::literal;
use crate::print::print_value;
use crate::script::{self, Case};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// The section that holds what a case must give.
const EXPECTATION: &str = "expect";

/// Setting this environment variable rewrites the scripts with the outcomes.
const RECORD_VARIABLE: &str = "SCRIPT_TEST_RECORD";

/// A folder of scripts.
#[derive(Debug)]
pub struct Suite {
    folder: PathBuf,
    carried: Vec<String>,
}

impl Suite {
    /// The scripts (`*.txt`) directly in `folder`.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into(), carried: Vec::new() }
    }

    /// Lets section `name` stay in force for the later cases of a file until it is given again.
    pub fn carry_over(mut self, name: &str) -> Self {
        self.carried.push(name.to_owned());
        self
    }

    /// Runs every case through `outcome_of` and panics with all the differences, or rewrites the scripts when recording.
    /// Returns the number of cases, so that a test can hold how many there are at least.
    pub fn run(&self, outcome_of: impl Fn(&Case) -> String) -> usize {
        let recording = std::env::var_os(RECORD_VARIABLE).is_some();
        let (mut count, mut failed, mut report) = (0, 0, String::new());
        for path in self.script_paths() {
            let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            let cases = script::parse(&file_name(&path), &text, &self.carried);
            let outcomes: Vec<String> = cases.iter().map(&outcome_of).collect();
            count += cases.len();
            if recording {
                let recorded = script::record(&text, &cases, EXPECTATION, &outcomes);
                std::fs::write(&path, recorded).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
                continue;
            }
            for (case, outcome) in cases.iter().zip(&outcomes) {
                let expected = case.text(EXPECTATION).unwrap_or("");
                if !same(expected, outcome) {
                    failed += 1;
                    let _ = write!(
                        report,
                        "\n{}: {}\n  expected: {}\n  got:      {}\n",
                        case.place,
                        case.name,
                        expected.replace('\n', "\n            "),
                        outcome.replace('\n', "\n            ")
                    );
                }
            }
        }
        assert!(failed == 0, "{failed} of {count} cases differ ({RECORD_VARIABLE}=1 records them):\n{report}");
        count
    }

    fn script_paths(&self) -> Vec<PathBuf> {
        let entries =
            std::fs::read_dir(&self.folder).unwrap_or_else(|error| panic!("{}: {error}", self.folder.display()));
        let paths = entries.filter_map(|entry| entry.ok().map(|entry| entry.path()));
        let mut scripts: Vec<PathBuf> =
            paths.filter(|path| path.extension().is_some_and(|ending| ending == "txt")).collect();
        scripts.sort();
        scripts
    }
}

fn file_name(path: &Path) -> String {
    path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

/// Whether two texts say the same: line by line the same text, or the same value.
fn same(expected: &str, outcome: &str) -> bool {
    let lines = |text: &str| -> Vec<String> { text.lines().map(normal_line).filter(|line| !line.is_empty()).collect() };
    lines(expected) == lines(outcome)
}

fn normal_line(line: &str) -> String {
    let line = line.trim();
    match literal::parse_value(line) {
        Ok(value) => print_value(value.as_raw_bson_ref()),
        Err(_) => line.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_equal_by_value_or_text() {
        assert!(same("{\"a\" : {\"$numberLong\": \"5\"}}", "{a: NumberLong(5)}\n"));
        assert!(!same("{a: 5}", "{a: 5.0}"));
        assert!(same("error BadValue: no", "error BadValue: no"));
    }
}
