//! The groups of a `$group` in memory, found by the hash of their key.
//!
//! Keys lie one behind the other, and so do the states of each accumulator; a table of positions, in open addressing,
//! leads from a hash to them. Room for more groups is asked for before it is made.

use std::hash::{BuildHasher, Hasher, RandomState};

use bson::raw::{RawBson, RawBsonRef, RawDocumentBuf};
use document::{ValueView, collation, compare_views, hash_view, work};
use query_language::accumulator::GroupStates;
use query_language::expression::{EvaluationContext, Variables};
use query_language::growth::before_copying;
use query_language::rows::Slot;

use super::Group;
use super::hasher::{KeyHasher, Seeds};
use crate::error::Result;
use crate::stage::stage_document;

/// Groups for which there is room at first.
const GROUPS_MIN: usize = 64;

/// The groups in the order of their first documents.
pub(super) struct GroupTable {
    keys: Vec<Slot>,
    /// Of the keys that are no words.
    key_bytes: Vec<u8>,
    /// By the hash of a key: the hash and the number of its group and 1, or 0.
    places: Vec<Place>,
    pub(super) states: Vec<Box<dyn GroupStates>>,
    seeds: Seeds,
    /// Groups for which there is room.
    room: usize,
}

#[derive(Debug, Clone, Copy, Default)]
struct Place {
    hash: u32,
    group: u32,
}

impl GroupTable {
    pub(super) fn new(stage: &Group) -> Self {
        let states = stage.fields.iter().map(|(_, accumulator)| accumulator.new_states()).collect();
        let random = RandomState::new();
        let seeds = Seeds { first: random.hash_one(0u8), second: random.hash_one(1u8) };
        Self { keys: Vec::new(), key_bytes: Vec::new(), places: Vec::new(), states, seeds, room: 0 }
    }

    /// How many groups there are.
    pub(super) fn len(&self) -> usize {
        self.keys.len()
    }

    /// How many more there is room for.
    pub(super) fn free(&self) -> usize {
        self.room.saturating_sub(self.len())
    }

    /// Bytes that the groups take.
    pub(super) fn memory_bytes(&self) -> usize {
        self.bytes_for(self.room)
    }

    fn bytes_for(&self, groups: usize) -> usize {
        let states =
            self.states.iter().map(|states| states.bytes_for(groups) + states.bytes_elsewhere()).sum::<usize>();
        let places = places_for(groups) * size_of::<Place>();
        groups * size_of::<Slot>() + places + self.key_bytes.capacity() + states
    }

    /// Bytes of the largest group's results, or more.
    pub(super) fn largest_bytes(&self) -> usize {
        self.states.iter().map(|states| states.largest_bytes()).sum()
    }

    /// Bytes that the groups would take if so many came; `None`: there is room for them.
    pub(super) fn bytes_with(&self, more: usize) -> Option<usize> {
        let groups = self.len() + more;
        (groups > self.room).then(|| self.bytes_for(room_for(groups)))
    }

    /// Makes room for so many groups more.
    pub(super) fn make_room(&mut self, more: usize) -> Result<()> {
        let groups = self.len() + more;
        if groups <= self.room {
            return Ok(());
        }
        let room = room_for(groups);
        query_language::before_allocating_if_large(self.bytes_for(room) - self.memory_bytes())?;
        self.keys.reserve_exact(room - self.keys.len());
        self.states.iter_mut().for_each(|states| states.make_room(room));
        self.room = room;
        let places = places_for(room);
        if places > self.places.len() {
            let old = std::mem::replace(&mut self.places, vec![Place::default(); places]);
            work::done(work::of_bytes(places * size_of::<Place>()))?;
            for place in old.into_iter().filter(|place| place.group != 0) {
                self.put(place);
            }
        }
        Ok(())
    }

    /// Puts an entry into the first empty place from that of its hash on.
    fn put(&mut self, entry: Place) {
        let mask = self.places.len().wrapping_sub(1);
        let mut at = entry.hash as usize & mask;
        while let Some(place) = self.places.get_mut(at) {
            if place.group == 0 {
                *place = entry;
                return;
            }
            at = (at + 1) & mask;
        }
    }

    /// The hash of a key.
    #[inline]
    pub(super) fn hash(&self, key: Slot, bytes: &[u8]) -> u32 {
        self.seeds.of_slot(key, bytes)
    }

    /// The group of a key, which is made when it is the first. There is room for one more.
    #[inline]
    pub(super) fn find_or_add(
        &mut self,
        stage: &Group,
        (key, bytes): (Slot, &[u8]),
        hash: u32,
        variables: &Variables,
    ) -> Result<u32> {
        let mask = self.places.len().wrapping_sub(1);
        let mut at = hash as usize & mask;
        while let Some(place) = self.places.get(at) {
            if place.group == 0 {
                break;
            }
            if place.hash == hash {
                let known = self.keys.get(place.group as usize - 1).copied().unwrap_or_default();
                if same_key((known, &self.key_bytes), (key, bytes)) {
                    return Ok(place.group - 1);
                }
            }
            at = (at + 1) & mask;
        }
        self.add(stage, (key, bytes), (hash, at), variables)
    }

    #[cold]
    #[inline(never)]
    fn add(
        &mut self,
        stage: &Group,
        (key, bytes): (Slot, &[u8]),
        (hash, at): (u32, usize),
        variables: &Variables,
    ) -> Result<u32> {
        let known = match (key.element_type(), key.inline_word()) {
            (Some(element_type), None) => Slot::of_stored(element_type, key.stored(bytes), &mut self.key_bytes)?,
            _ => key,
        };
        add_states(stage, &mut self.states, key.value(bytes), variables)?;
        self.keys.push(known);
        let group = self.keys.len() as u32;
        if let Some(place) = self.places.get_mut(at) {
            *place = Place { hash, group };
        }
        Ok(group - 1)
    }

    /// The key of a group, as it is grouped by.
    pub(super) fn key(&self, group: usize) -> RawBsonRef<'_> {
        self.keys.get(group).and_then(|key| key.value(&self.key_bytes)).unwrap_or(RawBsonRef::Null)
    }

    /// Gives up all groups.
    pub(super) fn clear(&mut self) {
        (self.keys, self.key_bytes, self.places, self.room) = (Vec::new(), Vec::new(), Vec::new(), 0);
        self.states.iter_mut().for_each(|states| states.clear());
    }
}

/// Groups for which room is made where there are so many.
fn room_for(groups: usize) -> usize {
    groups.next_power_of_two().max(GROUPS_MIN)
}

/// Places of a table for so many groups, of which a half is taken at most.
fn places_for(groups: usize) -> usize {
    if groups == 0 { 0 } else { 2 * groups.next_power_of_two() }
}

/// Whether two keys are one.
#[inline]
fn same_key((left, left_bytes): (Slot, &[u8]), (right, right_bytes): (Slot, &[u8])) -> bool {
    if left.element_type() == right.element_type() {
        match (left.inline_word(), right.inline_word()) {
            (Some(left), Some(right)) if left == right => return true,
            (None, None) if !collation::is_in_force() && left.stored(left_bytes) == right.stored(right_bytes) => {
                return true;
            }
            _ => {}
        }
    }
    match (left.view(left_bytes), right.view(right_bytes)) {
        (Some(left), Some(right)) => compare_views(left, right).is_eq(),
        (left, right) => left.is_none() && right.is_none(),
    }
}

impl Seeds {
    /// Equal keys have one hash, whatever their types.
    #[inline]
    fn of_slot(self, key: Slot, bytes: &[u8]) -> u32 {
        match key.view(bytes) {
            Some(ValueView::Int32(value)) => self.of_integer(i64::from(value)),
            Some(ValueView::Int64(value)) => self.of_integer(value),
            Some(ValueView::Double(value)) if value as i64 as f64 == value && value.abs() < 9e15 => {
                self.of_integer(value as i64)
            }
            Some(ValueView::String(text)) if !collation::is_in_force() => self.of_bytes(text),
            view => self.of_other(view.unwrap_or(ValueView::Null)),
        }
    }

    fn of_other(self, view: ValueView<'_>) -> u32 {
        // What may be equal to an integer or to a string is hashed as they are.
        if let Some(integer) = document::Number::from_view(view).and_then(document::Number::to_i64_exact) {
            return self.of_integer(integer);
        }
        if let (ValueView::Symbol(text), false) = (view, collation::is_in_force()) {
            return self.of_bytes(text);
        }
        let mut hasher = KeyHasher::new(self);
        hash_view(view, &mut hasher);
        hasher.finish() as u32
    }
}

/// The states of a new group.
pub(super) fn add_states(
    stage: &Group,
    states: &mut [Box<dyn GroupStates>],
    key: Option<RawBsonRef<'_>>,
    variables: &Variables,
) -> Result<()> {
    let reads_group = stage.fields.iter().any(|(_, accumulator)| accumulator.reads_group());
    let mut id = RawDocumentBuf::new();
    if reads_group {
        // It goes through a document, for the accumulators.
        before_copying(key, 3)?;
        let key: RawBson = stage.key.shown(key.unwrap_or(RawBsonRef::Null))?;
        id = stage_document(bson::raw::cstr!("_id"), key);
    }
    let context = EvaluationContext::new(&id, variables);
    for ((_, accumulator), states) in stage.fields.iter().zip(states) {
        states.add_group(accumulator, &context)?;
    }
    Ok(())
}
