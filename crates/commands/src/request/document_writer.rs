//! Writing BSON straight into the reply's buffer.
//!
//! Used by every command. Documents that are already bytes are copied once, into their place in the reply.

use bson::spec::{BinarySubtype, ElementType};
use bson::{DateTime, RawBsonRef, RawDocument, RawDocumentBuf, Timestamp, oid::ObjectId};

use crate::request::error::Result;

/// From this size on a reply's buffer does not grow by doubling.
const LARGE_REPLY_BYTES: usize = 1 << 20;
/// What an array's item has beside its value: type, position, end.
const ITEM_BYTES: usize = 24;

/// A document being appended to a buffer. [`DocumentWriter::finish`] must be called; nested ones are written by closures.
pub struct DocumentWriter<'a> {
    bytes: &'a mut Vec<u8>,
    start: usize,
}

impl<'a> DocumentWriter<'a> {
    /// Begins a document at the end of `bytes`.
    pub fn begin(bytes: &'a mut Vec<u8>) -> Self {
        let start = bytes.len();
        bytes.extend_from_slice(&[0; 4]);
        Self { bytes, start }
    }

    /// Ends the document.
    pub fn finish(self) {
        self.bytes.push(0);
        let length = (self.bytes.len() - self.start) as u32;
        self.bytes[self.start..self.start + 4].copy_from_slice(&length.to_le_bytes());
    }

    /// Bytes written so far.
    pub fn len(&self) -> usize {
        self.bytes.len() - self.start
    }

    /// Takes away what was written since `len` was this.
    pub fn rewind(&mut self, len: usize) {
        self.bytes.truncate(self.start + len);
    }

    /// Whether no field was written.
    pub fn is_empty(&self) -> bool {
        self.len() == 4
    }

    fn name(&mut self, element_type: ElementType, name: &str) {
        self.bytes.push(element_type as u8);
        self.bytes.extend_from_slice(name.as_bytes());
        self.bytes.push(0);
    }

    /// A double.
    pub fn double(&mut self, name: &str, value: f64) {
        self.name(ElementType::Double, name);
        self.bytes.extend_from_slice(&value.to_le_bytes());
    }

    /// A 32-bit integer.
    pub fn int32(&mut self, name: &str, value: i32) {
        self.name(ElementType::Int32, name);
        self.bytes.extend_from_slice(&value.to_le_bytes());
    }

    /// A 64-bit integer.
    pub fn int64(&mut self, name: &str, value: i64) {
        self.name(ElementType::Int64, name);
        self.bytes.extend_from_slice(&value.to_le_bytes());
    }

    /// A count: a 32-bit integer if it fits, as the server gives counts.
    pub fn count(&mut self, name: &str, value: u64) {
        match i32::try_from(value) {
            Ok(small) => self.int32(name, small),
            Err(_) => self.int64(name, i64::try_from(value).unwrap_or(i64::MAX)),
        }
    }

    /// A size in bytes or another large figure: always 64 bits.
    pub fn size(&mut self, name: &str, value: u64) {
        self.int64(name, i64::try_from(value).unwrap_or(i64::MAX));
    }

    /// A boolean.
    pub fn boolean(&mut self, name: &str, value: bool) {
        self.name(ElementType::Boolean, name);
        self.bytes.push(u8::from(value));
    }

    /// A string.
    pub fn string(&mut self, name: &str, value: &str) {
        self.name(ElementType::String, name);
        self.bytes.extend_from_slice(&(value.len() as u32 + 1).to_le_bytes());
        self.bytes.extend_from_slice(value.as_bytes());
        self.bytes.push(0);
    }

    /// A null.
    pub fn null(&mut self, name: &str) {
        self.name(ElementType::Null, name);
    }

    /// A date.
    pub fn date(&mut self, name: &str, value: DateTime) {
        self.name(ElementType::DateTime, name);
        self.bytes.extend_from_slice(&value.timestamp_millis().to_le_bytes());
    }

    /// A timestamp.
    pub fn timestamp(&mut self, name: &str, value: Timestamp) {
        self.name(ElementType::Timestamp, name);
        self.bytes.extend_from_slice(&value.increment.to_le_bytes());
        self.bytes.extend_from_slice(&value.time.to_le_bytes());
    }

    /// An ObjectId.
    pub fn object_id(&mut self, name: &str, value: ObjectId) {
        self.name(ElementType::ObjectId, name);
        self.bytes.extend_from_slice(&value.bytes());
    }

    /// A UUID, as binary of subtype 4.
    pub fn uuid(&mut self, name: &str, value: bson::Uuid) {
        self.name(ElementType::Binary, name);
        self.bytes.extend_from_slice(&16u32.to_le_bytes());
        self.bytes.push(BinarySubtype::Uuid.into());
        self.bytes.extend_from_slice(&value.bytes());
    }

    /// A whole document.
    pub fn embed(&mut self, name: &str, value: &RawDocument) {
        self.name(ElementType::EmbeddedDocument, name);
        self.bytes.extend_from_slice(value.as_bytes());
    }

    /// Any value.
    pub fn value(&mut self, name: &str, value: RawBsonRef<'_>) {
        let mut wrapped = bson::RawDocumentBuf::new();
        // Names come from our own code or from a parsed document: neither contains a NUL byte.
        if let Ok(name) = bson::raw::CString::try_from(name) {
            wrapped.append(name, value);
            let bytes = wrapped.as_bytes();
            self.bytes.extend_from_slice(&bytes[4..bytes.len() - 1]);
        }
    }

    /// An element copied from another document.
    pub fn element(&mut self, element: document::Element<'_>) {
        document::append_element_bytes(self.bytes, element);
    }

    /// Elements that are bytes already.
    pub(crate) fn elements(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// A nested document.
    pub fn document(&mut self, name: &str, write: impl FnOnce(&mut DocumentWriter<'_>)) {
        self.name(ElementType::EmbeddedDocument, name);
        self.nested(write);
    }

    /// An array.
    pub fn array(&mut self, name: &str, write: impl FnOnce(&mut ArrayWriter<'_>)) {
        self.name(ElementType::Array, name);
        let mut array = ArrayWriter { writer: DocumentWriter::begin(self.bytes), next: 0 };
        write(&mut array);
        array.writer.finish();
    }

    /// An array whose items can fail to be made.
    pub fn try_array<E>(
        &mut self,
        name: &str,
        write: impl FnOnce(&mut ArrayWriter<'_>) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        self.name(ElementType::Array, name);
        let mut array = ArrayWriter { writer: DocumentWriter::begin(self.bytes), next: 0 };
        let written = write(&mut array);
        array.writer.finish();
        written
    }

    fn nested(&mut self, write: impl FnOnce(&mut DocumentWriter<'_>)) {
        let mut nested = DocumentWriter::begin(self.bytes);
        write(&mut nested);
        nested.finish();
    }
}

/// An array being written.
pub struct ArrayWriter<'a> {
    writer: DocumentWriter<'a>,
    next: u32,
}

impl ArrayWriter<'_> {
    fn begin_item(&mut self, element_type: ElementType) {
        self.writer.bytes.push(element_type as u8);
        push_decimal(self.writer.bytes, self.next);
        self.writer.bytes.push(0);
        self.next += 1;
    }

    /// Items so far.
    pub fn count(&self) -> u32 {
        self.next
    }

    /// Bytes so far.
    pub fn bytes(&self) -> usize {
        self.writer.len()
    }

    /// Makes room for a document of so many bytes. The buffer of a large reply grows by no more than a quarter, and `ask` is told first by how much.
    pub(crate) fn make_room<E>(
        &mut self,
        bytes: usize,
        ask: impl FnOnce(usize) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        let buffer = &mut *self.writer.bytes;
        let needed = bytes + ITEM_BYTES;
        if buffer.len() + needed <= buffer.capacity().max(LARGE_REPLY_BYTES) {
            return Ok(());
        }
        let more = needed.max(buffer.capacity() / 4);
        ask(buffer.len() + more - buffer.capacity())?;
        buffer.reserve_exact(more);
        Ok(())
    }

    /// A whole document.
    pub fn push(&mut self, document: &RawDocument) {
        self.begin_item(ElementType::EmbeddedDocument);
        self.writer.bytes.extend_from_slice(document.as_bytes());
    }

    /// A value that is bytes already.
    pub(crate) fn push_bytes(&mut self, kind: ElementType, value: &[u8]) {
        self.begin_item(kind);
        self.writer.bytes.extend_from_slice(value);
    }

    /// A document written by a closure.
    pub fn push_document(&mut self, write: impl FnOnce(&mut DocumentWriter<'_>)) {
        self.begin_item(ElementType::EmbeddedDocument);
        self.writer.nested(write);
    }

    /// A string.
    pub fn push_string(&mut self, value: &str) {
        self.begin_item(ElementType::String);
        self.writer.bytes.extend_from_slice(&(value.len() as u32 + 1).to_le_bytes());
        self.writer.bytes.extend_from_slice(value.as_bytes());
        self.writer.bytes.push(0);
    }

    /// A 32-bit integer.
    pub fn push_int32(&mut self, value: i32) {
        self.begin_item(ElementType::Int32);
        self.writer.bytes.extend_from_slice(&value.to_le_bytes());
    }

    /// A 64-bit integer.
    pub fn push_int64(&mut self, value: i64) {
        self.begin_item(ElementType::Int64);
        self.writer.bytes.extend_from_slice(&value.to_le_bytes());
    }

    /// Any value.
    pub fn push_value(&mut self, value: RawBsonRef<'_>) {
        let name = self.next.to_string();
        self.writer.value(&name, value);
        self.next += 1;
    }
}

fn push_decimal(bytes: &mut Vec<u8>, number: u32) {
    let mut digits = [0; 10];
    let (mut at, mut rest) = (digits.len(), number);
    loop {
        at -= 1;
        digits[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    bytes.extend_from_slice(&digits[at..]);
}

/// A document written by a closure.
pub(crate) fn document_of(write: impl FnOnce(&mut DocumentWriter<'_>)) -> Result<RawDocumentBuf> {
    let mut bytes = Vec::new();
    let mut writer = DocumentWriter::begin(&mut bytes);
    write(&mut writer);
    writer.finish();
    Ok(RawDocumentBuf::from_bytes(bytes)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_what_the_bson_crate_reads() {
        let mut bytes = vec![9, 9];
        let mut writer = DocumentWriter::begin(&mut bytes);
        writer.int32("a", 1);
        writer.string("s", "text");
        writer.array("list", |list| {
            for number in 0..12 {
                list.push_int32(number);
            }
            list.push_value(RawBsonRef::Double(0.5));
        });
        writer.document("d", |inner| inner.boolean("b", true));
        writer.value("v", RawBsonRef::Int64(5));
        writer.count("n", 1 << 40);
        writer.finish();
        let document = RawDocument::from_bytes(&bytes[2..]).unwrap();
        let parsed: bson::Document = document.try_into().unwrap();
        let mut list: Vec<bson::Bson> = (0..12).map(bson::Bson::Int32).collect();
        list.push(bson::Bson::Double(0.5));
        let expected = bson::doc! {"a": 1, "s": "text", "list": list, "d": {"b": true}, "v": 5i64, "n": 1i64 << 40};
        assert_eq!(parsed, expected);
    }
}
