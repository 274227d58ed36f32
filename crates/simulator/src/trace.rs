//! The trace of a run: what was done, line by line. Shown as it happens with `--verbose`; the last lines with every failure.

use std::collections::VecDeque;
use std::fmt;
use std::hash::{DefaultHasher, Hasher};

use parking_lot::Mutex;

/// Lines shown with a failure.
const LINES_KEPT: usize = 40;

/// The trace of one run.
pub(crate) struct Trace {
    is_verbose: bool,
    kept: Mutex<Kept>,
}

struct Kept {
    lines: VecDeque<String>,
    count: u64,
    fingerprint: DefaultHasher,
}

impl Trace {
    pub(crate) fn new(is_verbose: bool) -> Trace {
        let kept = Kept { lines: VecDeque::new(), count: 0, fingerprint: DefaultHasher::new() };
        Trace { is_verbose, kept: Mutex::new(kept) }
    }

    /// Notes what happens; `depth` is how deep inside other operations.
    pub(crate) fn line(&self, depth: usize, text: fmt::Arguments<'_>) {
        let mut kept = self.kept.lock();
        kept.count += 1;
        let line = format!("{:>5} {}{text}", kept.count, "  ".repeat(depth));
        kept.fingerprint.write(line.as_bytes());
        if self.is_verbose {
            println!("{line}");
        }
        kept.lines.push_back(line);
        if kept.lines.len() > LINES_KEPT {
            kept.lines.pop_front();
        }
    }

    /// The last lines.
    pub(crate) fn tail(&self) -> String {
        let kept = self.kept.lock();
        kept.lines.iter().map(|line| format!("  {line}\n")).collect()
    }

    /// Equal for equal runs.
    pub(crate) fn fingerprint(&self) -> u64 {
        self.kept.lock().fingerprint.finish()
    }
}
