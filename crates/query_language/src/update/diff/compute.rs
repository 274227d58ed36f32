//! Computes deltas by walking two versions of a document side by side.

use std::collections::HashSet;

use bson::raw::RawDocument;
use bson::spec::ElementType;
use document::Elements;
use smallvec::SmallVec;

use super::super::element::{Element, collect, elements_of_bytes, is_container, malformed, same_value};
use super::super::writer::{self, PositionName};
use super::DiffForm;
use crate::error::Result;

/// Up to this many names are looked for one by one.
const LINEAR_SEARCH_MAX: usize = 8;

/// The delta document, or `None` when a delta cannot tell the changed fields apart, or is not wanted for its size.
pub(super) fn delta(before: &RawDocument, after: &RawDocument, form: DiffForm) -> Result<Option<Vec<u8>>> {
    let mut out = Vec::with_capacity(96);
    let mark = writer::begin(&mut out);
    writer::element(&mut out, ElementType::Int32, b"$v", &2_i32.to_le_bytes());
    writer::header(&mut out, ElementType::EmbeddedDocument, b"diff");
    let written = document_delta(before.as_bytes(), after.as_bytes(), form, &mut out)?;
    writer::end(&mut out, mark);
    let worth = form == DiffForm::Paths || out.len() < after.as_bytes().len();
    Ok((written && worth).then_some(out))
}

/// The parts of a delta while it is being computed: sequences of elements.
struct Parts<'a> {
    form: DiffForm,
    removed: Vec<u8>,
    updated: Vec<u8>,
    inserted: Vec<u8>,
    nested: Vec<u8>,
    /// The names in the parts that must belong to one field only. A field updated in place need only be the first of
    /// its name, since that is the one a delta means.
    unique: SmallVec<[&'a [u8]; 8]>,
    changed_in_place: usize,
}

/// Writes the delta of two documents; false when a changed name belongs to several fields, which a delta cannot address.
fn document_delta(before: &[u8], after: &[u8], form: DiffForm, out: &mut Vec<u8>) -> Result<bool> {
    let mut parts = Parts {
        form,
        removed: Vec::new(),
        updated: Vec::new(),
        inserted: Vec::new(),
        nested: Vec::new(),
        unique: SmallVec::new(),
        changed_in_place: 0,
    };
    let (mut old, mut new) = skip_common(before, after)?;
    while old.remaining_bytes() != new.remaining_bytes() {
        match (old.next(), new.next()) {
            (Some(field), Some(next)) if field.name_bytes() == next.name_bytes() => {
                parts.note_change_in_place(&field, &next, &old)?;
            }
            (None, None) => break,
            (field, next) => {
                let old_rest: Vec<Element<'_>> = field.into_iter().chain(old.elements.by_ref()).collect();
                let new_rest: Vec<Element<'_>> = next.into_iter().chain(new.elements.by_ref()).collect();
                parts.note_reordering(&old_rest, &new_rest)?;
                break;
            }
        }
    }
    if old.elements.is_malformed() || new.elements.is_malformed() {
        return Err(malformed("a value exceeds its document"));
    }
    let addressable = parts.unique.is_empty()
        || has_one_of_each(elements_of_bytes(before), &parts.unique)
            && has_one_of_each(elements_of_bytes(after), &parts.unique);
    if addressable {
        parts.write(out);
    }
    Ok(addressable)
}

/// A walk over a document that knows the bytes it has not reached.
struct Cursor<'a> {
    bytes: &'a [u8],
    elements: Elements<'a>,
}

impl<'a> Cursor<'a> {
    /// A walk that begins with the element at `offset`.
    fn new(bytes: &'a [u8], offset: usize) -> Self {
        // `elements_of_bytes` passes over four bytes, which are the length when the walk begins at the first element.
        let from = bytes.get(offset - FIRST_ELEMENT..).unwrap_or_default();
        Self { bytes, elements: elements_of_bytes(from) }
    }

    fn next(&mut self) -> Option<Element<'a>> {
        self.elements.next()
    }

    fn remaining_bytes(&self) -> &'a [u8] {
        self.bytes.get(self.bytes.len() - self.elements.remaining()..).unwrap_or_default()
    }

    /// Whether a field before the one just read has its name.
    fn has_passed(&self, field: &Element<'_>) -> bool {
        let passed = self.bytes.len() - self.elements.remaining() - field.value_bytes().len();
        let mut walk = elements_of_bytes(self.bytes);
        while let Some(earlier) = walk.next() {
            if self.bytes.len() - walk.remaining() >= passed {
                return false;
            }
            if earlier.name_bytes() == field.name_bytes() {
                return true;
            }
        }
        false
    }
}

/// Where the first element of a document lies.
const FIRST_ELEMENT: usize = 4;

/// Walks over both documents that begin with the first element in which they differ.
fn skip_common<'a>(before: &'a [u8], after: &'a [u8]) -> Result<(Cursor<'a>, Cursor<'a>)> {
    let old = before.get(FIRST_ELEMENT..).unwrap_or_default();
    let new = after.get(FIRST_ELEMENT..).unwrap_or_default();
    let common = FIRST_ELEMENT + common_prefix(old, new);
    let mut walk = elements_of_bytes(before);
    let mut offset = FIRST_ELEMENT;
    while walk.next().is_some() {
        let end = before.len() - walk.remaining();
        if end > common {
            break;
        }
        offset = end;
    }
    match walk.is_malformed() {
        true => Err(malformed("a value exceeds its document")),
        false => Ok((Cursor::new(before, offset), Cursor::new(after, offset))),
    }
}

/// How many bytes two sequences begin with in common.
fn common_prefix(left: &[u8], right: &[u8]) -> usize {
    const WORD: usize = 8;
    let words = left.chunks_exact(WORD).zip(right.chunks_exact(WORD));
    let equal = words.take_while(|(left, right)| left == right).count() * WORD;
    let rest = left.iter().zip(right).skip(equal);
    equal + rest.take_while(|(left, right)| left == right).count()
}

impl<'a> Parts<'a> {
    /// Notes how a field at the same place in both documents differs, if it does.
    fn note_change_in_place(&mut self, old: &Element<'a>, new: &Element<'a>, walk: &Cursor<'a>) -> Result<()> {
        if same_value(old, new) {
            return Ok(());
        }
        self.changed_in_place += 1;
        if self.changed_in_place > LINEAR_SEARCH_MAX || walk.has_passed(old) {
            self.unique.push(new.name_bytes());
        }
        self.note_change(old, new)
    }

    /// Notes how a field differs from its old value.
    fn note_change(&mut self, old: &Element<'a>, new: &Element<'a>) -> Result<()> {
        if !nested(&mut self.nested, new.name_bytes(), old, new, self.form)? {
            writer::element(&mut self.updated, new.element_type, new.name_bytes(), new.value_bytes());
        }
        Ok(())
    }

    /// Notes the differences from the first field on that has no partner in place. Fields that keep their relative
    /// order are paired; the other old ones are removed, and the new ones from the first without a partner appended.
    fn note_reordering(&mut self, old: &[Element<'a>], new: &[Element<'a>]) -> Result<()> {
        let mut gone: Vec<&Element<'a>> = Vec::new();
        let (mut at_old, mut at_new) = (0, 0);
        while let (Some(field), Some(next)) = (old.get(at_old), new.get(at_new)) {
            if field.name_bytes() == next.name_bytes() {
                if !same_value(field, next) {
                    self.unique.push(next.name_bytes());
                    self.note_change(field, next)?;
                }
                at_old += 1;
                at_new += 1;
                continue;
            }
            let later = old.get(at_old + 1..).unwrap_or_default();
            let Some(skipped) = later.iter().position(|field| field.name_bytes() == next.name_bytes()) else { break };
            gone.extend(old.iter().skip(at_old).take(skipped + 1));
            at_old += skipped + 1;
        }
        gone.extend(old.iter().skip(at_old));
        let appended = new.get(at_new..).unwrap_or_default();
        for field in appended {
            self.unique.push(field.name_bytes());
            writer::element(&mut self.inserted, field.element_type, field.name_bytes(), field.value_bytes());
        }
        let names = Names::of(appended.iter().map(Element::name_bytes));
        for field in gone.iter().filter(|field| !names.contains(field.name_bytes())) {
            self.unique.push(field.name_bytes());
            writer::element(&mut self.removed, ElementType::Boolean, field.name_bytes(), &[0]);
        }
        Ok(())
    }

    fn write(&self, out: &mut Vec<u8>) {
        let mark = writer::begin(out);
        for (name, fields) in [(b"d", &self.removed), (b"u", &self.updated), (b"i", &self.inserted)] {
            if !fields.is_empty() {
                writer::header(out, ElementType::EmbeddedDocument, name);
                let section = writer::begin(out);
                out.extend_from_slice(fields);
                writer::end(out, section);
            }
        }
        out.extend_from_slice(&self.nested);
        writer::end(out, mark);
    }
}

/// Writes `s<name>` with the difference of two documents or two arrays; false, and nothing written, when they are of
/// other types or the new value itself is to be preferred.
fn nested(out: &mut Vec<u8>, name: &[u8], old: &Element<'_>, new: &Element<'_>, form: DiffForm) -> Result<bool> {
    if old.element_type != new.element_type || !is_container(new) {
        return Ok(false);
    }
    let mark = out.len();
    out.push(ElementType::EmbeddedDocument as u8);
    out.push(b's');
    out.extend_from_slice(name);
    out.push(0);
    let body = out.len();
    let written = match new.element_type {
        ElementType::Array => array_delta(old.value_bytes(), new.value_bytes(), form, out)?,
        _ => document_delta(old.value_bytes(), new.value_bytes(), form, out)?,
    };
    let worth = written && (form == DiffForm::Paths || out.len() - body < new.value_bytes().len());
    if !worth {
        out.truncate(mark);
    }
    Ok(worth)
}

/// Writes the delta of two arrays, position by position.
fn array_delta(before: &[u8], after: &[u8], form: DiffForm, out: &mut Vec<u8>) -> Result<bool> {
    let old = collect(before)?;
    let new = collect(after)?;
    let mark = writer::begin(out);
    writer::element(out, ElementType::Boolean, b"a", &[1]);
    if new.len() < old.len() {
        let length = i32::try_from(new.len()).unwrap_or(i32::MAX);
        writer::element(out, ElementType::Int32, b"l", &length.to_le_bytes());
    }
    for (position, item) in new.iter().enumerate() {
        let name = PositionName::new(position);
        let before = old.get(position);
        if before.is_some_and(|before| same_value(before, item)) {
            continue;
        }
        if let Some(before) = before
            && nested(out, name.as_bytes(), before, item, form)?
        {
            continue;
        }
        out.push(item.element_type as u8);
        out.push(b'u');
        out.extend_from_slice(name.as_bytes());
        out.push(0);
        out.extend_from_slice(item.value_bytes());
    }
    writer::end(out, mark);
    Ok(true)
}

/// A set of field names.
enum Names<'a> {
    Few(SmallVec<[&'a [u8]; LINEAR_SEARCH_MAX]>),
    Many(HashSet<&'a [u8]>),
}

impl<'a> Names<'a> {
    fn of(names: impl ExactSizeIterator<Item = &'a [u8]>) -> Self {
        match names.len() <= LINEAR_SEARCH_MAX {
            true => Names::Few(names.collect()),
            false => Names::Many(names.collect()),
        }
    }

    fn contains(&self, name: &[u8]) -> bool {
        match self {
            Names::Few(names) => names.contains(&name),
            Names::Many(names) => names.contains(name),
        }
    }
}

/// Whether each of `names` belongs to at most one field.
fn has_one_of_each(mut fields: Elements<'_>, names: &[&[u8]]) -> bool {
    if let [name] = names {
        return fields.filter(|field| field.name_bytes() == *name).nth(1).is_none();
    }
    let names = Names::of(names.iter().copied());
    let mut met = HashSet::new();
    fields.all(|field| !names.contains(field.name_bytes()) || met.insert(field.name_bytes()))
}
