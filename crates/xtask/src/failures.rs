//! What failed, said once more at the end of a run: by then the runners' own words are far above, or cut away where only
//! the end of an output is kept.
//!
//! Called by `test_run` and `driver_tests`, which hand over the lines that a runner prints.

use std::collections::VecDeque;

/// Of what a runner says of its failures, so many lines are kept: the last, where the error stands.
const LINES_KEPT: usize = 60;
/// A line is cut here, in characters.
const COLUMNS_KEPT: usize = 200;

/// How a runner prints what failed: the lines between two marks.
#[derive(Clone, Copy)]
pub(crate) struct Marks {
    begin: fn(&str) -> bool,
    end: fn(&str) -> bool,
}

/// `cargo test`: from the heading of the failures to the line with the counts.
pub(crate) const OF_CARGO: Marks =
    Marks { begin: |line| line == "failures:", end: |line| line.starts_with("test result: ") };

/// `pytest`: from the heading of the failures, or of the errors, to that of the slowest tests, or the line with the counts.
pub(crate) const OF_PYTEST: Marks = Marks {
    begin: |line| is_pytest_heading(line) && (line.contains(" FAILURES ") || line.contains(" ERRORS ")),
    end: |line| {
        is_pytest_heading(line) && (line.contains(" slowest ") || line.contains(" summary ") || line.contains(" in "))
    },
};

/// TAP, of Node's runner: a test that is not ok, with what is said of it.
pub(crate) const OF_TAP: Marks =
    Marks { begin: |line| line.trim_start().starts_with("not ok "), end: |line| line.trim() == "..." };

/// The simulator: a failed seed, and how to see it again.
pub(crate) const OF_SIMULATOR: Marks = Marks {
    begin: |line| line.starts_with("seed ") && line.contains(" FAILED: "),
    end: |line| line.starts_with("to see it again: "),
};

fn is_pytest_heading(line: &str) -> bool {
    line.starts_with("==") && line.ends_with("==")
}

/// Gathers what a runner says of failures, line by line.
pub(crate) struct Failures {
    marks: Marks,
    inside: bool,
    lines: VecDeque<String>,
}

impl Failures {
    pub(crate) fn new(marks: Marks) -> Failures {
        Failures { marks, inside: false, lines: VecDeque::new() }
    }

    pub(crate) fn read(&mut self, line: &str) {
        if !self.inside && (self.marks.begin)(line) {
            self.inside = true;
        } else if self.inside && (self.marks.end)(line) {
            self.inside = false;
        } else if !self.inside {
            return;
        }
        if self.lines.len() == LINES_KEPT {
            self.lines.pop_front();
        }
        self.lines.push_back(line.chars().take(COLUMNS_KEPT).collect());
    }

    /// What was gathered; empty if nothing failed.
    pub(crate) fn into_text(self) -> String {
        Vec::from(self.lines).join("\n")
    }
}

/// What one whole output says of failures.
pub(crate) fn told_in(output: &str, marks: Marks) -> String {
    let mut failures = Failures::new(marks);
    output.lines().for_each(|line| failures.read(line));
    failures.into_text()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_failures_of_every_runner_are_found() {
        let cargo = "test a ... ok\n\nfailures:\n\n---- b stdout ----\npanicked\n\nfailures:\n    b\n\n\
                     test result: FAILED. 1 passed; 1 failed\nrunning 1 test\n";
        let told = told_in(cargo, OF_CARGO);
        assert!(told.starts_with("failures:\n\n---- b stdout ----\npanicked"), "{told}");
        assert!(told.ends_with("1 passed; 1 failed"), "{told}");
        let pytest = "test_a.py::test_b FAILED\n==== FAILURES ====\n__ test_b __\nE  assert 1 == 2\n\
                      ==== slowest 5 durations ====\n3 s\n==== 1 failed in 3.0s ====\n";
        assert_eq!(told_in(pytest, OF_PYTEST).lines().count(), 4);
        let tap = "ok 1 - a\n  ---\n  ...\nnot ok 2 - b\n  ---\n  error: 'no'\n  ...\n# fail 1\n";
        assert_eq!(told_in(tap, OF_TAP), "not ok 2 - b\n  ---\n  error: 'no'\n  ...");
        let seeds =
            "seeds 1 to 9\nstep\nseed 3 FAILED: lost\nkey 7\nto see it again: --seed 3\n2 seeds in 1 s: 1 failed\n";
        assert_eq!(told_in(seeds, OF_SIMULATOR), "seed 3 FAILED: lost\nkey 7\nto see it again: --seed 3");
    }

    #[test]
    fn nothing_is_told_where_nothing_failed_and_the_end_is_kept_of_much() {
        assert_eq!(told_in("test a ... ok\ntest result: ok. 1 passed; 0 failed\n", OF_CARGO), "");
        let much: String = (0..1_000).map(|line| format!("{line}\n")).collect();
        let told = told_in(&format!("failures:\n{much}test result: FAILED"), OF_CARGO);
        assert_eq!(told.lines().count(), LINES_KEPT);
        assert!(told.ends_with("999\ntest result: FAILED"));
    }
}
