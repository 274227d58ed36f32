//! A bounds-checked reader over a frame's bytes. Used by the parsers of this crate.

use bson::RawDocument;

use crate::WireError;

/// The least a BSON document can be: its length and the final zero byte.
const DOCUMENT_SIZE_BYTES_MIN: usize = 5;

/// What is left to read of some bytes.
pub(crate) struct BytesReader<'a> {
    rest: &'a [u8],
}

impl<'a> BytesReader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    pub(crate) fn rest(&self) -> &'a [u8] {
        self.rest
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    pub(crate) fn take(&mut self, length: usize, place: &'static str) -> Result<&'a [u8], WireError> {
        let (taken, rest) = self.rest.split_at_checked(length).ok_or(WireError::Truncated(place))?;
        self.rest = rest;
        Ok(taken)
    }

    pub(crate) fn byte(&mut self, place: &'static str) -> Result<u8, WireError> {
        let (first, rest) = self.rest.split_first().ok_or(WireError::Truncated(place))?;
        self.rest = rest;
        Ok(*first)
    }

    pub(crate) fn int32(&mut self, place: &'static str) -> Result<i32, WireError> {
        let (bytes, rest) = self.rest.split_first_chunk::<4>().ok_or(WireError::Truncated(place))?;
        self.rest = rest;
        Ok(i32::from_le_bytes(*bytes))
    }

    pub(crate) fn uint32(&mut self, place: &'static str) -> Result<u32, WireError> {
        self.int32(place).map(i32::cast_unsigned)
    }

    /// A zero-terminated UTF-8 name.
    pub(crate) fn cstring(&mut self, place: &'static str) -> Result<&'a str, WireError> {
        let end = self.rest.iter().position(|&byte| byte == 0).ok_or(WireError::Truncated(place))?;
        let name = self.take(end, place)?;
        self.byte(place)?;
        str::from_utf8(name).map_err(|_| WireError::NotUtf8(place))
    }

    /// A BSON document, checked for its length and final byte only.
    pub(crate) fn document(&mut self, place: &'static str) -> Result<&'a RawDocument, WireError> {
        let malformed = |reason| WireError::MalformedDocument { place, reason };
        let prefix = self.rest.first_chunk::<4>().ok_or(WireError::Truncated(place))?;
        let length = usize::try_from(i32::from_le_bytes(*prefix)).map_err(|_| malformed("its length is negative"))?;
        if length < DOCUMENT_SIZE_BYTES_MIN {
            return Err(malformed("its length is below 5"));
        }
        if length > self.rest.len() {
            return Err(malformed("its length exceeds the bytes there are"));
        }
        let bytes = self.take(length, place)?;
        RawDocument::from_bytes(bytes).map_err(|_| malformed("it does not end in a zero byte"))
    }
}
