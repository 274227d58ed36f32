//! Every source file opens with what it is.

use super::Complaint;
use crate::workspace::SourceFile;

pub(super) fn complaints(files: &[SourceFile]) -> Vec<Complaint> {
    let mut found = Vec::new();
    for file in files {
        let Some((_, extension)) = file.path.rsplit_once('.') else {
            continue;
        };
        let opening = match extension {
            "rs" => "//!",
            "py" => "\"\"\"",
            "js" | "mjs" => "// ",
            _ => continue,
        };
        // Attributes of the whole file may come first.
        let first = file.text.lines().find(|line| !line.is_empty() && !line.starts_with("#!["));
        if !first.is_some_and(|line| line.starts_with(opening)) {
            found.push(Complaint::at(file, 1, format!("must open with {opening}: what it is")));
        }
    }
    found
}
