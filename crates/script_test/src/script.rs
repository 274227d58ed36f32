//! One script file: its cases, their sections, and writing new expectations back in place.
//!
//! Called by `suite`. Malformed scripts panic with the file and line: they are part of a test.

use crate::literal;
use bson::{RawBson, RawDocumentBuf};

/// One case of a script, with the sections it gives itself and those carried over from earlier cases.
#[derive(Debug, Clone)]
pub struct Case {
    /// What follows `==`.
    pub name: String,
    /// File and line, for messages.
    pub place: String,
    pub(crate) sections: Vec<Section>,
}

#[derive(Debug, Clone)]
pub(crate) struct Section {
    pub(crate) name: String,
    pub(crate) text: String,
    /// Lines of the file that hold it, from the `name:` line to the line after the last of its text.
    pub(crate) lines: std::ops::Range<usize>,
}

impl Case {
    /// The text of a section, or `None` when the case has no such section.
    pub fn text(&self, section: &str) -> Option<&str> {
        self.sections.iter().find(|candidate| candidate.name == section).map(|found| found.text.as_str())
    }

    /// Whether the case has the section.
    pub fn has(&self, section: &str) -> bool {
        self.text(section).is_some()
    }

    /// The one document in a section. Panics when it is absent or is not a document.
    pub fn document(&self, section: &str) -> RawDocumentBuf {
        self.optional_document(section).unwrap_or_else(|| panic!("{}: no section {section}", self.place))
    }

    /// The document in a section, if the case has the section.
    pub fn optional_document(&self, section: &str) -> Option<RawDocumentBuf> {
        let text = self.text(section)?;
        Some(literal::parse_document(text).unwrap_or_else(|problem| panic!("{}: {section}: {problem}", self.place)))
    }

    /// The documents of a section, one after another.
    pub fn documents(&self, section: &str) -> Vec<RawDocumentBuf> {
        let values = self.values(section);
        let as_document = |value| match value {
            RawBson::Document(document) => document,
            other => panic!("{}: {section}: not a document: {other:?}", self.place),
        };
        values.into_iter().map(as_document).collect()
    }

    /// The value in a section.
    pub fn value(&self, section: &str) -> RawBson {
        self.values(section).into_iter().next().unwrap_or_else(|| panic!("{}: {section} is empty", self.place))
    }

    /// The values of a section, one after another; none when the section is absent.
    pub fn values(&self, section: &str) -> Vec<RawBson> {
        let Some(text) = self.text(section) else { return Vec::new() };
        literal::parse_values(text).unwrap_or_else(|problem| panic!("{}: {section}: {problem}", self.place))
    }
}

/// Splits a script into its cases. `carried` names the sections that stay in force until given again.
pub(crate) fn parse(file: &str, text: &str, carried: &[String]) -> Vec<Case> {
    let mut cases: Vec<Case> = Vec::new();
    let mut inherited: Vec<Section> = Vec::new();
    for (number, line) in text.lines().enumerate() {
        if let Some(name) = line.strip_prefix("==") {
            finish(cases.last_mut(), &mut inherited, carried);
            let place = format!("{file}:{}", number + 1);
            cases.push(Case { name: name.trim().to_owned(), place, sections: Vec::new() });
            continue;
        }
        if line.starts_with('#') || line.trim().is_empty() {
            continue;
        }
        let Some(case) = cases.last_mut() else { panic!("{file}:{}: text before the first case", number + 1) };
        match section_start(line) {
            Some((name, rest)) => {
                let section =
                    Section { name: name.to_owned(), text: rest.trim().to_owned(), lines: number..number + 1 };
                case.sections.push(section);
            }
            None => {
                let Some(section) = case.sections.last_mut() else {
                    panic!("{file}:{}: text outside a section", number + 1)
                };
                if !section.text.is_empty() {
                    section.text.push('\n');
                }
                section.text.push_str(line.trim_end());
                section.lines.end = number + 1;
            }
        }
    }
    finish(cases.last_mut(), &mut inherited, carried);
    cases
}

/// Gives a complete case the inherited sections it does not define, and lets it define them for those after it.
fn finish(case: Option<&mut Case>, inherited: &mut Vec<Section>, carried: &[String]) {
    let Some(case) = case else { return };
    for section in case.sections.iter().filter(|section| carried.contains(&section.name)) {
        inherited.retain(|old| old.name != section.name);
        inherited.push(section.clone());
    }
    let missing: Vec<Section> = inherited.iter().filter(|section| !case.has(&section.name)).cloned().collect();
    case.sections.extend(missing);
}

/// `word: rest` at the start of a line.
fn section_start(line: &str) -> Option<(&str, &str)> {
    let (name, rest) = line.split_once(':')?;
    let is_word = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
    (is_word && (rest.is_empty() || rest.starts_with(' '))).then_some((name, rest))
}

/// The script's text with each case's section `name` replaced by the outcome of the same position.
pub(crate) fn record(text: &str, cases: &[Case], name: &str, outcomes: &[String]) -> String {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    for (case, outcome) in cases.iter().zip(outcomes).rev() {
        let written = if outcome.contains('\n') { format!("{name}:\n{outcome}") } else { format!("{name}: {outcome}") };
        let written = written.trim_end().lines().map(str::to_owned);
        let own = case.sections.iter().find(|section| section.name == name);
        let last = case.sections.iter().map(|section| section.lines.end).max().unwrap_or(lines.len());
        let range = own.map_or(last..last, |section| section.lines.clone());
        lines.splice(range, written);
    }
    lines.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCRIPT: &str = "# about\n== one\ndocuments:\n{_id: 1}\n{_id: 2}\nfilter: {}\nexpect: 1 2\n\n== two\nfilter:\n  {a: 1}\nexpect:\n1\n2\n";

    #[test]
    fn sections_are_carried_over() {
        let cases = parse("s", SCRIPT, &["documents".to_owned()]);
        assert_eq!(cases.len(), 2);
        assert_eq!(cases[1].documents("documents").len(), 2);
        assert_eq!(cases[1].text("expect"), Some("1\n2"));
        assert_eq!(cases[1].place, "s:9");
    }

    #[test]
    fn recording_replaces_only_expectations() {
        let cases = parse("s", SCRIPT, &["documents".to_owned()]);
        let recorded = record(SCRIPT, &cases, "expect", &["x\ny".to_owned(), "z".to_owned()]);
        assert_eq!(recorded, SCRIPT.replace("expect: 1 2", "expect:\nx\ny").replace("expect:\n1\n2\n", "expect: z\n"));
    }
}
