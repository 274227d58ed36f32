//! `docs/limits.md` says what is true: the files, constants and tests that its tables name are there, and no limit is without a test.

use std::collections::HashSet;

use super::Complaint;
use crate::workspace::SourceFile;

const PAGE: &str = "docs/limits.md";
/// Limit, value, where it is set, what happens beyond it, test.
const COLUMNS: usize = 5;

pub(super) fn complaints(files: &[SourceFile]) -> Vec<Complaint> {
    let Some(page) = files.iter().find(|file| file.path == PAGE) else {
        return Vec::new();
    };
    let known = Known::of(files);
    let mut found = Vec::new();
    for (index, line) in page.text.lines().enumerate() {
        if let Some(cells) = cells(line) {
            let complain = |message| Complaint::at(page, index + 1, message);
            found.extend(wrong_of_row(&cells, &known).into_iter().map(complain));
        }
    }
    found
}

/// The cells of a row that is neither a heading nor the line below one.
fn cells(line: &str) -> Option<Vec<&str>> {
    let inner = line.strip_prefix('|')?.strip_suffix('|')?;
    let cells: Vec<&str> = inner.split('|').map(str::trim).collect();
    let is_heading = cells.first() == Some(&"limit") || cells.iter().all(|cell| cell.chars().all(|c| c == '-'));
    (!is_heading).then_some(cells)
}

fn wrong_of_row(cells: &[&str], known: &Known<'_>) -> Vec<String> {
    let &[limit, _, place, _, test] = cells else {
        return vec![format!("a row of {} columns; a limit has {COLUMNS}", cells.len())];
    };
    let mut wrong = wrong_of_place(place, known);
    let tests: Vec<&str> = quoted(test).collect();
    if tests.is_empty() {
        wrong.push("no test is named".to_owned());
    }
    wrong.extend(tests.iter().filter(|name| !known.has_test(name)).map(|name| format!("there is no test `{name}`")));
    wrong.into_iter().map(|message| format!("{limit}: {message}")).collect()
}

/// Every file that is named exists, and each name is a word of one of them.
fn wrong_of_place(place: &str, known: &Known<'_>) -> Vec<String> {
    let (paths, names): (Vec<&str>, Vec<&str>) = quoted(place).partition(|word| word.ends_with(".rs"));
    if paths.is_empty() {
        return vec!["no file is named where it is set".to_owned()];
    }
    let mut wrong = Vec::new();
    let mut texts = Vec::new();
    for path in paths {
        match known.source(path) {
            Some(file) => texts.push(&file.text),
            None => wrong.push(format!("there is no file crates/{path}")),
        }
    }
    let is_there = |name: &&str| texts.iter().any(|text| has_word(text, name));
    wrong.extend(names.iter().filter(|name| !is_there(name)).map(|name| format!("`{name}` is not in the files named")));
    wrong
}

/// What stands between backticks.
fn quoted(cell: &str) -> impl Iterator<Item = &str> {
    cell.split('`').skip(1).step_by(2)
}

fn has_word(text: &str, word: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(word).any(|(position, _)| {
        let (before, after) = (text[..position].chars().next_back(), text[position + word.len()..].chars().next());
        !before.is_some_and(is_part) && !after.is_some_and(is_part)
    })
}

/// What a row may name.
struct Known<'f> {
    files: &'f [SourceFile],
    /// Names of functions of Rust and Python.
    functions: HashSet<&'f str>,
}

impl<'f> Known<'f> {
    fn of(files: &'f [SourceFile]) -> Known<'f> {
        let code = files.iter().filter(|file| file.is_rust() || file.path.ends_with(".py"));
        let functions = code.flat_map(|file| file.text.lines()).filter_map(function_name).collect();
        Known { files, functions }
    }

    fn source(&self, path: &str) -> Option<&'f SourceFile> {
        self.files.iter().find(|file| file.path.strip_prefix("crates/") == Some(path))
    }

    /// A file of `tests/pymongo`, a file or folder of a crate, or a function; a star at the end stands for anything.
    fn has_test(&self, name: &str) -> bool {
        let (beginning, is_whole) = match name.trim_end_matches(".py").strip_suffix('*') {
            Some(beginning) => (beginning, false),
            None => (name, true),
        };
        let fits = |candidate: &str| if is_whole { candidate == beginning } else { candidate.starts_with(beginning) };
        self.functions.iter().any(|function| fits(function))
            || self.files.iter().any(|file| {
                let path = file.path.as_str();
                let in_crate = path.strip_prefix("crates/").is_some_and(|rest| {
                    fits(rest) || rest.strip_prefix(name).is_some_and(|below| below.starts_with(['/', '.']))
                });
                in_crate || fits(path) || path.strip_prefix("tests/pymongo/").is_some_and(fits)
            })
    }
}

/// `fn name(` or `def name(`, after whatever else.
fn function_name(line: &str) -> Option<&str> {
    let after = line.split_once("fn ").or_else(|| line.split_once("def "))?.1;
    let length = after.find(|c: char| !c.is_alphanumeric() && c != '_')?;
    (length > 0).then(|| &after[..length])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, text: &str) -> SourceFile {
        SourceFile { path: path.to_owned(), text: text.to_owned() }
    }

    fn told(row: &str) -> Vec<String> {
        let heading = "| limit | value | where it is set | what happens beyond it | test |\n|---|---|---|---|---|\n";
        let files = [
            file(PAGE, &format!("{heading}{row}\n")),
            file("crates/a/src/size.rs", "const SIZE_BYTES_MAX: usize = 1;"),
            file("crates/a/src/tests/size.rs", "fn what_is_too_large_is_refused() {}"),
            file("tests/pymongo/test_size.py", "def test_size_of_all():\n    pass"),
        ];
        complaints(&files).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn what_is_there_is_accepted() {
        for test in
            ["`what_is_too_large_is_refused`", "`test_size.py`: `test_size_of_*`", "`a/src/tests`", "`test_s*.py`"]
        {
            let row = format!("| size | 1 | `SIZE_BYTES_MAX`, `a/src/size.rs` | 146 | {test} |");
            assert_eq!(told(&row), Vec::<String>::new(), "{test}");
        }
    }

    #[test]
    fn what_is_not_there_is_told() {
        let wrong = [
            (
                "| size | 1 | `SIZE_MAX`, `a/src/size.rs` | 146 | `test_size.py` |",
                "`SIZE_MAX` is not in the files named",
            ),
            (
                "| size | 1 | `SIZE_BYTES_MAX`, `a/src/other.rs` | 146 | `test_size.py` |",
                "there is no file crates/a/src/other.rs",
            ),
            ("| size | 1 | same file | 146 | `test_size.py` |", "no file is named"),
            ("| size | 1 | `a/src/size.rs` | 146 | |", "no test is named"),
            ("| size | 1 | `a/src/size.rs` | 146 | `test_sizes.py` |", "there is no test `test_sizes.py`"),
            ("| size | 1 | `a/src/size.rs` | 146 | `test_size.py`: `test_siz` |", "there is no test `test_siz`"),
            ("| size | 1 | `a/src/size.rs` | `test_size.py` |", "a row of 4 columns"),
        ];
        for (row, message) in wrong {
            assert!(told(row).iter().any(|line| line.contains(message)), "{row}: {:?}", told(row));
        }
    }
}
