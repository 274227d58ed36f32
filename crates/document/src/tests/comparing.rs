//! The order of values: laws, agreement with exact arithmetic, hashing, and a golden sequence.

use std::cmp::Ordering;
use std::hash::{DefaultHasher, Hasher};

use bson::{Bson, rawdoc};
use proptest::prelude::*;

use crate::strategies::{StoredValue, numbers, values};
use crate::{Decimal, Number, ValueView, compare_values, compare_views, elements, get_field, hash_view};

/// The exact value as a decimal of up to 1,200 digits, which holds every finite double; `None` for NaN.
fn exact(value: &StoredValue) -> Option<dec::Decimal<400>> {
    let mut context = wide();
    let text = match Number::from_view(value.view()).unwrap() {
        Number::Int32(value) => value.to_string(),
        Number::Int64(value) => value.to_string(),
        Number::Double(value) if value.is_nan() => return None,
        Number::Double(value) if value.is_infinite() => format!("{}Infinity", if value < 0.0 { "-" } else { "" }),
        Number::Double(value) => format!("{value:.1074}"),
        Number::Decimal128(value) => match Decimal::from_bson(value) {
            Decimal::NaN => return None,
            Decimal::Infinity { negative } => format!("{}Infinity", if negative { "-" } else { "" }),
            Decimal::Finite { negative, coefficient, exponent } => {
                format!("{}{coefficient}e{exponent}", if negative { "-" } else { "" })
            }
        },
    };
    Some(context.parse(text.as_str()).unwrap())
}

fn wide() -> dec::Context<dec::Decimal<400>> {
    let mut context = dec::Context::<dec::Decimal<400>>::default();
    context.set_max_exponent(999_999).unwrap();
    context.set_min_exponent(-999_999).unwrap();
    context
}

fn exact_order(left: &StoredValue, right: &StoredValue) -> Ordering {
    match (exact(left), exact(right)) {
        (None, None) => Ordering::Equal,
        (None, _) => Ordering::Less,
        (_, None) => Ordering::Greater,
        (Some(left), Some(right)) => wide().partial_cmp(&left, &right).unwrap(),
    }
}

fn hash_of(view: ValueView<'_>) -> u64 {
    let mut hasher = DefaultHasher::new();
    hash_view(view, &mut hasher);
    hasher.finish()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn numbers_compare_exactly(left in numbers(), right in numbers()) {
        prop_assert_eq!(compare_views(left.view(), right.view()), exact_order(&left, &right));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn order_is_total(a in values(2), b in values(2), c in values(2)) {
        prop_assert_eq!(compare_views(a.view(), a.view()), Ordering::Equal);
        prop_assert_eq!(compare_views(a.view(), b.view()), compare_views(b.view(), a.view()).reverse());
        let mut sorted = [a.view(), b.view(), c.view()];
        sorted.sort_by(|left, right| compare_views(*left, *right));
        prop_assert!(compare_views(sorted[0], sorted[2]).is_le());
    }

    #[test]
    fn both_forms_compare_alike(a in values(2), b in values(2)) {
        prop_assert_eq!(compare_values(a.value(), b.value()), compare_views(a.view(), b.view()));
    }

    #[test]
    fn equal_values_hash_equally(a in prop_oneof![numbers(), values(2)], b in prop_oneof![numbers(), values(2)]) {
        if compare_views(a.view(), b.view()).is_eq() {
            prop_assert_eq!(hash_of(a.view()), hash_of(b.view()));
        }
    }
}

#[test]
fn equal_numbers_of_all_types_hash_equally() {
    for (integer, zeroes) in [(0i64, 3u32), (1, 0), (-7, 5), (1 << 53, 2), (i64::from(i32::MAX), 1)] {
        let decimal = Decimal::Finite {
            negative: integer < 0,
            coefficient: u128::from(integer.unsigned_abs()) * 10u128.pow(zeroes),
            exponent: -(zeroes as i32),
        };
        let expected = hash_of(ValueView::Int64(integer));
        assert_eq!(hash_of(ValueView::Double(integer as f64)), expected);
        assert_eq!(hash_of(ValueView::Decimal128(decimal.to_stored())), expected);
    }
    let half = Decimal::Finite { negative: false, coefficient: 50, exponent: -2 };
    assert_eq!(hash_of(ValueView::Double(0.5)), hash_of(ValueView::Decimal128(half.to_stored())));
}

/// Every line is below the next; values on one line are equal.
#[test]
fn golden_order() {
    let decimal = |text: &str| -> Bson { Bson::Decimal128(text.parse().unwrap()) };
    let lines: Vec<Vec<Bson>> = vec![
        vec![Bson::MinKey],
        vec![Bson::Undefined],
        vec![Bson::Null],
        vec![Bson::Double(f64::NAN), decimal("NaN")],
        vec![Bson::Double(f64::NEG_INFINITY), decimal("-Infinity")],
        vec![decimal("-1E+6000")],
        vec![Bson::Int64(i64::MIN), Bson::Double(-9_223_372_036_854_775_808.0)],
        vec![Bson::Int64(-1), decimal("-1.0")],
        vec![decimal("-1E-6176")],
        vec![Bson::Int32(0), Bson::Double(-0.0), decimal("-0E+10"), Bson::Int64(0)],
        vec![decimal("1E-6176")],
        vec![Bson::Double(5e-324)],
        vec![decimal("0.1")],
        vec![Bson::Double(0.1)],
        vec![Bson::Double(0.5), decimal("0.50")],
        vec![Bson::Int32(1), Bson::Int64(1), Bson::Double(1.0), decimal("1.000")],
        vec![Bson::Int64(9_007_199_254_740_992), Bson::Double(9_007_199_254_740_992.0)],
        vec![Bson::Int64(9_007_199_254_740_993), decimal("9007199254740993")],
        vec![Bson::Int64(i64::MAX)],
        vec![Bson::Double(9_223_372_036_854_775_808.0), decimal("9223372036854775808")],
        vec![Bson::Double(f64::MAX)],
        vec![decimal("1E+6000")],
        vec![Bson::Double(f64::INFINITY), decimal("Infinity")],
        vec![Bson::String(String::new())],
        vec![Bson::String("a".into()), Bson::Symbol("a".into())],
        vec![Bson::String("a\0".into())],
        vec![Bson::String("b".into())],
        vec![bson::bson!({})],
        vec![bson::bson!({"a": 1}), bson::bson!({"a": 1.0})],
        // Type bracket before name, name before value.
        vec![bson::bson!({"b": 0})],
        vec![bson::bson!({"a": "x"})],
        vec![bson::bson!([])],
        vec![bson::bson!([1])],
        vec![bson::bson!([1, 1])],
        vec![bson::bson!([2])],
        vec![bson::bson!([[]])],
        vec![Bson::Binary(bson::Binary { subtype: 0.into(), bytes: vec![255] })],
        vec![Bson::Binary(bson::Binary { subtype: 0.into(), bytes: vec![0, 0] })],
        vec![Bson::ObjectId(bson::oid::ObjectId::from_bytes([1; 12]))],
        vec![Bson::Boolean(false)],
        vec![Bson::Boolean(true)],
        vec![Bson::DateTime(bson::DateTime::from_millis(-1))],
        vec![Bson::DateTime(bson::DateTime::from_millis(1))],
        vec![Bson::Timestamp(bson::Timestamp { time: 1, increment: 9 })],
        vec![Bson::Timestamp(bson::Timestamp { time: u32::MAX, increment: 0 })],
        vec![Bson::JavaScriptCode("a".into())],
        vec![Bson::MaxKey],
    ];
    let flat: Vec<(usize, bson::RawDocumentBuf)> = lines
        .iter()
        .enumerate()
        .flat_map(|(line, values)| {
            values.iter().map(move |value| (line, (&bson::doc! {"v": value.clone()}).try_into().unwrap()))
        })
        .collect();
    for (left_line, left) in &flat {
        for (right_line, right) in &flat {
            let (left, right) = (get_field(left, "v").unwrap(), get_field(right, "v").unwrap());
            assert_eq!(compare_values(left, right), left_line.cmp(right_line), "{left:?} {right:?}");
        }
    }
}

#[test]
fn array_names_do_not_count() {
    let odd = rawdoc! { "a": { "x": 1, "y": 2 } };
    let array = rawdoc! { "a": [1, 2] };
    let inner = elements(&odd).next().unwrap();
    assert_eq!(
        compare_views(ValueView::Array(inner.value_bytes()), elements(&array).next().unwrap().view()),
        Ordering::Equal
    );
}
