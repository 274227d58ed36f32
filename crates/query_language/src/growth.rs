//! Buffers that grow with what is collected: memory is asked for before they do.
//!
//! Asking afterwards is too late: a buffer doubles, and many clients' buffers double at once. Used wherever the length
//! of what is built comes from documents. Relies on `memory_limit` for whom to ask.

use bson::RawBsonRef;
use bson::raw::{RawArray, RawArrayBuf, RawDocumentBuf};

use crate::error::{ErrorKind, QueryError, Result};
use crate::memory_limit::{before_allocating, before_allocating_if_large};
use crate::projection::write::{self, Position};
pub use crate::projection::write::{value as write_value, value_bytes};

/// A buffer of more bytes grows by a part of what it has instead of to twice its size.
const LARGE_BYTES: usize = 64 << 10;
/// Which part.
const GROWTH_SHARE: usize = 4;
/// Bytes that an element of an array has beside its value: a type, a position, what ends that.
const ELEMENT_BYTES: usize = 12;

/// Makes room for so many bytes more. A large buffer grows by no more than a quarter, and that is asked for.
///
/// # Errors
/// `ExceededMemoryLimit`.
#[inline]
pub fn make_room(buffer: &mut Vec<u8>, bytes: usize) -> Result<()> {
    let needed = buffer.len().saturating_add(bytes);
    if needed <= buffer.capacity().max(LARGE_BYTES) { Ok(()) } else { grow(buffer, bytes) }
}

#[cold]
fn grow(buffer: &mut Vec<u8>, bytes: usize) -> Result<()> {
    let more = bytes.max(buffer.len() / GROWTH_SHARE);
    before_allocating((buffer.len() + more).saturating_sub(buffer.capacity()))?;
    buffer.reserve_exact(more);
    Ok(())
}

/// Adds an item to a list that may become long: before it doubles, that is asked for.
///
/// # Errors
/// `ExceededMemoryLimit`.
#[inline]
pub fn push<T>(list: &mut Vec<T>, item: T) -> Result<()> {
    if list.len() == list.capacity() {
        before_allocating_if_large(list.len() * size_of::<T>())?;
    }
    list.push(item);
    Ok(())
}

/// Asks for the memory of a copy of a value, where that is large.
///
/// # Errors
/// `ExceededMemoryLimit`.
pub fn before_copying(value: Option<RawBsonRef<'_>>, copies: usize) -> Result<()> {
    before_allocating_if_large(value.map_or(0, write::value_bytes).saturating_mul(copies))
}

/// What a value of a filter takes beside its bytes once it is parsed, and how often its bytes are copied.
const FILTER_VALUE_BYTES: usize = 400;
const FILTER_COPIES: usize = 4;

/// Asks for what a filter becomes that compares with so many values of so many bytes.
///
/// # Errors
/// `ExceededMemoryLimit`.
pub fn before_filtering(values: usize, bytes: usize) -> Result<()> {
    before_allocating_if_large(values.saturating_mul(FILTER_VALUE_BYTES).saturating_add(bytes * FILTER_COPIES))
}

/// An array of what many documents give, as bytes.
#[derive(Debug)]
pub struct CollectedArray {
    bytes: Vec<u8>,
    length: usize,
}

impl Default for CollectedArray {
    fn default() -> Self {
        Self { bytes: vec![5, 0, 0, 0, 0], length: 0 }
    }
}

impl CollectedArray {
    /// Adds a value.
    ///
    /// # Errors
    /// `ExceededMemoryLimit`.
    pub fn push(&mut self, value: RawBsonRef<'_>) -> Result<()> {
        make_room(&mut self.bytes, ELEMENT_BYTES + write::value_bytes(value))?;
        // What ends an array is put behind the new element.
        self.bytes.pop();
        write::value(&mut self.bytes, Position::new(self.length).as_bytes(), value)?;
        write::end(&mut self.bytes, 0);
        self.length += 1;
        Ok(())
    }

    /// Its bytes so far.
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// What there is so far.
    ///
    /// # Errors
    /// None, unless its bytes are damaged.
    pub fn array(&self) -> Result<&RawArray> {
        let damaged = || QueryError::new(ErrorKind::InvalidBson, "a collected array is damaged");
        document::raw_array(&self.bytes).ok_or_else(damaged)
    }
}

/// An array that an expression or an accumulator builds, as a value of the `bson` crate. Its buffer doubles.
#[derive(Debug, Default)]
pub(crate) struct BuiltArray {
    array: RawArrayBuf,
    /// What its buffer may have by now.
    room: usize,
}

impl BuiltArray {
    pub(crate) fn push(&mut self, value: RawBsonRef<'_>) -> Result<()> {
        let bytes = self.array.as_bytes().len();
        let needed = bytes + ELEMENT_BYTES + write::value_bytes(value);
        if needed > self.room {
            let room = needed.max(2 * self.room);
            before_allocating_if_large(room - bytes)?;
            self.room = room;
        }
        self.array.push(value);
        Ok(())
    }

    pub(crate) fn as_array(&self) -> &RawArray {
        &self.array
    }

    pub(crate) fn into_array(self) -> RawArrayBuf {
        self.array
    }
}

/// A document whose fields are known before it is written.
///
/// # Errors
/// `ExceededMemoryLimit`; a name is none.
pub fn document_of<'a>(fields: impl Iterator<Item = (&'a str, RawBsonRef<'a>)> + Clone) -> Result<RawDocumentBuf> {
    let bytes: usize = fields.clone().map(|(name, value)| 2 + name.len() + write::value_bytes(value)).sum();
    before_allocating_if_large(bytes)?;
    let mut out = Vec::with_capacity(5 + bytes);
    let start = write::begin(&mut out);
    for (name, value) in fields {
        write::value(&mut out, <&bson::raw::CStr>::try_from(name)?.as_str().as_bytes(), value)?;
    }
    write::end(&mut out, start);
    Ok(RawDocumentBuf::from_bytes(out)?)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::{ErrorKind, limit_memory};

    thread_local! {
        /// Bytes that a test's thread may still ask for.
        static LEFT: Cell<usize> = const { Cell::new(usize::MAX) };
    }

    /// Asked for so far, of a gibibyte.
    fn asked() -> usize {
        (1 << 30) - LEFT.get()
    }

    fn begin() {
        limit_memory(|bytes| {
            let refused = || QueryError::new(ErrorKind::ExceededMemoryLimit, "asked for too much");
            LEFT.get().checked_sub(bytes).map(|left| LEFT.set(left)).ok_or_else(refused)
        });
        LEFT.set(1 << 30);
    }

    #[test]
    fn a_large_buffer_grows_by_a_quarter_and_never_unasked() {
        begin();
        let mut buffer = Vec::new();
        for _ in 0..2000 {
            make_room(&mut buffer, 1000).unwrap();
            buffer.extend_from_slice(&[0; 1000]);
            assert!(buffer.capacity() <= asked() + 2 * LARGE_BYTES, "{} of {}", asked(), buffer.capacity());
        }
        assert!(buffer.capacity() <= buffer.len() * 5 / 4 + LARGE_BYTES);
        LEFT.set(100);
        let (length, capacity) = (buffer.len(), buffer.capacity());
        assert!(make_room(&mut buffer, capacity).is_err());
        assert_eq!((buffer.len(), buffer.capacity()), (length, capacity));
    }

    #[test]
    fn arrays_that_are_collected_or_built_ask_before_they_grow() {
        begin();
        let text = "x".repeat(10_000);
        let (mut collected, mut built) = (CollectedArray::default(), BuiltArray::default());
        for number in 0..500 {
            collected.push(RawBsonRef::String(&text)).unwrap();
            collected.push(RawBsonRef::Int32(number)).unwrap();
            built.push(RawBsonRef::String(&text)).unwrap();
            built.push(RawBsonRef::Int32(number)).unwrap();
            assert!(asked() + 4 * LARGE_BYTES >= 2 * collected.bytes(), "{} bytes were asked for", asked());
        }
        assert_eq!(collected.array().unwrap().as_bytes(), built.as_array().as_bytes());
        assert_eq!(built.into_array().into_iter().count(), 1000);
        LEFT.set(100);
        let mut refused = 0;
        for _ in 0..500 {
            refused += usize::from(collected.push(RawBsonRef::String(&text)).is_err());
        }
        assert!(refused > 300, "{refused}");
        assert!(collected.array().unwrap().into_iter().all(|element| element.is_ok()));
    }

    #[test]
    fn what_is_written_is_what_the_bson_crate_writes() {
        begin();
        let all = bson::rawdoc! {
            "double": 1.5, "text": "t\u{e9}xt", "inner": { "a": [1, "b"] }, "array": [true, null],
            "binary": bson::Binary { subtype: bson::spec::BinarySubtype::Uuid, bytes: vec![7; 16] },
            "old": bson::Binary { subtype: bson::spec::BinarySubtype::BinaryOld, bytes: vec![1, 2, 3] },
            "id": bson::oid::ObjectId::from_bytes([5; 12]), "date": bson::DateTime::from_millis(7),
            "regex": bson::Regex { pattern: cstring("a.b"), options: cstring("i") },
            "code": bson::RawBson::JavaScriptCode("f()".to_owned()), "symbol": bson::RawBson::Symbol("s".to_owned()),
            "scope": bson::raw::RawJavaScriptCodeWithScope { code: "g".to_owned(), scope: bson::rawdoc! { "x": 1 } },
            "int": 1, "long": 2_i64, "stamp": bson::Timestamp { time: 1, increment: 2 },
            "decimal": bson::Decimal128::from_bytes([3; 16]), "least": bson::RawBson::MinKey,
        };
        let fields: Vec<_> = all.iter().map(|field| field.unwrap()).collect();
        let written = document_of(fields.iter().map(|(name, value)| (name.as_str(), *value))).unwrap();
        assert_eq!(written.as_bytes(), all.as_bytes());
        assert!(fields.iter().all(|(_, value)| {
            let mut bytes = Vec::new();
            write_value(&mut bytes, b"", *value).unwrap();
            bytes.len() - 2 <= value_bytes(*value)
        }));
    }

    fn cstring(text: &str) -> bson::raw::CString {
        bson::raw::CString::try_from(text).unwrap()
    }
}
