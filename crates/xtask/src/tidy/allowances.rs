//! Exceptions from the length rules, in `crates/xtask/tidy-allowances.txt`. The list only shrinks: an entry that is no
//! longer needed is itself a complaint.

use super::Complaint;
use crate::workspace::SourceFile;

const PATH: &str = "crates/xtask/tidy-allowances.txt";

/// The exceptions, and which of them were needed.
pub(super) struct Allowances {
    entries: Vec<Entry>,
}

struct Entry {
    subject: String,
    lines_max: usize,
    line: usize,
    is_needed: bool,
}

impl Allowances {
    pub(super) fn read(files: &[SourceFile]) -> Result<Allowances, String> {
        let file = files.iter().find(|file| file.path == PATH).ok_or(format!("{PATH} is missing"))?;
        let mut entries = Vec::new();
        for (index, line) in file.text.lines().enumerate() {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let (subject, lines) =
                line.rsplit_once(' ').ok_or(format!("{PATH}:{}: write `subject lines`", index + 1))?;
            let lines_max = lines.parse().map_err(|error| format!("{PATH}:{}: {error}", index + 1))?;
            entries.push(Entry { subject: subject.to_owned(), lines_max, line: index + 1, is_needed: false });
        }
        Ok(Allowances { entries })
    }

    /// Whether `subject`, which is over its ceiling, may have this many lines.
    pub(super) fn permits(&mut self, subject: &str, lines: usize) -> bool {
        let Some(entry) = self.entries.iter_mut().find(|entry| entry.subject == subject) else {
            return false;
        };
        entry.is_needed = true;
        lines <= entry.lines_max
    }

    pub(super) fn complaints_of_unneeded(&self) -> impl Iterator<Item = Complaint> {
        self.entries.iter().filter(|entry| !entry.is_needed).map(|entry| Complaint {
            path: PATH.to_owned(),
            line: entry.line,
            message: format!("no longer needed, remove it: {}", entry.subject),
        })
    }
}
