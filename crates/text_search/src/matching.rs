//! Whether a document is what a `$text` query asks for.

use std::borrow::Cow;

use bson::RawDocument;
use document::work;

use crate::characters::{lower, without_diacritics};
use crate::definition::TextDefinition;
use crate::error::Result;
use crate::language::Language;
use crate::query::{Sensitivity, TextQuery};
use crate::terms::Analyzer;

impl TextQuery {
    /// Whether a document matches: it has one of the terms, all phrases, and nothing that is negated.
    ///
    /// # Errors
    /// `UnknownOverride`, `OverrideNoText`, `Interrupted`.
    pub fn matches(&self, definition: &TextDefinition, document: &RawDocument) -> Result<bool> {
        Ok(self.has_any_term(definition, document)? && self.passes(definition, document)?)
    }

    /// Of a document that an index gave for one of the terms: whether it matches.
    ///
    /// # Errors
    /// Those of `matches`.
    pub fn accepts_found(&self, definition: &TextDefinition, document: &RawDocument) -> Result<bool> {
        let is_plain = self.sensitivity == Sensitivity::default();
        Ok((is_plain || self.has_any_term(definition, document)?) && self.passes(definition, document)?)
    }

    fn passes(&self, definition: &TextDefinition, document: &RawDocument) -> Result<bool> {
        if self.has_negated_term(definition, document)? {
            return Ok(false);
        }
        for phrase in self.phrases() {
            if !self.has_phrase(phrase, definition, document)? {
                return Ok(false);
            }
        }
        for phrase in self.negated_phrases() {
            if self.has_phrase(phrase, definition, document)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn has_any_term(&self, definition: &TextDefinition, document: &RawDocument) -> Result<bool> {
        self.has_one_of(definition, document, |term| self.terms().contains(term))
    }

    fn has_negated_term(&self, definition: &TextDefinition, document: &RawDocument) -> Result<bool> {
        let negated = self.negated_terms();
        Ok(!negated.is_empty() && self.has_one_of(definition, document, |term| negated.contains(term))?)
    }

    fn has_one_of(
        &self,
        definition: &TextDefinition,
        document: &RawDocument,
        is_one: impl Fn(&str) -> bool,
    ) -> Result<bool> {
        let mut is_found = false;
        definition.each_text(document, &mut |text, language, _| {
            Analyzer::new(language, self.sensitivity).each_term(text, |term| {
                is_found |= is_one(term);
                !is_found
            })?;
            Ok(!is_found)
        })?;
        Ok(is_found)
    }

    fn has_phrase(&self, phrase: &str, definition: &TextDefinition, document: &RawDocument) -> Result<bool> {
        let phrase = self.folded(phrase, self.language);
        let mut is_found = false;
        definition.each_text(document, &mut |text, language, _| {
            work::done(8 * work::of_bytes(text.len()))?;
            is_found = self.folded(text, language).contains(&*phrase);
            Ok(!is_found)
        })?;
        Ok(is_found)
    }

    /// A text without the differences that do not count.
    fn folded<'t>(&self, text: &'t str, language: Language) -> Cow<'t, str> {
        let cased = if self.sensitivity.case { Cow::Borrowed(text) } else { lower(text, language) };
        if self.sensitivity.diacritics {
            return cased;
        }
        match without_diacritics(&cased) {
            Cow::Borrowed(_) => cased,
            Cow::Owned(folded) => Cow::Owned(folded),
        }
    }
}
