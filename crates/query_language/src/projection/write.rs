//! Writing stored BSON into a buffer: elements copied as they are, documents begun and ended in place.

use bson::spec::{BinarySubtype, ElementType};
use bson::{RawBsonRef, RawDocumentBuf};
use document::Element;

use crate::error::Result;
use crate::growth::make_room;

/// Begins a document or array; `end` needs what this returns.
pub(crate) fn begin(out: &mut Vec<u8>) -> usize {
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    start
}

/// Ends the document or array begun at `start`.
pub(crate) fn end(out: &mut Vec<u8>, start: usize) {
    out.push(0);
    let length = i32::try_from(out.len() - start).unwrap_or(i32::MAX);
    if let Some(place) = out.get_mut(start..start + 4) {
        place.copy_from_slice(&length.to_le_bytes());
    }
}

/// The type and name of an element whose value follows.
pub(crate) fn header(out: &mut Vec<u8>, element_type: ElementType, name: &[u8]) {
    out.push(element_type as u8);
    out.extend_from_slice(name);
    out.push(0);
}

/// An element as it is.
#[inline]
pub(crate) fn copy(out: &mut Vec<u8>, element: &Element<'_>) -> Result<()> {
    copy_as(out, element, element.name_bytes())
}

/// An element's value under another name.
#[inline]
pub(crate) fn copy_as(out: &mut Vec<u8>, element: &Element<'_>, name: &[u8]) -> Result<()> {
    make_room(out, 2 + name.len() + element.value_bytes().len())?;
    header(out, element.element_type, name);
    out.extend_from_slice(element.value_bytes());
    Ok(())
}

/// An array of these elements' values.
pub(crate) fn array<'a>(out: &mut Vec<u8>, name: &[u8], elements: impl Iterator<Item = Element<'a>>) -> Result<()> {
    header(out, ElementType::Array, name);
    let start = begin(out);
    for (position, element) in elements.enumerate() {
        copy_as(out, &element, Position::new(position).as_bytes())?;
    }
    end(out, start);
    Ok(())
}

/// A value under a name.
pub fn value(out: &mut Vec<u8>, name: &[u8], value: RawBsonRef<'_>) -> Result<()> {
    make_room(out, 2 + name.len() + value_bytes(value))?;
    header(out, value.element_type(), name);
    match value {
        RawBsonRef::Int32(number) => out.extend_from_slice(&number.to_le_bytes()),
        RawBsonRef::Int64(number) => out.extend_from_slice(&number.to_le_bytes()),
        RawBsonRef::Double(number) => out.extend_from_slice(&number.to_le_bytes()),
        RawBsonRef::Boolean(truth) => out.push(u8::from(truth)),
        RawBsonRef::Null | RawBsonRef::Undefined | RawBsonRef::MinKey | RawBsonRef::MaxKey => {}
        RawBsonRef::ObjectId(id) => out.extend_from_slice(&id.bytes()),
        RawBsonRef::DateTime(date) => out.extend_from_slice(&date.timestamp_millis().to_le_bytes()),
        RawBsonRef::Document(document) => out.extend_from_slice(document.as_bytes()),
        RawBsonRef::Array(array) => out.extend_from_slice(array.as_bytes()),
        RawBsonRef::String(text) => string(out, text),
        RawBsonRef::Binary(binary) if binary.subtype != BinarySubtype::BinaryOld => {
            out.extend_from_slice(&(binary.bytes.len() as u32).to_le_bytes());
            out.push(binary.subtype.into());
            out.extend_from_slice(binary.bytes);
        }
        other => {
            // Length, type and an empty name come before the value, a terminator after it.
            let mut holder = RawDocumentBuf::new();
            holder.append(bson::raw::cstr!(""), other);
            let bytes = holder.as_bytes();
            out.extend_from_slice(bytes.get(6..bytes.len() - 1).unwrap_or_default());
        }
    }
    Ok(())
}

fn string(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(&(text.len() as u32 + 1).to_le_bytes());
    out.extend_from_slice(text.as_bytes());
    out.push(0);
}

/// Bytes that a value has as it is stored, or a little more.
#[inline]
pub fn value_bytes(value: RawBsonRef<'_>) -> usize {
    match value {
        RawBsonRef::Document(document) => document.as_bytes().len(),
        RawBsonRef::Array(array) => array.as_bytes().len(),
        RawBsonRef::String(text) | RawBsonRef::Symbol(text) | RawBsonRef::JavaScriptCode(text) => text.len() + 5,
        RawBsonRef::Binary(binary) => binary.bytes.len() + 9,
        RawBsonRef::JavaScriptCodeWithScope(code) => code.code.len() + code.scope.as_bytes().len() + 9,
        RawBsonRef::RegularExpression(regex) => regex.pattern.as_str().len() + regex.options.as_str().len() + 2,
        RawBsonRef::DbPointer(_) => 64,
        _ => 16,
    }
}

/// The name of an array position.
pub(crate) struct Position {
    digits: [u8; 20],
    start: usize,
}

impl Position {
    pub(crate) fn new(mut number: usize) -> Self {
        let (mut digits, mut start) = ([b'0'; 20], 20);
        loop {
            start -= 1;
            if let Some(place) = digits.get_mut(start) {
                *place = b'0' + (number % 10) as u8;
            }
            number /= 10;
            if number == 0 {
                return Self { digits, start };
            }
        }
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        self.digits.get(self.start..).unwrap_or_default()
    }
}
