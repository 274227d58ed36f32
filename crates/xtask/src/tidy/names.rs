//! Names that say nothing, and so gather everything.

use super::Complaint;
use crate::workspace::SourceFile;

/// No file or folder of source has one of these as a word of its name.
const BANNED: &[&str] = &["util", "utils", "common", "misc", "helper", "helpers", "manager", "managers"];

const EXTENSIONS: &[&str] = &[".rs", ".py", ".js", ".mjs", ".sh"];

pub(super) fn complaints(files: &[SourceFile]) -> Vec<Complaint> {
    let mut found = Vec::new();
    for file in files.iter().filter(|file| EXTENSIONS.iter().any(|extension| file.path.ends_with(extension))) {
        let words = file.path.split(['/', '_', '.', '-']);
        for word in words.filter(|word| BANNED.contains(word)) {
            found.push(Complaint::of_file(file, format!("a name with {word:?} says nothing; name what it does")));
        }
    }
    found
}
