//! What PCRE2's manual (pcre2pattern, pcre2syntax) and MongoDB's say of patterns, and that no search takes long.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use proptest::prelude::*;

use super::*;
use document::Interruption;
use document::work::{Watch, watch};

fn compile(pattern: &str, options: &str) -> Result<RegularExpression, PatternError> {
    RegularExpression::new(pattern, options, PatternTranslation::MachineCode)
}

#[track_caller]
fn check(pattern: &str, options: &str, matching: &[&str], others: &[&str]) {
    let regex = compile(pattern, options).unwrap_or_else(|error| panic!("{pattern}: {error:?}"));
    for text in matching {
        assert!(regex.is_match(text).unwrap(), "/{pattern}/{options} should match {text:?}");
    }
    for text in others {
        assert!(!regex.is_match(text).unwrap(), "/{pattern}/{options} should not match {text:?}");
    }
}

/// The first match and its groups, as text.
#[track_caller]
fn found(pattern: &str, text: &str) -> Vec<Option<String>> {
    let spans = compile(pattern, "").unwrap().captures(text, 0).unwrap();
    spans.into_iter().map(|span| span.map(|span| text[span].to_owned())).collect()
}

#[test]
fn the_end_anchor_allows_a_final_line_end_and_leaves_it() {
    check("^abc$", "", &["abc", "abc\n"], &["abc\n\n", "abcd", "xabc"]);
    check("bc$", "", &["abc", "abc\n", "bc"], &["abc\n\n", "abcd"]);
    check("a$|b", "", &["a\n", "xb"], &["ax"]);
    check("^abc$", "m", &["x\nabc\ny"], &["abcd"]);
    check("(a$)\\n", "", &["a\n"], &["a"]);
    check("a\\Z", "", &["a", "a\n"], &["ab"]);
    check("a\\z", "", &["a"], &["a\n"]);
    assert_eq!(found("a$", "a\n"), [Some("a".to_owned())]);
    assert_eq!(found("\\w+$", "one two\n"), [Some("two".to_owned())]);
}

#[test]
fn anchored_plain_texts() {
    check("^abc", "", &["abc", "abcd"], &["xabc", "x\nabc"]);
    check("abc", "msu", &["xabcx"], &["ab"]);
    check("", "", &["", "x"], &[]);
    check("^$", "", &["", "\n"], &["x", "\n\n"]);
    check("\\Aab", "", &["abc"], &["xab"]);
    check("^a\\|b", "", &["a|bc"], &["a", "b"]);
    check("\\Qa|b\\E", "", &["xa|bx"], &["a"]);
    check("é", "", &["né"], &["e"]);
}

#[test]
fn classes_are_ascii_unless_asked_otherwise() {
    check("^\\w+$", "", &["abc_1"], &["é"]);
    check("^\\d$", "", &["5"], &["٣"]);
    check("^\\W$", "", &["é"], &["a"]);
    check("^[\\w.-]+$", "", &["a.b-c"], &["a b"]);
    check("^[^\\s]+$", "", &["ab"], &["a b"]);
    check("^[\\D]$", "", &["x"], &["1"]);
    check("\\bword\\b", "", &["a word.", "éwordé"], &["swords"]);
    check("^[[:alpha:]]+$", "", &["abc"], &["ab1", "é"]);
    check("(*UCP)^\\w+$", "", &["é", "abc"], &["-"]);
    check("(*UCP)\\byster", "", &["yster"], &["Öyster"]);
    check("\\byster", "", &["yster", "Öyster"], &["oyster"]);
    check("(*UTF8)é", "", &["é"], &["e"]);
    check("(*UTF8)(*UCP)^\\w$", "", &["é"], &["-"]);
    check("(*UTF)é", "", &["é"], &["e"]);
}

#[test]
fn properties_and_numbered_characters() {
    check("^\\p{L}+$", "", &["aé漢"], &["1"]);
    check("^\\p{Han}+$", "", &["漢字"], &["a"]);
    check("^\\P{Lu}$", "", &["a"], &["A"]);
    check("^\\x{e9}$", "", &["é"], &["e"]);
    check("^\\xe9$", "", &["é"], &["e"]);
    check("^\\o{141}$", "", &["a"], &["b"]);
    check("^\\011$", "", &["\t"], &[" "]);
    check("^\\cI$", "", &["\t"], &["I"]);
    check("^\\N{U+e9}$", "", &["é"], &["e"]);
    check("^\\R$", "", &["\r\n", "\n"], &["x"]);
    check("^\\h\\v$", "", &[" \n"], &["\n "]);
    check("^\\X$", "", &["e\u{301}"], &["ab"]);
}

#[test]
fn references_calls_and_conditions() {
    check("^(?<n>a|b)\\k{n}$", "", &["aa", "bb"], &["ab"]);
    check("^(?<n>a|b)\\k<n>\\k'n'(?P=n)$", "", &["aaaa"], &["aaab"]);
    check("^(a|b)\\g{1}\\g{-1}$", "", &["aaa"], &["aab"]);
    check("(a)\\1", "", &["aa"], &["a"]);
    check("^(a|b)(?1)$", "", &["ab", "ba"], &["a"]);
    check("^(\\((?:[^()]|(?1))*\\))$", "", &["(a(b)c)"], &["(a(b)c"]);
    check("^(?:x(?R)?y)$|^z$", "", &["z"], &["y"]);
    check("^(?|(a)|(b))\\1$", "", &["aa", "bb"], &["ab"]);
    check("^(<)?a(?(1)>)$", "", &["<a>", "a"], &["<a", "a>"]);
    check("^(?>a+)b$", "", &["aab"], &["aac"]);
    check("^a++a", "", &[], &["aaa"]);
    check("foo\\Kbar", "", &["foobar"], &["bar"]);
    assert_eq!(found("foo\\Kbar", "foobar"), [Some("bar".to_owned())]);
    assert_eq!(found("(?|(a)|(b))(c)?", "b"), [Some("b".to_owned()), Some("b".to_owned()), None]);
}

#[test]
fn verbs_and_options_inside() {
    check("(*CR)^a$", "", &["a\r", "a"], &["a\n"]);
    check("(*CR)a.b", "", &["a\nb"], &["a\rb"]);
    check("(*ANYCRLF)(?m)^b$", "", &["a\rb\r", "a\nb"], &["ab"]);
    check("(?m)^b$", "", &["a\nb\nc"], &["a b c"]);
    check("(?i)abc", "", &["ABC"], &[]);
    check("a(?i)b", "", &["aB"], &["Ab"]);
    check("(?s)a.b", "", &["a\nb"], &[]);
    check("(?x)a b # c", "", &["ab"], &["a b"]);
    check("a(*SKIP)(*FAIL)|b", "", &["ab"], &["a"]);
    check("ab(*COMMIT)c", "", &["abc"], &["abd abc"]);
}

#[test]
fn literals_stay_literal() {
    check("a{", "", &["xa{"], &["a"]);
    check("a{2}", "", &["aa"], &["a"]);
    check("{x}", "", &["{x}"], &["x"]);
    check("a{2,}b", "", &["aaab"], &["ab"]);
    check("[[]", "", &["["], &["x"]);
    check("[]a]", "", &["]", "a"], &["b"]);
    check("^[a&&b]+$", "", &["a&b"], &["c"]);
    check("\\<b\\>", "", &["<b>"], &["b"]);
    check("\\Qa.b*\\E+", "", &["a.b*"], &["axb"]);
    check("a\\/b\\-c\\ d", "", &["a/b-c d"], &[]);
    check("[a b]", "x", &[" "], &["c"]);
}

#[test]
fn option_letters() {
    check("ABC", "i", &["xabcx"], &["ab"]);
    check("É", "i", &["é"], &["e"]);
    check("a.c", "", &["abc"], &["a\nc"]);
    check("a.c", "s", &["a\nc"], &[]);
    check("a b # comment $ {\n c", "x", &["abc"], &["a b c"]);
    check("^b", "m", &["a\nb"], &["ab"]);
    check("é", "u", &["é"], &[]);
    check("^(?=.*a)(?=.*b)", "", &["xbya"], &["xb"]);
    check("(?<!x)y", "", &["ay"], &["xy"]);
    check("(?<word>a+)b", "", &["aab"], &["b"]);
}

#[test]
fn what_is_refused() {
    for pattern in
        ["[", "(", "*a", "a)", "(?<!a*)b)", "\\C", "(?<n>a)(?<n>b)", "\\p{Nonsense}", "(*NONSENSE)a", "a{70000}"]
    {
        assert!(matches!(compile(pattern, ""), Err(PatternError::Invalid(_))), "{pattern}");
    }
    assert_eq!(compile("(", "").unwrap_err(), PatternError::Invalid("missing closing parenthesis".to_owned()));
    for letter in ['I', 'g', 'l', 'U', 'z', '1'] {
        assert_eq!(compile("a", &letter.to_string()).unwrap_err(), PatternError::Option(letter));
    }
    assert_eq!(compile("a\0b", "").unwrap_err(), PatternError::NullByte);
    assert!(compile(&"a".repeat(32_764), "").is_ok());
    assert_eq!(compile(&"a".repeat(32_765), "").unwrap_err(), PatternError::TooLong);
}

/// Lets so many questions pass before it stops the command.
#[derive(Debug)]
struct StopAfter(AtomicU32);

impl Watch for StopAfter {
    fn interruption(&self) -> Option<Interruption> {
        let is_over = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_err();
        is_over.then_some(Interruption { name: "MaxTimeMSExpired", message: "time is up" })
    }
}

/// Patterns that take long on these texts, each in its own way; `[xy]` is nothing that PCRE2 could look for first.
fn endless_searches() -> Vec<(String, String)> {
    let many = "a".repeat(100_000);
    let alternatives = |end| (0..3_000).map(|number| format!("a{number}{end}")).collect::<Vec<_>>().join("|");
    vec![
        ("(a+)+[xy]".to_owned(), many.clone()),
        ("(?:a|aa)+[xy]".to_owned(), many.clone()),
        ("a*a*[xy]".to_owned(), "a".repeat(4_000)),
        ("(?:[^b]*[cd]|.)*[xy]".to_owned(), many.clone()),
        ("[^b]*[cd]".to_owned(), many.clone()),
        ("[^b]*[cd]".to_owned(), "a".repeat(16_000)),
        ("(?:a*[xy]|a){15}b?[xy]".to_owned(), "a".repeat(15_000)),
        (".*.*.*.*[bc].*[xy]".to_owned(), many.clone()),
        (format!("(?:{})[xy]", "a?".repeat(8_000)), many.clone()),
        (format!("(?:{})[xy]", "a?".repeat(16_000)), many.clone()),
        (format!("(?:{}|a)*[xy]", alternatives("")), many.clone()),
        (alternatives("\\d"), many),
    ]
}

#[test]
fn a_search_ends_when_the_command_is_to_stop() {
    for (pattern, text) in endless_searches() {
        let _watching = watch(Arc::new(StopAfter(AtomicU32::new(5))));
        let regex = compile(&pattern, "").unwrap();
        let outcome = regex.is_match(&text);
        // Either it could be stopped, or PCRE2's match limit came first, or it was no long search after all.
        match outcome {
            Err(MatchError::Interrupted(error)) => assert_eq!(error.kind, ErrorKind::Interrupted("MaxTimeMSExpired")),
            Err(MatchError::Failed(number)) => assert_eq!(number, pcre2_sys::PCRE2_ERROR_MATCHLIMIT, "{pattern:.40}"),
            Ok(found) => assert!(!found, "{pattern:.40}"),
        }
    }
}

/// PCRE2 has no room for a callout at each item of these, and counts nothing while a group is repeated.
#[test]
fn long_patterns_ask_often() {
    let alternatives = (0..5_000).map(|number| format!("a{number}")).collect::<Vec<_>>().join("|");
    for pattern in [format!("(?:{alternatives}|a)*[xy]"), format!("(?:{})[xy]", "a?".repeat(16_000))] {
        let regex = compile(&pattern, "").unwrap();
        let code = regex.inner.at_items().expect("callouts at some items");
        let (mut calls, text) = (0, "a".repeat(1_000));
        let mut stop = || {
            calls += 1;
            calls > 10_000
        };
        let outcome = code.find(&text, 0, Search { match_limit: MATCH_LIMIT, stop: Some(&mut stop) });
        assert_eq!(outcome, Err(SearchError::Stopped), "{pattern:.40}");
    }
}

#[test]
fn a_search_that_steps_back_too_often_fails_with_its_reason() {
    let regex = compile("^(a+)+$", "").unwrap();
    let error = regex.is_match(&format!("{}b", "a".repeat(40))).unwrap_err().into_query_error("$regex");
    assert_eq!(error.kind, ErrorKind::Location(51156));
    assert!(error.message.ends_with("Result code: -47 (match limit exceeded)"), "{}", error.message);
    let limited = compile("(*LIMIT_MATCH=10)(a+)+$", "").unwrap();
    assert_eq!(limited.is_match("aaaaaaaaaaaaaab"), Err(MatchError::Failed(pcre2_sys::PCRE2_ERROR_MATCHLIMIT)));
}

/// Long texts and deep recursion are no reason to fail.
#[test]
fn long_searches_that_end_are_carried_out() {
    let text = format!("\"{}\"", "x\\\"".repeat(200_000));
    check("^\"(?:[^\"\\\\]|\\\\.)*\"$", "", &[&text], &["\"x"]);
    let nested = format!("{}{}", "(".repeat(5_000), ")".repeat(5_000));
    check("^(\\((?:[^()]++|(?1))*+\\))$", "", &[&nested], &["(()"]);
    let line = format!("{}foo", "x".repeat(1_000_000));
    check(".*foo", "", &[&line], &[&line[..999_999]]);
    check("[a-z]+@[a-z]+", "", &["a@b"], &[&"a ".repeat(500_000)]);
    check("(?:[0-9]{3}-){2}[0-9]{4}|[A-Z]x", "", &["555-555-1234"], &[&"lorem ipsum 12 - ".repeat(60_000)]);
}

#[test]
fn captures_from_a_position() {
    let regex = compile("(?<=a)b|^a", "").unwrap();
    assert_eq!(regex.captures("ab", 0).unwrap(), [Some(0..1)]);
    assert_eq!(regex.captures("ab", 1).unwrap(), [Some(1..2)]);
    assert_eq!(regex.captures("ab", 2).unwrap(), []);
}

/// PCRE2's machine code is wrong about the first, and reads memory around an empty text.
#[test]
fn what_machine_code_gets_wrong() {
    assert_eq!(compile("(?<=a?$)", "").unwrap().captures("aa", 0).unwrap(), [Some(2..2)]);
    assert_eq!(compile("é*", "s").unwrap().captures("", 0).unwrap(), [Some(0..0)]);
    assert_eq!(compile("", "i").unwrap().captures("a", 0).unwrap(), [Some(0..0)]);
}

/// Patterns of a few characters, of which not all are valid.
fn pattern() -> impl Strategy<Value = String> {
    let atom = prop_oneof![
        6 => prop::sample::select(vec!["a", "b", "é", "\\.", "\\|", "\\Qa|\\E", " "]),
        3 => prop::sample::select(vec![".", "\\w", "\\b", "[ab]", "[^b]", "^", "$", "\\R", "|", "\\K", "(?C1)"]),
    ];
    let atom = atom.prop_map(str::to_owned).prop_recursive(3, 12, 3, |inner| {
        let group = prop::collection::vec(inner.clone(), 0..3).prop_map(|parts| parts.concat());
        let opening = prop::sample::select(vec!["(", "(?:", "(?=", "(?!", "(?<=", "(?>"]);
        let repeat = prop::sample::select(vec!["*", "+", "?", "*?", "{2}", "++"]);
        prop_oneof![
            (opening, group).prop_map(|(opening, group)| format!("{opening}{group})")),
            (inner, repeat).prop_map(|(inner, repeat)| format!("{inner}{repeat}")),
        ]
    });
    let start = prop::sample::select(vec!["", "", "^", "\\A", "(*UCP)", "(*CR)", "(*NO_START_OPT)"]);
    (start, prop::collection::vec(atom, 0..5)).prop_map(|(start, atoms)| format!("{start}{}", atoms.concat()))
}

fn text() -> impl Strategy<Value = String> {
    let part = prop::sample::select(vec!["a", "b", "é", ".", "|", " ", "\n", "\r", "ab"]);
    prop::collection::vec(part, 0..8).prop_map(|parts| parts.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    /// Wherever a pattern calls back, with or without machine code, and where none is needed, the same is found.
    #[test]
    fn all_ways_of_searching_find_the_same(
        pattern in pattern(), options in prop::sample::select(vec!["", "i", "m", "s", "x", "ms"]), text in text(), start in 0_usize..3,
    ) {
        let Ok(regex) = compile(&pattern, options) else { return Ok(()) };
        let inner = &*regex.inner;
        let start = if text.is_char_boundary(start) { start } else { 0 };
        let slow = Code::compile(&inner.pattern, inner.options, PatternTranslation::None).unwrap();
        let mut go_on = || false;
        let mut found = |code: &Code| {
            code.captures(&text, start, Search { match_limit: MATCH_LIMIT, stop: Some(&mut go_on) }).unwrap()
        };
        let expected = found(&slow);
        for code in [&inner.plain, inner.at_positions().unwrap(), inner.at_items().unwrap()] {
            prop_assert_eq!(&found(code), &expected);
        }
        for spacing in [1, 3] {
            if let Some(code) = inner.spaced(spacing) {
                prop_assert_eq!(&found(&code), &expected, "{:?}", callouts::spaced(&inner.pattern, spacing));
            }
        }
        prop_assert_eq!(regex.captures(&text, start).unwrap(), expected);
        let whole = found_whole(&slow, &text);
        prop_assert_eq!(regex.is_match(&text).unwrap(), whole.is_some());
        if let Some((prefix, complete)) = prefix(&pattern, options) {
            prop_assert!(whole.is_none() || text.starts_with(&prefix), "{} is no prefix", prefix);
            prop_assert!(!complete || whole.is_some() || !text.starts_with(&prefix), "{} is not all", prefix);
        }
    }
}

fn found_whole(code: &Code, text: &str) -> Option<Range<usize>> {
    code.find(text, 0, Search { match_limit: MATCH_LIMIT, stop: None }).unwrap()
}
