//! Writing BSON element by element into one growing buffer.
//!
//! Used by `apply`, by the array operators and by `diff`. Nested documents are written in place; their length is filled
//! in when they end.

use bson::spec::ElementType;

use super::element::{Element, elements_of_bytes, malformed};
use crate::error::Result;

/// Begins a document or an array; returns the mark to end it with.
pub(super) fn begin(out: &mut Vec<u8>) -> usize {
    let mark = out.len();
    out.extend_from_slice(&[0; 4]);
    mark
}

/// Ends the document begun at `mark`.
pub(super) fn end(out: &mut Vec<u8>, mark: usize) {
    out.push(0);
    // A length beyond i32 is far above the size limit, which is checked before the document is handed out.
    let length = i32::try_from(out.len() - mark).unwrap_or(i32::MAX);
    if let Some(prefix) = out.get_mut(mark..mark + 4) {
        prefix.copy_from_slice(&length.to_le_bytes());
    }
}

/// The type and name that precede a value.
pub(super) fn header(out: &mut Vec<u8>, kind: ElementType, name: &[u8]) {
    out.push(kind as u8);
    out.extend_from_slice(name);
    out.push(0);
}

/// A whole element.
pub(super) fn element(out: &mut Vec<u8>, kind: ElementType, name: &[u8], value: &[u8]) {
    header(out, kind, name);
    out.extend_from_slice(value);
}

/// The decimal name of an array position, without allocating.
pub(super) struct PositionName {
    digits: [u8; 20],
    start: usize,
}

impl PositionName {
    pub(super) fn new(position: usize) -> Self {
        let mut digits = [0; 20];
        let mut start = digits.len();
        let mut rest = position;
        loop {
            start -= 1;
            digits[start] = b'0' + (rest % 10) as u8;
            rest /= 10;
            if rest == 0 {
                return Self { digits, start };
            }
        }
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.digits[self.start..]
    }

    pub(super) fn as_str(&self) -> &str {
        std::str::from_utf8(self.as_bytes()).unwrap_or_default()
    }
}

/// Builds an array item by item.
pub(super) struct ArrayWriter {
    bytes: Vec<u8>,
    length: usize,
}

impl ArrayWriter {
    pub(super) fn with_capacity(capacity_bytes: usize) -> Self {
        let mut bytes = Vec::with_capacity(capacity_bytes + 5);
        begin(&mut bytes);
        Self { bytes, length: 0 }
    }

    pub(super) fn push(&mut self, kind: ElementType, value: &[u8]) {
        element(&mut self.bytes, kind, PositionName::new(self.length).as_bytes(), value);
        self.length += 1;
    }

    pub(super) fn push_element(&mut self, item: &Element<'_>) {
        self.push(item.element_type, item.value_bytes());
    }

    /// The complete array.
    pub(super) fn finish(mut self) -> Vec<u8> {
        end(&mut self.bytes, 0);
        self.bytes
    }
}

/// An array of these items.
pub(super) fn array_of(items: &[Element<'_>]) -> Vec<u8> {
    let capacity = items.iter().map(|item| item.value_bytes().len() + 8).sum();
    let mut writer = ArrayWriter::with_capacity(capacity);
    for item in items {
        writer.push_element(item);
    }
    writer.finish()
}

/// A copy of an array with more items at the end.
pub(super) fn appended(array: &[u8], items: &[Element<'_>]) -> Result<Vec<u8>> {
    let mut walk = elements_of_bytes(array);
    let length = walk.by_ref().count();
    if walk.is_malformed() {
        return Err(malformed("a value exceeds its document"));
    }
    let more: usize = items.iter().map(|item| item.value_bytes().len() + 8).sum();
    let mut out = Vec::with_capacity(array.len() + more);
    out.extend_from_slice(array.get(..array.len() - 1).unwrap_or_default());
    for (position, item) in (length..).zip(items) {
        element(&mut out, item.element_type, PositionName::new(position).as_bytes(), item.value_bytes());
    }
    end(&mut out, 0);
    Ok(out)
}
