//! A constant of a filter, kept as stored bytes so that comparing with a stored value needs no conversion.

use bson::spec::ElementType;
use bson::{RawBsonRef, RawDocumentBuf};
use document::{ValueView, elements};

/// An owned BSON value.
#[derive(Debug, Clone)]
pub struct Literal {
    element_type: ElementType,
    /// A document whose one element has an empty name, so that its value starts at `VALUE_OFFSET`.
    holder: RawDocumentBuf,
}

/// Length (4), type (1), empty name (1).
const VALUE_OFFSET: usize = 6;

impl Literal {
    /// Copies a value.
    pub fn new(value: RawBsonRef<'_>) -> Self {
        let mut holder = RawDocumentBuf::new();
        holder.append(bson::raw::cstr!(""), value);
        Self { element_type: value.element_type(), holder }
    }

    /// The BSON type.
    pub fn element_type(&self) -> ElementType {
        self.element_type
    }

    /// The value.
    pub fn value(&self) -> RawBsonRef<'_> {
        elements(&self.holder).next().map_or(RawBsonRef::Undefined, |element| element.value())
    }

    /// The value in the `document` crate's form, which is what matching uses.
    #[inline]
    pub fn view(&self) -> ValueView<'_> {
        let bytes = self.holder.as_bytes();
        let stored = bytes.get(VALUE_OFFSET..bytes.len() - 1).unwrap_or_default();
        ValueView::from_stored(self.element_type, stored)
    }
}
