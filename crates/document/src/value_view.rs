//! One BSON value, borrowed from stored bytes and cheap to copy: what comparison, hashing and key encoding work on.
//!
//! Text is bytes here (comparison is bytewise), documents and arrays are their whole stored bytes, so that a view
//! is made with a few loads and no checks. Callers: `compare`, `hash`, `index_key`.

use bson::spec::ElementType;
use bson::{RawBsonRef, RawDocumentBuf};

use crate::element::{elements, string_content};

/// A borrowed BSON value.
#[derive(Debug, Clone, Copy, PartialEq)]
#[allow(missing_docs)]
pub enum ValueView<'a> {
    MinKey,
    Undefined,
    Null,
    Int32(i32),
    Int64(i64),
    Double(f64),
    /// The 16 bytes as stored (little-endian, binary integer coefficient).
    Decimal128([u8; 16]),
    String(&'a [u8]),
    Symbol(&'a [u8]),
    /// The whole document as stored.
    Document(&'a [u8]),
    /// The whole array as stored.
    Array(&'a [u8]),
    /// Subtype 2 comes without its inner length.
    Binary {
        subtype: u8,
        bytes: &'a [u8],
    },
    ObjectId([u8; 12]),
    Boolean(bool),
    /// Milliseconds since 1970.
    DateTime(i64),
    /// Seconds in the upper half, increment in the lower.
    Timestamp(u64),
    RegularExpression {
        pattern: &'a [u8],
        options: &'a [u8],
    },
    DbPointer {
        namespace: &'a [u8],
        id: [u8; 12],
    },
    JavaScriptCode(&'a [u8]),
    JavaScriptCodeWithScope {
        code: &'a [u8],
        scope: &'a [u8],
    },
    MaxKey,
}

impl<'a> ValueView<'a> {
    /// The value of `element_type` stored in `stored`; undefined when the bytes are damaged.
    #[inline]
    pub fn from_stored(element_type: ElementType, stored: &'a [u8]) -> ValueView<'a> {
        Self::parse(element_type, stored).unwrap_or(ValueView::Undefined)
    }

    #[inline]
    fn parse(element_type: ElementType, stored: &'a [u8]) -> Option<ValueView<'a>> {
        Some(match element_type {
            ElementType::Int32 => ValueView::Int32(i32::from_le_bytes(*stored.first_chunk()?)),
            ElementType::Int64 => ValueView::Int64(i64::from_le_bytes(*stored.first_chunk()?)),
            ElementType::Double => ValueView::Double(f64::from_le_bytes(*stored.first_chunk()?)),
            ElementType::String => ValueView::String(string_content(stored)?),
            ElementType::ObjectId => ValueView::ObjectId(*stored.first_chunk()?),
            ElementType::Boolean => ValueView::Boolean(*stored.first()? != 0),
            ElementType::DateTime => ValueView::DateTime(i64::from_le_bytes(*stored.first_chunk()?)),
            ElementType::Null => ValueView::Null,
            ElementType::EmbeddedDocument => ValueView::Document(stored),
            ElementType::Array => ValueView::Array(stored),
            ElementType::Binary => parse_binary(stored)?,
            ElementType::Decimal128 => ValueView::Decimal128(*stored.first_chunk()?),
            ElementType::Timestamp => ValueView::Timestamp(u64::from_le_bytes(*stored.first_chunk()?)),
            ElementType::MinKey => ValueView::MinKey,
            ElementType::MaxKey => ValueView::MaxKey,
            ElementType::Undefined => ValueView::Undefined,
            ElementType::Symbol => ValueView::Symbol(string_content(stored)?),
            ElementType::JavaScriptCode => ValueView::JavaScriptCode(string_content(stored)?),
            ElementType::RegularExpression | ElementType::DbPointer | ElementType::JavaScriptCodeWithScope => {
                parse_rare(element_type, stored)?
            }
        })
    }

    /// The BSON type.
    #[inline]
    pub fn element_type(&self) -> ElementType {
        match self {
            ValueView::MinKey => ElementType::MinKey,
            ValueView::Undefined => ElementType::Undefined,
            ValueView::Null => ElementType::Null,
            ValueView::Int32(_) => ElementType::Int32,
            ValueView::Int64(_) => ElementType::Int64,
            ValueView::Double(_) => ElementType::Double,
            ValueView::Decimal128(_) => ElementType::Decimal128,
            ValueView::String(_) => ElementType::String,
            ValueView::Symbol(_) => ElementType::Symbol,
            ValueView::Document(_) => ElementType::EmbeddedDocument,
            ValueView::Array(_) => ElementType::Array,
            ValueView::Binary { .. } => ElementType::Binary,
            ValueView::ObjectId(_) => ElementType::ObjectId,
            ValueView::Boolean(_) => ElementType::Boolean,
            ValueView::DateTime(_) => ElementType::DateTime,
            ValueView::Timestamp(_) => ElementType::Timestamp,
            ValueView::RegularExpression { .. } => ElementType::RegularExpression,
            ValueView::DbPointer { .. } => ElementType::DbPointer,
            ValueView::JavaScriptCode(_) => ElementType::JavaScriptCode,
            ValueView::JavaScriptCodeWithScope { .. } => ElementType::JavaScriptCodeWithScope,
            ValueView::MaxKey => ElementType::MaxKey,
        }
    }
}

fn parse_binary(stored: &[u8]) -> Option<ValueView<'_>> {
    let subtype = *stored.get(4)?;
    let bytes = stored.get(if subtype == 2 { 9 } else { 5 }..)?;
    Some(ValueView::Binary { subtype, bytes })
}

fn parse_rare(element_type: ElementType, stored: &[u8]) -> Option<ValueView<'_>> {
    Some(match element_type {
        ElementType::RegularExpression => {
            let mut parts = stored.split(|byte| *byte == 0);
            ValueView::RegularExpression { pattern: parts.next()?, options: parts.next()? }
        }
        ElementType::DbPointer => {
            ValueView::DbPointer { namespace: string_content(stored)?, id: *stored.last_chunk()? }
        }
        _ => {
            let after_length = stored.get(4..)?;
            let code = string_content(after_length)?;
            ValueView::JavaScriptCodeWithScope { code, scope: after_length.get(code.len() + 5..)? }
        }
    })
}

/// Calls `use_view` with the view of `value`.
///
/// A callback because a DBPointer's content can only be had by copying it out of the `bson` crate's type.
#[inline]
pub fn with_view<R>(value: RawBsonRef<'_>, use_view: impl FnOnce(ValueView<'_>) -> R) -> R {
    let view = match value {
        RawBsonRef::MinKey => ValueView::MinKey,
        RawBsonRef::Undefined => ValueView::Undefined,
        RawBsonRef::Null => ValueView::Null,
        RawBsonRef::Int32(value) => ValueView::Int32(value),
        RawBsonRef::Int64(value) => ValueView::Int64(value),
        RawBsonRef::Double(value) => ValueView::Double(value),
        RawBsonRef::Decimal128(value) => ValueView::Decimal128(value.bytes()),
        RawBsonRef::String(text) => ValueView::String(text.as_bytes()),
        RawBsonRef::Symbol(text) => ValueView::Symbol(text.as_bytes()),
        RawBsonRef::Document(document) => ValueView::Document(document.as_bytes()),
        RawBsonRef::Array(array) => ValueView::Array(array.as_bytes()),
        RawBsonRef::Binary(binary) => ValueView::Binary { subtype: binary.subtype.into(), bytes: binary.bytes },
        RawBsonRef::ObjectId(id) => ValueView::ObjectId(id.bytes()),
        RawBsonRef::Boolean(value) => ValueView::Boolean(value),
        RawBsonRef::DateTime(date) => ValueView::DateTime(date.timestamp_millis()),
        RawBsonRef::Timestamp(timestamp) => {
            ValueView::Timestamp(u64::from(timestamp.time) << 32 | u64::from(timestamp.increment))
        }
        RawBsonRef::RegularExpression(regex) => ValueView::RegularExpression {
            pattern: regex.pattern.as_str().as_bytes(),
            options: regex.options.as_str().as_bytes(),
        },
        RawBsonRef::JavaScriptCode(code) => ValueView::JavaScriptCode(code.as_bytes()),
        RawBsonRef::JavaScriptCodeWithScope(code) => {
            ValueView::JavaScriptCodeWithScope { code: code.code.as_bytes(), scope: code.scope.as_bytes() }
        }
        RawBsonRef::MaxKey => ValueView::MaxKey,
        RawBsonRef::DbPointer(_) => {
            let mut holder = RawDocumentBuf::new();
            holder.append(bson::raw::cstr!(""), value);
            let view = elements(&holder).next().map_or(ValueView::Undefined, |element| element.view());
            return use_view(view);
        }
    };
    use_view(view)
}
