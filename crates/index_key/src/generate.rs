//! The keys of a document in the indexes of its collection.
//!
//! A [`KeyGenerator`] knows all key patterns of a collection and reads a document once for all of them
//! ([`KeyGenerator::read`]); then each index's keys are written into a reusable [`KeySet`]. Without arrays on the
//! indexed paths there is one key and nothing is allocated; with arrays, `multikey.rs` takes over.
//! Called by `collection` for every insert, update and delete.

use bson::RawDocument;
use bson::spec::ElementType;
use document::{
    Element, FieldPath, ValueView, elements_of_bytes, index_hash_of_stored, split_element, stored_length, work,
};

use crate::encode::{encode_stored, encode_view};
use crate::error::KeyError;
use crate::key_pattern::{FieldKind, KeyField, KeyPattern};
use crate::key_set::KeySet;
use crate::multikey;
use crate::places;
use crate::text;
use crate::wildcard;

/// Whether an index leaves out documents that have none of its fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Sparse {
    No,
    Yes,
}

/// Generates the keys of documents for a fixed set of indexes.
#[derive(Debug, Clone)]
pub struct KeyGenerator {
    indexes: Vec<IndexPlan>,
    /// The top-level fields that any index needs, by name, each with its slot.
    names: Vec<(Box<[u8]>, u16)>,
}

#[derive(Debug, Clone)]
struct IndexPlan {
    pattern: KeyPattern,
    sparse: Sparse,
    /// Per field of the pattern, which of `names` its path starts with.
    slots: Box<[u16]>,
}

/// Where the needed fields of one document are, and the order of fields in the document before it.
///
/// Documents of a collection tend to have the same fields in the same order, so the slot found for a position is
/// tried first at that position of the next document.
#[derive(Debug, Clone, Default)]
pub struct ExtractedFields {
    slots: Vec<Option<FieldPlace>>,
    shape: Vec<ShapeEntry>,
}

#[derive(Debug, Clone, Copy)]
struct FieldPlace {
    element_type: ElementType,
    start: u32,
    end: u32,
}

/// The element last seen at some position of a document.
#[derive(Debug, Clone)]
struct ShapeEntry {
    /// Type byte, name and terminator.
    header: Vec<u8>,
    /// The first eight bytes of the header, and a mask of those that there are.
    word: u64,
    mask: u64,
    element_type: ElementType,
    slot: Option<u16>,
}

impl ShapeEntry {
    const EMPTY: ShapeEntry =
        ShapeEntry { header: Vec::new(), word: 0, mask: 0, element_type: ElementType::Null, slot: None };

    /// Remembers another element instead, in the memory there is.
    fn set(&mut self, element: Element<'_>, slot: Option<u16>) {
        self.header.clear();
        self.header.push(element.element_type as u8);
        self.header.extend_from_slice(element.name_bytes());
        self.header.push(0);
        let mut bytes = [0; 8];
        let mut mask = [0; 8];
        for ((byte, mask), known) in bytes.iter_mut().zip(&mut mask).zip(&self.header) {
            (*byte, *mask) = (*known, u8::MAX);
        }
        (self.word, self.mask) = (u64::from_le_bytes(bytes), u64::from_le_bytes(mask));
        (self.element_type, self.slot) = (element.element_type, slot);
    }

    /// Where the value is in `rest`, if `rest` starts with an element of the same type and name.
    ///
    /// One load and one comparison for names up to six bytes; the value's length is a guess that the processor can
    /// make early, so that elements are not waited for one after another.
    #[inline]
    fn value_range(&self, rest: &[u8]) -> Option<std::ops::Range<usize>> {
        let word = u64::from_le_bytes(*rest.first_chunk()?);
        if word & self.mask != self.word || (self.header.len() > 8 && !rest.starts_with(&self.header)) {
            return None;
        }
        let start = self.header.len();
        let end = start + stored_length(self.element_type, rest.get(start..)?)?;
        (end < rest.len()).then_some(start..end)
    }
}

/// Where a field's value is, its type, and its slot if an index needs it.
type FoundField = (std::ops::Range<usize>, ElementType, Option<u16>);

/// Positions beyond this are looked up by name: documents that large are not worth remembering.
const SHAPE_MAX: usize = 128;

impl KeyGenerator {
    /// A generator for these indexes; they are numbered in the order given.
    pub fn new(indexes: impl IntoIterator<Item = (KeyPattern, Sparse)>) -> Self {
        let mut generator = Self { indexes: Vec::new(), names: Vec::new() };
        for (pattern, sparse) in indexes {
            // These look at a document themselves: at all of it, at its places, at its texts.
            let looks_for_itself =
                pattern.wildcard().is_some() || pattern.places().is_some() || pattern.text().is_some();
            let fields: &[KeyField] = if looks_for_itself { &[] } else { pattern.fields() };
            let slots = fields.iter().map(|field| generator.slot(field.path.first())).collect();
            generator.indexes.push(IndexPlan { pattern, sparse, slots });
        }
        generator
    }

    /// The number of indexes.
    pub fn len(&self) -> usize {
        self.indexes.len()
    }

    /// True when there are no indexes.
    pub fn is_empty(&self) -> bool {
        self.indexes.is_empty()
    }

    /// The key pattern of the index numbered `index`.
    pub fn pattern(&self, index: usize) -> Option<&KeyPattern> {
        self.indexes.get(index).map(|plan| &plan.pattern)
    }

    /// The slot of a top-level field, new if no index had it yet.
    fn slot(&mut self, name: &str) -> u16 {
        let slot = self.names.len() as u16;
        match self.names.binary_search_by(|(known, _)| (**known).cmp(name.as_bytes())) {
            Ok(known) => self.names.get(known).map_or(slot, |(_, slot)| *slot),
            Err(place) => {
                self.names.insert(place, (name.as_bytes().into(), slot));
                slot
            }
        }
    }

    /// Finds, in one pass over `document`, the fields that the indexes need.
    ///
    /// # Errors
    /// `Interrupted`.
    pub fn read(&self, document: &RawDocument, fields: &mut ExtractedFields) -> Result<(), KeyError> {
        let ExtractedFields { slots, shape } = fields;
        slots.clear();
        slots.resize(self.names.len(), None);
        let mut missing = self.names.len();
        let bytes = document.as_bytes();
        let mut start = 4;
        for position in 0.. {
            let Some(rest) = bytes.get(start..).filter(|_| missing > 0) else { break };
            let known = shape.get(position).and_then(|entry| Some((entry.value_range(rest)?, entry)));
            let (range, element_type, slot) = match known {
                Some((range, entry)) => (range, entry.element_type, entry.slot),
                None => match self.learn(rest, position, shape)? {
                    Some(found) => found,
                    None => break,
                },
            };
            if let Some(place @ None) = slot.and_then(|slot| slots.get_mut(usize::from(slot))) {
                let value = (start + range.start) as u32..(start + range.end) as u32;
                *place = Some(FieldPlace { element_type, start: value.start, end: value.end });
                missing -= 1;
            }
            start += range.end;
        }
        Ok(())
    }

    /// Reads the element that `rest` starts with and remembers it at its position; `None` at the end.
    #[inline(never)]
    fn learn(&self, rest: &[u8], position: usize, shape: &mut Vec<ShapeEntry>) -> Result<Option<FoundField>, KeyError> {
        work::step()?;
        let Some((element, after)) = split_element(rest) else { return Ok(None) };
        let name = element.name_bytes();
        let known = self.names.binary_search_by(|(known, _)| (**known).cmp(name)).ok();
        let slot = known.and_then(|known| self.names.get(known)).map(|(_, slot)| *slot);
        if shape.len() <= position && position < SHAPE_MAX {
            shape.resize(position + 1, ShapeEntry::EMPTY);
        }
        if let Some(entry) = shape.get_mut(position) {
            entry.set(element, slot);
        }
        let end = rest.len() - after.len();
        Ok(Some((end - element.value_bytes().len()..end, element.element_type, slot)))
    }

    /// Writes the keys of `document`, which `fields` was read from, in the index numbered `index` into `keys`.
    ///
    /// `keys` is cleared first; an unknown `index` leaves it empty.
    #[inline]
    pub fn keys(
        &self,
        index: usize,
        document: &RawDocument,
        fields: &ExtractedFields,
        keys: &mut KeySet,
    ) -> Result<(), KeyError> {
        keys.clear();
        let Some(plan) = self.indexes.get(index) else { return Ok(()) };
        work::step()?;
        if let Some(paths) = plan.pattern.wildcard() {
            return wildcard::expand(&plan.pattern, paths, document, keys);
        }
        if let Some(cells) = plan.pattern.places() {
            return places::expand(&plan.pattern, cells, document, keys);
        }
        if let Some(definition) = plan.pattern.text() {
            return text::expand(&plan.pattern, definition, document, keys);
        }
        let (out, type_bits) = keys.begin_key();
        let mut any_present = false;
        let collator = plan.pattern.collator();
        for (field, slot) in plan.pattern.fields().iter().zip(&plan.slots) {
            let first = fields.stored(*slot, document);
            let found = match first {
                Some((element_type, stored)) => follow(element_type, stored, &field.path)?,
                None => Found::Missing,
            };
            match found {
                Found::Array if plan.pattern.is_hashed() => {
                    keys.abandon_key();
                    return Err(KeyError::HashedArray { field: field.path.as_str().to_owned() });
                }
                Found::Value(..) | Found::Missing if field.kind == FieldKind::Hashed => {
                    any_present |= matches!(found, Found::Value(..));
                    encode_view(out, type_bits, ValueView::Int64(hash_of(&found)?), field.direction, None);
                }
                Found::Value(element_type, stored) => {
                    any_present = true;
                    encode_stored(out, type_bits, element_type, stored, field.direction, collator);
                }
                Found::Missing => encode_view(out, type_bits, ValueView::Null, field.direction, None),
                Found::Array => {
                    keys.abandon_key();
                    return multikey::expand(&plan.pattern, plan.sparse, document, keys);
                }
            }
        }
        if any_present || plan.sparse == Sparse::No {
            keys.finish_key();
        } else {
            keys.abandon_key();
        }
        Ok(())
    }
}

impl ExtractedFields {
    /// Nothing read yet; allocates nothing.
    pub fn new() -> Self {
        Self::default()
    }

    #[inline]
    fn stored<'d>(&self, slot: u16, document: &'d RawDocument) -> Option<(ElementType, &'d [u8])> {
        let place = (*self.slots.get(usize::from(slot))?)?;
        Some((place.element_type, document.as_bytes().get(place.start as usize..place.end as usize)?))
    }
}

pub(crate) enum Found<'d> {
    Value(ElementType, &'d [u8]),
    Missing,
    Array,
}

/// What is missing has the hash of null.
fn hash_of(found: &Found<'_>) -> Result<i64, KeyError> {
    Ok(match found {
        Found::Value(element_type, stored) => index_hash_of_stored(*element_type, stored)?,
        _ => index_hash_of_stored(ElementType::Null, &[])?,
    })
}

/// Follows the rest of `path` from the value of its first component, through documents only.
#[inline]
pub(crate) fn follow<'d>(element_type: ElementType, stored: &'d [u8], path: &FieldPath) -> Result<Found<'d>, KeyError> {
    if path.len() > 1 {
        return follow_inner(element_type, stored, path);
    }
    Ok(if element_type == ElementType::Array { Found::Array } else { Found::Value(element_type, stored) })
}

fn follow_inner<'d>(
    mut element_type: ElementType,
    mut stored: &'d [u8],
    path: &FieldPath,
) -> Result<Found<'d>, KeyError> {
    for index in 1..path.len() {
        match element_type {
            ElementType::EmbeddedDocument => {}
            ElementType::Array => return Ok(Found::Array),
            _ => return Ok(Found::Missing),
        }
        work::search(stored)?;
        match elements_of_bytes(stored).find_named(path.name(index).as_bytes()) {
            Some(inner) => (element_type, stored) = (inner.element_type, inner.value_bytes()),
            None => return Ok(Found::Missing),
        }
    }
    Ok(if element_type == ElementType::Array { Found::Array } else { Found::Value(element_type, stored) })
}

/// The keys of `document` in one index. For many documents or indexes use a [`KeyGenerator`].
pub fn keys_for_document(pattern: &KeyPattern, sparse: Sparse, document: &RawDocument) -> Result<KeySet, KeyError> {
    let generator = KeyGenerator::new([(pattern.clone(), sparse)]);
    let (mut fields, mut keys) = (ExtractedFields::new(), KeySet::new());
    generator.read(document, &mut fields)?;
    generator.keys(0, document, &fields, &mut keys)?;
    Ok(keys)
}
