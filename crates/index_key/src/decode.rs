//! Decoding of keys back to BSON, exactly as the values were. Used by covered queries, returnKey and validate.

use bson::RawDocumentBuf;
use bson::spec::ElementType;

use crate::cursor::Cursor;
use crate::error::KeyError;
use crate::key_pattern::KeyPattern;
use crate::layout::{self, DEPTH_MAX};
use crate::number_decode::parse_number;
use crate::type_bits::{TypeBit, TypeBitsReader};

/// The values of `key` (without record id) as a document with the pattern's paths as field names.
pub fn decode_key(pattern: &KeyPattern, key: &[u8], type_bits: &[u8]) -> Result<RawDocumentBuf, KeyError> {
    decode_key_with_names(pattern, key, type_bits, pattern.fields().iter().map(|field| field.path.as_str()))
}

/// The values of `key` (without record id) as a document with the given field names.
pub fn decode_key_with_names<'n>(
    pattern: &KeyPattern,
    key: &[u8],
    type_bits: &[u8],
    names: impl IntoIterator<Item = &'n str>,
) -> Result<RawDocumentBuf, KeyError> {
    let mut decoder = Decoder {
        cursor: Cursor::new(key),
        type_bits: TypeBitsReader::new(type_bits),
        is_collated: pattern.collator().is_some(),
        depth: 0,
    };
    let mut bytes = vec![0; 4];
    for (field, name) in pattern.fields().iter().zip(names) {
        decoder.cursor.set_direction(field.direction);
        decoder.element(name.as_bytes(), &mut bytes).ok_or(KeyError::Malformed)?;
    }
    if !decoder.cursor.rest().is_empty() {
        return Err(KeyError::Malformed);
    }
    finish_document(&mut bytes, 0);
    RawDocumentBuf::from_bytes(bytes).map_err(|_| KeyError::Malformed)
}

/// Writes those of a key's values that are wanted over `out`, as a document with the pattern's paths as field names; says whether one
/// of them is null.
///
/// # Errors
/// The key is damaged.
pub fn decode_wanted(
    pattern: &KeyPattern,
    (key, type_bits): (&[u8], &[u8]),
    wanted: &[usize],
    out: &mut Vec<u8>,
) -> Result<bool, KeyError> {
    out.clear();
    out.extend_from_slice(&[0; 4]);
    let mut decoder = Decoder {
        cursor: Cursor::new(key),
        type_bits: TypeBitsReader::new(type_bits),
        is_collated: pattern.collator().is_some(),
        depth: 0,
    };
    let last = wanted.iter().copied().max();
    let mut has_null = false;
    for (position, field) in pattern.fields().iter().enumerate() {
        if last.is_none_or(|last| position > last) {
            break;
        }
        decoder.cursor.set_direction(field.direction);
        let start = out.len();
        decoder.element(field.path.as_str().as_bytes(), out).ok_or(KeyError::Malformed)?;
        if wanted.contains(&position) {
            has_null |= out.get(start) == Some(&(ElementType::Null as u8));
        } else {
            out.truncate(start);
        }
    }
    finish_document(out, 0);
    Ok(has_null)
}

/// A collation's sort key as people see it.
pub fn show_sort_key(key: &[u8]) -> String {
    use std::fmt::Write as _;
    let mut text = "CollationKey(0x".to_owned();
    for byte in key {
        let _ = write!(text, "{byte:02x}");
    }
    text.push(')');
    text
}

/// Ends the document that starts at `start` and writes its length there.
fn finish_document(bytes: &mut Vec<u8>, start: usize) {
    bytes.push(0);
    let length = bytes.len() - start;
    patch_length(bytes, start, length);
}

fn patch_length(bytes: &mut [u8], start: usize, length: usize) {
    if let Some(prefix) = bytes.get_mut(start..).and_then(|tail| tail.first_chunk_mut()) {
        *prefix = (length as i32).to_le_bytes();
    }
}

struct Decoder<'a> {
    cursor: Cursor<'a>,
    type_bits: TypeBitsReader<'a>,
    is_collated: bool,
    depth: usize,
}

impl Decoder<'_> {
    /// Appends an element named `name` with the next value.
    fn element(&mut self, name: &[u8], out: &mut Vec<u8>) -> Option<()> {
        let tag = out.len();
        out.push(0);
        out.extend_from_slice(name);
        out.push(0);
        let element_type = self.value(out)?;
        *out.get_mut(tag)? = element_type as u8;
        Some(())
    }

    /// Appends the stored bytes of the next value and returns its type.
    fn value(&mut self, out: &mut Vec<u8>) -> Option<ElementType> {
        Some(match self.cursor.byte()? {
            layout::MIN_KEY => ElementType::MinKey,
            layout::UNDEFINED => ElementType::Undefined,
            layout::NULL => ElementType::Null,
            first @ layout::NAN..layout::STRING => {
                let number = parse_number(&mut self.cursor, first)?;
                number.append_stored(self.type_bits.next()?, out)?
            }
            layout::STRING => {
                let element_type = match self.type_bits.next()? {
                    TypeBit::Default => ElementType::String,
                    TypeBit::Symbol => ElementType::Symbol,
                    _ => return None,
                };
                if self.is_collated {
                    self.sort_key(out)?
                } else {
                    self.text(out)?
                }
                element_type
            }
            layout::OBJECT => {
                self.fields(out)?;
                ElementType::EmbeddedDocument
            }
            layout::ARRAY => {
                self.items(out)?;
                ElementType::Array
            }
            layout::OBJECT_ID => {
                out.extend_from_slice(&self.cursor.array::<12>()?);
                ElementType::ObjectId
            }
            first @ (layout::FALSE | layout::TRUE) => {
                out.push(u8::from(first == layout::TRUE));
                ElementType::Boolean
            }
            layout::DATE => {
                out.extend_from_slice(&(u64::from_be_bytes(self.cursor.array()?) ^ 1 << 63).to_le_bytes());
                ElementType::DateTime
            }
            layout::TIMESTAMP => {
                out.extend_from_slice(&u64::from_be_bytes(self.cursor.array()?).to_le_bytes());
                ElementType::Timestamp
            }
            layout::MAX_KEY => ElementType::MaxKey,
            first => return self.rare_value(first, out),
        })
    }

    fn rare_value(&mut self, first: u8, out: &mut Vec<u8>) -> Option<ElementType> {
        Some(match first {
            layout::BINARY => {
                self.binary(out)?;
                ElementType::Binary
            }
            layout::REGULAR_EXPRESSION => {
                for _ in 0..2 {
                    let part = self.cursor.until_end()?;
                    self.cursor.append_plain(part, out);
                    out.push(0);
                }
                ElementType::RegularExpression
            }
            layout::DB_POINTER => {
                let length = self.cursor.length()?;
                let namespace = self.cursor.stored(length)?;
                out.extend_from_slice(&i32::try_from(length + 1).ok()?.to_le_bytes());
                self.cursor.append_plain(namespace, out);
                out.push(0);
                out.extend_from_slice(&self.cursor.array::<12>()?);
                ElementType::DbPointer
            }
            layout::CODE => {
                self.text(out)?;
                ElementType::JavaScriptCode
            }
            layout::CODE_WITH_SCOPE => {
                let start = out.len();
                out.extend_from_slice(&[0; 4]);
                self.text(out)?;
                self.fields(out)?;
                let length = out.len() - start;
                patch_length(out, start, length);
                ElementType::JavaScriptCodeWithScope
            }
            _ => return None,
        })
    }

    /// Appends text as a stored string.
    fn text(&mut self, out: &mut Vec<u8>) -> Option<()> {
        let start = out.len();
        out.extend_from_slice(&[0; 4]);
        let escaped = self.cursor.until_end()?;
        self.cursor.append_unescaped(escaped, out)?;
        out.push(0);
        let length = out.len() - start - 4;
        patch_length(out, start, length);
        Some(())
    }

    /// Appends what shows a collation's sort key, which is no text, as a stored string.
    fn sort_key(&mut self, out: &mut Vec<u8>) -> Option<()> {
        let mut key = Vec::new();
        let escaped = self.cursor.until_end()?;
        self.cursor.append_unescaped(escaped, &mut key)?;
        let text = show_sort_key(&key);
        out.extend_from_slice(&i32::try_from(text.len() + 1).ok()?.to_le_bytes());
        out.extend_from_slice(text.as_bytes());
        out.push(0);
        Some(())
    }

    fn binary(&mut self, out: &mut Vec<u8>) -> Option<()> {
        const OLD_SUBTYPE: u8 = 2;
        let length = self.cursor.length()?;
        let subtype = self.cursor.byte()?;
        out.extend_from_slice(&i32::try_from(length).ok()?.to_le_bytes());
        out.push(subtype);
        let inner = if subtype == OLD_SUBTYPE {
            let inner = length.checked_sub(4)?;
            out.extend_from_slice(&(inner as i32).to_le_bytes());
            inner
        } else {
            length
        };
        let bytes = self.cursor.stored(inner)?;
        self.cursor.append_plain(bytes, out);
        Some(())
    }

    /// Appends the fields up to the end as a stored document.
    fn fields(&mut self, out: &mut Vec<u8>) -> Option<()> {
        let start = self.open(out)?;
        let mut name = Vec::new();
        while !self.cursor.take_end()? {
            self.cursor.byte()?;
            name.clear();
            let stored = self.cursor.until_end()?;
            self.cursor.append_plain(stored, &mut name);
            self.element(&name, out)?;
        }
        self.close(start, out);
        Some(())
    }

    /// Appends the items up to the end as a stored array.
    fn items(&mut self, out: &mut Vec<u8>) -> Option<()> {
        let start = self.open(out)?;
        let mut position = 0usize;
        while !self.cursor.take_end()? {
            self.element(position.to_string().as_bytes(), out)?;
            position += 1;
        }
        self.close(start, out);
        Some(())
    }

    fn open(&mut self, out: &mut Vec<u8>) -> Option<usize> {
        self.depth += 1;
        out.extend_from_slice(&[0; 4]);
        (self.depth <= DEPTH_MAX).then_some(out.len() - 4)
    }

    fn close(&mut self, start: usize, out: &mut Vec<u8>) {
        self.depth -= 1;
        finish_document(out, start);
    }
}
