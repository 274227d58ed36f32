//! How documents read: lines that fit a screen, sentences that fit a head.
//!
//! Holds for README.md and `docs/`, but for what is generated. Tables have lines as long as they must be.

use super::Complaint;
use crate::workspace::SourceFile;

/// Characters of a line.
const LINE_CHARACTERS_MAX: usize = 120;
/// Words of a sentence, up to its full stop, its semicolon or its colon. A piece of code is one word.
const SENTENCE_WORDS_MAX: usize = 29;
/// Its rows are in the order of their words.
const GLOSSARY: &str = "docs/glossary.md";
/// Written by `cargo xtask docs`.
const GENERATED: [&str; 2] = ["docs/compatibility.md", "docs/privileges.md"];

pub(super) fn complaints(files: &[SourceFile]) -> Vec<Complaint> {
    let mut found = Vec::new();
    for file in files.iter().filter(|file| is_document(&file.path)) {
        for (index, line) in file.text.lines().enumerate() {
            let characters = line.chars().count();
            if characters > LINE_CHARACTERS_MAX && !is_table(line) {
                let message = format!("{characters} characters; a line has at most {LINE_CHARACTERS_MAX}");
                found.push(Complaint::at(file, index + 1, message));
            }
        }
        if file.path == GLOSSARY {
            found.extend(unsorted(file));
        }
        for (line, paragraph) in paragraphs(&file.text) {
            for (words, sentence) in sentences(&paragraph).map(|sentence| (words(sentence), sentence)) {
                if words > SENTENCE_WORDS_MAX {
                    let beginning: String = sentence.chars().take(40).collect();
                    let message = format!(
                        "{words} words in the sentence \"{beginning}...\"; it has at most {SENTENCE_WORDS_MAX}"
                    );
                    found.push(Complaint::at(file, line, message));
                }
            }
        }
    }
    found
}

/// Words of the glossary that stand behind a later one.
fn unsorted(file: &SourceFile) -> Vec<Complaint> {
    let mut found = Vec::new();
    let mut before = String::new();
    for (index, line) in file.text.lines().enumerate() {
        let Some((word, _)) = line.strip_prefix("| **").and_then(|rest| rest.split_once("**")) else { continue };
        let word = word.to_lowercase();
        if word <= before {
            found.push(Complaint::at(file, index + 1, format!("\"{word}\" stands behind \"{before}\"")));
        }
        before = word;
    }
    found
}

/// Whether people wrote this for people.
pub(super) fn is_document(path: &str) -> bool {
    path == "README.md" || (path.starts_with("docs/") && path.ends_with(".md") && !GENERATED.contains(&path))
}

fn is_table(line: &str) -> bool {
    line.trim_start().starts_with('|')
}

/// Paragraphs and items of lists, each with the line that it begins in. No code, no tables, no headings.
fn paragraphs(text: &str) -> Vec<(usize, String)> {
    let mut found: Vec<(usize, String)> = Vec::new();
    let (mut is_fenced, mut is_open) = (false, false);
    for (index, line) in text.lines().enumerate() {
        let words = line.trim();
        if words.starts_with("```") {
            is_fenced = !is_fenced;
        }
        let is_code = is_fenced || words.starts_with("```") || line.starts_with("    ");
        if is_code || words.is_empty() || is_table(line) || words.starts_with(['#', '<']) || words.starts_with("![") {
            is_open = false;
            continue;
        }
        match found.last_mut() {
            Some((_, paragraph)) if is_open && !is_item(words) => {
                paragraph.push(' ');
                paragraph.push_str(words);
            }
            _ => found.push((index + 1, words.to_owned())),
        }
        is_open = true;
    }
    found.into_iter().map(|(line, paragraph)| (line, plain(&paragraph))).collect()
}

fn is_item(line: &str) -> bool {
    let numbered = line.trim_start_matches(|c: char| c.is_ascii_digit()).starts_with(". ");
    line.starts_with("- ") || line.starts_with("* ") || (numbered && !line.starts_with('.'))
}

/// Without addresses of links, and with one word in the place of each piece of code.
fn plain(paragraph: &str) -> String {
    let words = paragraph.split('`').enumerate().map(|(part, text)| if part % 2 == 1 { "code" } else { text });
    let mut text: String = words.collect();
    while let Some(start) = text.find("](") {
        let Some(length) = text[start..].find(')') else { break };
        text.replace_range(start..=start + length, "]");
    }
    text
}

fn sentences(paragraph: &str) -> impl Iterator<Item = &str> {
    let mut rest = paragraph;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let end =
            rest.match_indices(' ').map(|(at, _)| at).find(|at| ends_sentence(&rest[..*at])).unwrap_or(rest.len());
        let (sentence, after) = rest.split_at(end);
        rest = after.trim_start();
        Some(sentence)
    })
}

fn ends_sentence(text: &str) -> bool {
    text.trim_end_matches([')', '"', '*', '_']).ends_with(['.', '!', '?', ';', ':'])
}

fn words(sentence: &str) -> usize {
    sentence.split(' ').filter(|word| word.contains(char::is_alphanumeric)).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaints_of(text: &str) -> Vec<String> {
        let file = SourceFile { path: "docs/a.md".to_owned(), text: text.to_owned() };
        complaints(&[file]).iter().map(Complaint::to_string).collect()
    }

    #[test]
    fn long_sentences_are_found_over_lines() {
        let half = "word ".repeat(15);
        assert_eq!(complaints_of(&format!("{half}\n{half}.\n")).len(), 1);
        assert!(complaints_of(&format!("{half}\n\n{half}.\n")).is_empty());
        assert!(complaints_of(&format!("- {half}\n- {half}.\n")).is_empty());
        assert!(complaints_of(&format!("{half};\n{half}.\n")).is_empty());
        assert!(complaints_of(&format!("{half}\n`{half}`\n[{}](a) end.\n", "word ".repeat(10))).is_empty());
        assert!(
            complaints_of(&format!("```text\n{half}\n{half}\n```\n\n    {half}\n    {half}\n\n| {half}{half} |\n"))
                .is_empty()
        );
    }

    #[test]
    fn the_glossary_is_sorted() {
        let file = |text: &str| SourceFile { path: GLOSSARY.to_owned(), text: text.to_owned() };
        assert!(unsorted(&file("| **a** | x |\n| **B** | x |\n")).is_empty());
        assert_eq!(unsorted(&file("| **b** | x |\n| **a** | x |\n| **a** | x |\n")).len(), 2);
    }

    #[test]
    fn long_lines_are_found_outside_of_tables() {
        let line = "x".repeat(121);
        assert_eq!(complaints_of(&line).len(), 1);
        assert!(complaints_of(&format!("| {line} |")).is_empty());
        assert!(complaints_of(&"ü".repeat(120)).is_empty());
    }
}
