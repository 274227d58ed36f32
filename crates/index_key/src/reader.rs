//! Looking at the components of a key without decoding them to BSON and without allocation.
//!
//! For conditions that can be decided on the key alone, such as `{_id: {$mod: [100, 3]}}` on the `_id` index: a
//! number is a few instructions away. Called by `executor`'s index scans.

use document::CanonicalType;

use crate::cursor::Cursor;
use crate::key_pattern::{Direction, KeyField, KeyPattern};
use crate::layout::{self, DEPTH_MAX};
use crate::number_decode::{Magnitude, parse_integer, parse_number};

/// A cheap view of one component. Types are not told apart where they compare equal.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum KeyValue<'a> {
    /// An integer of any numeric type, of magnitude below 2^63.
    Int(i64),
    /// Any other number that is exactly a double, NaN and the infinities included.
    Double(f64),
    /// A decimal that is not a double: it lies between this double and the next one away from zero.
    Decimal {
        /// The decimal cut towards zero.
        truncated: f64,
    },
    /// A string or symbol.
    String(KeyText<'a>),
    /// An ObjectId.
    ObjectId([u8; 12]),
    /// A boolean.
    Boolean(bool),
    /// Milliseconds since 1970.
    Date(i64),
    /// Seconds in the upper half, increment in the lower.
    Timestamp(u64),
    /// Null, or a missing field.
    Null,
    /// Anything else, by its bracket; decode the key to look inside.
    Other(CanonicalType),
}

/// The text of a key component, as it stands in the key.
#[derive(Debug, Clone, Copy)]
pub struct KeyText<'a> {
    escaped: &'a [u8],
    cursor: Cursor<'a>,
}

impl KeyText<'_> {
    /// Appends the text's bytes to `out`.
    pub fn append_to(&self, out: &mut Vec<u8>) {
        // A wrong escape cannot come from the encoder; the text then ends there.
        let _ = self.cursor.append_unescaped(self.escaped, out);
    }

    /// True when the text is `text`.
    pub fn equals(&self, text: &[u8]) -> bool {
        let mask = self.cursor.mask();
        let mut stored = self.escaped.iter().map(|byte| byte ^ mask);
        let same = text.iter().all(|expected| match stored.next() {
            Some(layout::ESCAPE) => stored.next() == expected.checked_add(1),
            byte => byte == Some(*expected),
        });
        same && stored.next().is_none()
    }
}

impl PartialEq for KeyText<'_> {
    fn eq(&self, other: &Self) -> bool {
        let (left, right) = (self.cursor.mask(), other.cursor.mask());
        self.escaped.iter().map(|byte| byte ^ left).eq(other.escaped.iter().map(|byte| byte ^ right))
    }
}

/// Iterates the components of a key.
#[derive(Debug, Clone)]
pub struct KeyReader<'a, 'p> {
    cursor: Cursor<'a>,
    fields: std::slice::Iter<'p, KeyField>,
}

impl<'a, 'p> KeyReader<'a, 'p> {
    /// Reads `key`, which may be followed by a record id.
    #[inline]
    pub fn new(pattern: &'p KeyPattern, key: &'a [u8]) -> Self {
        Self { cursor: Cursor::new(key), fields: pattern.fields().iter() }
    }

    /// Passes over one component; false at the end and for a damaged key.
    #[inline]
    pub fn skip_component(&mut self) -> bool {
        self.next_direction().is_some_and(|direction| {
            self.cursor.set_direction(direction);
            skip_value(&mut self.cursor, 0).is_some()
        })
    }

    /// What is left of the key: after the last component, the record id.
    #[inline]
    pub fn rest(&self) -> &'a [u8] {
        self.cursor.rest()
    }

    #[inline]
    fn next_direction(&mut self) -> Option<Direction> {
        self.fields.next().map(|field| field.direction)
    }
}

impl<'a> Iterator for KeyReader<'a, '_> {
    type Item = KeyValue<'a>;

    #[inline]
    fn next(&mut self) -> Option<KeyValue<'a>> {
        let direction = self.next_direction()?;
        self.cursor.set_direction(direction);
        read_value(&mut self.cursor)
    }
}

/// The component at `position` of `key` when it is a number, without looking at the other components' values.
#[inline]
pub fn decode_number_at<'a>(pattern: &KeyPattern, key: &'a [u8], position: usize) -> Option<KeyValue<'a>> {
    let mut reader = KeyReader::new(pattern, key);
    for _ in 0..position {
        if !reader.skip_component() {
            return None;
        }
    }
    let direction = reader.next_direction()?;
    reader.cursor.set_direction(direction);
    let first = reader.cursor.byte()?;
    if !(layout::NAN..layout::STRING).contains(&first) {
        return None;
    }
    let mut fraction = reader.cursor;
    match parse_integer(&mut reader.cursor, first) {
        Some(integer) => Some(KeyValue::Int(integer)),
        None => read_fraction(&mut fraction, first),
    }
}

#[inline]
fn read_value<'a>(cursor: &mut Cursor<'a>) -> Option<KeyValue<'a>> {
    let before = *cursor;
    let first = cursor.byte()?;
    let after_first = *cursor;
    if (layout::NAN..layout::STRING).contains(&first) {
        if let Some(integer) = parse_integer(cursor, first) {
            return Some(KeyValue::Int(integer));
        }
        *cursor = after_first;
        return read_fraction(cursor, first);
    }
    Some(match first {
        layout::NULL => KeyValue::Null,
        layout::STRING => KeyValue::String(KeyText { escaped: cursor.until_end()?, cursor: *cursor }),
        layout::OBJECT_ID => KeyValue::ObjectId(cursor.array()?),
        layout::FALSE => KeyValue::Boolean(false),
        layout::TRUE => KeyValue::Boolean(true),
        layout::DATE => KeyValue::Date((u64::from_be_bytes(cursor.array()?) ^ 1 << 63) as i64),
        layout::TIMESTAMP => KeyValue::Timestamp(u64::from_be_bytes(cursor.array()?)),
        _ => {
            *cursor = before;
            skip_value(cursor, 0)?;
            KeyValue::Other(layout::bracket_of(first)?)
        }
    })
}

/// Reads a number that is no integer, after its first byte.
fn read_fraction<'a>(cursor: &mut Cursor<'a>, first: u8) -> Option<KeyValue<'a>> {
    let number = parse_number(cursor, first)?;
    Some(match number.magnitude {
        Magnitude::Digits { .. } => KeyValue::Decimal { truncated: number.double() },
        _ => KeyValue::Double(number.double()),
    })
}

/// Passes over one value.
fn skip_value(cursor: &mut Cursor<'_>, depth: usize) -> Option<()> {
    if depth > DEPTH_MAX {
        return None;
    }
    match cursor.byte()? {
        first @ layout::NAN..layout::STRING => {
            let after_first = *cursor;
            if parse_integer(cursor, first).is_none() {
                *cursor = after_first;
                parse_number(cursor, first)?;
            }
        }
        layout::STRING | layout::CODE => {
            cursor.until_end()?;
        }
        layout::OBJECT => skip_fields(cursor, depth)?,
        layout::ARRAY => {
            while !cursor.take_end()? {
                skip_value(cursor, depth + 1)?;
            }
        }
        layout::BINARY => {
            let length = cursor.length()?;
            let subtype = cursor.byte()?;
            cursor.stored(if subtype == 2 { length.checked_sub(4)? } else { length })?;
        }
        layout::OBJECT_ID => {
            cursor.stored(12)?;
        }
        layout::DATE | layout::TIMESTAMP => {
            cursor.stored(8)?;
        }
        layout::REGULAR_EXPRESSION => {
            cursor.until_end()?;
            cursor.until_end()?;
        }
        layout::DB_POINTER => {
            let length = cursor.length()?;
            cursor.stored(length)?;
            cursor.stored(12)?;
        }
        layout::CODE_WITH_SCOPE => {
            cursor.until_end()?;
            skip_fields(cursor, depth)?;
        }
        layout::MIN_KEY | layout::UNDEFINED | layout::NULL | layout::FALSE | layout::TRUE | layout::MAX_KEY => {}
        _ => return None,
    }
    Some(())
}

fn skip_fields(cursor: &mut Cursor<'_>, depth: usize) -> Option<()> {
    while !cursor.take_end()? {
        cursor.byte()?;
        cursor.until_end()?;
        skip_value(cursor, depth + 1)?;
    }
    Some(())
}
