//! Applying a tree to a document: one pass over the elements, then the fields that are not in the document.
//!
//! Order of the result: fields stay where they are in the document; computed fields (and `$elemMatch` in an inclusion)
//! follow in the order of the projection, except that `$addFields` replaces in place.

use bson::spec::ElementType;
use document::{Element, ValueView, elements_of_bytes, work};
use smallvec::{SmallVec, smallvec};

use super::array_operators::{first_match, matched_element};
use super::tree::{Field, Fields};
use super::{Mode, find_field, write};
use crate::error::Result;
use crate::expression::{EvaluationContext, check_bytes};
use crate::growth::make_room;

/// An empty document, as stored.
const EMPTY_DOCUMENT: &[u8] = &[5, 0, 0, 0, 0];

/// Neighbouring elements that stay as they are, copied together.
struct KeptRun<'a> {
    document: &'a [u8],
    /// Where the run starts and ends in the document.
    bounds: std::ops::Range<usize>,
}

impl<'a> KeptRun<'a> {
    fn new(document: &'a [u8]) -> Self {
        Self { document, bounds: 0..0 }
    }

    /// Adds the element that lies between so many remaining bytes and so many.
    fn extend(&mut self, remaining_before: usize, remaining_after: usize, out: &mut Vec<u8>) -> Result<()> {
        let start = self.document.len().saturating_sub(remaining_before);
        if start != self.bounds.end {
            self.flush(out)?;
            self.bounds.start = start;
        }
        self.bounds.end = self.document.len().saturating_sub(remaining_after);
        Ok(())
    }

    fn flush(&mut self, out: &mut Vec<u8>) -> Result<()> {
        let run = self.document.get(self.bounds.clone()).unwrap_or_default();
        make_room(out, run.len())?;
        out.extend_from_slice(run);
        self.bounds.start = self.bounds.end;
        Ok(())
    }
}

/// One document being projected.
pub(super) struct Application<'a> {
    pub(super) mode: Mode,
    pub(super) context: EvaluationContext<'a>,
    /// Where the command's filter matched.
    pub(super) position: Option<usize>,
}

impl Application<'_> {
    /// Writes the projection of a stored document.
    pub(super) fn document(&self, fields: &Fields, document: &[u8], out: &mut Vec<u8>) -> Result<()> {
        work::done(work::of_elements(document.len()))?;
        let start = write::begin(out);
        // Which computed fields already stand in the place of the document's own.
        let mut written: SmallVec<[bool; 32]> = smallvec![false; if fields.has_computed { fields.len() } else { 0 }];
        let mut left = fields.len();
        let mut elements = elements_of_bytes(document);
        let mut kept = KeptRun::new(document);
        loop {
            let before = elements.remaining();
            let Some(element) = elements.next() else { break };
            let Some((ordinal, field)) = fields.find(element.name_bytes()) else {
                if self.mode != Mode::Inclusion {
                    kept.extend(before, elements.remaining(), out)?;
                }
                continue;
            };
            if matches!(field, Field::Include) {
                kept.extend(before, elements.remaining(), out)?;
            } else {
                kept.flush(out)?;
                if self.in_place(field, &element, out)?
                    && field.is_computed()
                    && let Some(written) = written.get_mut(ordinal)
                {
                    *written = true;
                }
            }
            left = left.saturating_sub(1);
            if left == 0 && self.mode == Mode::Inclusion {
                break;
            }
        }
        kept.flush(out)?;
        self.append_rest(fields, document, &written, out)?;
        write::end(out, start);
        Ok(())
    }

    /// Writes what becomes of an element where it stands; tells whether it is dealt with.
    fn in_place(&self, field: &Field, element: &Element<'_>, out: &mut Vec<u8>) -> Result<bool> {
        let name = element.name_bytes();
        match (field, element.view()) {
            (Field::Include, _) => write::copy(out, element)?,
            (Field::Exclude, _) => {}
            (Field::Slice(slice), ValueView::Array(array)) => write::array(out, name, slice.elements(array))?,
            (Field::Positional, ValueView::Array(array)) => self.matched(name, array, out)?,
            (Field::Slice(_) | Field::Positional, _) => write::copy(out, element)?,
            (Field::ElemMatch(_), _) if self.mode == Mode::Inclusion => return Ok(false),
            (Field::ElemMatch(filter), ValueView::Array(array)) => {
                if let Some(found) = first_match(filter, array)? {
                    write::array(out, name, std::iter::once(found))?;
                }
            }
            (Field::ElemMatch(_), _) => {}
            (Field::Computed(_), _) if self.mode == Mode::Inclusion => return Ok(false),
            (Field::Computed(expression), _) => {
                if let Some(value) = expression.evaluate(&self.context)?.get() {
                    write::value(out, name, value)?;
                }
            }
            (Field::Nested(inner), _) => self.nested(inner, element, name, out)?,
        }
        Ok(true)
    }

    /// Writes, as `name`, the projection of a value whose inner fields are projected.
    fn nested(&self, fields: &Fields, element: &Element<'_>, name: &[u8], out: &mut Vec<u8>) -> Result<()> {
        match element.view() {
            ValueView::Document(document) => {
                write::header(out, ElementType::EmbeddedDocument, name);
                self.document(fields, document, out)
            }
            ValueView::Array(array) if fields.has_position => self.matched(name, array, out),
            ValueView::Array(array) => self.nested_array(fields, array, name, out),
            _ if fields.has_computed => {
                write::header(out, ElementType::EmbeddedDocument, name);
                self.document(fields, EMPTY_DOCUMENT, out)
            }
            _ => {
                if self.mode != Mode::Inclusion {
                    write::copy_as(out, element, name)?;
                }
                Ok(())
            }
        }
    }

    fn nested_array(&self, fields: &Fields, array: &[u8], name: &[u8], out: &mut Vec<u8>) -> Result<()> {
        write::header(out, ElementType::Array, name);
        let start = write::begin(out);
        let mut position = 0;
        work::done(work::of_elements(array.len()))?;
        for element in elements_of_bytes(array) {
            let before = out.len();
            self.nested(fields, &element, write::Position::new(position).as_bytes(), out)?;
            // Scalars leave nothing in an inclusion, and the elements after them move up.
            position += usize::from(out.len() > before);
            // What is computed is in every element.
            check_bytes(out.len() - start)?;
        }
        write::end(out, start);
        Ok(())
    }

    /// Writes an array of the one element that the command's filter matched.
    fn matched(&self, name: &[u8], array: &[u8], out: &mut Vec<u8>) -> Result<()> {
        let element = matched_element(self.position, array)?;
        write::array(out, name, std::iter::once(element))
    }

    /// Writes the fields that come after those of the document.
    fn append_rest(&self, fields: &Fields, document: &[u8], written: &[bool], out: &mut Vec<u8>) -> Result<()> {
        if !fields.has_appended(self.mode) {
            return Ok(());
        }
        work::done(fields.len())?;
        for (ordinal, (name, field)) in fields.iter().enumerate() {
            match field {
                _ if written.get(ordinal).is_some_and(|written| *written) => {}
                Field::Computed(expression) => {
                    if let Some(value) = expression.evaluate(&self.context)?.get() {
                        write::value(out, name.as_bytes(), value)?;
                    }
                }
                Field::Nested(inner) if inner.has_computed => {
                    write::header(out, ElementType::EmbeddedDocument, name.as_bytes());
                    self.document(inner, EMPTY_DOCUMENT, out)?;
                }
                Field::ElemMatch(filter) if self.mode == Mode::Inclusion => {
                    if let Some(ValueView::Array(array)) = find_field(document, name)
                        && let Some(found) = first_match(filter, array)?
                    {
                        write::array(out, name.as_bytes(), std::iter::once(found))?;
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }
}

impl Fields {
    /// Whether fields of this level may come after the document's own.
    fn has_appended(&self, mode: Mode) -> bool {
        self.has_computed
            || (mode == Mode::Inclusion && self.iter().any(|(_, field)| matches!(field, Field::ElemMatch(_))))
    }
}
