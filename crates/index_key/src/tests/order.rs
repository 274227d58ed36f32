//! Keys order as values do, are prefix-free, and decode to exactly what was encoded.

use std::cmp::Ordering;

use bson::{RawDocument, RawDocumentBuf};
use document::strategies::{StoredValue, document_bytes, numbers, values};
use document::{ValueView, compare_views};
use proptest::prelude::*;

use crate::{Direction, KeyPattern, TypeBits, decode_key, decode_key_with_names, encode_view};

pub(super) fn encode(view: ValueView<'_>, direction: Direction) -> (Vec<u8>, TypeBits) {
    let (mut key, mut type_bits) = (Vec::new(), TypeBits::default());
    encode_view(&mut key, &mut type_bits, view, direction, None);
    (key, type_bits)
}

pub(super) fn pattern(document: bson::Document) -> KeyPattern {
    let raw: RawDocumentBuf = (&document).try_into().unwrap();
    KeyPattern::parse(&raw).unwrap()
}

fn check_order(left: &StoredValue, right: &StoredValue) -> Result<(), TestCaseError> {
    let expected = compare_views(left.view(), right.view());
    for (direction, expected) in [(Direction::Ascending, expected), (Direction::Descending, expected.reverse())] {
        let (left_key, _) = encode(left.view(), direction);
        let (right_key, _) = encode(right.view(), direction);
        prop_assert_eq!(left_key.cmp(&right_key), expected, "{:?}: {:02x?} {:02x?}", direction, left_key, right_key);
        if expected != Ordering::Equal {
            prop_assert!(!left_key.starts_with(&right_key) && !right_key.starts_with(&left_key));
        }
        prop_assert!(!matches!(left_key[0], 0 | 0xFF));
    }
    Ok(())
}

/// A stored array whose elements have any names decodes with positions as names, so compare after renaming.
fn check_round_trip(value: &StoredValue) -> Result<(), TestCaseError> {
    let original = document_bytes([("v", value)]);
    for direction in [1, -1] {
        let pattern = pattern(bson::doc! {"v": direction});
        let (key, type_bits) = encode(value.view(), pattern.fields()[0].direction);
        let decoded = decode_key(&pattern, &key, type_bits.as_bytes()).unwrap();
        prop_assert_eq!(decoded.as_bytes(), &original[..], "key {:02x?} bits {:02x?}", key, type_bits.as_bytes());
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(10_000))]

    #[test]
    fn numbers_order(left in numbers(), right in numbers()) {
        check_order(&left, &right)?;
    }

    #[test]
    fn numbers_round_trip(value in numbers()) {
        check_round_trip(&value)?;
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn values_order(left in values(3), right in values(3)) {
        check_order(&left, &right)?;
    }

    #[test]
    fn values_round_trip(value in values(3)) {
        check_round_trip(&value)?;
    }

    #[test]
    fn compound_keys_order_by_their_components(
        left in prop::collection::vec(values(1), 3), right in prop::collection::vec(values(1), 3), share in 0..3usize,
    ) {
        let mut right = right;
        right[..share].clone_from_slice(&left[..share]);
        let directions = [Direction::Ascending, Direction::Descending, Direction::Ascending];
        let key = |values: &[StoredValue]| {
            values.iter().zip(directions).flat_map(|(value, direction)| encode(value.view(), direction).0).collect::<Vec<_>>()
        };
        let expected = left.iter().zip(&right).zip(directions).map(|((left, right), direction)| {
            let order = compare_views(left.view(), right.view());
            if direction == Direction::Descending { order.reverse() } else { order }
        }).find(|order| order.is_ne()).unwrap_or(Ordering::Equal);
        prop_assert_eq!(key(&left).cmp(&key(&right)), expected);
    }

    #[test]
    fn damaged_keys_are_refused_or_decoded(
        bytes in prop::collection::vec(any::<u8>(), 0..40), type_bits in prop::collection::vec(any::<u8>(), 0..20),
    ) {
        let pattern = pattern(bson::doc! {"a": 1, "b": -1});
        if let Ok(decoded) = decode_key(&pattern, &bytes, &type_bits) {
            prop_assert!(RawDocument::from_bytes(decoded.as_bytes()).is_ok());
        }
        let mut reader = crate::KeyReader::new(&pattern, &bytes);
        while reader.next().is_some() {}
        let _ = crate::decode_number_at(&pattern, &bytes, 1);
    }

    #[test]
    fn mutated_keys_never_panic(value in values(2), at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let pattern = pattern(bson::doc! {"a": 1});
        let (mut key, type_bits) = encode(value.view(), Direction::Ascending);
        let at = at.index(key.len());
        key[at] = byte;
        let _ = decode_key_with_names(&pattern, &key, type_bits.as_bytes(), ["x"]);
        let _ = crate::KeyReader::new(&pattern, &key).skip_component();
    }

    /// Single bytes of a key rarely reach what exponents and codes of exceptions do together.
    #[test]
    fn mutated_numbers_with_any_type_bits_never_panic(
        value in numbers(),
        mutations in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        type_bits in prop::collection::vec(any::<u8>(), 0..8),
        direction in prop::sample::select(vec![1, -1]),
    ) {
        let pattern = pattern(bson::doc! {"a": direction});
        let (mut key, own) = encode(value.view(), pattern.fields()[0].direction);
        for (at, byte) in mutations {
            let at = at.index(key.len());
            key[at] = byte;
        }
        let _ = decode_key_with_names(&pattern, &key, &type_bits, ["x"]);
        let _ = decode_key_with_names(&pattern, &key, own.as_bytes(), ["x"]);
        let _ = crate::decode_number_at(&pattern, &key, 0);
        let _ = crate::KeyReader::new(&pattern, &key).skip_component();
    }
}

/// The double 0 in the place of a fraction, with a decimal's exponent: found by `mutated_keys_never_panic`.
#[test]
fn a_damaged_key_with_the_double_zero_is_refused() {
    let value = StoredValue { element_type: bson::spec::ElementType::Double, bytes: 0.5f64.to_le_bytes().to_vec() };
    let (key, _) = encode(value.view(), Direction::Ascending);
    let pattern = pattern(bson::doc! {"a": 1});
    // A fraction below 1: its code, then eight bytes of a double and the flag.
    let damaged: Vec<u8> = [&key[..1], &[0; 8]].concat();
    let decimal = [4, 2 << 1];
    assert!(decode_key_with_names(&pattern, &damaged, &decimal, ["x"]).is_err());
}
