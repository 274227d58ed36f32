//! What a `$text` query asks for: `$search` taken apart.
//!
//! `-word` and `-"some words"` are not to be there. A text in quotation marks is to be there as it is, and its words
//! are terms, too. A hyphen within a word negates nothing.

use std::collections::BTreeSet;

use document::Interruption;

use crate::characters::is_delimiter;
use crate::language::Language;
use crate::terms::Analyzer;

/// Which differences between letters count.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sensitivity {
    /// Those between capital and small letters.
    pub case: bool,
    /// Those of accents and the like.
    pub diacritics: bool,
}

/// A parsed query in a language.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TextQuery {
    /// What `matching` makes terms of a document with.
    pub(crate) sensitivity: Sensitivity,
    pub(crate) language: Language,
    terms: BTreeSet<String>,
    negated_terms: BTreeSet<String>,
    phrases: Vec<String>,
    negated_phrases: Vec<String>,
    /// The terms as indexes have them.
    index_terms: BTreeSet<String>,
}

impl TextQuery {
    /// Takes a search apart.
    ///
    /// # Errors
    /// The command is to stop.
    pub fn parse(search: &str, language: Language, sensitivity: Sensitivity) -> Result<TextQuery, Interruption> {
        let query = TextQuery {
            sensitivity,
            language,
            terms: BTreeSet::new(),
            negated_terms: BTreeSet::new(),
            phrases: Vec::new(),
            negated_phrases: Vec::new(),
            index_terms: BTreeSet::new(),
        };
        let mut reader = Reader {
            query,
            sensitive: Analyzer::new(language, sensitivity),
            folded: Analyzer::new(language, Sensitivity::default()),
        };
        reader.read(search)?;
        Ok(reader.query)
    }

    /// The terms of which one must be in a document.
    pub fn terms(&self) -> &BTreeSet<String> {
        &self.terms
    }

    /// Those of which none may be.
    pub fn negated_terms(&self) -> &BTreeSet<String> {
        &self.negated_terms
    }

    /// Texts that must be there, each.
    pub fn phrases(&self) -> &[String] {
        &self.phrases
    }

    /// Texts that may not.
    pub fn negated_phrases(&self) -> &[String] {
        &self.negated_phrases
    }

    /// The terms that are looked up: in small letters and without accents, whatever the query is sensitive to.
    pub fn index_terms(&self) -> &BTreeSet<String> {
        &self.index_terms
    }
}

/// What stands before a word or a phrase.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sign {
    Wanted,
    Negated,
}

struct Reader {
    query: TextQuery,
    sensitive: Analyzer,
    folded: Analyzer,
}

impl Reader {
    fn read(&mut self, search: &str) -> Result<(), Interruption> {
        let language = self.sensitive.language();
        let mut rest = search;
        let mut sign = Sign::Wanted;
        // Of a phrase that has begun: what is behind its mark.
        let mut phrase: Option<(&str, Sign)> = None;
        let mut is_after_space = true;
        while let Some(character) = rest.chars().next() {
            if !is_delimiter(character, language) {
                let end = rest.find(|character| is_delimiter(character, language)).unwrap_or(rest.len());
                let (word, after) = rest.split_at(end);
                rest = after;
                self.word(word, phrase.map_or(sign, |(_, sign)| sign), phrase.is_some())?;
                (sign, is_after_space) = (Sign::Wanted, false);
                continue;
            }
            let after = rest.get(character.len_utf8()..).unwrap_or_default();
            match (character, phrase) {
                ('"', Some((begun, sign))) => {
                    let length = begun.len().saturating_sub(rest.len());
                    self.phrase(begun.get(..length).unwrap_or_default(), sign);
                    phrase = None;
                }
                ('"', None) => phrase = Some((after, sign)),
                _ => {}
            }
            sign = if character == '-' && phrase.is_none() && is_after_space { Sign::Negated } else { Sign::Wanted };
            is_after_space = character.is_whitespace();
            rest = after;
        }
        Ok(())
    }

    fn word(&mut self, word: &str, sign: Sign, is_in_phrase: bool) -> Result<(), Interruption> {
        document::work::done(document::work::of_bytes(word.len()))?;
        let Some(term) = self.sensitive.term(word) else { return Ok(()) };
        match sign {
            Sign::Wanted => {
                self.query.terms.insert(term.into_owned());
                self.query.index_terms.extend(self.folded.term(word).map(|term| term.into_owned()));
            }
            // The words of a negated phrase may be there, one by one.
            Sign::Negated if is_in_phrase => {}
            Sign::Negated => {
                self.query.negated_terms.insert(term.into_owned());
            }
        }
        Ok(())
    }

    fn phrase(&mut self, phrase: &str, sign: Sign) {
        let phrase = phrase.trim();
        if phrase.is_empty() {
            return;
        }
        match sign {
            Sign::Wanted => self.query.phrases.push(phrase.to_owned()),
            Sign::Negated => self.query.negated_phrases.push(phrase.to_owned()),
        }
    }
}
