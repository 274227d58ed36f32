//! Applies deltas.
//!
//! A delta may meet a version later than the one it was computed from, when the oplog is replayed from a little
//! earlier: removed fields may be gone, nested values may have become scalars. Such parts are passed over; the later
//! deltas, which follow, put everything right.

use std::collections::HashMap;

use bson::spec::ElementType;
use smallvec::{SmallVec, smallvec};

use super::super::element::{Element, collect, elements_of_bytes, malformed};
use super::super::path::array_position;
use super::super::writer::{self, PositionName};
use crate::error::Result;

/// What a delta says about one field that is there.
#[derive(Clone, Copy)]
enum FieldChange<'a> {
    Remove,
    Update(Element<'a>),
    Nested(&'a [u8]),
}

/// Up to this many changes are searched one by one.
const LINEAR_SEARCH_MAX: usize = 8;

/// The changes of one delta by field name.
struct Changes<'a> {
    changes: SmallVec<[(&'a [u8], FieldChange<'a>); 4]>,
    positions: HashMap<&'a [u8], usize>,
    inserted: Vec<Element<'a>>,
}

impl<'a> Changes<'a> {
    fn read(delta: &'a [u8]) -> Result<Self> {
        let mut read = Self { changes: SmallVec::new(), positions: HashMap::new(), inserted: Vec::new() };
        for part in collect(delta)? {
            if part.element_type != ElementType::EmbeddedDocument {
                return Err(malformed("a part of a delta is not a document"));
            }
            let fields = part.value_bytes();
            match part.name_bytes() {
                b"d" => read.note(fields, |_| FieldChange::Remove)?,
                b"u" => read.note(fields, FieldChange::Update)?,
                b"i" => {
                    read.inserted = collect(fields)?;
                    // An inserted field leaves its old place.
                    read.note(fields, |_| FieldChange::Remove)?;
                }
                [b's', name @ ..] => read.changes.push((name, FieldChange::Nested(fields))),
                _ => return Err(malformed("an unknown part in a delta")),
            }
        }
        if read.changes.len() > LINEAR_SEARCH_MAX {
            read.positions = read.changes.iter().enumerate().map(|(at, (name, _))| (*name, at)).collect();
        }
        Ok(read)
    }

    fn note(&mut self, fields: &'a [u8], change: impl Fn(Element<'a>) -> FieldChange<'a>) -> Result<()> {
        let mut walk = elements_of_bytes(fields);
        self.changes.extend(walk.by_ref().map(|field| (field.name_bytes(), change(field))));
        match walk.is_malformed() {
            true => Err(malformed("a part of a delta exceeds it")),
            false => Ok(()),
        }
    }

    fn find(&self, name: &[u8]) -> Option<usize> {
        match self.positions.is_empty() {
            true => self.changes.iter().position(|(changed, _)| *changed == name),
            false => self.positions.get(name).copied(),
        }
    }
}

/// Writes the document that `before` becomes. A change means the first field of its name.
pub(super) fn document(before: &[u8], delta: &[u8], out: &mut Vec<u8>) -> Result<()> {
    let changes = Changes::read(delta)?;
    let mut seen: SmallVec<[bool; 16]> = smallvec![false; changes.changes.len()];
    let mark = writer::begin(out);
    let mut walk = elements_of_bytes(before);
    let (mut copied, mut start) = (4, 4);
    while let Some(field) = walk.next() {
        let end = before.len() - walk.remaining();
        if let Some(at) = changes.find(field.name_bytes())
            && let Some(seen) = seen.get_mut(at).filter(|seen| !**seen)
        {
            *seen = true;
            out.extend_from_slice(before.get(copied..start).unwrap_or_default());
            copied = end;
            match changes.changes.get(at) {
                None | Some((_, FieldChange::Remove)) => {}
                Some((_, FieldChange::Update(new))) => copy(out, new),
                Some((name, FieldChange::Nested(delta))) => nested(name, &field, delta, out)?,
            }
        }
        start = end;
    }
    if walk.is_malformed() {
        return Err(malformed("a value exceeds its document"));
    }
    out.extend_from_slice(before.get(copied..start).unwrap_or_default());
    for ((_, change), _) in changes.changes.iter().zip(&seen).filter(|(_, seen)| !**seen) {
        if let FieldChange::Update(new) = change {
            copy(out, new);
        }
    }
    changes.inserted.iter().for_each(|field| copy(out, field));
    writer::end(out, mark);
    Ok(())
}

fn copy(out: &mut Vec<u8>, field: &Element<'_>) {
    writer::element(out, field.element_type, field.name_bytes(), field.value_bytes());
}

/// Writes a field whose document or array changes inside.
fn nested(name: &[u8], field: &Element<'_>, delta: &[u8], out: &mut Vec<u8>) -> Result<()> {
    let of_array = elements_of_bytes(delta).next().is_some_and(|first| first.name_bytes() == b"a");
    let expected = if of_array { ElementType::Array } else { ElementType::EmbeddedDocument };
    writer::header(out, field.element_type, name);
    match (field.element_type == expected, of_array) {
        (false, _) => out.extend_from_slice(field.value_bytes()),
        (true, true) => array(field.value_bytes(), delta, out)?,
        (true, false) => document(field.value_bytes(), delta, out)?,
    }
    Ok(())
}

/// Writes the array that `before` becomes.
fn array(before: &[u8], delta: &[u8], out: &mut Vec<u8>) -> Result<()> {
    let mut items: Vec<Item<'_>> = collect(before)?.into_iter().map(Item::Kept).collect();
    for change in collect(delta)? {
        match change.name_bytes() {
            b"a" => {}
            b"l" => {
                let length = document::Number::from_view(change.view()).and_then(document::Number::to_i64_exact);
                let length = length.and_then(|length| usize::try_from(length).ok());
                items.truncate(length.ok_or_else(|| malformed("an array length in a delta"))?);
            }
            [kind @ (b'u' | b's'), position @ ..] => {
                let position = std::str::from_utf8(position).ok().and_then(array_position);
                let position = position.ok_or_else(|| malformed("an array position in a delta"))?;
                place(&mut items, position, *kind, change)?;
            }
            _ => return Err(malformed("an unknown part in a delta")),
        }
    }
    let mark = writer::begin(out);
    for (position, item) in items.iter().enumerate() {
        let name = PositionName::new(position);
        match item {
            Item::Kept(value) => writer::element(out, value.element_type, name.as_bytes(), value.value_bytes()),
            Item::Null => writer::element(out, ElementType::Null, name.as_bytes(), &[]),
            Item::Nested(value, delta) => nested(name.as_bytes(), value, delta, out)?,
        }
    }
    writer::end(out, mark);
    Ok(())
}

/// An item of an array being changed.
enum Item<'a> {
    Kept(Element<'a>),
    Null,
    Nested(Element<'a>, &'a [u8]),
}

/// Largest array position a delta may name; bounds what a damaged entry can allocate.
const POSITION_MAX: usize = 16 * 1024 * 1024;

fn place<'a>(items: &mut Vec<Item<'a>>, position: usize, kind: u8, change: Element<'a>) -> Result<()> {
    if position > POSITION_MAX {
        return Err(malformed("an array position in a delta"));
    }
    let update = kind == b'u';
    if position >= items.len() {
        if !update {
            return Ok(());
        }
        items.resize_with(position + 1, || Item::Null);
    }
    if let Some(item) = items.get_mut(position) {
        match (update, &item) {
            (true, _) => *item = Item::Kept(change),
            (false, Item::Kept(value)) => *item = Item::Nested(*value, change.value_bytes()),
            (false, _) => {}
        }
    }
    Ok(())
}
