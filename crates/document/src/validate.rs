//! Validation of untrusted bytes: everything that comes from a client passes here once.
//!
//! Checks lengths, terminators, known types, UTF-8 of names and strings, booleans, nesting depth and total size, in
//! one pass with a fixed stack of end positions: no recursion, no allocation, no panic. Code after it may rely on a
//! document being well formed. Not checked: names of array elements, duplicate field names (both legal in MongoDB).

use bson::spec::ElementType;

use crate::element::{find_nul, read_length, zero_bytes};
use crate::error::DocumentError;

/// The largest document a client may store: 16 MiB.
pub const USER_DOCUMENT_BYTES_MAX: usize = 16 * 1024 * 1024;
/// The largest document inside the server, with room for what surrounds a user's document: 16 KiB more.
pub const INTERNAL_DOCUMENT_BYTES_MAX: usize = USER_DOCUMENT_BYTES_MAX + 16 * 1024;
/// The deepest nesting, the root counted.
pub const DEPTH_MAX: usize = 200;

/// What a document may be at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of the whole document.
    pub bytes_max: usize,
}

impl Limits {
    /// For documents that clients store.
    pub const USER: Limits = Limits { bytes_max: USER_DOCUMENT_BYTES_MAX };
    /// For commands and documents inside the server.
    pub const INTERNAL: Limits = Limits { bytes_max: INTERNAL_DOCUMENT_BYTES_MAX };
}

/// Checks that `bytes` is exactly one well-formed document within `limits`.
pub fn validate_document(bytes: &[u8], limits: &Limits) -> Result<(), DocumentError> {
    if bytes.len() > limits.bytes_max {
        return Err(DocumentError::TooLarge { size: bytes.len(), limit: limits.bytes_max });
    }
    let mut scanner = Scanner { bytes, position: 0, name: 0..0, ends: [0; DEPTH_MAX], depth: 0 };
    scanner.enter(bytes.len()).and_then(|()| scanner.scan()).map_err(|fault| match fault {
        Fault::TooDeep => DocumentError::TooDeep { limit: DEPTH_MAX },
        Fault::Invalid(reason) => {
            let name = bytes.get(scanner.name).unwrap_or_default();
            DocumentError::InvalidBson { reason, field: String::from_utf8_lossy(name).into_owned() }
        }
    })
}

enum Fault {
    Invalid(&'static str),
    TooDeep,
}

struct Scanner<'a> {
    bytes: &'a [u8],
    position: usize,
    /// Where the name of the current element is, for messages.
    name: std::ops::Range<usize>,
    /// Where each open document ends, outermost first.
    ends: [u32; DEPTH_MAX],
    depth: usize,
}

impl Scanner<'_> {
    /// Opens the document that starts here and must end at or before `limit`.
    fn enter(&mut self, limit: usize) -> Result<(), Fault> {
        let rest = self.bytes.get(self.position..limit).unwrap_or_default();
        let length = read_length(rest).ok_or(Fault::Invalid("Incorrect BSON length"))?;
        let exact = self.depth > 0 || length == self.bytes.len();
        if length < 5 || length > rest.len() || !exact {
            return Err(Fault::Invalid("Incorrect BSON length"));
        }
        let slot = self.ends.get_mut(self.depth).ok_or(Fault::TooDeep)?;
        *slot = (self.position + length) as u32;
        self.depth += 1;
        self.position += 4;
        Ok(())
    }

    fn scan(&mut self) -> Result<(), Fault> {
        while let Some(end) = self.depth.checked_sub(1).and_then(|top| self.ends.get(top)).map(|end| *end as usize) {
            let tag = *self.bytes.get(self.position).ok_or(Fault::Invalid("Unexpected end of document"))?;
            self.position += 1;
            if tag == 0 {
                if self.position != end {
                    return Err(Fault::Invalid("Document ends before its length"));
                }
                self.depth -= 1;
            } else {
                self.element(tag, end)?;
            }
        }
        Ok(())
    }

    /// Checks one element whose type byte has been read, inside a document that ends at `end`.
    #[inline]
    fn element(&mut self, tag: u8, end: usize) -> Result<(), Fault> {
        // The terminator's byte cannot belong to an element.
        let limit = end - 1;
        let start = self.position;
        self.c_string(limit, "Not null terminated or invalid field name")?;
        self.name = start..self.position - 1;
        let element_type = ElementType::from(tag).ok_or(Fault::Invalid("Unrecognized BSON type"))?;
        match element_type {
            ElementType::Int32 => self.skip(4, limit),
            ElementType::Double | ElementType::Int64 | ElementType::DateTime | ElementType::Timestamp => {
                self.skip(8, limit)
            }
            ElementType::String | ElementType::JavaScriptCode | ElementType::Symbol => self.string(limit),
            ElementType::EmbeddedDocument | ElementType::Array => self.enter(limit),
            ElementType::ObjectId => self.skip(12, limit),
            ElementType::Boolean => self.boolean(limit),
            ElementType::Null | ElementType::Undefined | ElementType::MinKey | ElementType::MaxKey => Ok(()),
            ElementType::Binary => self.binary(limit),
            ElementType::Decimal128 => self.skip(16, limit),
            ElementType::RegularExpression => {
                self.c_string(limit, "Invalid regular expression")?;
                self.c_string(limit, "Invalid regular expression options")
            }
            ElementType::DbPointer => {
                self.string(limit)?;
                self.skip(12, limit)
            }
            ElementType::JavaScriptCodeWithScope => self.code_with_scope(limit),
        }
    }

    #[inline]
    fn skip(&mut self, count: usize, limit: usize) -> Result<(), Fault> {
        if limit - self.position < count {
            return Err(Fault::Invalid("Value extends past the end of its document"));
        }
        self.position += count;
        Ok(())
    }

    #[inline]
    fn c_string(&mut self, limit: usize, reason: &'static str) -> Result<(), Fault> {
        let rest = self.bytes.get(self.position..limit).unwrap_or_default();
        if let Some(length) = short_ascii_c_string(rest) {
            self.position += length + 1;
            return Ok(());
        }
        let length = find_nul(rest).ok_or(Fault::Invalid(reason))?;
        check_utf8(rest.get(..length).unwrap_or_default())?;
        self.position += length + 1;
        Ok(())
    }

    #[inline]
    fn string(&mut self, limit: usize) -> Result<(), Fault> {
        let rest = self.bytes.get(self.position..limit).unwrap_or_default();
        let length = read_length(rest).ok_or(Fault::Invalid("Invalid string length"))?;
        let content = length.checked_sub(1).and_then(|last| rest.get(4..4 + last));
        let terminator = rest.get(length + 3);
        match (content, terminator) {
            (Some(content), Some(0)) => check_utf8(content)?,
            (Some(_), Some(_)) => return Err(Fault::Invalid("Not null terminated string")),
            _ => return Err(Fault::Invalid("Invalid string length")),
        }
        self.position += length + 4;
        Ok(())
    }

    #[inline]
    fn boolean(&mut self, limit: usize) -> Result<(), Fault> {
        match self.bytes.get(self.position) {
            Some(0 | 1) => self.skip(1, limit),
            _ => Err(Fault::Invalid("Invalid boolean value")),
        }
    }

    fn binary(&mut self, limit: usize) -> Result<(), Fault> {
        let rest = self.bytes.get(self.position..limit).unwrap_or_default();
        let length = read_length(rest).ok_or(Fault::Invalid("Invalid binary length"))?;
        let inner = rest.get(5..).and_then(read_length).and_then(|inner| inner.checked_add(4));
        if rest.get(4) == Some(&2) && inner != Some(length) {
            return Err(Fault::Invalid("Invalid inner length of binary subtype 2"));
        }
        self.skip(length.saturating_add(5), limit)
    }

    fn code_with_scope(&mut self, limit: usize) -> Result<(), Fault> {
        let start = self.position;
        let rest = self.bytes.get(start..limit).unwrap_or_default();
        let length = read_length(rest).ok_or(Fault::Invalid("Invalid code with scope length"))?;
        if length > rest.len() || length < 14 {
            return Err(Fault::Invalid("Invalid code with scope length"));
        }
        let end = start + length;
        self.position += 4;
        self.string(end)?;
        self.enter(end)?;
        // The scope must fill the rest exactly; it is open now, so its recorded end tells.
        let scope_end = self.ends.get(self.depth - 1).copied();
        if scope_end == Some(end as u32) { Ok(()) } else { Err(Fault::Invalid("Invalid code with scope length")) }
    }
}

/// The length of the C string that `bytes` starts with, if it is ASCII and ends within eight bytes: most field names.
#[inline]
fn short_ascii_c_string(bytes: &[u8]) -> Option<usize> {
    const HIGH: u64 = 0x8080_8080_8080_8080;
    let word = u64::from_le_bytes(*bytes.first_chunk()?);
    let zeroes = zero_bytes(word);
    // All bits below the terminator's; none set when there is no terminator, so that the answer is no.
    let before = (zeroes & zeroes.wrapping_neg()).wrapping_sub(1);
    (zeroes != 0 && word & HIGH & before == 0).then_some((zeroes.trailing_zeros() / 8) as usize)
}

#[inline]
fn check_utf8(bytes: &[u8]) -> Result<(), Fault> {
    if bytes.is_ascii() || std::str::from_utf8(bytes).is_ok() {
        return Ok(());
    }
    Err(Fault::Invalid("Invalid UTF-8 string"))
}
