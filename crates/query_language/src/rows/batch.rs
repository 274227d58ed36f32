//! A batch of rows: columns of slots, and the bytes of what does not fit into one.

use std::sync::Arc;

use bson::RawBsonRef;
use bson::spec::ElementType;
use document::{Element, Number, ValueView, same_name, stored_value};

use crate::error::Result;
use crate::expression::Value;
use crate::growth::{make_room, value_bytes, write_value};

/// The names of columns.
pub type RowNames = Arc<[Box<str>]>;

/// A column: what each row has in one field.
pub type Column = Vec<Slot>;

/// The value of one field of one row, or that there is none.
///
/// What has eight bytes or less is in `word` itself; else the bytes as they are stored are in the batch, `length` of them at `word`.
#[derive(Debug, Clone, Copy, Default)]
pub struct Slot {
    element_type: Option<ElementType>,
    length: u32,
    word: u64,
}

impl Slot {
    /// No value.
    pub const MISSING: Slot = Slot { element_type: None, length: 0, word: 0 };
    /// Null.
    pub const NULL: Slot = Slot::inline(ElementType::Null, 0);

    const fn inline(element_type: ElementType, word: u64) -> Slot {
        Slot { element_type: Some(element_type), length: 0, word }
    }

    /// The type; `None` for a missing value.
    #[inline]
    pub fn element_type(self) -> Option<ElementType> {
        self.element_type
    }

    /// Whether it is missing, null or undefined.
    #[inline]
    pub fn is_nullish(self) -> bool {
        matches!(self.element_type, None | Some(ElementType::Null | ElementType::Undefined))
    }

    /// A truth.
    #[inline]
    pub fn of_boolean(truth: bool) -> Slot {
        Slot::inline(ElementType::Boolean, u64::from(truth))
    }

    /// A number; `None` for a decimal, which has more bytes than a slot.
    #[inline]
    pub fn of_number(number: Number) -> Option<Slot> {
        Some(match number {
            Number::Int32(value) => Slot::inline(ElementType::Int32, i64::from(value) as u64),
            Number::Int64(value) => Slot::inline(ElementType::Int64, value as u64),
            Number::Double(value) => Slot::inline(ElementType::Double, value.to_bits()),
            Number::Decimal128(_) => return None,
        })
    }

    /// The number, unless it is a decimal or none.
    #[inline]
    pub fn number(self) -> Option<Number> {
        Some(match self.element_type? {
            ElementType::Int32 => Number::Int32(self.word as i32),
            ElementType::Int64 => Number::Int64(self.word as i64),
            ElementType::Double => Number::Double(f64::from_bits(self.word)),
            _ => return None,
        })
    }

    /// What is in the slot itself: a word that is the same for equal values of this type, except for doubles that are zero or no number.
    #[inline]
    pub fn inline_word(self) -> Option<u64> {
        is_inline(self.element_type?).then_some(self.word)
    }

    /// The same value where the bytes begin so many later.
    pub(super) fn shifted(self, by: u64) -> Slot {
        match self.element_type {
            Some(element_type) if !is_inline(element_type) => Slot { word: self.word + by, ..self },
            _ => self,
        }
    }

    /// The value as it is stored, in a batch's bytes.
    #[inline]
    pub fn stored(self, bytes: &[u8]) -> &[u8] {
        let start = self.word as usize;
        bytes.get(start..start + self.length as usize).unwrap_or_default()
    }

    /// The value; `None` when it is missing.
    #[inline]
    pub fn view(self, bytes: &[u8]) -> Option<ValueView<'_>> {
        Some(match self.element_type? {
            ElementType::Int32 => ValueView::Int32(self.word as i32),
            ElementType::Int64 => ValueView::Int64(self.word as i64),
            ElementType::Double => ValueView::Double(f64::from_bits(self.word)),
            ElementType::Boolean => ValueView::Boolean(self.word != 0),
            ElementType::DateTime => ValueView::DateTime(self.word as i64),
            ElementType::Timestamp => ValueView::Timestamp(self.word),
            ElementType::Null => ValueView::Null,
            ElementType::Undefined => ValueView::Undefined,
            ElementType::MinKey => ValueView::MinKey,
            ElementType::MaxKey => ValueView::MaxKey,
            stored => ValueView::from_stored(stored, self.stored(bytes)),
        })
    }

    /// The same in the `bson` crate's form.
    #[inline]
    pub fn value(self, bytes: &[u8]) -> Option<RawBsonRef<'_>> {
        let element_type = self.element_type?;
        if is_inline(element_type) {
            return Some(stored_value_of_word(element_type, self.word));
        }
        Some(stored_value(element_type, self.stored(bytes)))
    }

    /// A stored value, whose bytes are put behind `bytes` where they do not fit into the slot.
    ///
    /// # Errors
    /// There is no memory for them.
    #[inline]
    pub fn of_stored(element_type: ElementType, stored: &[u8], bytes: &mut Vec<u8>) -> Result<Slot> {
        let word = match element_type {
            ElementType::Int32 => stored.first_chunk().map(|word| i64::from(i32::from_le_bytes(*word)) as u64),
            ElementType::Int64 | ElementType::Double | ElementType::DateTime | ElementType::Timestamp => {
                stored.first_chunk().map(|word| u64::from_le_bytes(*word))
            }
            ElementType::Boolean => stored.first().map(|truth| u64::from(*truth != 0)),
            ElementType::Null | ElementType::Undefined | ElementType::MinKey | ElementType::MaxKey => Some(0),
            _ => return Slot::outside(element_type, stored, bytes),
        };
        Ok(word.map_or(Slot::inline(ElementType::Undefined, 0), |word| Slot::inline(element_type, word)))
    }

    fn outside(element_type: ElementType, stored: &[u8], bytes: &mut Vec<u8>) -> Result<Slot> {
        make_room(bytes, stored.len())?;
        let word = bytes.len() as u64;
        bytes.extend_from_slice(stored);
        Ok(Slot { element_type: Some(element_type), length: stored.len() as u32, word })
    }

    /// Any value, whose bytes are put behind `bytes` where they do not fit into the slot.
    ///
    /// # Errors
    /// There is no memory for them.
    pub fn of_value(value: Option<RawBsonRef<'_>>, bytes: &mut Vec<u8>) -> Result<Slot> {
        let Some(value) = value else { return Ok(Slot::MISSING) };
        if let Some(slot) = Number::from_bson(value).and_then(Slot::of_number) {
            return Ok(slot);
        }
        Ok(match value {
            RawBsonRef::Boolean(truth) => Slot::of_boolean(truth),
            RawBsonRef::Null => Slot::NULL,
            RawBsonRef::DateTime(date) => Slot::inline(ElementType::DateTime, date.timestamp_millis() as u64),
            value => {
                make_room(bytes, 2 + value_bytes(value))?;
                let start = bytes.len();
                // Its type and an empty name come before it.
                write_value(bytes, &[], value)?;
                let stored = start + 2;
                match value.element_type() {
                    element_type if is_inline(element_type) => {
                        let tail = bytes.split_off(stored);
                        bytes.truncate(start);
                        Slot::of_stored(element_type, &tail, bytes)?
                    }
                    element_type => Slot {
                        element_type: Some(element_type),
                        length: (bytes.len() - stored) as u32,
                        word: stored as u64,
                    },
                }
            }
        })
    }
}

#[inline]
fn is_inline(element_type: ElementType) -> bool {
    matches!(
        element_type,
        ElementType::Int32
            | ElementType::Int64
            | ElementType::Double
            | ElementType::Boolean
            | ElementType::DateTime
            | ElementType::Timestamp
            | ElementType::Null
            | ElementType::Undefined
            | ElementType::MinKey
            | ElementType::MaxKey
    )
}

#[inline]
fn stored_value_of_word(element_type: ElementType, word: u64) -> RawBsonRef<'static> {
    match element_type {
        ElementType::Int32 => RawBsonRef::Int32(word as i32),
        ElementType::Int64 => RawBsonRef::Int64(word as i64),
        ElementType::Double => RawBsonRef::Double(f64::from_bits(word)),
        ElementType::Boolean => RawBsonRef::Boolean(word != 0),
        ElementType::DateTime => RawBsonRef::DateTime(bson::DateTime::from_millis(word as i64)),
        ElementType::Timestamp => {
            RawBsonRef::Timestamp(bson::Timestamp { time: (word >> 32) as u32, increment: word as u32 })
        }
        ElementType::Null => RawBsonRef::Null,
        ElementType::MinKey => RawBsonRef::MinKey,
        ElementType::MaxKey => RawBsonRef::MaxKey,
        _ => RawBsonRef::Undefined,
    }
}

/// Rows of one pipeline, column by column.
#[derive(Debug, Clone, Default)]
pub struct RowBatch {
    pub(super) columns: Vec<Column>,
    /// Of the values that are no words.
    pub(super) bytes: Vec<u8>,
    pub(super) rows: usize,
}

impl RowBatch {
    /// The number of rows.
    #[inline]
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The bytes that slots refer to.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// A column by its position; empty where there is none.
    #[inline]
    pub fn column(&self, position: usize) -> &[Slot] {
        self.columns.get(position).map_or(&[], Vec::as_slice)
    }

    /// What a row has in a column.
    #[inline]
    pub fn slot(&self, column: usize, row: usize) -> Slot {
        self.column(column).get(row).copied().unwrap_or_default()
    }

    /// Takes on the rows of another, which has the same columns.
    pub fn copy_from(&mut self, other: &RowBatch) {
        self.columns.clone_from(&other.columns);
        self.bytes.clone_from(&other.bytes);
        self.rows = other.rows;
    }

    /// Leaves only the rows of which this is true; `kept` has one for each.
    pub(super) fn retain(&mut self, kept: &[bool]) {
        let left = kept.iter().filter(|kept| **kept).count();
        if left == self.rows {
            return;
        }
        for column in &mut self.columns {
            let mut flags = kept.iter();
            column.retain(|_| flags.next().is_some_and(|kept| *kept));
        }
        self.rows = left;
    }
}

/// One row of a batch, whose fields have names.
#[derive(Debug, Clone, Copy)]
pub struct Row<'b> {
    batch: &'b RowBatch,
    names: &'b [Box<str>],
    row: usize,
}

impl<'b> Row<'b> {
    /// A row; `names` are those of the batch's columns.
    pub fn new(batch: &'b RowBatch, names: &'b [Box<str>], row: usize) -> Self {
        Self { batch, names, row }
    }

    /// What it has in the field of a name.
    #[inline]
    pub fn slot(&self, name: &str) -> Slot {
        let position = self.names.iter().position(|known| same_name(known.as_bytes(), name.as_bytes()));
        position.map_or(Slot::MISSING, |position| self.batch.slot(position, self.row))
    }

    /// The same as a value.
    #[inline]
    pub fn view(&self, name: &str) -> Option<ValueView<'b>> {
        self.slot(name).view(&self.batch.bytes)
    }

    /// The same in the form of expressions.
    #[inline]
    pub fn value(&self, name: &str) -> Option<RawBsonRef<'b>> {
        self.slot(name).value(&self.batch.bytes)
    }
}

/// A value that an expression has given, as a slot of `bytes`.
///
/// # Errors
/// There is no memory for it.
pub(super) fn slot_of(value: &Value<'_>, bytes: &mut Vec<u8>) -> Result<Slot> {
    Slot::of_value(value.get(), bytes)
}

/// The slot of an element.
#[inline]
pub(super) fn slot_of_element(element: &Element<'_>, bytes: &mut Vec<u8>) -> Result<Slot> {
    Slot::of_stored(element.element_type, element.value_bytes(), bytes)
}
