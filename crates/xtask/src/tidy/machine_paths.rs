//! Paths of somebody's machine do not belong in the repository.

use super::Complaint;
use crate::workspace::SourceFile;

/// Written in two parts so that this file does not complain about itself.
const BANNED: &[&str] = &[
    concat!("/", "home/"),
    concat!("/", "Users/"),
    concat!("/", "root/"),
    concat!("/", "work/"),
    concat!("/", "tmp/"),
];

pub(super) fn complaints(files: &[SourceFile]) -> Vec<Complaint> {
    let mut found = Vec::new();
    for file in files {
        for (index, line) in file.text.lines().enumerate() {
            if let Some(path) = BANNED.iter().find(|path| contains_absolute(line, path)) {
                found.push(Complaint::at(file, index + 1, format!("a path of one machine: {path}")));
            }
        }
    }
    found
}

/// Whether the path starts at the root here, and is not the tail of a longer one or of an address.
fn contains_absolute(line: &str, path: &str) -> bool {
    line.match_indices(path).any(|(position, _)| {
        let before = line[..position].chars().next_back();
        !before.is_some_and(|c| c.is_alphanumeric() || matches!(c, '.' | '_' | '-' | '}' | '/'))
    })
}
