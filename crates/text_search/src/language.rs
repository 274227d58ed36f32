//! The languages of text indexes: their names, stemmers and stop words.
//!
//! The names are those of the manual's page on languages. `none` has neither stemmer nor stop words.

use std::collections::HashSet;
use std::sync::OnceLock;

use rust_stemmers::{Algorithm, Stemmer};

/// A language that texts can be in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Language {
    None,
    Danish,
    Dutch,
    English,
    Finnish,
    French,
    German,
    Hungarian,
    Italian,
    Norwegian,
    Portuguese,
    Romanian,
    Russian,
    Spanish,
    Swedish,
    Turkish,
}

/// Of one language: its name, its ISO 639-1 code, and its stemmer.
struct Row {
    language: Language,
    name: &'static str,
    code: &'static str,
    stemmer: Option<Algorithm>,
}

const fn row(language: Language, name: &'static str, code: &'static str, stemmer: Algorithm) -> Row {
    Row { language, name, code, stemmer: Some(stemmer) }
}

/// In the order of `Language`.
const LANGUAGES: [Row; 16] = [
    Row { language: Language::None, name: "none", code: "none", stemmer: None },
    row(Language::Danish, "danish", "da", Algorithm::Danish),
    row(Language::Dutch, "dutch", "nl", Algorithm::Dutch),
    row(Language::English, "english", "en", Algorithm::English),
    row(Language::Finnish, "finnish", "fi", Algorithm::Finnish),
    row(Language::French, "french", "fr", Algorithm::French),
    row(Language::German, "german", "de", Algorithm::German),
    row(Language::Hungarian, "hungarian", "hu", Algorithm::Hungarian),
    row(Language::Italian, "italian", "it", Algorithm::Italian),
    row(Language::Norwegian, "norwegian", "nb", Algorithm::Norwegian),
    row(Language::Portuguese, "portuguese", "pt", Algorithm::Portuguese),
    row(Language::Romanian, "romanian", "ro", Algorithm::Romanian),
    row(Language::Russian, "russian", "ru", Algorithm::Russian),
    row(Language::Spanish, "spanish", "es", Algorithm::Spanish),
    row(Language::Swedish, "swedish", "sv", Algorithm::Swedish),
    row(Language::Turkish, "turkish", "tr", Algorithm::Turkish),
];

impl Language {
    /// By its name or code, in letters of any case.
    pub fn named(name: &str) -> Option<Language> {
        let is_it = |row: &&Row| row.name.eq_ignore_ascii_case(name) || row.code.eq_ignore_ascii_case(name);
        LANGUAGES.iter().find(is_it).map(|row| row.language)
    }

    fn row(self) -> Option<&'static Row> {
        LANGUAGES.get(self as usize)
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        self.row().map_or("none", |row| row.name)
    }

    /// What takes the endings off its words.
    pub(crate) fn stemmer(self) -> Option<Stemmer> {
        self.row()?.stemmer.map(Stemmer::create)
    }

    /// Whether a word, in small letters, says nothing of what a text is about.
    pub(crate) fn is_stop_word(self, word: &str) -> bool {
        static LISTS: [OnceLock<HashSet<&'static str>>; 16] = [const { OnceLock::new() }; 16];
        let (Some(row), Some(list)) = (self.row(), LISTS.get(self as usize)) else { return false };
        // The crate has one list for both kinds of Norwegian.
        let code = if row.code == "nb" { "no" } else { row.code };
        list.get_or_init(|| stop_words::lookup(code).unwrap_or_default().iter().copied().collect()).contains(word)
    }
}
