//! Names of code in documents are names that the code has, and architecture.md names numbers instead of writing them.
//!
//! What stands in backticks in README.md and `docs/` is looked at: constants, files, and what a crate has.

use std::collections::HashSet;

use super::Complaint;
use super::prose::is_document;
use crate::workspace::SourceFile;

/// Written like constants, and none of ours: names of the protocol, of the environment, of the system.
const ELSEWHERE: &[&str] = &[
    "OP_MSG",
    "OP_QUERY",
    "OP_REPLY",
    "OP_COMPRESSED",
    "PLIMSOLL_",
    "PCRE2_",
    "AWS_",
    "AZURE_",
    "GOOGLE_",
    "SSL_CERT_FILE",
    "CARGO_",
    "RUST_",
    "CONFIG_",
    "PREEMPT_",
    "COUNT_SCAN",
    "DISTINCT_SCAN",
    "SORT_MERGE",
    "RWF_",
    "O_DIRECT",
    "CRASH_",
    "ISOLATION_",
    "MONGOMS_",
];
/// Where every number that the code has is named.
const NUMBERLESS: &str = "docs/architecture.md";
const UNITS: &[&str] = &["bytes", "KiB", "MiB", "GiB", "us", "ms", "s", "seconds", "minutes", "%"];

pub(super) fn complaints(files: &[SourceFile]) -> Vec<Complaint> {
    let constants = constants(files);
    let mut found = Vec::new();
    for file in files.iter().filter(|file| is_document(&file.path)) {
        for (index, line) in file.text.lines().enumerate() {
            for name in line.split('`').skip(1).step_by(2) {
                if let Some(message) = wrong(name, files, &constants) {
                    found.push(Complaint::at(file, index + 1, message));
                }
            }
            if file.path == NUMBERLESS
                && let Some(number) = number_with_unit(line)
            {
                let message = format!("\"{number}\" is a constant of the code: write its name");
                found.push(Complaint::at(file, index + 1, message));
            }
        }
    }
    found
}

/// What is wrong with a name.
fn wrong(name: &str, files: &[SourceFile], constants: &HashSet<&str>) -> Option<String> {
    if looks_like_constant(name) {
        let is_known = constants.contains(name) || ELSEWHERE.iter().any(|prefix| name.starts_with(prefix));
        return (!is_known).then(|| format!("there is no constant `{name}`"));
    }
    if name.strip_suffix(".rs").is_some_and(|stem| !stem.contains('.'))
        && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '/' | '_' | '.' | '-'))
    {
        let is_there = files.iter().any(|file| is_end_of_path(&file.path, name));
        return (!is_there).then(|| format!("there is no file `{name}`"));
    }
    let (krate, item) = name.split_once("::")?;
    let folder = format!("crates/{krate}/src/");
    let item = item.rsplit("::").next().unwrap_or(item).trim_end_matches("()");
    let mut sources = files.iter().filter(|file| file.path.starts_with(&folder)).peekable();
    sources.peek()?;
    let is_there = sources
        .any(|file| file.is_rust() && (file.text.contains(item) || is_end_of_path(&file.path, &format!("{item}.rs"))));
    (!is_there).then(|| format!("the crate {krate} has no `{item}`"))
}

/// Capitals with a line between them.
fn looks_like_constant(name: &str) -> bool {
    let is_letter = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
    name.contains('_') && name.starts_with(|c: char| c.is_ascii_uppercase()) && name.chars().all(is_letter)
}

fn is_end_of_path(path: &str, name: &str) -> bool {
    path.strip_suffix(name).is_some_and(|before| before.is_empty() || before.ends_with('/'))
}

/// The names of all constants and statics.
fn constants(files: &[SourceFile]) -> HashSet<&str> {
    let mut found = HashSet::new();
    for file in files.iter().filter(|file| file.is_rust()) {
        for line in file.text.lines() {
            let declared = line.split_once("const ").or_else(|| line.split_once("static "));
            if let Some((name, _)) = declared.and_then(|(_, rest)| rest.split_once(':')) {
                found.insert(name.trim());
            }
        }
    }
    found
}

/// A number that is followed by a unit, outside of code.
fn number_with_unit(line: &str) -> Option<String> {
    let prose: String = line.split('`').step_by(2).collect::<Vec<_>>().join(" code ");
    let words: Vec<&str> = prose.split_whitespace().collect();
    words.windows(2).find_map(|pair| {
        let unit = pair[1].trim_end_matches(|c: char| !c.is_alphanumeric() && c != '%');
        let is_number = pair[0].trim_start_matches('(').parse::<f64>().is_ok();
        (is_number && UNITS.contains(&unit)).then(|| format!("{} {unit}", pair[0]))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaints_of(path: &str, text: &str) -> Vec<String> {
        let file = |path: &str, text: &str| SourceFile { path: path.to_owned(), text: text.to_owned() };
        let code = file("crates/oplog/src/log.rs", "pub(crate) const WAIT_MAX: u64 = 3;\nfn flush_step() {}\n");
        complaints(&[code, file(path, text)]).iter().map(Complaint::to_string).collect()
    }

    #[test]
    fn names_that_the_code_has_not_are_found() {
        let right =
            "`WAIT_MAX`, `log.rs`, `oplog/src/log.rs`, `oplog::flush_step`, `OP_MSG`, `COLLSCAN`, `{a: 1}`, `std::fs`";
        assert!(complaints_of("docs/a.md", right).is_empty());
        let wrong = "`WAIT_MIN`, `og.rs`, `lag/log.rs`, `oplog::flush_steps`";
        assert_eq!(complaints_of("docs/a.md", wrong).len(), 4);
    }

    #[test]
    fn architecture_names_its_numbers() {
        assert_eq!(complaints_of("docs/architecture.md", "A page is 16 KiB, always.").len(), 1);
        assert!(complaints_of("docs/architecture.md", "Error 292, in `4 KiB`; 0009.").is_empty());
        assert!(complaints_of("docs/limits.md", "A page is 16 KiB.").is_empty());
    }
}
