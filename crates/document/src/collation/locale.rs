//! The names of locales, as ICU writes them: `de`, `fr_CA`, `zh_Hant`, `de@collation=phonebook`.
//!
//! Source of the languages and variants: the manual's page "Collation Locales and Default Parameters".

use icu_locale_core::Locale;

/// Languages that MongoDB has collations for.
const LANGUAGES: [&str; 101] = [
    "af", "am", "ar", "as", "az", "be", "bg", "bn", "bo", "bs", "ca", "chr", "cs", "cy", "da", "de", "dsb", "dz", "ee",
    "el", "en", "eo", "es", "et", "fa", "fi", "fil", "fo", "fr", "ga", "gl", "gu", "ha", "haw", "he", "hi", "hr",
    "hsb", "hu", "hy", "id", "ig", "is", "it", "ja", "ka", "kk", "kl", "km", "kn", "ko", "kok", "ky", "lb", "lkt",
    "ln", "lo", "lt", "lv", "mk", "ml", "mn", "mr", "ms", "mt", "my", "nb", "ne", "nl", "nn", "om", "or", "pa", "pl",
    "ps", "pt", "ro", "ru", "se", "si", "sk", "sl", "smn", "sq", "sr", "sv", "sw", "ta", "te", "th", "to", "tr", "ug",
    "uk", "ur", "vi", "wae", "yi", "yo", "zh", "zu",
];

/// What stands behind `@collation=`, and its name in BCP 47.
const VARIANTS: [(&str, &str); 9] = [
    ("compat", "compat"),
    ("dictionary", "dict"),
    ("phonebook", "phonebk"),
    ("pinyin", "pinyin"),
    ("stroke", "stroke"),
    ("traditional", "trad"),
    ("unihan", "unihan"),
    ("zhuyin", "zhuyin"),
    ("standard", "standard"),
];

/// Variants that MongoDB has and ICU4X has no data of.
const ABSENT_VARIANTS: [&str; 7] = ["search", "searchjl", "phonetic", "reformed", "eor", "big5han", "gb2312han"];

/// What a name says.
pub(super) enum Named {
    /// A locale.
    Locale(Locale),
    /// A variant that we do not have.
    Absent,
    /// No locale.
    Invalid,
}

/// Reads a name.
pub(super) fn parse(name: &str) -> Named {
    let (place, variant) = match name.split_once('@') {
        None => (name, None),
        Some((place, keyword)) => match keyword.strip_prefix("collation=") {
            Some(variant) => (place, Some(variant)),
            None => return Named::Invalid,
        },
    };
    let language = place.split('_').next().unwrap_or_default();
    if !LANGUAGES.contains(&language) || place.contains('-') {
        return Named::Invalid;
    }
    let mut tag = place.replace('_', "-");
    if let Some(variant) = variant {
        match VARIANTS.iter().find(|(name, _)| *name == variant) {
            Some((_, short)) => tag = format!("{tag}-u-co-{short}"),
            None if ABSENT_VARIANTS.contains(&variant) => return Named::Absent,
            None => return Named::Invalid,
        }
    }
    match Locale::try_from_str(&tag) {
        // `EN` or `en_us` is not how a locale is written.
        Ok(locale) if variant.is_some() || is_canonical(&locale, &tag) => Named::Locale(locale),
        _ => Named::Invalid,
    }
}

fn is_canonical(locale: &Locale, tag: &str) -> bool {
    let written = locale.to_string();
    // Variants of languages (`POSIX`) are in lower case in BCP 47 and in upper case here.
    written.eq_ignore_ascii_case(tag)
        && tag.split('-').zip(written.split('-')).take(2).all(|(ours, theirs)| ours == theirs)
}

/// Whether the secondary level is compared from its end by the rules of the locale.
pub(super) fn is_backwards(locale: &Locale) -> bool {
    locale.id.language.as_str() == "fr" && locale.id.region.is_some_and(|region| region.as_str() == "CA")
}
