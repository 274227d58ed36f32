//! From a word to what an index has of it: a term.

use std::borrow::Cow;

use document::{Interruption, work};
use rust_stemmers::Stemmer;

use crate::characters::{lower, without_diacritics, words};
use crate::language::Language;
use crate::query::Sensitivity;

/// Units of work that a word takes: it is looked for among the stop words and stemmed.
const UNITS_PER_WORD: usize = 32;
/// No word of a language is longer; stemmers take time by the square of it.
const STEMMED_BYTES_MAX: usize = 256;

/// Makes terms of one language.
pub(crate) struct Analyzer {
    language: Language,
    stemmer: Option<Stemmer>,
    sensitivity: Sensitivity,
}

impl Analyzer {
    pub(crate) fn new(language: Language, sensitivity: Sensitivity) -> Analyzer {
        Analyzer { language, stemmer: language.stemmer(), sensitivity }
    }

    pub(crate) fn language(&self) -> Language {
        self.language
    }

    /// The term of a word; `None` for a stop word.
    pub(crate) fn term<'w>(&self, word: &'w str) -> Option<Cow<'w, str>> {
        let lowered = lower(word, self.language);
        if self.language.is_stop_word(&lowered) {
            return None;
        }
        let cased = if self.sensitivity.case { Cow::Borrowed(word) } else { lowered };
        let stemmed = match &self.stemmer {
            Some(stemmer) if cased.len() <= STEMMED_BYTES_MAX => match stemmer.stem(&cased) {
                Cow::Borrowed(stem) if stem.len() == cased.len() => cased,
                stem => Cow::Owned(stem.into_owned()),
            },
            _ => cased,
        };
        if self.sensitivity.diacritics {
            return Some(stemmed);
        }
        match without_diacritics(&stemmed) {
            Cow::Borrowed(_) => Some(stemmed),
            Cow::Owned(folded) => Some(Cow::Owned(folded)),
        }
        .filter(|term| !term.is_empty())
    }

    /// Gives each term of a text to `visit`, which says whether to go on.
    ///
    /// # Errors
    /// The command is to stop.
    pub(crate) fn each_term(&self, text: &str, mut visit: impl FnMut(&str) -> bool) -> Result<(), Interruption> {
        for word in words(text, self.language) {
            work::done(UNITS_PER_WORD + work::of_bytes(word.len()))?;
            if let Some(term) = self.term(word)
                && !visit(&term)
            {
                break;
            }
        }
        Ok(())
    }
}
