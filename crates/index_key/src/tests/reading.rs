//! `KeyReader` tells the same values as decoding does.

use bson::{RawDocumentBuf, doc};
use document::strategies::{StoredValue, values};
use document::{Number, ValueView};
use proptest::prelude::*;

use super::order::{encode, pattern};
use crate::{KeyReader, KeyValue, append_record_id, decode_number_at, keys_for_document};

fn agrees(view: ValueView<'_>, read: KeyValue<'_>) -> bool {
    if let Some(number) = Number::from_view(view) {
        return match read {
            KeyValue::Int(integer) => number.compare(Number::Int64(integer)).is_eq(),
            KeyValue::Double(double) => number.compare(Number::Double(double)).is_eq(),
            KeyValue::Decimal { truncated } => {
                let away = if truncated.is_sign_negative() { truncated.next_down() } else { truncated.next_up() };
                let (near, far) = (Number::Double(truncated), Number::Double(away));
                let order = |left: Number, right: Number| left.compare(right).is_lt();
                if truncated.is_sign_negative() {
                    order(number, near) && order(far, number)
                } else {
                    order(near, number) && order(number, far)
                }
            }
            _ => false,
        };
    }
    match (view, read) {
        (ValueView::String(text) | ValueView::Symbol(text), KeyValue::String(found)) => {
            let mut unescaped = Vec::new();
            found.append_to(&mut unescaped);
            unescaped == text && found.equals(text) && !found.equals(&[text, b"x"].concat())
        }
        (ValueView::ObjectId(id), KeyValue::ObjectId(found)) => id == found,
        (ValueView::Boolean(value), KeyValue::Boolean(found)) => value == found,
        (ValueView::DateTime(value), KeyValue::Date(found)) => value == found,
        (ValueView::Timestamp(value), KeyValue::Timestamp(found)) => value == found,
        (ValueView::Null, KeyValue::Null) => true,
        (view, KeyValue::Other(bracket)) => document::canonical_type_of(view.element_type()) == bracket,
        _ => false,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    #[test]
    fn reader_agrees(values in prop::collection::vec(values(2), 3)) {
        let pattern = pattern(doc! {"a": 1, "b": -1, "c": 1});
        let mut key = Vec::new();
        for (value, field) in values.iter().zip(pattern.fields()) {
            key.extend(encode(value.view(), field.direction).0);
        }
        append_record_id(&mut key, 77);
        let mut reader = KeyReader::new(&pattern, &key);
        for value in &values {
            let read = reader.next().unwrap();
            prop_assert!(agrees(value.view(), read), "{:?} {:?}", value, read);
        }
        prop_assert_eq!(reader.next(), None);
        let mut suffix = Vec::new();
        append_record_id(&mut suffix, 77);
        prop_assert_eq!(reader.rest(), &suffix[..]);
        let mut skipper = KeyReader::new(&pattern, &key);
        prop_assert!((0..3).all(|_| skipper.skip_component()) && !skipper.skip_component());
        prop_assert_eq!(skipper.rest(), &suffix[..]);
        let number = decode_number_at(&pattern, &key, 1);
        let is_number = |value: &StoredValue| Number::from_view(value.view()).is_some();
        prop_assert_eq!(number.is_some(), is_number(&values[1]));
    }
}

#[test]
fn decimals_are_cut_to_the_double_below() {
    let pattern = crate::KeyPattern::id();
    // Integer parts for which a double has no room: cut, not rounded up.
    for (text, below) in [
        ("6794252139707863000.5", 6_794_252_139_707_862_016.0),
        ("9007199254740993.5", 9_007_199_254_740_992.0),
        ("18014398509481985.5", 18_014_398_509_481_984.0),
        ("-9223372036854775807.5", -9_223_372_036_854_774_784.0),
        ("19.99", 19.99),
    ] {
        let document = bson::rawdoc! {"_id": text.parse::<bson::Decimal128>().unwrap()};
        let keys = keys_for_document(&pattern, crate::Sparse::No, &document).unwrap();
        let key = keys.iter().next().unwrap().key.to_vec();
        assert_eq!(KeyReader::new(&pattern, &key).next(), Some(KeyValue::Decimal { truncated: below }), "{text}");
    }
}

#[test]
fn modulo_on_the_id_index() {
    let pattern = crate::KeyPattern::id();
    let matching: Vec<i32> = (0..300)
        .filter(|id| {
            let document: RawDocumentBuf = (&doc! {"_id": *id, "x": 1}).try_into().unwrap();
            let keys = keys_for_document(&pattern, crate::Sparse::No, &document).unwrap();
            let key = keys.iter().next().unwrap().key.to_vec();
            matches!(decode_number_at(&pattern, &key, 0), Some(KeyValue::Int(id)) if id % 100 == 3)
        })
        .collect();
    assert_eq!(matching, [3, 103, 203]);
}
