//! MongoDB's order of BSON values.
//!
//! Values order first by type bracket ([`CanonicalType`]), then by value; all numbers share a bracket and compare
//! exactly, strings and symbols share one. Documents compare element by element in stored order: type bracket, then
//! field name, then value; a document that ends first is less. Arrays likewise, without names.
//! Text is compared by the collation in force (`collation`).
//! Callers: filters, sorts, updates, accumulators, and the property tests of `index_key`.

use std::cmp::Ordering;

use bson::spec::ElementType;
use bson::{RawBsonRef, RawDocument};

use crate::collation::compare_text;
use crate::element::{Elements, elements_of_bytes};
use crate::number::Number;
use crate::value_view::{ValueView, with_view};
use crate::work;

/// The type brackets in their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
#[allow(missing_docs)]
pub enum CanonicalType {
    MinKey,
    /// Also what an empty array indexes as.
    Undefined,
    Null,
    /// int32, int64, double and decimal128.
    Number,
    /// Strings and symbols.
    String,
    Object,
    Array,
    Binary,
    ObjectId,
    Boolean,
    Date,
    Timestamp,
    RegularExpression,
    DbPointer,
    JavaScriptCode,
    JavaScriptCodeWithScope,
    MaxKey,
}

/// The type bracket of `value`.
#[inline]
pub fn canonical_type(value: RawBsonRef<'_>) -> CanonicalType {
    canonical_type_of(value.element_type())
}

/// The type bracket of values of `element_type`.
#[inline]
pub fn canonical_type_of(element_type: ElementType) -> CanonicalType {
    match element_type {
        ElementType::MinKey => CanonicalType::MinKey,
        ElementType::Undefined => CanonicalType::Undefined,
        ElementType::Null => CanonicalType::Null,
        ElementType::Int32 | ElementType::Int64 | ElementType::Double | ElementType::Decimal128 => {
            CanonicalType::Number
        }
        ElementType::String | ElementType::Symbol => CanonicalType::String,
        ElementType::EmbeddedDocument => CanonicalType::Object,
        ElementType::Array => CanonicalType::Array,
        ElementType::Binary => CanonicalType::Binary,
        ElementType::ObjectId => CanonicalType::ObjectId,
        ElementType::Boolean => CanonicalType::Boolean,
        ElementType::DateTime => CanonicalType::Date,
        ElementType::Timestamp => CanonicalType::Timestamp,
        ElementType::RegularExpression => CanonicalType::RegularExpression,
        ElementType::DbPointer => CanonicalType::DbPointer,
        ElementType::JavaScriptCode => CanonicalType::JavaScriptCode,
        ElementType::JavaScriptCodeWithScope => CanonicalType::JavaScriptCodeWithScope,
        ElementType::MaxKey => CanonicalType::MaxKey,
    }
}

/// MongoDB's name of a type, as in `$type` and in messages.
pub fn type_name(element_type: ElementType) -> &'static str {
    match element_type {
        ElementType::Double => "double",
        ElementType::String => "string",
        ElementType::EmbeddedDocument => "object",
        ElementType::Array => "array",
        ElementType::Binary => "binData",
        ElementType::Undefined => "undefined",
        ElementType::ObjectId => "objectId",
        ElementType::Boolean => "bool",
        ElementType::DateTime => "date",
        ElementType::Null => "null",
        ElementType::RegularExpression => "regex",
        ElementType::DbPointer => "dbPointer",
        ElementType::JavaScriptCode => "javascript",
        ElementType::Symbol => "symbol",
        ElementType::JavaScriptCodeWithScope => "javascriptWithScope",
        ElementType::Int32 => "int",
        ElementType::Timestamp => "timestamp",
        ElementType::Int64 => "long",
        ElementType::Decimal128 => "decimal",
        ElementType::MaxKey => "maxKey",
        ElementType::MinKey => "minKey",
    }
}

/// Compares two values in MongoDB's order.
#[inline]
pub fn compare_values(left: RawBsonRef<'_>, right: RawBsonRef<'_>) -> Ordering {
    match (left, right) {
        (RawBsonRef::Int32(left), RawBsonRef::Int32(right)) => left.cmp(&right),
        (RawBsonRef::String(left), RawBsonRef::String(right)) => compare_text(left.as_bytes(), right.as_bytes()),
        _ => match (Number::from_bson(left), Number::from_bson(right)) {
            (Some(left), Some(right)) => left.compare(right),
            _ => with_view(left, |left| with_view(right, |right| compare_views(left, right))),
        },
    }
}

/// True when two values are equal in MongoDB's order (1 equals 1.0).
#[inline]
pub fn values_equal(left: RawBsonRef<'_>, right: RawBsonRef<'_>) -> bool {
    compare_values(left, right).is_eq()
}

/// Compares two documents in MongoDB's order.
pub fn compare_documents(left: &RawDocument, right: &RawDocument) -> Ordering {
    compare_stored_documents(left.as_bytes(), right.as_bytes())
}

/// Compares two values in MongoDB's order.
#[inline]
pub fn compare_views(left: ValueView<'_>, right: ValueView<'_>) -> Ordering {
    if let (Some(left), Some(right)) = (Number::from_view(left), Number::from_view(right)) {
        return left.compare(right);
    }
    canonical_type_of(left.element_type())
        .cmp(&canonical_type_of(right.element_type()))
        .then_with(|| compare_same_type(left, right))
}

/// Compares two values of one bracket other than numbers.
fn compare_same_type(left: ValueView<'_>, right: ValueView<'_>) -> Ordering {
    use ValueView as V;
    match (left, right) {
        (V::String(left) | V::Symbol(left), V::String(right) | V::Symbol(right)) => compare_text(left, right),
        (V::Document(left), V::Document(right)) => compare_stored_documents(left, right),
        (V::Array(left), V::Array(right)) => compare_elements(left, right, Names::Ignored),
        (V::Binary { subtype: left_type, bytes: left }, V::Binary { subtype: right_type, bytes: right }) => {
            let by_length = stored_binary_length(left_type, left).cmp(&stored_binary_length(right_type, right));
            by_length.then(left_type.cmp(&right_type)).then_with(|| left.cmp(right))
        }
        (V::ObjectId(left), V::ObjectId(right)) => left.cmp(&right),
        (V::Boolean(left), V::Boolean(right)) => left.cmp(&right),
        (V::DateTime(left), V::DateTime(right)) => left.cmp(&right),
        (V::Timestamp(left), V::Timestamp(right)) => left.cmp(&right),
        (
            V::RegularExpression { pattern: left, options: left_options },
            V::RegularExpression { pattern: right, options: right_options },
        ) => left.cmp(right).then_with(|| left_options.cmp(right_options)),
        (V::DbPointer { namespace: left, id: left_id }, V::DbPointer { namespace: right, id: right_id }) => {
            left.len().cmp(&right.len()).then_with(|| left.cmp(right)).then_with(|| left_id.cmp(&right_id))
        }
        (V::JavaScriptCode(left), V::JavaScriptCode(right)) => left.cmp(right),
        (
            V::JavaScriptCodeWithScope { code: left, scope: left_scope },
            V::JavaScriptCodeWithScope { code: right, scope: right_scope },
        ) => left.cmp(right).then_with(|| compare_stored_documents(left_scope, right_scope)),
        _ => Ordering::Equal,
    }
}

/// The length that binary values order by: as stored, where subtype 2 repeats its length inside.
#[inline]
pub fn stored_binary_length(subtype: u8, bytes: &[u8]) -> usize {
    bytes.len() + if subtype == 2 { 4 } else { 0 }
}

/// Compares two stored documents (whole bytes) in MongoDB's order.
pub fn compare_stored_documents(left: &[u8], right: &[u8]) -> Ordering {
    compare_elements(left, right, Names::Compared)
}

#[derive(Clone, Copy, PartialEq)]
enum Names {
    Compared,
    Ignored,
}

fn compare_elements(left: &[u8], right: &[u8], names: Names) -> Ordering {
    if left == right {
        // The common case of an unchanged value. Safe: the order is total, NaN equals itself.
        return Ordering::Equal;
    }
    let mut left: Elements<'_> = elements_of_bytes(left);
    let mut right: Elements<'_> = elements_of_bytes(right);
    loop {
        work::count(1);
        let (left, right) = match (left.next(), right.next()) {
            (None, None) => return Ordering::Equal,
            (None, Some(_)) => return Ordering::Less,
            (Some(_), None) => return Ordering::Greater,
            (Some(left), Some(right)) => (left, right),
        };
        let by_type = canonical_type_of(left.element_type).cmp(&canonical_type_of(right.element_type));
        let by_name = || match names {
            Names::Compared => left.name_bytes().cmp(right.name_bytes()),
            Names::Ignored => Ordering::Equal,
        };
        let order = by_type.then_with(by_name).then_with(|| compare_views(left.view(), right.view()));
        if order.is_ne() {
            return order;
        }
    }
}
