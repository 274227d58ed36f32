//! Keys of documents with arrays on an indexed path: one key for each element.
//!
//! All paths are followed until each ends in a value, is missing, or leads into an array. All that lead into an array
//! must lead into the same one; then for each of its elements the paths continue from there, recursively. Details:
//! - an array at the end of a path gives its elements (an array among them is a value), or undefined when empty;
//! - an element that is no document gives null for a path that goes on;
//! - a number in a path is a position when the array has one there, and the array is then not expanded for that path.

use bson::RawDocument;
use bson::spec::ElementType;
use document::{Element, FieldPath, ValueView, elements_of_bytes, work};

use crate::encode::encode_view;
use crate::error::KeyError;
use crate::generate::Sparse;
use crate::key_pattern::{FieldKind, KeyField, KeyPattern};
use crate::key_set::KeySet;

/// How far one path has been followed.
#[derive(Clone, Copy)]
enum Place<'d> {
    /// To its end, or to where it is missing.
    Ended(Option<ValueView<'d>>),
    /// To a document in which component `next` is to be looked up.
    Document { stored: &'d [u8], next: usize },
    /// To an array, which the component before `next` led to.
    Array { stored: &'d [u8], next: usize },
}

/// Writes the keys of `document` into `keys`, sorted and without duplicates.
pub(crate) fn expand(
    pattern: &KeyPattern,
    sparse: Sparse,
    document: &RawDocument,
    keys: &mut KeySet,
) -> Result<(), KeyError> {
    let start = Place::Document { stored: document.as_bytes(), next: 0 };
    let places = vec![start; pattern.fields().len()];
    Expansion { pattern, sparse, keys, collected: None }.expand(places)?;
    keys.sort()?;
    Ok(())
}

/// Of a wildcard index: the values of its other fields, in the places that they have in the pattern; one list for each combination.
pub(crate) fn combinations<'d>(
    pattern: &KeyPattern,
    document: &'d RawDocument,
    keys: &mut KeySet,
) -> Result<Vec<Vec<ValueView<'d>>>, KeyError> {
    let start = |field: &KeyField| match field.kind {
        FieldKind::Ordered => Place::Document { stored: document.as_bytes(), next: 0 },
        _ => Place::Ended(None),
    };
    let places = pattern.fields().iter().map(start).collect();
    let mut expansion = Expansion { pattern, sparse: Sparse::No, keys, collected: Some(Vec::new()) };
    expansion.expand(places)?;
    Ok(expansion.collected.unwrap_or_default())
}

struct Expansion<'p, 'k, 'd> {
    pattern: &'p KeyPattern,
    sparse: Sparse,
    keys: &'k mut KeySet,
    /// Where no keys are written.
    collected: Option<Vec<Vec<ValueView<'d>>>>,
}

/// Combinations of values beyond which it is asked whether there is memory.
const MANY: usize = 1024;

impl<'d> Expansion<'_, '_, 'd> {
    fn expand(&mut self, mut places: Vec<Place<'d>>) -> Result<(), KeyError> {
        work::done(places.len())?;
        for (place, field) in places.iter_mut().zip(self.pattern.fields()) {
            *place = follow(*place, &field.path)?;
        }
        let Some(array) = self.common_array(&places)? else {
            return self.emit(&places);
        };
        let mut items = elements_of_bytes(array).peekable();
        if items.peek().is_none() {
            let places = places.iter().zip(self.pattern.fields());
            return self.expand(places.map(|(place, field)| enter_empty(*place, &field.path)).collect());
        }
        for item in items {
            let places = places.iter().zip(self.pattern.fields());
            self.expand(places.map(|(place, field)| enter(*place, item, &field.path)).collect())?;
        }
        Ok(())
    }

    /// The array that paths lead into, if any do; an error if there are two.
    fn common_array(&mut self, places: &[Place<'d>]) -> Result<Option<&'d [u8]>, KeyError> {
        let mut common: Option<(&'d [u8], &str)> = None;
        for (index, (place, field)) in places.iter().zip(self.pattern.fields()).enumerate() {
            let Place::Array { stored, next } = *place else { continue };
            let name = field.path.name(next - 1);
            match common {
                Some((other, first)) if !std::ptr::eq(other, stored) => {
                    return Err(KeyError::ParallelArrays { first: first.to_owned(), second: name.to_owned() });
                }
                Some(_) => {}
                None => common = Some((stored, name)),
            }
            self.keys.note_array(index, next - 1, self.pattern.fields().len());
        }
        Ok(common.map(|(stored, _)| stored))
    }

    /// Writes one key: every path has ended.
    fn emit(&mut self, places: &[Place<'d>]) -> Result<(), KeyError> {
        if let Some(collected) = &mut self.collected {
            let bytes =
                2 * collected.len() * (size_of::<Vec<ValueView<'_>>>() + places.len() * size_of::<ValueView<'_>>());
            if collected.len().is_multiple_of(MANY) && !self.keys.has_room(bytes) {
                return Err(KeyError::NoMemory { bytes });
            }
            let value = |place: &Place<'d>| match place {
                Place::Ended(Some(value)) => *value,
                _ => ValueView::Null,
            };
            collected.push(places.iter().map(value).collect());
            return Ok(());
        }
        let (out, type_bits) = self.keys.begin_key();
        let mut any_present = false;
        for (place, field) in places.iter().zip(self.pattern.fields()) {
            let value = match place {
                Place::Ended(value) => *value,
                _ => None,
            };
            any_present |= value.is_some();
            let value = value.unwrap_or(ValueView::Null);
            encode_view(out, type_bits, value, field.direction, self.pattern.collator());
        }
        if any_present || self.sparse == Sparse::No {
            self.keys.finish_key();
            self.keys.check_limits()
        } else {
            self.keys.abandon_key();
            Ok(())
        }
    }
}

/// Follows `path` from `place` until it ends or leads into an array that must be expanded.
fn follow<'d>(mut place: Place<'d>, path: &FieldPath) -> Result<Place<'d>, KeyError> {
    loop {
        place = match place {
            Place::Ended(_) => return Ok(place),
            Place::Document { stored, next } => {
                work::search(stored)?;
                match elements_of_bytes(stored).find_named(path.name(next).as_bytes()) {
                    Some(element) => arrive(element, next + 1, path),
                    None => Place::Ended(None),
                }
            }
            Place::Array { stored, next } => match at_position(stored, next, path)? {
                Some(element) => arrive(element, next + 1, path),
                None => return Ok(place),
            },
        }
    }
}

/// Where a path is after its component before `next` led to `element`.
fn arrive<'d>(element: Element<'d>, next: usize, path: &FieldPath) -> Place<'d> {
    match element.element_type {
        ElementType::Array => Place::Array { stored: element.value_bytes(), next },
        _ if next == path.len() => Place::Ended(Some(element.view())),
        ElementType::EmbeddedDocument => Place::Document { stored: element.value_bytes(), next },
        _ => Place::Ended(None),
    }
}

/// The element that component `next` of `path` names by its position, if it is a number and there is one.
fn at_position<'d>(array: &'d [u8], next: usize, path: &FieldPath) -> Result<Option<Element<'d>>, KeyError> {
    let Some(position) = path.position(next) else { return Ok(None) };
    work::search(array)?;
    let Some(element) = elements_of_bytes(array).nth(position) else { return Ok(None) };
    let name = path.name(next);
    let has_field = |item: Element<'_>| {
        item.element_type == ElementType::EmbeddedDocument
            && elements_of_bytes(item.value_bytes()).find_named(name.as_bytes()).is_some()
    };
    if elements_of_bytes(array).any(has_field) {
        let array = path.name(next - 1).to_owned();
        return Err(KeyError::AmbiguousFieldName { field: name.to_owned(), array });
    }
    Ok(Some(element))
}

/// Where a path is inside the element `item` of the array it led into.
fn enter<'d>(place: Place<'d>, item: Element<'d>, path: &FieldPath) -> Place<'d> {
    match place {
        Place::Array { next, .. } if next == path.len() => Place::Ended(Some(item.view())),
        Place::Array { next, .. } if item.element_type == ElementType::EmbeddedDocument => {
            Place::Document { stored: item.value_bytes(), next }
        }
        Place::Array { .. } => Place::Ended(None),
        _ => place,
    }
}

/// Where a path is when the array it led into is empty.
fn enter_empty<'d>(place: Place<'d>, path: &FieldPath) -> Place<'d> {
    match place {
        Place::Array { next, .. } if next == path.len() => Place::Ended(Some(ValueView::Undefined)),
        Place::Array { .. } => Place::Ended(None),
        _ => place,
    }
}
