//! Hashing that agrees with comparison: equal values hash equally, whatever their types (1, 1.0, NumberDecimal("1.00")).
//!
//! Used where values are looked up by equality: `$group`, `$addToSet`, `distinct`, `$in` sets.

use std::hash::{Hash, Hasher};

use bson::RawBsonRef;

use crate::collation::hash_text;
use crate::compare::{canonical_type_of, stored_binary_length};
use crate::decimal::Decimal;
use crate::element::elements_of_bytes;
use crate::exact::compare_double_with_decimal;
use crate::number::Number;
use crate::value_view::{ValueView, with_view};

/// Feeds `value` to `hasher` such that values equal by `compare_values` hash equally.
pub fn hash_value<H: Hasher>(value: RawBsonRef<'_>, hasher: &mut H) {
    with_view(value, |view| hash_view(view, hasher));
}

/// Feeds `view` to `hasher` such that values equal by `compare_views` hash equally.
pub fn hash_view<H: Hasher>(view: ValueView<'_>, hasher: &mut H) {
    hasher.write_u8(canonical_type_of(view.element_type()) as u8);
    if let Some(number) = Number::from_view(view) {
        return hash_number(number, hasher);
    }
    match view {
        ValueView::String(text) | ValueView::Symbol(text) => hash_text(text, hasher),
        ValueView::JavaScriptCode(text) => text.hash(hasher),
        ValueView::Document(bytes) => hash_document(bytes, hasher),
        ValueView::Array(bytes) => hash_array(bytes, hasher),
        ValueView::Binary { subtype, bytes } => {
            hasher.write_usize(stored_binary_length(subtype, bytes));
            hasher.write_u8(subtype);
            hasher.write(bytes);
        }
        ValueView::ObjectId(id) => hasher.write(&id),
        ValueView::Boolean(value) => hasher.write_u8(u8::from(value)),
        ValueView::DateTime(milliseconds) => hasher.write_i64(milliseconds),
        ValueView::Timestamp(value) => hasher.write_u64(value),
        ValueView::RegularExpression { pattern, options } => (pattern, options).hash(hasher),
        ValueView::DbPointer { namespace, id } => (namespace, id).hash(hasher),
        ValueView::JavaScriptCodeWithScope { code, scope } => {
            code.hash(hasher);
            hash_document(scope, hasher);
        }
        _ => {}
    }
}

fn hash_document<H: Hasher>(bytes: &[u8], hasher: &mut H) {
    for element in elements_of_bytes(bytes) {
        element.name_bytes().hash(hasher);
        hash_view(element.view(), hasher);
    }
    hasher.write_u8(u8::MAX);
}

fn hash_array<H: Hasher>(bytes: &[u8], hasher: &mut H) {
    for element in elements_of_bytes(bytes) {
        hash_view(element.view(), hasher);
    }
    hasher.write_u8(u8::MAX);
}

/// Hashes the value, not its type: as int64 if it is one, else as a double if it is one exactly, else as a decimal
/// without trailing zeroes. A number of one kind never looks like one of another.
fn hash_number<H: Hasher>(number: Number, hasher: &mut H) {
    if let Some(integer) = number.to_i64_exact() {
        hasher.write_u8(0);
        return hasher.write_i64(integer);
    }
    if number.is_nan() {
        return hasher.write_u8(1);
    }
    let double = number.to_f64();
    match number {
        Number::Decimal128(decimal) if compare_double_with_decimal(double, Decimal::from_bson(decimal)).is_ne() => {
            hasher.write_u8(2);
            hash_decimal(Decimal::from_bson(decimal), hasher);
        }
        _ => {
            hasher.write_u8(3);
            hasher.write_u64(double.to_bits());
        }
    }
}

fn hash_decimal<H: Hasher>(decimal: Decimal, hasher: &mut H) {
    if let Decimal::Finite { negative, mut coefficient, mut exponent } = decimal {
        while coefficient != 0 && coefficient % 10 == 0 {
            coefficient /= 10;
            exponent += 1;
        }
        (negative, coefficient, exponent).hash(hasher);
    }
}
