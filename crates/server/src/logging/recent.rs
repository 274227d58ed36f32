//! The most recent lines, bounded in number and in bytes.

use std::collections::VecDeque;

const LINES_MAX: usize = 1024;
const BYTES_MAX: usize = 1024 * 1024;

/// A queue of lines that forgets the oldest.
#[derive(Default)]
pub(crate) struct RecentLines {
    lines: VecDeque<String>,
    bytes: usize,
    total: u64,
}

impl RecentLines {
    pub(crate) fn push(&mut self, line: String) {
        self.total += 1;
        self.bytes += line.len();
        self.lines.push_back(line);
        while self.lines.len() > LINES_MAX || (self.bytes > BYTES_MAX && self.lines.len() > 1) {
            self.bytes -= self.lines.pop_front().map_or(0, |oldest| oldest.len());
        }
    }

    /// How many lines there have been, and those still here, oldest first.
    pub(crate) fn snapshot(&self) -> (u64, Vec<String>) {
        (self.total, self.lines.iter().cloned().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_go_by_number_and_by_size() {
        let mut recent = RecentLines::default();
        for i in 0..2000 {
            recent.push(i.to_string());
        }
        let (total, lines) = recent.snapshot();
        assert_eq!((total, lines.len(), lines[0].as_str()), (2000, LINES_MAX, "976"));
        recent.push("x".repeat(BYTES_MAX));
        assert_eq!(recent.snapshot().1.len(), 1);
        recent.push("last".into());
        assert_eq!(recent.snapshot().1, ["last"]);
    }
}
