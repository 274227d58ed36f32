//! The bytes themselves: sizes that were promised, and a table that notices a change of format.

use bson::spec::ElementType;
use document::strategies::{StoredValue, decimal, double, int32, int64, string};
use document::{Decimal, ValueView};

use super::order::encode;
use crate::Direction;

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn show(value: &StoredValue) -> String {
    let (key, type_bits) = encode(value.view(), Direction::Ascending);
    let bits = hex(type_bits.as_bytes());
    format!("{}{}{bits}", hex(&key), if bits.is_empty() { "" } else { " " })
}

fn parse(text: &str) -> StoredValue {
    decimal(Decimal::parse(text).unwrap())
}

#[test]
fn table() {
    let cases = [
        (int32(0), "5a"),
        (int64(0), "5a 01"),
        (double(0.0), "5a 02"),
        (double(-0.0), "5a 03"),
        (parse("0.00"), "5a 0406"),
        (parse("-0"), "5a 0401"),
        (int32(1), "5c"),
        (double(1.0), "5c 02"),
        (parse("1.0"), "5c 0402"),
        (int32(-1), "58"),
        (int32(31), "98"),
        (int32(32), "9a40"),
        (int32(-32), "1abf"),
        (int32(127), "9afe"),
        (int32(128), "9b0100"),
        (int32(i32::MAX), "9dfffffffe"),
        (int64(1 << 31), "9e0100000000"),
        (int64(i64::MAX), "a1fffffffffffffffe"),
        (int64(i64::MIN), "12783fffffffffffff 01"),
        (double(0.5), "5b7fc0000000000000"),
        (double(-0.5), "59803fffffffffffff"),
        (double(1.5), "5d80000000000000"),
        (double(1234.5), "9b09a5800000000000"),
        (parse("0.5"), "5b7fc0000000000000 0402"),
        (parse("19.99"), "81fd70a3d70a3d80146400 0406"),
        (double(f64::INFINITY), "a3"),
        (double(f64::NAN), "10"),
        (double(1e300), "a2fc6fc8791000eb38"),
        (string(""), "a800"),
        (string("abc"), "a861626300"),
        (string("a\0\u{1}"), "a8610101010200"),
        (StoredValue { element_type: ElementType::Null, bytes: vec![] }, "0c"),
        (StoredValue { element_type: ElementType::Boolean, bytes: vec![1] }, "bd"),
        (StoredValue { element_type: ElementType::DateTime, bytes: vec![0; 8] }, "c08000000000000000"),
        (StoredValue { element_type: ElementType::MaxKey, bytes: vec![] }, "f0"),
    ];
    for (value, expected) in cases {
        assert_eq!(show(&value), expected, "{value:?}");
    }
}

#[test]
fn nested_values() {
    let document: bson::RawDocumentBuf = (&bson::doc! {"a": 1, "b": "x"}).try_into().unwrap();
    let (key, _) = encode(ValueView::Document(document.as_bytes()), Direction::Ascending);
    assert_eq!(hex(&key), "ac1061005ca86200a8780000");
    let array: bson::RawDocumentBuf = (&bson::doc! {"0": 1, "1": [2]}).try_into().unwrap();
    let (key, _) = encode(ValueView::Array(array.as_bytes()), Direction::Ascending);
    assert_eq!(hex(&key), "b05cb05e0000");
    let (key, _) = encode(ValueView::Array(array.as_bytes()), Direction::Descending);
    assert_eq!(hex(&key), "4fa34fa1ffff");
}

#[test]
fn integers_below_two_to_the_31_take_at_most_five_bytes() {
    for bits in 0..31 {
        for value in [1i32 << bits, (1 << bits) + 1, -(1 << bits), i32::MAX >> bits, -(i32::MAX >> bits)] {
            let forms = [int32(value), int64(i64::from(value)), double(f64::from(value))];
            let keys: Vec<Vec<u8>> = forms.iter().map(|form| encode(form.view(), Direction::Ascending).0).collect();
            assert!(keys[0].len() <= 5 && keys.iter().all(|key| *key == keys[0]), "{value}");
            assert!(value.unsigned_abs() > 31 || keys[0].len() == 1);
            assert!(value.unsigned_abs() >= 1 << 15 || keys[0].len() <= 3);
        }
    }
}
