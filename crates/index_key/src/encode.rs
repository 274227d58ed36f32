//! Encoding of one value as a key component; numbers are in `number.rs`, first bytes in `layout.rs`.
//!
//! With a collator, text is its sort key: the component then orders as the collation does, and does not tell the text.

use bson::RawBsonRef;
use bson::spec::ElementType;
use document::collation::Collator;
use document::{ValueView, canonical_type_of, elements_of_bytes, stored_binary_length, with_view, work};

use crate::key_pattern::Direction;
use crate::layout::{self, END, ESCAPE};
use crate::number::{self, invert};
use crate::type_bits::{TypeBit, TypeBits};

/// Appends the component for `value`, for searching: its exact type is not kept.
pub fn encode_value(out: &mut Vec<u8>, value: RawBsonRef<'_>, direction: Direction) {
    encode_value_with_type_bits(out, &mut TypeBits::default(), value, direction);
}

/// The same with text ordered by a collator.
pub fn encode_collated_value(
    out: &mut Vec<u8>,
    value: RawBsonRef<'_>,
    direction: Direction,
    collator: Option<&Collator>,
) {
    with_view(value, |view| encode_view(out, &mut TypeBits::default(), view, direction, collator));
}

/// Appends the component for `value`, and what the bytes do not tell to `type_bits`.
pub fn encode_value_with_type_bits(
    out: &mut Vec<u8>,
    type_bits: &mut TypeBits,
    value: RawBsonRef<'_>,
    direction: Direction,
) {
    with_view(value, |view| encode_view(out, type_bits, view, direction, None));
}

/// Appends the component for `view`, and what the bytes do not tell to `type_bits`.
#[inline]
pub fn encode_view(
    out: &mut Vec<u8>,
    type_bits: &mut TypeBits,
    view: ValueView<'_>,
    direction: Direction,
    collator: Option<&Collator>,
) {
    let start = out.len();
    append_ascending(out, type_bits, view, collator);
    if direction == Direction::Descending {
        invert(out, start);
    }
}

/// Appends the component for a stored value: the same as `encode_view`, with short ways for the usual types.
#[inline]
pub(crate) fn encode_stored(
    out: &mut Vec<u8>,
    type_bits: &mut TypeBits,
    element_type: ElementType,
    stored: &[u8],
    direction: Direction,
    collator: Option<&Collator>,
) {
    let start = out.len();
    match (element_type, stored.first_chunk::<4>()) {
        (ElementType::Int32, Some(bytes)) => number::append_int32(out, type_bits, i32::from_le_bytes(*bytes)),
        (ElementType::String, Some(_)) if collator.is_none() => {
            type_bits.push_default();
            append_text(out, layout::STRING, stored.get(4..stored.len() - 1).unwrap_or_default());
        }
        _ => append_ascending(out, type_bits, ValueView::from_stored(element_type, stored), collator),
    }
    if direction == Direction::Descending {
        invert(out, start);
    }
}

fn append_ascending(out: &mut Vec<u8>, type_bits: &mut TypeBits, view: ValueView<'_>, collator: Option<&Collator>) {
    match view {
        ValueView::Int32(value) => number::append_int32(out, type_bits, value),
        ValueView::Int64(value) => number::append_int64(out, type_bits, value),
        ValueView::String(text) => {
            type_bits.push_default();
            append_string(out, text, collator);
        }
        ValueView::Null => out.push(layout::NULL),
        ValueView::ObjectId(id) => append_fixed(out, layout::OBJECT_ID, &id),
        ValueView::DateTime(milliseconds) => append_date(out, milliseconds),
        ValueView::Boolean(value) => out.push(if value { layout::TRUE } else { layout::FALSE }),
        ValueView::Double(value) => number::append_double(out, type_bits, value),
        _ => append_rare(out, type_bits, view, collator),
    }
}

/// Appends text, or what a collation has in its place.
#[inline]
fn append_string(out: &mut Vec<u8>, text: &[u8], collator: Option<&Collator>) {
    match collator {
        None => append_text(out, layout::STRING, text),
        Some(collator) => append_sort_key(out, text, collator),
    }
}

#[cold]
fn append_sort_key(out: &mut Vec<u8>, text: &[u8], collator: &Collator) {
    let mut key = Vec::with_capacity(text.len() * 2);
    collator.append_sort_key(text, &mut key);
    work::count(work::of_bytes(key.len().saturating_mul(SORT_KEY_COST)));
    append_text(out, layout::STRING, &key);
}

/// Making a byte of a sort key takes about so many times what copying one does.
const SORT_KEY_COST: usize = 16;

fn append_rare(out: &mut Vec<u8>, type_bits: &mut TypeBits, view: ValueView<'_>, collator: Option<&Collator>) {
    match view {
        ValueView::Decimal128(stored) => number::append_decimal(out, type_bits, stored),
        ValueView::Symbol(text) => {
            type_bits.push(TypeBit::Symbol);
            append_string(out, text, collator);
        }
        ValueView::Document(stored) => {
            out.push(layout::OBJECT);
            append_fields(out, type_bits, stored, collator);
        }
        ValueView::Array(stored) => {
            out.push(layout::ARRAY);
            for element in elements_of_bytes(stored) {
                append_ascending(out, type_bits, element.view(), collator);
            }
            out.push(END);
        }
        ValueView::Binary { subtype, bytes } => {
            out.push(layout::BINARY);
            append_length(out, stored_binary_length(subtype, bytes));
            out.push(subtype);
            out.extend_from_slice(bytes);
        }
        ValueView::Timestamp(value) => append_fixed(out, layout::TIMESTAMP, &value.to_be_bytes()),
        ValueView::RegularExpression { pattern, options } => {
            // Neither part can contain a zero byte, so neither needs escapes.
            append_fixed(out, layout::REGULAR_EXPRESSION, pattern);
            append_fixed(out, END, options);
            out.push(END);
        }
        ValueView::DbPointer { namespace, id } => {
            out.push(layout::DB_POINTER);
            append_length(out, namespace.len());
            out.extend_from_slice(namespace);
            out.extend_from_slice(&id);
        }
        ValueView::JavaScriptCode(code) => append_text(out, layout::CODE, code),
        ValueView::JavaScriptCodeWithScope { code, scope } => {
            append_text(out, layout::CODE_WITH_SCOPE, code);
            append_fields(out, type_bits, scope, collator);
        }
        ValueView::MinKey => out.push(layout::MIN_KEY),
        ValueView::MaxKey => out.push(layout::MAX_KEY),
        _ => out.push(layout::UNDEFINED),
    }
}

/// Appends the fields of a stored document and the end.
fn append_fields(out: &mut Vec<u8>, type_bits: &mut TypeBits, stored: &[u8], collator: Option<&Collator>) {
    for element in elements_of_bytes(stored) {
        out.push(layout::bracket_byte(canonical_type_of(element.element_type)));
        out.extend_from_slice(element.name_bytes());
        out.push(END);
        append_ascending(out, type_bits, element.view(), collator);
    }
    out.push(END);
}

#[inline]
fn append_fixed(out: &mut Vec<u8>, first: u8, bytes: &[u8]) {
    out.push(first);
    out.extend_from_slice(bytes);
}

#[inline]
fn append_date(out: &mut Vec<u8>, milliseconds: i64) {
    append_fixed(out, layout::DATE, &(milliseconds as u64 ^ 1 << 63).to_be_bytes());
}

/// Appends escaped text and its end.
#[inline]
fn append_text(out: &mut Vec<u8>, first: u8, text: &[u8]) {
    out.reserve(text.len() + 2);
    out.push(first);
    if has_low_byte(text) {
        append_escaped(out, text);
    } else {
        out.extend_from_slice(text);
    }
    out.push(END);
}

#[cold]
fn append_escaped(out: &mut Vec<u8>, text: &[u8]) {
    for &byte in text {
        if byte <= ESCAPE {
            out.push(ESCAPE);
            out.push(byte + 1);
        } else {
            out.push(byte);
        }
    }
}

/// True when some byte is 00 or 01.
#[inline]
fn has_low_byte(text: &[u8]) -> bool {
    const TWOS: u64 = 0x0202_0202_0202_0202;
    const HIGH: u64 = 0x8080_8080_8080_8080;
    let (words, rest) = text.as_chunks::<8>();
    let found = words.iter().fold(0, |found, word| {
        let word = u64::from_le_bytes(*word);
        found | word.wrapping_sub(TWOS) & !word & HIGH
    });
    found != 0 || rest.iter().any(|byte| *byte <= ESCAPE)
}

/// Appends a length so that lengths order as numbers: one byte below 240, else how many bytes follow, plus 240.
fn append_length(out: &mut Vec<u8>, length: usize) {
    match u8::try_from(length) {
        Ok(short) if short < 0xF0 => out.push(short),
        _ => {
            let bytes = (length as u64).to_be_bytes();
            let zeroes = (length as u64).leading_zeros() as usize / 8;
            out.push(0xF0 + (8 - zeroes) as u8);
            out.extend_from_slice(bytes.get(zeroes..).unwrap_or_default());
        }
    }
}
