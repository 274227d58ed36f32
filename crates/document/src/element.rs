//! A thin iterator over the elements of a BSON document, and conversion of one element to a value.
//!
//! The `bson` crate's own raw iterator checks UTF-8 of every field name and builds large results; on the hot paths
//! (filters, key generation, comparison) that costs more than the work itself. This one yields the type, the name
//! and the bytes of the value, nothing else. It is bounds-checked and never panics.
//!
//! It relies on documents having passed `validate_document` when they came in: iteration of a damaged document
//! ends early, and a damaged value reads as undefined, instead of making every caller handle an error that cannot happen.

use bson::spec::ElementType;
use bson::{RawArray, RawBsonRef, RawDocument};

use crate::borrow_bson;
use crate::value_view::ValueView;

/// One element of a document or array: type, field name and the bytes of its value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Element<'a> {
    /// The BSON type of the value.
    pub element_type: ElementType,
    name: &'a [u8],
    value: &'a [u8],
}

impl<'a> Element<'a> {
    /// The field name as stored, without its terminator.
    #[inline]
    pub fn name_bytes(&self) -> &'a [u8] {
        self.name
    }

    /// The field name.
    #[inline]
    pub fn name(&self) -> &'a str {
        std::str::from_utf8(self.name).unwrap_or("\u{FFFD}")
    }

    /// The bytes of the value as stored, without type and name.
    #[inline]
    pub fn value_bytes(&self) -> &'a [u8] {
        self.value
    }

    /// The value in the `bson` crate's borrowed form.
    #[inline]
    pub fn value(&self) -> RawBsonRef<'a> {
        borrow_bson::raw_bson_ref(self.element_type, self.value)
    }

    /// The value in this crate's borrowed form, which is cheaper: no UTF-8 check, no conversion.
    #[inline]
    pub fn view(&self) -> ValueView<'a> {
        ValueView::from_stored(self.element_type, self.value)
    }

    /// True for a null value.
    #[inline]
    pub fn is_null(&self) -> bool {
        self.element_type == ElementType::Null
    }
}

/// Iterates the elements of a document or array.
#[derive(Debug, Clone)]
pub struct Elements<'a> {
    rest: &'a [u8],
    malformed: bool,
}

/// The elements of `document`, in order.
#[inline]
pub fn elements(document: &RawDocument) -> Elements<'_> {
    elements_of_bytes(document.as_bytes())
}

/// The elements of `array`, in order; their names are positions by convention but are not checked.
#[inline]
pub fn array_elements(array: &RawArray) -> Elements<'_> {
    elements_of_bytes(array.as_bytes())
}

/// The elements of a stored document or array given as bytes (length, elements, terminator).
#[inline]
pub fn elements_of_bytes(bytes: &[u8]) -> Elements<'_> {
    match bytes.get(4..) {
        Some(rest) => Elements { rest, malformed: false },
        None => Elements { rest: &[], malformed: true },
    }
}

impl<'a> Elements<'a> {
    /// The next element named `name`; elements before it are passed over.
    #[inline]
    pub fn find_named(&mut self, name: &[u8]) -> Option<Element<'a>> {
        while let Some((&tag, after_tag)) = self.rest.split_first() {
            match split_tagged(tag, after_tag) {
                Some((element, rest)) => {
                    self.rest = rest;
                    if same_name(element.name, name) {
                        return Some(element);
                    }
                }
                None => {
                    // The terminator, or damage; `next` tells which.
                    self.next();
                }
            }
        }
        None
    }

    /// True when iteration ended because of damaged bytes rather than at the document's terminator.
    pub fn is_malformed(&self) -> bool {
        self.malformed
    }

    /// The bytes not yet iterated, terminator included.
    #[inline]
    pub fn remaining(&self) -> usize {
        self.rest.len()
    }

    #[cold]
    fn fail(&mut self) {
        self.malformed = true;
        self.rest = &[];
    }
}

impl<'a> Iterator for Elements<'a> {
    type Item = Element<'a>;

    #[inline]
    fn next(&mut self) -> Option<Element<'a>> {
        let (&tag, after_tag) = self.rest.split_first()?;
        if tag == 0 {
            self.rest = &[];
            return None;
        }
        match split_tagged(tag, after_tag) {
            Some((element, rest)) => {
                self.rest = rest;
                Some(element)
            }
            None => {
                self.fail();
                None
            }
        }
    }
}

/// The element that `bytes` starts with, and what follows it; `None` at a document's terminator and for damaged bytes.
#[inline]
pub fn split_element(bytes: &[u8]) -> Option<(Element<'_>, &[u8])> {
    let (&tag, after_tag) = bytes.split_first()?;
    split_tagged(tag, after_tag)
}

/// The element whose type byte is `tag`, and what follows it.
#[inline]
fn split_tagged(tag: u8, after_tag: &[u8]) -> Option<(Element<'_>, &[u8])> {
    let element_type = ElementType::from(tag)?;
    let name_length = find_nul(after_tag)?;
    let (name, with_nul) = after_tag.split_at_checked(name_length)?;
    let stored = with_nul.get(1..)?;
    let (value, rest) = stored.split_at_checked(stored_length(element_type, stored)?)?;
    Some((Element { element_type, name, value }, rest))
}

/// Marks types whose values have no fixed length.
const VARIABLE: u8 = u8::MAX;

/// The length of values by type byte, from 0 to 0x13: a table because it is on the path of every element.
const FIXED_LENGTHS: [u8; 20] = {
    let mut lengths = [VARIABLE; 20];
    lengths[ElementType::Double as usize] = 8;
    lengths[ElementType::Undefined as usize] = 0;
    lengths[ElementType::ObjectId as usize] = 12;
    lengths[ElementType::Boolean as usize] = 1;
    lengths[ElementType::DateTime as usize] = 8;
    lengths[ElementType::Null as usize] = 0;
    lengths[ElementType::Int32 as usize] = 4;
    lengths[ElementType::Timestamp as usize] = 8;
    lengths[ElementType::Int64 as usize] = 8;
    lengths[ElementType::Decimal128 as usize] = 16;
    lengths
};

/// The value of `element_type` stored in `stored`, in the `bson` crate's borrowed form; undefined when the bytes are damaged.
#[inline]
pub fn stored_value(element_type: ElementType, stored: &[u8]) -> RawBsonRef<'_> {
    borrow_bson::raw_bson_ref(element_type, stored)
}

/// The length in bytes of a stored value of `element_type` that starts at the beginning of `stored`.
#[inline]
pub fn stored_length(element_type: ElementType, stored: &[u8]) -> Option<usize> {
    match FIXED_LENGTHS.get(element_type as usize) {
        Some(&fixed) if fixed != VARIABLE => Some(usize::from(fixed)),
        _ => variable_length(element_type, stored),
    }
}

/// The length in bytes of a stored value of variable length that starts at the beginning of `stored`.
#[inline]
fn variable_length(element_type: ElementType, stored: &[u8]) -> Option<usize> {
    Some(match element_type {
        ElementType::String | ElementType::JavaScriptCode | ElementType::Symbol => {
            read_length(stored)?.checked_add(4)?
        }
        ElementType::EmbeddedDocument | ElementType::Array | ElementType::JavaScriptCodeWithScope => {
            read_length(stored)?
        }
        ElementType::Binary => read_length(stored)?.checked_add(5)?,
        ElementType::DbPointer => read_length(stored)?.checked_add(16)?,
        ElementType::RegularExpression => {
            let pattern = find_nul(stored)?;
            let options = find_nul(stored.get(pattern + 1..)?)?;
            pattern + options + 2
        }
        // MinKey and MaxKey, whose type bytes are beyond the table.
        _ => 0,
    })
}

/// Equality of field names, deciding the usual differences without a call: length, then the outer bytes.
#[inline]
pub fn same_name(left: &[u8], right: &[u8]) -> bool {
    left.len() == right.len() && left.last() == right.last() && left.first() == right.first() && left == right
}

/// The top bit of the lowest zero byte of `word`, and possibly bits above it; zero when there is no zero byte.
#[inline]
pub(crate) fn zero_bytes(word: u64) -> u64 {
    const LOW: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x8080_8080_8080_8080;
    word.wrapping_sub(LOW) & !word & HIGH
}

/// The position of the first zero byte.
#[inline]
pub(crate) fn find_nul(bytes: &[u8]) -> Option<usize> {
    let mut position = 0;
    while let Some(chunk) = bytes[position..].first_chunk::<8>() {
        let zeroes = zero_bytes(u64::from_le_bytes(*chunk));
        if zeroes != 0 {
            return Some(position + (zeroes.trailing_zeros() / 8) as usize);
        }
        position += 8;
    }
    bytes[position..].iter().position(|byte| *byte == 0).map(|offset| position + offset)
}

/// A stored non-negative 32-bit length.
#[inline]
pub(crate) fn read_length(stored: &[u8]) -> Option<usize> {
    usize::try_from(i32::from_le_bytes(*stored.first_chunk::<4>()?)).ok()
}

/// The content of a stored string: without length and terminator.
#[inline]
pub(crate) fn string_content(stored: &[u8]) -> Option<&[u8]> {
    let end = read_length(stored)?.checked_add(3)?;
    stored.get(4..end)
}

/// Borrows `bytes` (a stored array: length, elements, terminator) as an array.
///
/// Returns `None` when length or terminator are wrong.
pub fn raw_array(bytes: &[u8]) -> Option<&RawArray> {
    borrow_bson::raw_array(bytes)
}
