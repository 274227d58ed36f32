//! Dead files: Rust source that no target reaches through its modules, which therefore nobody compiles.

use std::collections::{HashMap, HashSet};

use super::Complaint;
use super::code_text::{code_only, word_positions};
use crate::workspace::SourceFile;

pub(super) fn complaints(files: &[SourceFile]) -> Vec<Complaint> {
    let rust: HashMap<&str, &SourceFile> =
        files.iter().filter(|file| file.is_rust()).map(|file| (file.path.as_str(), file)).collect();
    let mut reached = HashSet::new();
    let mut to_visit: Vec<String> = rust.keys().filter(|path| is_root(path)).map(|path| (*path).to_owned()).collect();
    while let Some(path) = to_visit.pop() {
        let Some(file) = rust.get(path.as_str()) else {
            continue;
        };
        if reached.insert(path.clone()) {
            to_visit.extend(modules(file));
        }
    }
    let dead = files.iter().filter(|file| file.is_rust() && !reached.contains(&file.path));
    dead.map(|file| Complaint::of_file(file, "no module declares this file: nobody compiles it")).collect()
}

/// Whether Cargo compiles this file as a target by itself.
fn is_root(path: &str) -> bool {
    let parts: Vec<&str> = path.split('/').collect();
    matches!(
        parts.as_slice(),
        ["crates", _, "build.rs"]
            | ["crates", _, "src", "lib.rs" | "main.rs"]
            | ["crates", _, "tests" | "examples" | "benches", _]
            | ["crates", _, "src", "bin", _]
            | ["benchmarks", _, _, "src", "lib.rs"]
            | ["crates", _, "tests" | "examples" | "benches", _, "main.rs"]
            | ["fuzz" | "crates", .., "fuzz_targets", _]
    )
}

/// Where the modules that a file declares may lie.
fn modules(file: &SourceFile) -> Vec<String> {
    let code = code_only(&file.text);
    let folder = module_folder(&file.path);
    let mut paths = Vec::new();
    for position in word_positions(&code, "mod") {
        let after = code[position + 3..].trim_start();
        let length = after.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(0);
        if length > 0 && after[length..].trim_start().starts_with(';') {
            let name = &after[..length];
            paths.push(format!("{folder}/{name}.rs"));
            paths.push(format!("{folder}/{name}/mod.rs"));
        }
    }
    paths
}

/// The folder in which a file's modules are looked for.
fn module_folder(path: &str) -> &str {
    let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
    let owns_its_folder = is_root(path) || path.ends_with("/mod.rs");
    if owns_its_folder { folder } else { path.trim_end_matches(".rs") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_a_declaration_is_dead() {
        let file = |path: &str, text: &str| SourceFile { path: path.into(), text: text.into() };
        let files = [
            file("crates/a/src/lib.rs", "mod b; // mod d;"),
            file("crates/a/src/b.rs", "#[cfg(test)]\nmod c;\nmod inline { }"),
            file("crates/a/src/b/c.rs", ""),
            file("crates/a/src/d.rs", ""),
        ];
        let found: Vec<String> = complaints(&files).into_iter().map(|complaint| complaint.path).collect();
        assert_eq!(found, ["crates/a/src/d.rs"]);
    }
}
