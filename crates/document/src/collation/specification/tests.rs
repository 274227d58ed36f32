//! Expectations: the manual's page "Collation", Unicode's UTS 10 and 35, CLDR's charts; where a line says so.

use std::cmp::Ordering;

use bson::rawdoc;

use super::*;

fn collator(given: RawDocumentBuf) -> Arc<Collator> {
    parse(&given).unwrap().unwrap()
}

fn sorted(given: RawDocumentBuf, texts: &str) -> String {
    let collator = collator(given);
    let mut texts: Vec<&str> = texts.split(' ').collect();
    texts.sort_by(|left, right| collator.compare(left.as_bytes(), right.as_bytes()));
    let mut keys: Vec<(Vec<u8>, &str)> = texts.iter().map(|text| (key(&collator, text), *text)).collect();
    keys.sort_by(|(left, _), (right, _)| left.cmp(right));
    let by_key: Vec<&str> = keys.iter().map(|(_, text)| *text).collect();
    assert_eq!(by_key, texts, "sort keys order as comparison does");
    texts.join(" ")
}

fn key(collator: &Collator, text: &str) -> Vec<u8> {
    let mut key = Vec::new();
    collator.append_sort_key(text.as_bytes(), &mut key);
    key
}

#[test]
fn languages_have_their_order() {
    // UTS 10, section 1.1: German and Swedish; Danish puts aa behind z.
    assert_eq!(sorted(rawdoc! { "locale": "de" }, "z öf of"), "of öf z");
    assert_eq!(sorted(rawdoc! { "locale": "sv" }, "öf z of"), "of z öf");
    assert_eq!(sorted(rawdoc! { "locale": "da" }, "aarhus zebra alt"), "alt zebra aarhus");
    // Traditional Spanish has ch between c and d (CLDR).
    assert_eq!(sorted(rawdoc! { "locale": "es" }, "cz ch d"), "ch cz d");
    assert_eq!(sorted(rawdoc! { "locale": "es@collation=traditional" }, "ch d cz"), "cz ch d");
    // The phone book of German has ö as oe.
    assert_eq!(sorted(rawdoc! { "locale": "de@collation=phonebook" }, "of öf od"), "od öf of");
}

#[test]
fn strengths_tell_letters_accents_and_case_apart() {
    // The manual: 1 compares base characters, 2 accents too, 3 case and variants too.
    let compare = |strength: i32, left: &str, right: &str| {
        let collator = collator(rawdoc! { "locale": "en", "strength": strength });
        let order = collator.compare(left.as_bytes(), right.as_bytes());
        assert_eq!(key(&collator, left).cmp(&key(&collator, right)), order);
        order
    };
    assert_eq!(compare(1, "E", "é"), Ordering::Equal);
    assert_eq!(compare(2, "E", "e"), Ordering::Equal);
    assert_eq!(compare(2, "e", "é"), Ordering::Less);
    assert_eq!(compare(3, "e", "E"), Ordering::Less);
    assert_eq!(compare(3, "e\u{301}", "é"), Ordering::Equal, "normalized before it is compared");
    // Identical goes by code points of what differs in nothing else: a zero-width joiner is ignored up to 4.
    assert_eq!(compare(4, "ab", "a\u{200d}b"), Ordering::Equal);
    assert_ne!(compare(5, "ab", "a\u{200d}b"), Ordering::Equal);
}

#[test]
fn options_do_what_the_manual_says() {
    let with = |option: &str, value: bson::RawBson| {
        let mut given = rawdoc! { "locale": "en" };
        given.append(<&bson::raw::CStr>::try_from(option).unwrap(), value);
        given
    };
    assert_eq!(sorted(with("numericOrdering", true.into()), "a10 a9 a2"), "a2 a9 a10");
    assert_eq!(sorted(rawdoc! { "locale": "en" }, "a10 a9 a2"), "a10 a2 a9");
    assert_eq!(sorted(with("caseFirst", "upper".into()), "a A b B"), "A a B b");
    assert_eq!(sorted(with("caseFirst", "lower".into()), "A a B b"), "a A b B");
    let case = collator(rawdoc! { "locale": "en", "strength": 1, "caseLevel": true });
    assert_eq!(case.compare(b"E", "é".as_bytes()), Ordering::Greater);
    assert_eq!(case.compare(b"e", "é".as_bytes()), Ordering::Equal);
    let shifted = collator(rawdoc! { "locale": "en", "alternate": "shifted" });
    assert_eq!(shifted.compare(b"black-bird", b"black bird"), Ordering::Equal);
    let spaces = collator(rawdoc! { "locale": "en", "alternate": "shifted", "maxVariable": "space" });
    assert_eq!(spaces.compare(b"blackbird", b"black bird"), Ordering::Equal);
    assert_ne!(spaces.compare(b"blackbird", b"black-bird"), Ordering::Equal);
}

#[test]
fn accents_are_compared_from_the_end_where_that_is_asked_for() {
    // The classic example of UTS 10, section 1.3.
    let (forwards, backwards) = ("cote coté côte côté", "cote côte coté côté");
    assert_eq!(sorted(rawdoc! { "locale": "fr" }, backwards), forwards);
    assert_eq!(sorted(rawdoc! { "locale": "fr", "backwards": true }, forwards), backwards);
    assert_eq!(sorted(rawdoc! { "locale": "fr_CA" }, forwards), backwards);
    assert_eq!(sorted(rawdoc! { "locale": "fr_CA", "backwards": false }, backwards), forwards);
}

#[test]
fn what_is_not_given_comes_from_the_locale() {
    let shown = |given| collator(given).definition().to_owned();
    let expected = rawdoc! {
        "locale": "en_US", "caseLevel": false, "caseFirst": "off", "strength": 3, "numericOrdering": false,
        "alternate": "non-ignorable", "maxVariable": "punct", "normalization": false, "backwards": false,
        "version": DATA_VERSION,
    };
    assert_eq!(shown(rawdoc! { "locale": "en_US" }), expected);
    // The manual's table of defaults.
    assert_eq!(shown(rawdoc! { "locale": "da" }).get_str("caseFirst").unwrap(), "upper");
    assert_eq!(shown(rawdoc! { "locale": "th" }).get_str("alternate").unwrap(), "shifted");
    assert!(shown(rawdoc! { "locale": "fr_CA" }).get_bool("backwards").unwrap());
    for given in [
        rawdoc! { "locale": "da", "strength": 2i64, "normalization": true },
        rawdoc! { "locale": "fr_CA", "strength": 1 },
        rawdoc! { "locale": "th", "strength": 5, "caseLevel": true },
    ] {
        let once = shown(given);
        assert_eq!(shown(once.clone()), once, "what is shown can be given");
    }
}

#[test]
fn what_makes_no_sense_is_refused() {
    let refused = |given: RawDocumentBuf| parse(&given).unwrap_err();
    let bad_value = |given: RawDocumentBuf| matches!(refused(given), CollationError::BadValue(_));
    assert_eq!(refused(rawdoc! { "strength": 1 }), CollationError::MissingLocale);
    assert_eq!(refused(rawdoc! { "locale": "en", "what": 1 }), CollationError::UnknownField("what".to_owned()));
    for locale in ["", "xx", "EN", "en-US", "en_us", "de@phonebook", "de@collation=what", "simple_US", "en_US_"] {
        assert!(bad_value(rawdoc! { "locale": locale }), "{locale}");
    }
    for given in [
        rawdoc! { "locale": "en", "strength": 0 },
        rawdoc! { "locale": "en", "strength": 6 },
        rawdoc! { "locale": "en", "strength": 1.5 },
        rawdoc! { "locale": "en", "caseFirst": "both" },
        rawdoc! { "locale": "en", "alternate": "what" },
        rawdoc! { "locale": "en", "maxVariable": "symbol" },
        rawdoc! { "locale": "en", "strength": 1, "backwards": true },
        rawdoc! { "locale": "en", "strength": 2, "caseFirst": "upper" },
        rawdoc! { "locale": "simple", "strength": 1 },
    ] {
        assert!(bad_value(given.clone()), "{given:?}");
    }
    for given in [
        rawdoc! { "locale": 1 },
        rawdoc! { "locale": "en", "strength": "1" },
        rawdoc! { "locale": "en", "caseLevel": 1 },
        rawdoc! { "locale": "en", "caseFirst": true },
    ] {
        assert!(matches!(refused(given.clone()), CollationError::TypeMismatch(_)), "{given:?}");
    }
    let other = refused(rawdoc! { "locale": "en", "version": "1" });
    assert!(matches!(other, CollationError::IncompatibleVersion(_)));
    let absent = refused(rawdoc! { "locale": "en@collation=search" });
    assert!(matches!(absent, CollationError::NotImplemented(_)));
    assert_eq!(parse(&rawdoc! { "locale": "simple" }).unwrap(), None);
}

/// The manual's list of locales.
#[test]
fn all_locales_of_the_manual_are_there() {
    for locale in [
        "af",
        "bs_Cyrl",
        "zh",
        "zh_Hant",
        "en_US_POSIX",
        "fi_FI",
        "de_AT",
        "fa_AF",
        "sr_Latn",
        "zh@collation=stroke",
        "zh@collation=zhuyin",
        "si@collation=dictionary",
        "ar@collation=compat",
        "de_AT@collation=phonebook",
        "smn",
    ] {
        assert!(parse(&rawdoc! { "locale": locale }).is_ok(), "{locale}");
    }
}
