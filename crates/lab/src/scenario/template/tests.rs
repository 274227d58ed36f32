//! Generators make what they say, in the right type; mistakes are told.

use std::collections::BTreeMap;

use super::*;
use crate::scenario::node::Node;
use crate::scenario::parameters::Parameters;

fn build(yaml: &str) -> Result<Template, LabError> {
    let node: Node = serde_saphyr::from_str(yaml).unwrap();
    let parameters = Parameters::resolve(&BTreeMap::from([("n".to_owned(), Node::Integer(10))]), &[]).unwrap();
    Builder { parameters: &parameters, sequences: &mut Sequences::default() }.value(&node)
}

fn made(yaml: &str) -> Bson {
    let moment = &mut Moment { random: &mut Random::new(3), number: 41, thread: 2, copy: 0, round: 5 };
    build(yaml).unwrap().make(moment)
}

#[test]
fn values_keep_order_and_type() {
    let document = made("{z: 1, a: {=double: 1}, m: [1.5, text, null, true], n: '${n}', big: 5000000000}");
    let expected =
        bson::doc! { "z": 1, "a": 1.0, "m": [1.5, "text", Bson::Null, true], "n": 10, "big": 5_000_000_000_i64 };
    assert_eq!(document, Bson::Document(expected));
}

#[test]
fn generators_know_the_moment() {
    assert_eq!(made("=number"), Bson::Int32(41));
    assert_eq!(made("{=int64: =thread}"), Bson::Int64(2));
    assert_eq!(made("{_id: {$mod: [100, =round]}}"), Bson::Document(bson::doc! { "_id": { "$mod": [100, 5] } }));
    assert_eq!(made("{=join: [user, =number]}"), Bson::String("user41".to_owned()));
    assert_eq!(made("{=literal: {a: =thread}}"), Bson::Document(bson::doc! { "a": "=thread" }));
    assert_eq!(made("{=repeat_text: {text: ab, count: 3}}"), Bson::String("ababab".to_owned()));
    assert_eq!(made("{=date: '2026-01-01T00:00:00Z'}"), Bson::DateTime(DateTime::from_millis(1_767_225_600_000)));
}

#[test]
fn random_values_stay_in_their_range() {
    let template = build("{i: {=random: {from: -5, to: 5}}, t: {=text: {length: {from: 3, to: 9}}}, b: {=bytes: 13}, r: {=repeat: {count: 4, value: {=zipfian: {to: 7}}}}}").unwrap();
    let mut random = Random::new(9);
    for number in 0..500 {
        let document =
            template.make_document(&mut Moment { random: &mut random, number, thread: 0, copy: 0, round: 0 });
        assert!((-5..5).contains(&document.get_i32("i").unwrap()));
        assert!((3..=9).contains(&document.get_str("t").unwrap().len()));
        assert_eq!(document.get_binary_generic("b").unwrap().len(), 13);
        let repeated = document.get_array("r").unwrap();
        assert!(repeated.len() == 4 && repeated.iter().all(|value| (0..7).contains(&value.as_i32().unwrap())));
    }
}

#[test]
fn sequences_are_shared_by_name() {
    let node: Node =
        serde_saphyr::from_str("[{=sequence: {name: a, from: 5}}, {=sequence: a}, {=sequence: b}]").unwrap();
    let mut sequences = Sequences::default();
    let template = Builder { parameters: &Parameters::default(), sequences: &mut sequences }.value(&node).unwrap();
    let made = template.make(&mut Moment { random: &mut Random::new(1), number: 0, thread: 0, copy: 0, round: 0 });
    assert_eq!(made, Bson::Array(vec![Bson::Int32(5), Bson::Int32(6), Bson::Int32(0)]));
}

#[test]
fn mistakes_are_told_with_their_generator() {
    for (yaml, part) in [
        ("=threads", "no generator =threads"),
        ("{=random: {from: 5, to: 5}}", "=random: `to` (5) must be greater than `from` (5)"),
        ("{=random: {from: 5}}", "=random: `to` is missing"),
        ("{=text: x}", "=text: `length` is missing"),
        ("{=choice: []}", "=choice: the list is empty"),
        ("{=zipfian: {to: 10, exponent: 2}}", "exponent 2"),
        ("{=random: {to: 5}, b: 1}", "stands alone"),
        ("{a: '${m}'}", "no parameter \"m\""),
    ] {
        let message = build(yaml).unwrap_err().to_string();
        assert!(message.contains(part), "{yaml}: {message}");
    }
}
