//! Borrows stored bytes as the `bson` crate's reference types; called by `Element::value` and `raw_array`.
//!
//! The `bson` crate exposes no constructor for a borrowed `RawArray` or `RawDbPointerRef`. Its serde
//! implementations do borrow them from bytes (an array from borrowed bytes, a pointer from the extended JSON map),
//! so these two go through serde's value deserializers; everything else is built directly.

use bson::oid::ObjectId;
use bson::raw::{CStr, RawJavaScriptCodeWithScopeRef, RawRegexRef};
use bson::spec::ElementType;
use bson::{DateTime, Decimal128, RawArray, RawBinaryRef, RawBsonRef, RawDocument, Timestamp};
use serde::Deserialize;
use serde::de::value::{BorrowedBytesDeserializer, Error as ValueError, MapDeserializer};
use serde::de::{Deserializer, IntoDeserializer, Visitor};

use crate::element::string_content;
use crate::value_view::ValueView;

/// The value stored in `bytes`; undefined when they are damaged.
#[inline]
pub(crate) fn raw_bson_ref(element_type: ElementType, bytes: &[u8]) -> RawBsonRef<'_> {
    let frequent = match element_type {
        ElementType::Int32 => bytes.first_chunk().map(|bytes| RawBsonRef::Int32(i32::from_le_bytes(*bytes))),
        ElementType::Int64 => bytes.first_chunk().map(|bytes| RawBsonRef::Int64(i64::from_le_bytes(*bytes))),
        ElementType::Double => bytes.first_chunk().map(|bytes| RawBsonRef::Double(f64::from_le_bytes(*bytes))),
        ElementType::String => string_content(bytes).and_then(text).map(RawBsonRef::String),
        ElementType::EmbeddedDocument => RawDocument::from_bytes(bytes).ok().map(RawBsonRef::Document),
        ElementType::Null => Some(RawBsonRef::Null),
        _ => from_view(ValueView::from_stored(element_type, bytes)),
    };
    frequent.unwrap_or(RawBsonRef::Undefined)
}

/// `bytes` as text.
#[inline]
fn text(bytes: &[u8]) -> Option<&str> {
    std::str::from_utf8(bytes).ok()
}

/// The `bson` crate's form of `view`; `None` when its content is damaged.
pub(crate) fn from_view(view: ValueView<'_>) -> Option<RawBsonRef<'_>> {
    Some(match view {
        ValueView::MinKey => RawBsonRef::MinKey,
        ValueView::Undefined => RawBsonRef::Undefined,
        ValueView::Null => RawBsonRef::Null,
        ValueView::Int32(value) => RawBsonRef::Int32(value),
        ValueView::Int64(value) => RawBsonRef::Int64(value),
        ValueView::Double(value) => RawBsonRef::Double(value),
        ValueView::Decimal128(value) => RawBsonRef::Decimal128(Decimal128::from_bytes(value)),
        ValueView::String(content) => RawBsonRef::String(text(content)?),
        ValueView::Symbol(content) => RawBsonRef::Symbol(text(content)?),
        ValueView::Document(bytes) => RawBsonRef::Document(RawDocument::from_bytes(bytes).ok()?),
        ValueView::Array(bytes) => RawBsonRef::Array(raw_array(bytes)?),
        ValueView::Binary { subtype, bytes } => RawBsonRef::Binary(RawBinaryRef { subtype: subtype.into(), bytes }),
        ValueView::ObjectId(bytes) => RawBsonRef::ObjectId(ObjectId::from_bytes(bytes)),
        ValueView::Boolean(value) => RawBsonRef::Boolean(value),
        ValueView::DateTime(milliseconds) => RawBsonRef::DateTime(DateTime::from_millis(milliseconds)),
        ValueView::Timestamp(value) => {
            RawBsonRef::Timestamp(Timestamp { time: (value >> 32) as u32, increment: value as u32 })
        }
        ValueView::RegularExpression { pattern, options } => {
            RawBsonRef::RegularExpression(RawRegexRef { pattern: c_str(pattern)?, options: c_str(options)? })
        }
        ValueView::DbPointer { namespace, id } => db_pointer(text(namespace)?, id)?,
        ValueView::JavaScriptCode(code) => RawBsonRef::JavaScriptCode(text(code)?),
        ValueView::JavaScriptCodeWithScope { code, scope } => {
            RawBsonRef::JavaScriptCodeWithScope(RawJavaScriptCodeWithScopeRef {
                code: text(code)?,
                scope: RawDocument::from_bytes(scope).ok()?,
            })
        }
        ValueView::MaxKey => RawBsonRef::MaxKey,
    })
}

/// Borrows a stored array; `None` when its length or terminator is wrong.
#[inline]
pub(crate) fn raw_array(bytes: &[u8]) -> Option<&RawArray> {
    <&RawArray>::deserialize(BorrowedBytesDeserializer::<ValueError>::new(bytes)).ok()
}

fn c_str(bytes: &[u8]) -> Option<&CStr> {
    text(bytes)?.try_into().ok()
}

/// A borrowed DBPointer, from its extended JSON form `{$dbPointer: {$ref: namespace, $id: id}}`.
fn db_pointer(namespace: &str, id: [u8; 12]) -> Option<RawBsonRef<'_>> {
    let body = PointerPart::Body { namespace, id };
    let whole = MapDeserializer::<_, ValueError>::new(std::iter::once((PointerPart::Text("$dbPointer"), body)));
    RawBsonRef::deserialize(whole).ok()
}

/// The values met while deserializing a DBPointer.
enum PointerPart<'a> {
    Body {
        namespace: &'a str,
        id: [u8; 12],
    },
    /// A name in the map, or the namespace.
    Text(&'a str),
    Id([u8; 12]),
}

impl<'de> IntoDeserializer<'de, ValueError> for PointerPart<'de> {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

impl<'de> Deserializer<'de> for PointerPart<'de> {
    type Error = ValueError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ValueError> {
        match self {
            PointerPart::Body { namespace, id } => {
                let parts = [
                    (PointerPart::Text("$ref"), PointerPart::Text(namespace)),
                    (PointerPart::Text("$id"), PointerPart::Id(id)),
                ];
                visitor.visit_map(MapDeserializer::new(parts.into_iter()))
            }
            PointerPart::Text(text) => visitor.visit_borrowed_str(text),
            PointerPart::Id(id) => visitor.visit_bytes(&id),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, ValueError> {
        visitor.visit_newtype_struct(self)
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        seq tuple tuple_struct map struct enum identifier ignored_any
    }

    fn is_human_readable(&self) -> bool {
        false
    }
}
