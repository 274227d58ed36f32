//! Deltas against what the format says, and properties: they reproduce any change, are idempotent, and a replay from an
//! earlier version ends in the same document.

use bson::raw::RawDocumentBuf;
use proptest::prelude::*;
use script_test::{parse_document, print_document};

use super::super::tests::check_diff;
use super::*;

fn parse(text: &str) -> RawDocumentBuf {
    parse_document(text).unwrap()
}

/// Padding that makes any delta smaller than the document.
const PADDING: &str =
    "p: 'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx'";

#[test]
fn deltas_have_the_documented_format() {
    for (before, after, expected) in [
        ("a: 1", "a: 2", "{u: {a: 2}}"),
        ("a: 1", "", "{d: {a: false}}"),
        ("", "a: 1", "{i: {a: 1}}"),
        ("a: 1, b: 1", "b: 2, c: 3", "{d: {a: false}, u: {b: 2}, i: {c: 3}}"),
        ("a: 1, b: 1", "b: 1, a: 1", "{i: {a: 1}}"),
        ("a: 1, b: 1, c: 1", "c: 1, a: 2", "{d: {b: false}, i: {a: 2}}"),
        (
            "a: {b: 1, c: 'long enough to be worth it'}",
            "a: {b: 2, c: 'long enough to be worth it'}",
            "{sa: {u: {b: 2}}}",
        ),
        ("a: {b: 1}", "a: {b: 2}", "{u: {a: {b: 2}}}"),
        ("a: [1, 2, 3, 4, 5, 6]", "a: [1, 2, 9, 4, 5, 6]", "{sa: {a: true, u2: 9}}"),
        ("a: [1, 2, 3, 4, 5, 6]", "a: [1, 2, 3, 4]", "{sa: {a: true, l: 4}}"),
        ("a: [1, 2, 3, 4, 5, 6]", "a: [1, 2, 3, 4, 5, 6, 7]", "{sa: {a: true, u6: 7}}"),
        ("a: 1", "a: 1.0", "{u: {a: 1.0}}"),
        ("a: [1]", "a: {'0': 1}", "{u: {a: {'0': 1}}}"),
    ] {
        let document = |fields: &str| parse(&format!("{{_id: 1, {PADDING}, {fields}}}"));
        let (before, after) = (document(before), document(after));
        let delta = diff(&before, &after, DiffForm::Smallest).unwrap();
        let expected = parse(&format!("{{$v: 2, diff: {expected}}}"));
        assert_eq!(print_document(delta.as_document()), print_document(&expected));
        check_diff(&before, &after);
        assert_eq!(Diff::from_document(delta.as_document().to_owned()).unwrap(), delta);
    }
}

#[test]
fn paths_are_told_whatever_the_size() {
    let (before, after) = (parse("{_id: 1, a: {b: 1, c: [1]}}"), parse("{_id: 1, a: {b: 2, c: [2]}}"));
    let delta = diff(&before, &after, DiffForm::Paths).unwrap();
    let expected = parse("{$v: 2, diff: {sa: {u: {b: 2}, sc: {a: true, u0: 2}}}}");
    assert_eq!(print_document(delta.as_document()), print_document(&expected));
    assert_eq!(diff(&before, &after, DiffForm::Smallest).unwrap(), Diff::Replacement(after));
}

#[test]
fn replacements_stand_for_themselves() {
    let (before, after) = (parse("{_id: 1, a: 1, b: 2}"), parse("{_id: 1, c: 1}"));
    let replacement = diff(&before, &after, DiffForm::Smallest).unwrap();
    assert_eq!(replacement, Diff::Replacement(after.clone()));
    assert_eq!(Diff::from_document(after).unwrap(), replacement);
    assert_eq!(replacement.update_description(Disambiguation::Left).unwrap(), None);
    let delta = diff(&before, replacement.as_document(), DiffForm::Paths).unwrap();
    let expected = parse("{$v: 2, diff: {d: {a: false, b: false}, i: {c: 1}}}");
    assert_eq!(print_document(delta.as_document()), print_document(&expected));
}

#[test]
fn fields_of_the_same_name_are_kept_apart() {
    let before = parse(&format!("{{_id: 1, {PADDING}, a: 1, a: 2}}"));
    let after = parse(&format!("{{_id: 1, {PADDING}, a: 1, a: 3}}"));
    check_diff(&before, &after);
    let before = parse(&format!("{{_id: 1, {PADDING}, s: {{ {PADDING}, a: 1, a: 2}}}}"));
    let after = parse(&format!("{{_id: 1, {PADDING}, s: {{ {PADDING}, a: 1, a: 3}}}}"));
    check_diff(&before, &after);
}

#[test]
fn descriptions_have_dotted_paths() {
    let before = parse(&format!(
        "{{_id: 1, {PADDING}, a: {{x: 1, y: 'yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy', z: 1}}, b: [1, 2, 3, 4, 5, 6, 7], c: 1}}"
    ));
    let after = parse(&format!(
        "{{_id: 1, {PADDING}, a: {{x: 2, y: 'yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy'}}, b: [1, 9, 3, 4], d: 1}}"
    ));
    let description =
        diff(&before, &after, DiffForm::Smallest).unwrap().update_description(Disambiguation::Left).unwrap().unwrap();
    let expected = "{updatedFields: {d: 1, 'a.x': 2, 'b.1': 9}, removedFields: ['c', 'a.z'], \
                    truncatedArrays: [{field: 'b', newSize: 4}]}";
    assert_eq!(print_document(&description), print_document(&parse(expected)));
}

#[test]
fn paths_that_can_be_read_in_two_ways_are_told() {
    let delta = "{$v: 2, diff: {u: {'0': 1, 'dotted.name': 1}, sa: {d: {'7': false}, sb: {a: true, l: 3, s1: {u: {c: 2, '5': 1}}}}}}";
    let told = Diff::from_document(parse(delta)).unwrap().update_description(Disambiguation::Told).unwrap().unwrap();
    let expected = "{updatedFields: {'0': 1, 'dotted.name': 1, 'a.b.1.c': 2, 'a.b.1.5': 1}, removedFields: ['a.7'], \
                    truncatedArrays: [{field: 'a.b', newSize: 3}], \
                    disambiguatedPaths: {'dotted.name': ['dotted.name'], 'a.7': ['a', '7'], 'a.b.1.5': ['a', 'b', 1, '5']}}";
    assert_eq!(print_document(&told), print_document(&parse(expected)));
}

#[test]
fn damaged_deltas_are_errors() {
    let before = parse("{_id: 1, a: [1]}");
    for text in [
        "{$v: 2, diff: {u: 5}}",
        "{$v: 2, diff: {x: {}}}",
        "{$v: 2, diff: {sa: {a: true, l: -1}}}",
        "{$v: 2, diff: {sa: {a: true, u999999999999: 1}}}",
        "{$v: 2, diff: {sa: {a: true, zz: 1}}}",
    ] {
        let delta = Diff::from_document(parse(text)).unwrap();
        assert!(apply_diff(&before, &delta).is_err(), "{text}");
    }
    assert!(Diff::from_document(parse("{$v: 1, diff: {}}")).is_err());
    assert!(Diff::from_document(parse("{$v: 2}")).is_err());
}

fn value() -> impl Strategy<Value = String> {
    let scalar = prop_oneof![
        (0_i32..3).prop_map(|number| number.to_string()),
        Just("'a long string so that nesting is worth a delta'".to_owned()),
        Just("null".to_owned()),
    ];
    scalar.prop_recursive(3, 24, 6, |inner| {
        let array = prop::collection::vec(inner.clone(), 0..6).prop_map(|items| format!("[{}]", items.join(", ")));
        prop_oneof![array, fields(inner).prop_map(|fields| format!("{{{fields}}}"))]
    })
}

fn fields(value: impl Strategy<Value = String>) -> impl Strategy<Value = String> {
    let names = prop::sample::select(vec!["a", "b", "c", "d", "e", "0", "u", "i", "s"]);
    prop::collection::vec((names, value), 0..7).prop_map(|mut fields| {
        let mut seen = Vec::new();
        fields.retain(|(name, _)| {
            !seen.contains(name) && {
                seen.push(*name);
                true
            }
        });
        fields.iter().map(|(name, value)| format!("'{name}': {value}")).collect::<Vec<_>>().join(", ")
    })
}

fn document() -> impl Strategy<Value = RawDocumentBuf> {
    fields(value()).prop_map(|fields| parse(&format!("{{_id: 1, {PADDING}, {fields}}}")))
}

/// Documents in which names may belong to several fields.
fn repeating_names() -> impl Strategy<Value = RawDocumentBuf> {
    let names = prop::sample::select(vec!["a", "b", "c"]);
    prop::collection::vec((names, 0_i32..3), 0..6).prop_map(|fields| {
        let fields: Vec<String> = fields.iter().map(|(name, value)| format!("{name}: {value}")).collect();
        parse(&format!("{{_id: 1, {PADDING}, {}}}", fields.join(", ")))
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn any_change_is_reproduced(before in document(), after in document()) {
        check_diff(&before, &after);
    }

    #[test]
    fn fields_of_the_same_name_do_not_confuse(before in repeating_names(), after in repeating_names()) {
        check_diff(&before, &after);
    }

    #[test]
    fn many_changes_at_once(old in prop::collection::vec(0_i32..9, 40), new in prop::collection::vec(0_i32..9, 30..50)) {
        let document = |values: &[i32]| {
            let fields: Vec<String> = values.iter().enumerate().map(|(name, value)| format!("f{name}: {value}")).collect();
            parse(&format!("{{_id: 1, {PADDING}, {}}}", fields.join(", ")))
        };
        check_diff(&document(&old), &document(&new));
    }

    /// Recovery replays from a little earlier than the version it has.
    #[test]
    fn replays_from_earlier_end_the_same(versions in prop::collection::vec(document(), 2..6), start in 0_usize..6, paths: bool) {
        let form = if paths { DiffForm::Paths } else { DiffForm::Smallest };
        let diffs: Vec<Diff> = versions.windows(2).map(|pair| diff(&pair[0], &pair[1], form).unwrap()).collect();
        let mut replayed = versions[start.min(versions.len() - 1)].clone();
        for delta in &diffs {
            replayed = apply_diff(&replayed, delta).unwrap();
        }
        prop_assert_eq!(print_document(&replayed), print_document(versions.last().unwrap()));
    }
}
