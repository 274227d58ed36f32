//! Different values, kept in as little memory as a reply has that lists them. Used by `distinct`.
//!
//! Values are one behind the other in one buffer, as BSON has them, with the keys that order them beside; a table of positions finds equal
//! ones. So what a client may be sent bounds what is held for it.

use std::hash::{BuildHasher, RandomState};

use bson::spec::ElementType;
use bson::{RawBsonRef, RawDocument};
use document::{FieldPath, collation, elements_of_bytes, get_field, work};
use index_key::{Direction, encode_collated_value};
use query_language::growth;

use crate::error::{ExecutorError, Result};

/// Bytes that the values of a reply may have.
const VALUES_BYTES_MAX: usize = 16 << 20;

/// Values in the order in which they were added.
#[derive(Debug, Default)]
pub struct ValueList {
    /// Of each: its key, if it has one, then its type and its value.
    bytes: Vec<u8>,
    places: Vec<Place>,
    /// Bytes that the values have as elements of an array.
    array_bytes: usize,
}

/// Where a value is.
#[derive(Debug, Clone, Copy)]
struct Place {
    start: u32,
    key_length: u32,
    value_length: u32,
}

impl ValueList {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// The values' types and bytes.
    pub fn iter(&self) -> impl Iterator<Item = (ElementType, &[u8])> {
        self.places.iter().filter_map(|place| {
            let start = place.start as usize + place.key_length as usize;
            let (kind, value) = self.bytes.get(start..start + place.value_length as usize)?.split_first()?;
            Some((ElementType::from(*kind)?, value))
        })
    }

    /// Adds a value behind the others.
    ///
    /// # Errors
    /// `DistinctTooBig`.
    pub(crate) fn push(&mut self, key: &[u8], value: RawBsonRef<'_>) -> Result<()> {
        let start = self.bytes.len();
        growth::make_room(&mut self.bytes, key.len() + 2 + growth::value_bytes(value))?;
        self.bytes.extend_from_slice(key);
        growth::write_value(&mut self.bytes, &[], value)?;
        // Nothing stands for the empty name's end.
        self.bytes.remove(start + key.len() + 1);
        let value_length = self.bytes.len() - start - key.len();
        let position_digits = self.places.len().max(1).ilog10() as usize + 1;
        self.array_bytes += 1 + position_digits + value_length;
        // Keys take about as much as values, so that positions have 32 bits.
        if self.array_bytes > VALUES_BYTES_MAX || start > u32::MAX as usize / 2 {
            return Err(ExecutorError::DistinctTooBig);
        }
        let place = Place { start: start as u32, key_length: key.len() as u32, value_length: value_length as u32 };
        Ok(growth::push(&mut self.places, place)?)
    }

    fn key(&self, place: Place) -> &[u8] {
        let start = place.start as usize;
        self.bytes.get(start..start + place.key_length as usize).unwrap_or_default()
    }

    fn sort_by_keys(&mut self) -> Result<()> {
        let mut places = std::mem::take(&mut self.places);
        work::sort_by(&mut places, |left, right| self.key(*left).cmp(self.key(*right)))?;
        self.places = places;
        Ok(())
    }
}

/// The different values met so far.
#[derive(Debug, Default)]
pub struct DistinctValues {
    found: ValueList,
    /// By the hash of its key, the position of a value and 1; 0 where there is none.
    slots: Vec<u32>,
    hasher: RandomState,
    key: Vec<u8>,
}

impl DistinctValues {
    /// Adds what `path` leads to in a document.
    ///
    /// # Errors
    /// `DistinctTooBig`.
    pub fn add_document(&mut self, document: &RawDocument, path: &FieldPath) -> Result<()> {
        collect(document, path, 0, self)
    }

    /// The values, in BSON's order. Of equal ones, such as numbers of several types, it is the one that was met first.
    ///
    /// # Errors
    /// The command is to stop.
    pub fn into_values(mut self) -> Result<ValueList> {
        self.found.sort_by_keys()?;
        Ok(self.found)
    }

    fn add(&mut self, value: RawBsonRef<'_>) -> Result<()> {
        let mut key = std::mem::take(&mut self.key);
        key.clear();
        // The buffer may double.
        growth::before_copying(Some(value), 2)?;
        encode_collated_value(&mut key, value, Direction::Ascending, collation::in_force().as_deref());
        work::done(work::of_bytes(key.len()))?;
        self.grow()?;
        let slot = self.slot_of(&key);
        let added = match self.slots.get_mut(slot) {
            Some(empty @ 0) => {
                *empty = self.found.len() as u32 + 1;
                self.found.push(&key, value)
            }
            _ => Ok(()),
        };
        self.key = key;
        added
    }

    /// Where the key is, or would be. There is an empty slot.
    fn slot_of(&self, key: &[u8]) -> usize {
        let mask = self.slots.len() - 1;
        let mut slot = self.hasher.hash_one(key) as usize & mask;
        while let Some(position) = self.slots.get(slot).and_then(|taken| taken.checked_sub(1)) {
            let is_it = self.found.places.get(position as usize).is_some_and(|place| self.found.key(*place) == key);
            if is_it {
                break;
            }
            slot = (slot + 1) & mask;
        }
        slot
    }

    /// Keeps a quarter of the slots empty.
    fn grow(&mut self) -> Result<()> {
        if (self.found.len() + 1) * 4 <= self.slots.len() * 3 {
            return Ok(());
        }
        query_language::before_allocating_if_large(2 * size_of_val(self.slots.as_slice()))?;
        self.slots = vec![0; (self.slots.len() * 2).max(16)];
        for position in 0..self.found.len() {
            let Some(place) = self.found.places.get(position) else { continue };
            let slot = self.slot_of(self.found.key(*place));
            if let Some(empty) = self.slots.get_mut(slot) {
                *empty = position as u32 + 1;
            }
        }
        Ok(())
    }
}

fn collect(document: &RawDocument, path: &FieldPath, component: usize, found: &mut DistinctValues) -> Result<()> {
    match get_field(document, path.name(component)) {
        Some(value) => follow(value, path, component + 1, found),
        None => Ok(()),
    }
}

/// Goes on from what the components before `component` led to.
fn follow(value: RawBsonRef<'_>, path: &FieldPath, component: usize, found: &mut DistinctValues) -> Result<()> {
    let is_end = component == path.len();
    match value {
        RawBsonRef::Array(array) if is_end => {
            elements_of_bytes(array.as_bytes()).try_for_each(|element| found.add(element.value()))
        }
        value if is_end => found.add(value),
        RawBsonRef::Document(inner) => collect(inner, path, component, found),
        RawBsonRef::Array(array) => {
            let named = path.position(component);
            for (position, element) in elements_of_bytes(array.as_bytes()).enumerate() {
                if named == Some(position) {
                    follow(element.value(), path, component + 1, found)?;
                } else if let RawBsonRef::Document(inner) = element.value() {
                    collect(inner, path, component, found)?;
                }
            }
            Ok(())
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_values_are_kept_once_and_all_come_in_order() {
        let (mut found, path) = (DistinctValues::default(), FieldPath::new("a"));
        for number in (0..1000).rev().chain(0..1000) {
            let document = bson::rawdoc! { "a": [number, f64::from(number), format!("s{number:04}")] };
            found.add_document(&document, &path).unwrap();
        }
        let values = found.into_values().unwrap();
        assert_eq!(values.len(), 2000);
        let kinds: Vec<ElementType> = values.iter().map(|(kind, _)| kind).collect();
        assert!(kinds[..1000].iter().all(|kind| *kind == ElementType::Int32));
        assert_eq!(values.iter().next().unwrap().1, 0_i32.to_le_bytes());
        assert_eq!(values.iter().last().unwrap().1, b"\x06\0\0\0s0999\0");
    }

    #[test]
    fn what_no_reply_has_room_for_is_refused() {
        let (mut found, path) = (DistinctValues::default(), FieldPath::new("a"));
        let text = "x".repeat(1 << 20);
        let mut add = |number: i32| found.add_document(&bson::rawdoc! { "a": format!("{number:02}{text}") }, &path);
        (0..15).for_each(|number| add(number).unwrap());
        assert!(matches!(add(15), Err(ExecutorError::DistinctTooBig)));
    }
}
