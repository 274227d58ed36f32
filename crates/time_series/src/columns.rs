//! Measurements by columns: each field's values together, in the way that suits them, and what is left by zstd.
//!
//! A measurement comes back byte for byte: which fields it has, in which order, is its *shape*, and most have the same.
//! `builder` writes columns, `measurements` reads them. Both are bounded by what a bucket may hold.

use std::collections::HashMap;
use std::ops::Range;

use bson::RawDocument;
use bson::spec::ElementType;
use document::{Element, elements, stored_length};

use crate::doubles::{read_doubles, write_doubles};
use crate::integers::{read_integers, write_integers};
use crate::packed::{read_length, read_packed, take, write_packed, write_varint};
use crate::{BucketError, Result, damaged};

/// The version of this layout.
const LAYOUT: u8 = 1;
/// How what comes behind the head is stored.
const PLAIN: u8 = 0;
const ZSTD: u8 = 1;
const ZSTD_LEVEL: i32 = 3;
/// What columns may take when they are not compressed; a bucket holds far less.
const BODY_BYTES_MAX: usize = 24 << 20;
/// Values that all columns together may have: the largest measurement has fewer fields.
const VALUES_MAX: u64 = 1 << 21;
/// Measurements that columns may have.
const COUNT_MAX: usize = 1 << 16;

/// What a column's values are stored as.
mod kind {
    pub(super) const ELEMENTS: u8 = 0;
    pub(super) const CONSTANT: u8 = 1;
    pub(super) const INTEGERS: u8 = 2;
    pub(super) const DOUBLES: u8 = 3;
    pub(super) const OBJECT_IDS: u8 = 4;
    pub(super) const DICTIONARY: u8 = 5;
}

/// The measurements as columns.
pub(crate) fn encode(measurements: &[&RawDocument]) -> Vec<u8> {
    let mut body = Vec::new();
    write_body(&mut body, measurements);
    let packed = zstd::bulk::compress(&body, ZSTD_LEVEL).ok().filter(|packed| packed.len() < body.len());
    let mut out = vec![LAYOUT, if packed.is_some() { ZSTD } else { PLAIN }];
    write_varint(&mut out, measurements.len() as u64);
    write_varint(&mut out, body.len() as u64);
    out.extend(packed.unwrap_or(body));
    out
}

fn write_body(body: &mut Vec<u8>, measurements: &[&RawDocument]) {
    let (mut names, mut by_name): (Vec<&[u8]>, HashMap<&[u8], usize>) = Default::default();
    let (mut shapes, mut by_shape): (Vec<Vec<usize>>, HashMap<Vec<usize>, usize>) = Default::default();
    let mut columns: Vec<Vec<Element<'_>>> = Vec::new();
    let mut shape_of = Vec::with_capacity(measurements.len());
    for measurement in measurements {
        let mut shape = Vec::new();
        for element in elements(measurement) {
            let column = *by_name.entry(element.name_bytes()).or_insert_with(|| {
                names.push(element.name_bytes());
                columns.push(Vec::with_capacity(measurements.len()));
                columns.len() - 1
            });
            shape.push(column);
            if let Some(values) = columns.get_mut(column) {
                values.push(element);
            }
        }
        let known = shapes.len();
        let number = *by_shape.entry(shape).or_insert_with_key(|shape| {
            shapes.push(shape.clone());
            known
        });
        shape_of.push(number as u64);
    }
    write_varint(body, names.len() as u64);
    for name in &names {
        write_varint(body, name.len() as u64);
        body.extend_from_slice(name);
    }
    write_varint(body, shapes.len() as u64);
    for shape in &shapes {
        write_varint(body, shape.len() as u64);
        shape.iter().for_each(|column| write_varint(body, *column as u64));
    }
    write_packed(body, &shape_of);
    for column in &columns {
        let mut written = Vec::new();
        write_column(&mut written, column);
        write_varint(body, written.len() as u64);
        body.extend(written);
    }
}

fn write_column(out: &mut Vec<u8>, values: &[Element<'_>]) {
    let Some(first) = values.first() else { return };
    let same = |element: &Element<'_>| {
        element.element_type == first.element_type && element.value_bytes() == first.value_bytes()
    };
    if values.iter().all(same) {
        out.push(kind::CONSTANT);
        return write_element(out, first);
    }
    let is_of_one_type = values.iter().all(|element| element.element_type == first.element_type);
    let stored = |element: &Element<'_>| element.value_bytes().to_vec();
    match first.element_type {
        ElementType::Double if is_of_one_type => {
            out.push(kind::DOUBLES);
            let doubles = values.iter().map(|element| f64::from_bits(whole_number(element.value_bytes())));
            write_doubles(out, &doubles.collect::<Vec<_>>());
        }
        ElementType::ObjectId if is_of_one_type => {
            out.push(kind::OBJECT_IDS);
            let ids: Vec<Vec<u8>> = values.iter().map(stored).collect();
            for part in ID_PARTS {
                let number = |id: &Vec<u8>| id.get(part.clone()).map_or(0, big_endian);
                write_integers(out, &ids.iter().map(number).collect::<Vec<_>>());
            }
        }
        tag if is_of_one_type && integer_bytes(tag).is_some() => {
            out.extend([kind::INTEGERS, tag as u8]);
            let numbers = values.iter().map(|element| signed(element.value_bytes()));
            write_integers(out, &numbers.collect::<Vec<_>>());
        }
        _ => write_various(out, values),
    }
}

/// The values as they are, or each different one once.
fn write_various(out: &mut Vec<u8>, values: &[Element<'_>]) {
    let mut different: Vec<&Element<'_>> = Vec::new();
    let mut positions: HashMap<(u8, &[u8]), u64> = HashMap::new();
    let mut chosen = Vec::with_capacity(values.len());
    for element in values {
        let position = *positions.entry((element.element_type as u8, element.value_bytes())).or_insert_with(|| {
            different.push(element);
            different.len() as u64 - 1
        });
        chosen.push(position);
    }
    if different.len() * 2 <= values.len() {
        out.push(kind::DICTIONARY);
        write_varint(out, different.len() as u64);
        different.into_iter().for_each(|element| write_element(out, element));
        return write_packed(out, &chosen);
    }
    out.push(kind::ELEMENTS);
    values.iter().for_each(|element| write_element(out, element));
}

fn write_element(out: &mut Vec<u8>, element: &Element<'_>) {
    out.push(element.element_type as u8);
    out.extend_from_slice(element.value_bytes());
}

/// Seconds, what is random of a process, and its counter.
const ID_PARTS: [Range<usize>; 3] = [0..4, 4..9, 9..12];

fn big_endian(bytes: &[u8]) -> i64 {
    bytes.iter().fold(0, |number, byte| number << 8 | i64::from(*byte))
}

/// How many bytes the values of a type have that are whole numbers.
fn integer_bytes(tag: ElementType) -> Option<usize> {
    match tag {
        ElementType::Boolean => Some(1),
        ElementType::Int32 => Some(4),
        ElementType::Int64 | ElementType::DateTime | ElementType::Timestamp => Some(8),
        _ => None,
    }
}

fn whole_number(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// A number of four bytes has a sign, too.
fn signed(bytes: &[u8]) -> i64 {
    let number = whole_number(bytes);
    if bytes.len() == 4 { i64::from(number as u32 as i32) } else { number as i64 }
}

/// Columns that are read, measurement by measurement.
pub(crate) struct Rows {
    body: Vec<u8>,
    names: Vec<Range<usize>>,
    shapes: Vec<Vec<usize>>,
    shape_of: Vec<u64>,
    columns: Vec<Column>,
    next: usize,
}

/// The values of a column, and which comes next.
struct Column {
    values: Values,
    next: usize,
}

/// A stored value: its type, and where its bytes are.
type Stored = (u8, Range<usize>);

enum Values {
    /// Nobody wants them.
    Skipped,
    Constant(Stored),
    Elements(Vec<Stored>),
    Integers {
        tag: u8,
        bytes: usize,
        numbers: Vec<i64>,
    },
    Doubles(Vec<f64>),
    ObjectIds([Vec<i64>; 3]),
    Dictionary(Vec<Stored>, Vec<u64>),
}

/// How many measurements there are.
pub(crate) fn count(encoded: &[u8]) -> Result<usize> {
    head(encoded).map(|head| head.count).ok_or_else(broken)
}

struct Head<'a> {
    is_packed: bool,
    count: usize,
    body_bytes: usize,
    stored: &'a [u8],
}

fn head(encoded: &[u8]) -> Option<Head<'_>> {
    let mut bytes = encoded;
    let (layout, packing) = match take(&mut bytes, 2)? {
        [layout, packing] => (*layout, *packing),
        _ => return None,
    };
    let (count, body_bytes) = (read_length(&mut bytes)?, read_length(&mut bytes)?);
    let is_known = layout == LAYOUT && packing <= ZSTD && count <= COUNT_MAX && body_bytes <= BODY_BYTES_MAX;
    is_known.then_some(Head { is_packed: packing == ZSTD, count, body_bytes, stored: bytes })
}

fn broken() -> BucketError {
    BucketError::Damaged("its columns cannot be read".to_owned())
}

impl Rows {
    /// Opens columns; those that are not wanted are not read.
    pub(crate) fn open(encoded: &[u8], is_wanted: &dyn Fn(&[u8]) -> bool) -> Result<Rows> {
        let head = head(encoded).ok_or_else(broken)?;
        let body = match head.is_packed {
            true => zstd::bulk::decompress(head.stored, head.body_bytes).map_err(|_| broken())?,
            false => head.stored.to_vec(),
        };
        if body.len() != head.body_bytes {
            return damaged("its columns are not as long as they should be");
        }
        Self::read(body, head.count, is_wanted).ok_or_else(broken)
    }

    fn read(body: Vec<u8>, count: usize, is_wanted: &dyn Fn(&[u8]) -> bool) -> Option<Rows> {
        let mut rest = body.as_slice();
        let mut names = Vec::new();
        for _ in 0..read_length(&mut rest)? {
            let length = read_length(&mut rest)?;
            let start = body.len() - rest.len();
            take(&mut rest, length)?;
            names.push(start..start + length);
        }
        let mut shapes: Vec<Vec<usize>> = Vec::new();
        for _ in 0..read_length(&mut rest)? {
            let mut shape = Vec::new();
            for _ in 0..read_length(&mut rest)? {
                shape.push(read_length(&mut rest).filter(|column| *column < names.len())?);
            }
            shapes.push(shape);
        }
        let shape_of = read_packed(&mut rest, count)?;
        let mut uses = vec![0u64; shapes.len()];
        for shape in &shape_of {
            *uses.get_mut(*shape as usize)? += 1;
        }
        let mut lengths = vec![0u64; names.len()];
        for (shape, used) in shapes.iter().zip(&uses) {
            for column in shape {
                *lengths.get_mut(*column)? += used;
            }
        }
        if lengths.iter().sum::<u64>() > VALUES_MAX {
            return None;
        }
        let mut columns = Vec::with_capacity(names.len());
        for (name, length) in names.iter().zip(lengths) {
            let stored_bytes = read_length(&mut rest)?;
            let stored = take(&mut rest, stored_bytes)?;
            let start = body.len() - rest.len() - stored.len();
            let values = match is_wanted(body.get(name.clone())?) {
                true => read_column(stored, start, usize::try_from(length).ok()?)?,
                false => Values::Skipped,
            };
            columns.push(Column { values, next: 0 });
        }
        Some(Rows { body, names, shapes, shape_of, columns, next: 0 })
    }

    /// How many are left.
    pub(crate) fn left(&self) -> usize {
        self.shape_of.len() - self.next
    }

    /// Bytes that they hold.
    pub(crate) fn held_bytes(&self) -> usize {
        self.body.len() + self.columns.iter().map(|column| column.held_bytes()).sum::<usize>()
    }

    /// Gives the next measurement's fields, one after the other, by name, type and value; `false` at the end.
    pub(crate) fn next(&mut self, mut give: impl FnMut(&[u8], u8, &[u8])) -> Result<bool> {
        let Some(shape) = self.shape_of.get(self.next) else { return Ok(false) };
        self.next += 1;
        for column in self.shapes.get(*shape as usize).into_iter().flatten() {
            let name = self.names.get(*column).and_then(|name| self.body.get(name.clone()));
            let (Some(name), Some(column)) = (name, self.columns.get_mut(*column)) else { return Err(broken()) };
            column.give(&self.body, |tag, value| give(name, tag, value)).ok_or_else(broken)?;
        }
        Ok(true)
    }
}

impl Column {
    fn held_bytes(&self) -> usize {
        match &self.values {
            Values::Skipped | Values::Constant(_) => 0,
            Values::Elements(list) => list.len() * size_of::<Stored>(),
            Values::Integers { numbers, .. } => numbers.len() * 8,
            Values::Doubles(list) => list.len() * 8,
            Values::ObjectIds([seconds, ..]) => seconds.len() * 24,
            Values::Dictionary(different, list) => different.len() * size_of::<Stored>() + list.len() * 8,
        }
    }

    fn give(&mut self, body: &[u8], mut give: impl FnMut(u8, &[u8])) -> Option<()> {
        let at = self.next;
        self.next += 1;
        match &self.values {
            Values::Skipped => {}
            Values::Constant((tag, value)) => give(*tag, body.get(value.clone())?),
            Values::Elements(list) => {
                let (tag, value) = list.get(at)?;
                give(*tag, body.get(value.clone())?);
            }
            Values::Dictionary(different, list) => {
                let (tag, value) = different.get(*list.get(at)? as usize)?;
                give(*tag, body.get(value.clone())?);
            }
            Values::Integers { tag, bytes, numbers } => {
                give(*tag, numbers.get(at)?.to_le_bytes().get(..*bytes)?);
            }
            Values::Doubles(list) => give(ElementType::Double as u8, &list.get(at)?.to_le_bytes()),
            Values::ObjectIds([seconds, process, counter]) => {
                let mut id = [0; 12];
                for (part, list) in ID_PARTS.into_iter().zip([seconds, process, counter]) {
                    let number = list.get(at)?.to_be_bytes();
                    let length = part.len();
                    id.get_mut(part)?.copy_from_slice(number.get(8 - length..)?);
                }
                give(ElementType::ObjectId as u8, &id);
            }
        }
        Some(())
    }
}

fn read_column(stored: &[u8], start: usize, length: usize) -> Option<Values> {
    if length == 0 {
        return Some(Values::Skipped);
    }
    let mut rest = stored;
    let at = |rest: &[u8]| start + stored.len() - rest.len();
    Some(match take(&mut rest, 1)?.first().copied()? {
        kind::CONSTANT => {
            let position = at(rest);
            Values::Constant(read_element(&mut rest, position)?)
        }
        kind::ELEMENTS => {
            let mut list = Vec::new();
            for _ in 0..length {
                let position = at(rest);
                list.push(read_element(&mut rest, position)?);
            }
            Values::Elements(list)
        }
        kind::INTEGERS => {
            let tag = take(&mut rest, 1)?.first().copied()?;
            let bytes = integer_bytes(ElementType::from(tag)?)?;
            let numbers = read_integers(&mut rest, length)?;
            // Nothing but true and false.
            if tag == ElementType::Boolean as u8 && numbers.iter().any(|number| !(0..=1).contains(number)) {
                return None;
            }
            Values::Integers { tag, bytes, numbers }
        }
        kind::DOUBLES => Values::Doubles(read_doubles(&mut rest, length)?),
        kind::OBJECT_IDS => {
            let mut part = || read_integers(&mut rest, length);
            Values::ObjectIds([part()?, part()?, part()?])
        }
        kind::DICTIONARY => {
            let mut different = Vec::new();
            for _ in 0..read_length(&mut rest)? {
                let position = at(rest);
                different.push(read_element(&mut rest, position)?);
            }
            Values::Dictionary(different, read_packed(&mut rest, length)?)
        }
        _ => return None,
    })
}

/// A value off the front, of which the first byte lies at `position`.
fn read_element(rest: &mut &[u8], position: usize) -> Option<Stored> {
    let tag = take(rest, 1)?.first().copied()?;
    let length = stored_length(ElementType::from(tag)?, rest)?;
    take(rest, length)?;
    Some((tag, position + 1..position + 1 + length))
}
