//! What `plimsoll check` found, and how it is told. Filled by all parts of `check`.

use std::fmt::Write as _;

pub(super) const TOPOLOGY: &str = "what it is";
pub(super) const DEFINITIONS: &str = "collections, indexes and views";
pub(super) const NAMES: &str = "commands, stages and operators in use";
pub(super) const QUERIES: &str = "queries";
const PARTS: [&str; 4] = [TOPOLOGY, DEFINITIONS, NAMES, QUERIES];

/// How much was looked at.
#[derive(Debug, Default)]
pub(super) struct LookedAt {
    pub(super) collections: usize,
    pub(super) indexes: usize,
    pub(super) views: usize,
    pub(super) commands: usize,
    pub(super) operators: usize,
    pub(super) queries: usize,
}

/// See the module's head.
#[derive(Debug, Default)]
pub(super) struct Findings {
    pub(super) looked_at: LookedAt,
    refused: Vec<(&'static str, String, String)>,
    notes: Vec<String>,
}

impl Findings {
    /// Plimsoll refuses it, and why.
    pub(super) fn refused(&mut self, part: &'static str, what: String, why: String) {
        self.refused.push((part, what, why));
    }

    /// Something that whoever moves has to know, or that could not be looked at.
    pub(super) fn note(&mut self, text: String) {
        self.notes.push(text);
    }

    /// Whether nothing is refused.
    pub(super) fn is_clear(&self) -> bool {
        self.refused.is_empty()
    }

    pub(super) fn in_text(&self) -> String {
        let LookedAt { collections, indexes, views, commands, operators, queries } = self.looked_at;
        let mut text = format!(
            "looked at {collections} collections, {indexes} indexes, {views} views, {commands} commands, {operators} stages and operators, {queries} kinds of queries\n"
        );
        for part in PARTS {
            let mut of_part = self.refused.iter().filter(|(of, ..)| *of == part).peekable();
            if of_part.peek().is_some() {
                // Writing into a string does not fail.
                let _ = writeln!(text, "refused, {part}:");
            }
            of_part.for_each(|(_, what, why)| {
                let _ = writeln!(text, "  {what}: {why}");
            });
        }
        if self.is_clear() {
            text += "none of it would be refused\n";
        }
        self.notes.iter().for_each(|note| {
            let _ = writeln!(text, "note: {note}");
        });
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_refused_is_told_by_part() {
        let mut findings = Findings::default();
        assert!(findings.is_clear() && findings.in_text().contains("none of it would be refused"));
        findings.refused(QUERIES, "find shop.orders".to_owned(), "no".to_owned());
        findings.refused(DEFINITIONS, "shop.orders, index a".to_owned(), "not this".to_owned());
        findings.note("no profile".to_owned());
        let text = findings.in_text();
        let expected = "refused, collections, indexes and views:\n  shop.orders, index a: not this\nrefused, queries:\n  find shop.orders: no\nnote: no profile\n";
        assert!(!findings.is_clear() && text.ends_with(expected), "{text}");
    }
}
