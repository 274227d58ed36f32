//! Where words end, and which letters are the same: by Unicode's properties, as version 3 of text indexes has it.

use std::borrow::Cow;

use icu_normalizer::DecomposingNormalizerBorrowed;
use icu_properties::CodePointSetData;
use icu_properties::props::{Dash, Diacritic, Hyphen, PatternSyntax, QuotationMark, TerminalPunctuation, WhiteSpace};

use crate::language::Language;

/// Whether a character stands between words. An apostrophe is within English words: `can't`.
pub(crate) fn is_delimiter(character: char, language: Language) -> bool {
    match character {
        'a'..='z' | 'A'..='Z' | '0'..='9' | '_' => false,
        '\'' => language != Language::English,
        '\0'..='\x7F' => character.is_ascii_punctuation() || matches!(character, '\t'..='\r' | ' '),
        _ => {
            CodePointSetData::new::<WhiteSpace>().contains(character)
                || CodePointSetData::new::<PatternSyntax>().contains(character)
                || CodePointSetData::new::<TerminalPunctuation>().contains(character)
                || CodePointSetData::new::<Dash>().contains(character)
                || CodePointSetData::new::<Hyphen>().contains(character)
                || CodePointSetData::new::<QuotationMark>().contains(character)
        }
    }
}

/// The words of a text, one after another.
pub(crate) fn words(text: &str, language: Language) -> impl Iterator<Item = &str> {
    text.split(move |character| is_delimiter(character, language)).filter(|word| !word.is_empty())
}

/// In small letters, one for one; Turkish has two letters i.
pub(crate) fn lower(text: &str, language: Language) -> Cow<'_, str> {
    let is_turkish = language == Language::Turkish;
    let is_lower = |byte: u8| byte.is_ascii() && !byte.is_ascii_uppercase();
    if text.bytes().all(is_lower) {
        return Cow::Borrowed(text);
    }
    let lowered = text.chars().map(|character| match character {
        'I' if is_turkish => 'ı',
        'İ' if is_turkish => 'i',
        _ => {
            let mut lowered = character.to_lowercase();
            // What would become several letters stays, but for its first.
            lowered.next().unwrap_or(character)
        }
    });
    Cow::Owned(lowered.collect())
}

/// Without accents and other diacritics.
pub(crate) fn without_diacritics(text: &str) -> Cow<'_, str> {
    if text.bytes().all(|byte| byte.is_ascii() && !matches!(byte, b'^' | b'`')) {
        return Cow::Borrowed(text);
    }
    let decomposed = DecomposingNormalizerBorrowed::new_nfd().normalize(text);
    let kept = decomposed.chars().filter(|character| !CodePointSetData::new::<Diacritic>().contains(*character));
    Cow::Owned(kept.collect())
}
