//! Tests of words, scores and queries. Scores are those of the manual's examples and of answers to users.

use bson::{RawBsonRef, RawDocumentBuf, rawdoc};

use super::*;

fn score(definition: &TextDefinition, document: &RawDocumentBuf, term: &str) -> Option<f64> {
    scores(definition, document, &|_| true).unwrap().get(term).copied()
}

fn terms(language: Language, search: &str) -> Vec<String> {
    TextQuery::parse(search, language, Sensitivity::default()).unwrap().terms().iter().cloned().collect()
}

fn title() -> TextDefinition {
    TextDefinition::of_fields(["title"]).unwrap()
}

#[test]
fn scores_are_those_of_published_examples() {
    let of = |text: &str, term: &str| score(&title(), &rawdoc! { "title": text }, term);
    assert_eq!(of("Rock", "rock"), Some(1.1));
    assert_eq!(of("Rocks", "rock"), Some(1.0));
    assert_eq!(of("Rock paper", "rock"), Some(0.75));
    assert_eq!(of("Rock paper scissors", "rock"), Some(0.5 + 0.5 / 3.0));
    assert_eq!(of("cakes and ale", "cake"), Some(0.75));
    assert_eq!(of("more cakes", "cake"), Some(1.0));
    assert_eq!(of("some cakes", "cake"), Some(1.0));
    assert_eq!(of("bread", "cake"), None);
    // Each further occurrence is worth half of the one before.
    assert_eq!(of("rock rock rock paper", "rock"), Some(1.75 * (0.5 + 0.5 * 3.0 / 4.0)));
}

#[test]
fn weights_and_places_add_up() {
    let definition = title().with_weights(RawBsonRef::Document(&rawdoc! { "title": 10, "a.b": 5 })).unwrap();
    let document = rawdoc! { "title": "cat", "a": [{ "b": ["cats", "dog"] }, { "b": "cats dogs" }], "c": "cat" };
    assert_eq!(score(&definition, &document, "cat"), Some(11.0 + 5.0 + 5.0 * 0.75));
    assert_eq!(score(&definition, &document, "dog"), Some(5.5 + 5.0 * 0.75));
}

#[test]
fn a_wildcard_finds_all_texts_but_the_language() {
    let definition = TextDefinition::of_fields(["$**"]).unwrap();
    let document = rawdoc! { "language": "spanish", "x": { "y": ["gatos", { "z": "perros" }] }, "n": 5 };
    let found = scores(&definition, &document, &|_| true).unwrap();
    let mut found: Vec<&str> = found.keys().map(|term| &**term).collect();
    found.sort_unstable();
    assert_eq!(found, ["gat", "perr"]);
}

#[test]
fn a_subdocument_may_be_in_another_language() {
    let definition = TextDefinition::of_fields(["original", "translation.quote"]).unwrap();
    let document = rawdoc! {
        "language": "portuguese",
        "original": "a sorte protege os audazes",
        "translation": [
            { "language": "english", "quote": "Fortune favors the bold." },
            { "language": "spanish", "quote": "La suerte protege a los audaces." },
        ],
    };
    let found = scores(&definition, &document, &|_| true).unwrap();
    for term in ["sort", "fortun", "bold", "suert"] {
        assert!(found.contains_key(term), "{term} in {found:?}");
    }
    for stop_word in ["the", "la", "los", "os"] {
        assert!(!found.contains_key(stop_word), "{stop_word}");
    }
    let unknown = rawdoc! { "language": "klingon", "original": "x" };
    assert_eq!(scores(&definition, &unknown, &|_| true), Err(TextError::UnknownOverride("klingon".to_owned())));
    let no_text = rawdoc! { "language": 5, "original": "x" };
    assert_eq!(scores(&definition, &no_text, &|_| true), Err(TextError::OverrideNoText));
}

#[test]
fn words_end_where_unicode_says() {
    assert_eq!(
        terms(Language::None, "Il a dit qu'il «était le meilleur joueur»"),
        ["a", "dit", "etait", "il", "joueur", "le", "meilleur", "qu"]
    );
    assert_eq!(terms(Language::English, "couldn't stop foo_bar x/z"), ["foo_bar", "stop", "x", "z"]);
    assert_eq!(terms(Language::English, "running runs RUN"), ["run"]);
    assert_eq!(terms(Language::German, "Häuser und Haus"), ["haus"]);
    assert_eq!(terms(Language::Turkish, "IŞIK"), [terms(Language::Turkish, "ışık").concat()]);
    assert_eq!(terms(Language::English, "the and of"), [""; 0]);
}

#[test]
fn every_language_has_a_stemmer_and_stop_words() {
    let stop_words = [
        ("da", "ikke"),
        ("nl", "niet"),
        ("en", "the"),
        ("fi", "että"),
        ("fr", "avec"),
        ("de", "nicht"),
        ("hu", "nem"),
        ("it", "della"),
        ("nb", "ikke"),
        ("pt", "não"),
        ("ro", "este"),
        ("ru", "или"),
        ("es", "pero"),
        ("sv", "inte"),
        ("tr", "ama"),
    ];
    for (code, word) in stop_words {
        let language = Language::named(code).unwrap();
        assert_eq!(Language::named(&language.name().to_uppercase()), Some(language));
        assert!(language.is_stop_word(word), "{word} in {}", language.name());
        assert!(language.stemmer().is_some());
    }
    assert_eq!(Language::named("none"), Some(Language::None));
    assert_eq!(Language::named("latin"), None);
}

#[test]
fn searches_are_taken_apart() {
    let query = TextQuery::parse(
        "coffee -shop \"ssl certificate\" -\"bad cakes\" pre-market \"open",
        Language::English,
        Sensitivity::default(),
    )
    .unwrap();
    assert_eq!(query.phrases(), ["ssl certificate"]);
    assert_eq!(query.negated_phrases(), ["bad cakes"]);
    let negated: Vec<&String> = query.negated_terms().iter().collect();
    assert_eq!(negated, ["shop"]);
    let terms: Vec<&String> = query.terms().iter().collect();
    assert_eq!(terms, ["certif", "coffe", "market", "open", "pre", "ssl"]);
}

#[test]
fn documents_match_by_terms_phrases_and_what_is_negated() {
    let subject = TextDefinition::of_fields(["subject"]).unwrap();
    let matches = |search: &str, sensitivity: Sensitivity, text: &str| {
        let query = TextQuery::parse(search, Language::English, sensitivity).unwrap();
        query.matches(&subject, &rawdoc! { "subject": text }).unwrap()
    };
    let any = Sensitivity::default();
    assert!(matches("coffee", any, "Coffee Shopping"));
    assert!(!matches("\"coffee shop\"", any, "coffee and a shop"));
    assert!(matches("\"coffee shop\"", any, "Coffee Shopping"));
    assert!(!matches("coffee -shop", any, "Coffee Shopping"));
    assert!(!matches("-shop", any, "coffee"), "negation alone finds nothing");
    assert!(matches("cafe", any, "Café con Lèche"));
    // Stems are taken off before accents are: stemmers know these.
    let diacritics = Sensitivity { diacritics: true, ..any };
    assert!(!matches("cafe", diacritics, "Café con Lèche"));
    assert!(matches("café", diacritics, "Café con Lèche"));
    let case = Sensitivity { case: true, ..any };
    assert!(matches("Coffee", case, "Coffee Shopping"));
    assert!(!matches("coffee", case, "Coffee Shopping"));
    assert!(!matches("\"Café con leche\"", case, "Café con Leche"));
}

#[test]
fn definitions_are_checked() {
    for weights in [rawdoc! { "a": 0 }, rawdoc! { "a": 100_000 }, rawdoc! { "a": "x" }, rawdoc! { "a..b": 1 }] {
        assert!(title().with_weights(RawBsonRef::Document(&weights)).is_err(), "{weights:?}");
    }
    assert!(title().with_default_language(RawBsonRef::String("klingon")).is_err());
    assert!(title().with_language_override(RawBsonRef::Int32(1)).is_err());
    assert!(matches!(
        scores(&title(), &rawdoc! { "title": (0..2000).map(|n| format!("w{n} ")).collect::<String>() }, &|_| false),
        Err(TextError::NoMemory { .. })
    ));
}

#[derive(Debug)]
struct Stopped;

impl document::work::Watch for Stopped {
    fn interruption(&self) -> Option<document::Interruption> {
        Some(document::Interruption { name: "Interrupted", message: "operation was interrupted" })
    }
}

#[test]
fn long_texts_end_when_they_are_to() {
    let text: String = (0..1_000).map(|number| format!("word{number} ")).collect();
    let document = rawdoc! { "title": text.as_str() };
    let query = TextQuery::parse("absent -missing", Language::English, Sensitivity::default()).unwrap();
    let _watching = document::work::watch(std::sync::Arc::new(Stopped));
    assert!(matches!(scores(&title(), &document, &|_| true), Err(TextError::Interrupted(_))));
    assert!(matches!(query.matches(&title(), &document), Err(TextError::Interrupted(_))));
    assert!(TextQuery::parse(&text, Language::English, Sensitivity::default()).is_err());
}
