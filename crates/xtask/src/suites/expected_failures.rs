//! The list of what a suite is known to fail: one test a line, and behind `#` why.
//!
//! Read by `suites`. A reason in a line of its own holds for the tests below it, up to the next one. A test whose line begins
//! with `sometimes` may also pass: it depends on the time that the machine takes.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use super::{Ending, Finished};
use crate::Outcome;

/// Whether a listed test may also pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum How {
    Always,
    Sometimes,
}

/// What a suite is known to fail.
#[derive(Debug, Default)]
pub(super) struct ExpectedFailures {
    tests: BTreeMap<String, How>,
}

impl ExpectedFailures {
    /// Reads a list. Every test must have a reason.
    pub(super) fn read(path: &Path) -> Result<Self, String> {
        let text = fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
        Self::parse(&text).map_err(|message| format!("{}: {message}", path.display()))
    }

    fn parse(text: &str) -> Result<Self, String> {
        let mut expected = Self::default();
        let mut has_reason = false;
        for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let (test, reason) = line.split_once('#').unwrap_or((line, ""));
            if test.is_empty() {
                has_reason = !reason.trim().is_empty();
                continue;
            }
            if !has_reason && reason.trim().is_empty() {
                return Err(format!("{test:?} has no reason"));
            }
            let (how, test) = match test.trim().strip_prefix("sometimes ") {
                Some(test) => (How::Sometimes, test),
                None => (How::Always, test.trim()),
            };
            if expected.tests.insert(test.trim().to_owned(), how).is_some() {
                return Err(format!("{test:?} is there twice"));
            }
        }
        Ok(expected)
    }

    /// The tests that have failed and are not listed.
    pub(super) fn unlisted(&self, finished: &[Finished]) -> Vec<String> {
        let failed = finished.iter().filter(|finished| finished.ending == Ending::Failed);
        failed.map(|finished| &finished.test).filter(|test| !self.tests.contains_key(*test)).cloned().collect()
    }

    /// Whether exactly these tests have failed; if not, which to look at.
    pub(super) fn compare(&self, finished: &[Finished]) -> Outcome {
        let mut complaints = Vec::new();
        for Finished { test, ending } in finished {
            match (ending, self.tests.get(test)) {
                (Ending::Failed, None) => complaints.push(format!("fails: {test}")),
                (Ending::Passed | Ending::Skipped, Some(How::Always)) => {
                    complaints.push(format!("does not fail any more, strike it off the list: {test}"));
                }
                _ => {}
            }
        }
        let was_run = |test: &String| finished.iter().any(|finished| finished.test == *test);
        let missing = self.tests.keys().filter(|test| !was_run(test));
        complaints.extend(missing.map(|test| format!("listed, but there is no such test: {test}")));
        if complaints.is_empty() { Ok(()) } else { Err(format!("not as listed:\n  {}", complaints.join("\n  "))) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finished(test: &str, ending: Ending) -> Finished {
        Finished { test: test.to_owned(), ending }
    }

    #[test]
    fn the_list_says_what_fails_and_why() {
        let list = "# no such feature\na::b\nc::d\nsometimes e::f # slow machine\n";
        let expected = ExpectedFailures::parse(list).unwrap();
        let run = |b, d, f| expected.compare(&[finished("a::b", b), finished("c::d", d), finished("e::f", f)]);
        assert_eq!(run(Ending::Failed, Ending::Failed, Ending::Passed), Ok(()));
        assert_eq!(run(Ending::Failed, Ending::Failed, Ending::Failed), Ok(()));
        assert!(
            run(Ending::Failed, Ending::Passed, Ending::Failed).unwrap_err().contains("strike it off the list: c::d")
        );
        assert!(run(Ending::Failed, Ending::Skipped, Ending::Failed).is_err());
        assert!(expected.compare(&[finished("a::b", Ending::Failed)]).unwrap_err().contains("no such test: c::d"));
    }

    #[test]
    fn a_failure_that_is_not_listed_is_one() {
        let expected = ExpectedFailures::default();
        assert_eq!(expected.compare(&[finished("a", Ending::Passed)]), Ok(()));
        assert!(expected.compare(&[finished("a", Ending::Failed)]).unwrap_err().contains("fails: a"));
        assert_eq!(expected.unlisted(&[finished("a", Ending::Failed), finished("b", Ending::Passed)]), ["a"]);
    }

    #[test]
    fn each_test_has_one_line_and_a_reason() {
        assert!(ExpectedFailures::parse("a::b\n").unwrap_err().contains("no reason"));
        assert!(ExpectedFailures::parse("# r\na::b\na::b\n").unwrap_err().contains("twice"));
    }
}
