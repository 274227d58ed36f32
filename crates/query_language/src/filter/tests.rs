//! Properties of filters over generated documents: a naive model agrees with the search, normalization and
//! serialization keep the meaning, and every way of evaluating gives the same answer.
//! What operators mean case by case is in `testscripts/filter`.

use std::cmp::Ordering;

use bson::{Bson, RawBson, RawBsonRef, RawDocumentBuf, doc};
use document::{FieldPath, ValueView, canonical_type, compare_values};
use proptest::prelude::*;

use super::evaluate::{MatchDetails, Subject, evaluate};
use super::{Filter, FilterOptions, parse};
use crate::error::ErrorKind;

fn raw(document: bson::Document) -> RawDocumentBuf {
    RawDocumentBuf::try_from(&document).unwrap()
}

fn scalar() -> impl Strategy<Value = Bson> {
    prop_oneof![
        (0..4_i32).prop_map(Bson::Int32),
        (0..4_i64).prop_map(Bson::Int64),
        prop_oneof![Just(0.5), Just(1.0), Just(-0.0), Just(f64::NAN)].prop_map(Bson::Double),
        prop_oneof![Just("x"), Just("y"), Just("")].prop_map(|text| Bson::String(text.to_owned())),
        Just(Bson::Null),
        Just(Bson::Boolean(true)),
        Just(Bson::MinKey),
        Just(Bson::MaxKey),
    ]
}

fn value() -> impl Strategy<Value = Bson> {
    scalar().prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Bson::Array),
            fields(inner).prop_map(Bson::Document),
        ]
    })
}

fn fields(value: impl Strategy<Value = Bson>) -> impl Strategy<Value = bson::Document> {
    let name = prop_oneof![Just("a"), Just("b"), Just("0"), Just("1")];
    prop::collection::vec((name, value), 0..3)
        .prop_map(|pairs| pairs.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
}

fn path() -> impl Strategy<Value = &'static str> {
    prop_oneof![Just("a"), Just("b"), Just("a.b"), Just("a.0"), Just("a.a.b"), Just("a.1.b"), Just("a.0.0")]
}

fn comparison() -> impl Strategy<Value = (&'static str, Bson)> {
    let operator = prop_oneof![Just("$eq"), Just("$lt"), Just("$lte"), Just("$gt"), Just("$gte")];
    (operator, value())
}

fn condition() -> impl Strategy<Value = bson::Document> {
    prop_oneof![
        6 => comparison().prop_map(|(name, value)| doc! { name: value }),
        1 => value().prop_map(|value| doc! { "$ne": value }),
        1 => prop::collection::vec(scalar(), 0..4).prop_map(|values| doc! { "$in": values }),
        1 => prop::collection::vec(scalar(), 0..4).prop_map(|values| doc! { "$nin": values }),
        1 => any::<bool>().prop_map(|truth| doc! { "$exists": truth }),
        1 => (0..3_i32).prop_map(|size| doc! { "$size": size }),
        1 => prop::collection::vec(scalar(), 0..3).prop_map(|values| doc! { "$all": values }),
        1 => prop_oneof![Just("number"), Just("array"), Just("object"), Just("string")].prop_map(|t| doc! { "$type": t }),
        1 => (1..4_i32, 0..3_i32).prop_map(|(divisor, rest)| doc! { "$mod": [divisor, rest] }),
        1 => comparison().prop_map(|(name, value)| doc! { "$elemMatch": { name: value } }),
        1 => (path(), comparison()).prop_map(|(path, (name, value))| doc! { "$elemMatch": { path: { name: value } } }),
        1 => comparison().prop_map(|(name, value)| doc! { "$not": { name: value } }),
    ]
}

fn filter() -> impl Strategy<Value = bson::Document> {
    let leaf = (path(), condition()).prop_map(|(path, condition)| doc! { path: condition });
    leaf.prop_recursive(3, 8, 3, |inner| {
        let list = prop::collection::vec(inner, 1..4);
        let name = prop_oneof![Just("$and"), Just("$or"), Just("$nor")];
        (name, list).prop_map(|(name, list)| doc! { name: list })
    })
}

/// Everything a path leads to, by plain recursion over decoded values.
fn candidates<'a>(document: &'a bson::Document, components: &[&str], found: &mut Vec<Option<&'a Bson>>) {
    let (first, rest) = components.split_first().unwrap();
    match (document.get(first), rest.is_empty()) {
        (None, _) => found.push(None),
        (Some(Bson::Array(elements)), true) => {
            found.extend(elements.iter().map(Some));
            found.push(document.get(first));
        }
        (value, true) => found.push(value),
        (Some(Bson::Document(inner)), false) => candidates(inner, rest, found),
        (Some(Bson::Array(elements)), false) => array_candidates(elements, rest, found),
        (Some(_), false) => found.push(None),
    }
}

fn array_candidates<'a>(elements: &'a [Bson], components: &[&str], found: &mut Vec<Option<&'a Bson>>) {
    for (position, element) in elements.iter().enumerate() {
        if let Bson::Document(inner) = element {
            candidates(inner, components, found);
        }
        if components[0] != position.to_string() {
            continue;
        }
        match (element, &components[1..]) {
            (element, []) => found.push(Some(element)),
            (Bson::Document(inner), rest) => candidates(inner, rest, found),
            (Bson::Array(inner), rest) => array_candidates(inner, rest, found),
            _ => {}
        }
    }
}

fn compares(value: Option<&Bson>, operator: &str, constant: &Bson) -> bool {
    let is_nan = |value: &Bson| matches!(value, Bson::Double(number) if number.is_nan());
    let constant_is_limit = matches!(constant, Bson::MinKey | Bson::MaxKey);
    let value = match value {
        Some(value) => value,
        None if constant_is_limit || *constant == Bson::Null => &Bson::Null,
        None => return false,
    };
    let (left, right) = (RawBson::try_from(value.clone()).unwrap(), RawBson::try_from(constant.clone()).unwrap());
    let (left, right) = (left.as_raw_bson_ref(), right.as_raw_bson_ref());
    if canonical_type(left) != canonical_type(right) && !constant_is_limit {
        return false;
    }
    let ordering = compare_values(left, right);
    // NaN is ordered among numbers only: MinKey and MaxKey are below and above it as well.
    if !constant_is_limit && ordering != Ordering::Equal && (is_nan(value) || is_nan(constant)) {
        return false;
    }
    match operator {
        "$eq" => ordering.is_eq(),
        "$lt" => ordering.is_lt(),
        "$lte" => ordering.is_le(),
        "$gt" => ordering.is_gt(),
        _ => ordering.is_ge(),
    }
}

fn parsed(filter: &bson::Document) -> Filter {
    Filter::parse(&raw(filter.clone()), &FilterOptions::default()).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn comparisons_agree_with_a_model(document in fields(value()), path in path(), (name, constant) in comparison()) {
        let mut found = Vec::new();
        candidates(&document, &path.split('.').collect::<Vec<_>>(), &mut found);
        let expected = found.into_iter().any(|value| compares(value, name, &constant));
        let filter = parsed(&doc! { path: { name: constant } });
        prop_assert_eq!(filter.matches(&raw(document)).unwrap(), expected);
    }

    #[test]
    fn normalization_keeps_the_meaning(document in fields(value()), filter in filter()) {
        let document = raw(document);
        let options = FilterOptions::default();
        let as_given = parse::Parser::new(&options).filter(&raw(filter.clone())).unwrap();
        let subject = Subject::Document(document.as_bytes());
        let expected = evaluate(&as_given, subject, &mut MatchDetails::new()).unwrap();
        prop_assert_eq!(parsed(&filter).matches(&document).unwrap(), expected);
        prop_assert_eq!(parsed(&doc! { "$nor": [filter] }).matches(&document).unwrap(), !expected);
    }

    #[test]
    fn a_serialized_filter_reads_back_the_same(document in fields(value()), filter in filter()) {
        let filter = parsed(&filter);
        let again = Filter::parse(&filter.to_document(), &FilterOptions::default()).unwrap();
        prop_assert_eq!(again.to_document().into_bytes(), filter.to_document().into_bytes());
        prop_assert_eq!(again.shape(), filter.shape());
        let document = raw(document);
        prop_assert_eq!(again.matches(&document).unwrap(), filter.matches(&document).unwrap());
    }

    #[test]
    fn a_value_is_judged_like_a_field_that_holds_it(value in value(), condition in condition()) {
        let filter = parsed(&doc! { "a": condition });
        let document = raw(doc! { "a": value });
        let value = document.get("a").unwrap().unwrap();
        let expected = filter.matches(&document).unwrap();
        prop_assert_eq!(filter.root().matches_value(value).unwrap(), expected);
        prop_assert_eq!(filter.root().matches_field("a", value).unwrap(), expected);
        let keys = |path: &FieldPath| (path.as_str() == "a").then(|| view_of(&document));
        prop_assert_eq!(filter.root().matches_keys(&keys).unwrap(), expected);
    }
}

fn view_of(document: &RawDocumentBuf) -> ValueView<'_> {
    document::elements(document).next().unwrap().view()
}

#[test]
fn limits_stand_around_nan_too() {
    let document = raw(doc! { "a": f64::NAN });
    let accepts = |name: &str, constant: Bson| parsed(&doc! { "a": { name: constant } }).matches(&document).unwrap();
    for (above, below) in [("$gt", "$lt"), ("$gte", "$lte")] {
        assert!(accepts(above, Bson::MinKey) && accepts(below, Bson::MaxKey));
        assert!(!accepts(below, Bson::MinKey) && !accepts(above, Bson::MaxKey));
    }
    assert!(!accepts("$gt", Bson::Double(0.0)) && accepts("$gte", Bson::Double(f64::NAN)));
}

#[test]
fn shapes_forget_constants_only() {
    let shape = |filter: bson::Document| parsed(&filter).shape();
    assert_eq!(shape(doc! { "a": 1, "b": { "$gt": 5 } }), shape(doc! { "b": { "$gt": "x" }, "a": true }));
    assert_eq!(shape(doc! { "a": { "$in": [1, 2] } }), shape(doc! { "a": { "$in": [5, 6, 7] } }));
    assert_ne!(shape(doc! { "a": 1 }), shape(doc! { "a": Bson::Null }));
    assert_ne!(shape(doc! { "a": 1 }), shape(doc! { "b": 1 }));
    assert_ne!(shape(doc! { "a": { "$gt": 1 } }), shape(doc! { "a": { "$gte": 1 } }));
    assert_ne!(shape(doc! { "$or": [{ "a": { "$gt": 1 } }, { "b": 1 }] }), shape(doc! { "a": { "$gt": 1 }, "b": 1 }));
    assert_eq!(parsed(&doc! { "a": 1 }).shape_hash(), parsed(&doc! { "a": 2 }).shape_hash());
}

#[test]
fn a_value_predicate_searches_an_array_element_by_element() {
    let operators = raw(doc! { "$gt": 3, "$lt": 6 });
    let filter = Filter::parse_value_predicate(&operators, &FilterOptions::default()).unwrap();
    assert!(filter.root().matches_value(RawBsonRef::Int32(5)).unwrap());
    assert!(!filter.root().matches_value(RawBsonRef::Int32(6)).unwrap());
    let holder = raw(doc! { "": [1, 4] });
    assert!(filter.root().matches_value(holder.get("").unwrap().unwrap()).unwrap());
}

#[test]
fn expressions_can_be_refused() {
    let filter = raw(doc! { "$expr": true });
    let error = Filter::parse(&filter, &FilterOptions::default().without_expressions()).unwrap_err();
    assert_eq!(error.kind, ErrorKind::QueryFeatureNotAllowed);
    let allowed = Filter::parse(&filter, &FilterOptions::default()).unwrap();
    assert!(allowed.matches(&raw(doc! {})).unwrap());
    assert!(allowed.root().matches_value(RawBsonRef::Int32(1)).is_err());
}

#[test]
fn sampling_follows_its_rate() {
    let filter = parsed(&doc! { "$sampleRate": 0.25 });
    let document = raw(doc! {});
    let chosen = (0..10_000).filter(|_| filter.matches(&document).unwrap()).count();
    assert!((2_200..2_800).contains(&chosen), "{chosen}");
}

#[test]
fn every_registered_operator_is_known_to_the_parser() {
    for (name, _) in super::OPERATORS {
        let attempts = [doc! { *name: Bson::MinKey }, doc! { "a": { *name: Bson::MinKey } }];
        let unknown = attempts.into_iter().all(|filter| {
            let error = Filter::parse(&raw(filter), &FilterOptions::default()).err();
            error.is_some_and(|error| error.message.starts_with("unknown"))
        });
        assert!(!unknown, "{name}");
    }
}
