//! Generators of arbitrary BSON values and documents, for property tests here and in `index_key`.
//!
//! They favour what breaks encodings: numbers equal across types, neighbours of powers of two, subnormals, decimals
//! with many digits or extreme exponents, text with zero bytes, nested arrays and empty documents.

use bson::spec::ElementType;
use bson::{RawBsonRef, RawDocumentBuf};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::decimal::{COEFFICIENT_MAX, Decimal, EXPONENT_MAX, EXPONENT_MIN};
use crate::value_view::ValueView;

/// A BSON value as it would be stored.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredValue {
    /// Its type.
    pub element_type: ElementType,
    /// Its bytes, without type and name.
    pub bytes: Vec<u8>,
}

impl StoredValue {
    /// This value, borrowed.
    pub fn view(&self) -> ValueView<'_> {
        ValueView::from_stored(self.element_type, &self.bytes)
    }

    /// This value in the `bson` crate's borrowed form.
    pub fn value(&self) -> RawBsonRef<'_> {
        crate::borrow_bson::raw_bson_ref(self.element_type, &self.bytes)
    }
}

/// The bytes of a document with these fields.
pub fn document_bytes<'a>(fields: impl IntoIterator<Item = (&'a str, &'a StoredValue)>) -> Vec<u8> {
    let mut bytes = vec![0; 4];
    for (name, value) in fields {
        bytes.push(value.element_type as u8);
        bytes.extend_from_slice(name.as_bytes());
        bytes.push(0);
        bytes.extend_from_slice(&value.bytes);
    }
    bytes.push(0);
    let length = (bytes.len() as i32).to_le_bytes();
    bytes[..4].copy_from_slice(&length);
    bytes
}

fn stored(element_type: ElementType, bytes: impl Into<Vec<u8>>) -> StoredValue {
    StoredValue { element_type, bytes: bytes.into() }
}

fn string_bytes(text: &str) -> Vec<u8> {
    let mut bytes = (text.len() as i32 + 1).to_le_bytes().to_vec();
    bytes.extend_from_slice(text.as_bytes());
    bytes.push(0);
    bytes
}

/// An int32 value.
pub fn int32(value: i32) -> StoredValue {
    stored(ElementType::Int32, value.to_le_bytes())
}

/// An int64 value.
pub fn int64(value: i64) -> StoredValue {
    stored(ElementType::Int64, value.to_le_bytes())
}

/// A double value.
pub fn double(value: f64) -> StoredValue {
    stored(ElementType::Double, value.to_le_bytes())
}

/// A decimal128 value.
pub fn decimal(value: Decimal) -> StoredValue {
    stored(ElementType::Decimal128, value.to_stored())
}

/// A string value.
pub fn string(text: &str) -> StoredValue {
    stored(ElementType::String, string_bytes(text))
}

/// Integers of any size, favouring neighbours of powers of two and ten.
pub fn integers() -> BoxedStrategy<i64> {
    prop_oneof![
        3 => -70i64..70,
        2 => (0u32..63, -3i64..=3, any::<bool>()).prop_map(|(bits, offset, negative)| {
            let value = (1i64 << bits).saturating_add(offset);
            if negative { value.wrapping_neg() } else { value }
        }),
        1 => (0u32..18, -2i64..=2).prop_map(|(power, offset)| 10i64.pow(power) + offset),
        1 => any::<i64>(),
        1 => prop_oneof![Just(i64::MAX), Just(i64::MIN), Just(i64::MIN + 1), Just(i64::from(i32::MIN))],
    ]
    .boxed()
}

/// Doubles of every kind.
pub fn doubles() -> BoxedStrategy<f64> {
    prop_oneof![
        3 => integers().prop_map(|value| value as f64),
        2 => (integers(), 1i32..60).prop_map(|(value, shift)| value as f64 / 2f64.powi(shift)),
        2 => (-1000i32..1000, 1i32..=1000).prop_map(|(above, below)| f64::from(above) / f64::from(below)),
        1 => (integers(), -2i64..=2).prop_map(|(value, ulps)| {
            f64::from_bits((value as f64).to_bits().wrapping_add_signed(ulps))
        }),
        2 => any::<u64>().prop_map(f64::from_bits),
        1 => (0u64..1 << 53, any::<bool>()).prop_map(|(bits, negative)| {
            f64::from_bits(bits | u64::from(negative) << 63)
        }),
        1 => prop_oneof![
            Just(f64::NAN), Just(f64::INFINITY), Just(f64::NEG_INFINITY), Just(0.0), Just(-0.0),
            Just(f64::MAX), Just(f64::MIN), Just(f64::MIN_POSITIVE), Just(5e-324),
        ],
    ]
    .boxed()
}

/// Decimals of every kind, favouring those equal or close to integers and doubles, and between them.
pub fn decimals() -> BoxedStrategy<Decimal> {
    let finite = |(negative, coefficient, exponent)| Decimal::Finite { negative, coefficient, exponent };
    prop_oneof![
        3 => (integers(), 0u32..15).prop_map(|(value, zeroes)| Decimal::Finite {
            negative: value < 0,
            coefficient: u128::from(value.unsigned_abs()) * 10u128.pow(zeroes),
            exponent: -(zeroes as i32),
        }),
        2 => (integers(), 1u32..15, any::<u64>()).prop_map(|(value, places, fraction)| {
            let unit = 10u128.pow(places);
            Decimal::Finite {
                negative: value < 0,
                coefficient: u128::from(value.unsigned_abs()) * unit + u128::from(fraction) % unit,
                exponent: -(places as i32),
            }
        }),
        2 => (any::<bool>(), 0u128..100_000, -8i32..4).prop_map(finite),
        2 => doubles().prop_map(close_to_double),
        2 => (any::<bool>(), 0..=COEFFICIENT_MAX, -60i32..30).prop_map(finite),
        1 => (any::<bool>(), 0..=COEFFICIENT_MAX, EXPONENT_MIN..=EXPONENT_MAX).prop_map(finite),
        1 => (any::<bool>(), 0u128..1000, -360i32..320).prop_map(finite),
        1 => prop_oneof![
            Just(Decimal::NaN),
            any::<bool>().prop_map(|negative| Decimal::Infinity { negative }),
            (any::<bool>(), EXPONENT_MIN..=EXPONENT_MAX).prop_map(|(negative, exponent)| Decimal::Finite {
                negative, coefficient: 0, exponent,
            }),
        ],
    ]
    .boxed()
}

/// The first 34 digits of a double: equal to it, or closer than any other double.
fn close_to_double(value: f64) -> Decimal {
    if !value.is_finite() {
        return Decimal::from_f64(value);
    }
    let text = format!("{:.33e}", value.abs());
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let coefficient: u128 = digits.replace('.', "").parse().unwrap_or(0);
    let exponent = exponent.parse::<i32>().unwrap_or(0) - 33;
    let (mut coefficient, mut exponent) = (coefficient, exponent);
    while coefficient != 0 && coefficient.is_multiple_of(10) && exponent < 0 {
        coefficient /= 10;
        exponent += 1;
    }
    Decimal::Finite { negative: value.is_sign_negative(), coefficient, exponent }
}

/// Numbers of all four types.
pub fn numbers() -> BoxedStrategy<StoredValue> {
    prop_oneof![
        6 => integers().prop_map(|value| int32(value as i32)),
        6 => integers().prop_map(int64),
        6 => doubles().prop_map(double),
        6 => decimals().prop_map(decimal),
        // Payloads and non-canonical forms.
        1 => any::<[u8; 16]>().prop_map(|bytes| stored(ElementType::Decimal128, bytes)),
    ]
    .boxed()
}

/// Text with zero bytes, control characters and multi-byte characters.
pub fn texts() -> BoxedStrategy<String> {
    let character = prop_oneof![
        4 => prop::char::range('a', 'c'), 1 => prop::char::range('\0', '\u{3}'), 1 => any::<char>(),
        1 => prop_oneof![Just('\u{7f}'), Just('é'), Just('\u{10FFFF}')],
    ];
    vec(character, 0..12).prop_map(|characters| characters.into_iter().collect()).boxed()
}

/// Field names: like texts, without zero bytes.
pub fn field_names() -> BoxedStrategy<String> {
    prop_oneof![3 => "[abc]{0,3}", 1 => "[0-3]", 1 => texts().prop_map(|text| text.replace('\0', ""))].boxed()
}

/// Values of every type that holds no other values.
pub fn scalars() -> BoxedStrategy<StoredValue> {
    let id = any::<[u8; 12]>();
    prop_oneof![
        4 => numbers(),
        2 => texts().prop_map(|text| string(&text)),
        1 => texts().prop_map(|text| stored(ElementType::Symbol, string_bytes(&text))),
        1 => (prop_oneof![Just(0u8), Just(2), Just(4), any::<u8>()], vec(any::<u8>(), 0..9)).prop_map(binary),
        1 => id.prop_map(|id| stored(ElementType::ObjectId, id)),
        1 => any::<bool>().prop_map(|value| stored(ElementType::Boolean, [u8::from(value)])),
        1 => integers().prop_map(|value| stored(ElementType::DateTime, value.to_le_bytes())),
        1 => integers().prop_map(|value| stored(ElementType::Timestamp, value.to_le_bytes())),
        1 => (field_names(), "[imsx]{0,3}").prop_map(|(pattern, options)| {
            stored(ElementType::RegularExpression, format!("{pattern}\0{options}\0"))
        }),
        1 => (texts(), id).prop_map(|(namespace, id)| {
            stored(ElementType::DbPointer, [string_bytes(&namespace), id.to_vec()].concat())
        }),
        1 => texts().prop_map(|code| stored(ElementType::JavaScriptCode, string_bytes(&code))),
        1 => prop_oneof![
            Just(ElementType::Null), Just(ElementType::Undefined), Just(ElementType::MinKey), Just(ElementType::MaxKey),
        ].prop_map(|element_type| stored(element_type, [])),
    ]
    .boxed()
}

fn binary((subtype, content): (u8, Vec<u8>)) -> StoredValue {
    let length = content.len() as i32;
    let mut bytes = Vec::new();
    if subtype == 2 {
        bytes.extend_from_slice(&(length + 4).to_le_bytes());
        bytes.push(subtype);
    }
    bytes.extend_from_slice(&length.to_le_bytes());
    if subtype != 2 {
        bytes.push(subtype);
    }
    bytes.extend_from_slice(&content);
    stored(ElementType::Binary, bytes)
}

/// Values of every type, nested up to `depth` levels.
pub fn values(depth: u32) -> BoxedStrategy<StoredValue> {
    scalars()
        .prop_recursive(depth, 24, 4, |inner| {
            let fields = vec((field_names(), inner.clone()), 0..4).boxed();
            prop_oneof![
                fields.clone().prop_map(|fields| stored(ElementType::EmbeddedDocument, encode_fields(&fields))),
                vec(inner.clone(), 0..4).prop_map(|items| stored(ElementType::Array, encode_array(&items))),
                (texts(), fields).prop_map(|(code, fields)| {
                    let parts = [string_bytes(&code), encode_fields(&fields)].concat();
                    let length = (parts.len() as i32 + 4).to_le_bytes();
                    stored(ElementType::JavaScriptCodeWithScope, [length.to_vec(), parts].concat())
                }),
            ]
        })
        .boxed()
}

/// Documents with values of every type.
pub fn documents() -> BoxedStrategy<RawDocumentBuf> {
    vec((field_names(), values(3)), 0..5)
        .prop_filter_map("well formed", |fields| RawDocumentBuf::from_bytes(encode_fields(&fields)).ok())
        .boxed()
}

fn encode_fields(fields: &[(String, StoredValue)]) -> Vec<u8> {
    document_bytes(fields.iter().map(|(name, value)| (name.as_str(), value)))
}

/// The bytes of an array with these values.
pub fn encode_array(items: &[StoredValue]) -> Vec<u8> {
    let names: Vec<String> = (0..items.len()).map(|position| position.to_string()).collect();
    document_bytes(names.iter().map(String::as_str).zip(items))
}
