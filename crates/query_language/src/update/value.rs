//! Values on their way into a document: what an operator decides a field becomes, and operands kept from the update.
//!
//! Operators return a `Change`; `apply` compares it with what is there, so that writing an identical value is no change.

use bson::spec::ElementType;
use bson::{DateTime, Decimal128, Timestamp};
use document::ValueView;

use super::element::{Element, elements_of_bytes, malformed};
use super::writer;
use crate::error::Result;

/// What an operator makes of a field.
#[derive(Debug)]
pub(super) enum Change<'a> {
    /// The field stays as it is, or stays absent.
    Keep,
    /// The field goes; an array item becomes null.
    Remove,
    /// The field gets this value.
    Write(NewValue<'a>),
}

/// An encoded value to be written.
#[derive(Debug)]
pub(super) enum NewValue<'a> {
    /// Bytes of the update or of the document.
    Borrowed(ElementType, &'a [u8]),
    /// A value of at most 16 bytes, and its length.
    Inline(ElementType, [u8; 16], u8),
    /// Bytes built by the operator.
    Owned(ElementType, Vec<u8>),
}

impl<'a> NewValue<'a> {
    pub(super) const NULL: NewValue<'static> = NewValue::Inline(ElementType::Null, [0; 16], 0);

    pub(super) fn int32(value: i32) -> Self {
        Self::inline(ElementType::Int32, &value.to_le_bytes())
    }

    pub(super) fn int64(value: i64) -> Self {
        Self::inline(ElementType::Int64, &value.to_le_bytes())
    }

    pub(super) fn double(value: f64) -> Self {
        Self::inline(ElementType::Double, &value.to_le_bytes())
    }

    pub(super) fn decimal(value: Decimal128) -> Self {
        Self::inline(ElementType::Decimal128, &value.bytes())
    }

    pub(super) fn date(value: DateTime) -> Self {
        Self::inline(ElementType::DateTime, &value.timestamp_millis().to_le_bytes())
    }

    pub(super) fn timestamp(value: Timestamp) -> Self {
        let bits = (u64::from(value.time) << 32) | u64::from(value.increment);
        Self::inline(ElementType::Timestamp, &bits.to_le_bytes())
    }

    /// An array whose bytes are complete.
    pub(super) fn array(bytes: Vec<u8>) -> Self {
        Self::Owned(ElementType::Array, bytes)
    }

    fn inline(kind: ElementType, bytes: &[u8]) -> Self {
        let mut buffer = [0; 16];
        let length = bytes.len().min(buffer.len());
        buffer[..length].copy_from_slice(&bytes[..length]);
        Self::Inline(kind, buffer, length as u8)
    }

    pub(super) fn kind(&self) -> ElementType {
        match self {
            Self::Borrowed(kind, _) | Self::Inline(kind, ..) | Self::Owned(kind, _) => *kind,
        }
    }

    pub(super) fn view(&self) -> ValueView<'_> {
        ValueView::from_stored(self.kind(), self.bytes())
    }

    pub(super) fn bytes(&self) -> &[u8] {
        match self {
            Self::Borrowed(_, bytes) => bytes,
            Self::Inline(_, bytes, length) => bytes.get(..usize::from(*length)).unwrap_or_default(),
            Self::Owned(_, bytes) => bytes,
        }
    }
}

impl<'a> From<Element<'a>> for NewValue<'a> {
    fn from(element: Element<'a>) -> Self {
        Self::Borrowed(element.element_type, element.value_bytes())
    }
}

/// An operand of an operator, kept for as long as the update.
#[derive(Debug, Clone)]
pub(super) struct Operand {
    /// A document of this one field, named as in the update.
    holder: Vec<u8>,
}

impl Operand {
    /// Keeps a copy of `field`.
    pub(super) fn new(field: &Element<'_>) -> Self {
        let mut holder = Vec::with_capacity(field.name_bytes().len() + field.value_bytes().len() + 7);
        let mark = writer::begin(&mut holder);
        writer::element(&mut holder, field.element_type, field.name_bytes(), field.value_bytes());
        writer::end(&mut holder, mark);
        Self { holder }
    }

    /// The field as it is encoded.
    pub(super) fn element(&self) -> Result<Element<'_>> {
        elements_of_bytes(&self.holder).next().ok_or_else(|| malformed("an operand without a value"))
    }
}
