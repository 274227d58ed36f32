//! The groups of a `$group` in memory, found by the hash of their key.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher, RandomState};

use bson::raw::{RawBson, RawBsonRef, RawDocumentBuf};
use document::{hash_value, values_equal};
use query_language::accumulator::{Accumulator, value_bytes};
use query_language::expression::{EvaluationContext, Variables};
use query_language::growth::before_copying;
use smallvec::SmallVec;

use super::Group;
use crate::error::Result;
use crate::stage::stage_document;

/// One group.
#[derive(Debug)]
pub(super) struct GroupState {
    pub(super) key: RawBson,
    pub(super) accumulators: Vec<Box<dyn Accumulator>>,
}

/// The groups in the order of their first documents.
pub(super) struct GroupTable {
    groups: Vec<GroupState>,
    /// Positions of the groups by the hash of their key; several where hashes collide.
    positions: HashMap<u64, SmallVec<[u32; 1]>>,
    hasher: RandomState,
    bytes: usize,
    largest_bytes: usize,
}

/// Bytes that a group takes besides its key and its accumulators: its place in both collections, which grow by doubling, and
/// what the allocator adds.
const GROUP_BYTES: usize = 2 * size_of::<GroupState>() + size_of::<(u64, SmallVec<[u32; 1]>)>() * 3 + 48;

impl GroupTable {
    pub(super) fn new() -> Self {
        Self { groups: Vec::new(), positions: HashMap::new(), hasher: RandomState::new(), bytes: 0, largest_bytes: 0 }
    }

    /// Bytes that the groups take.
    pub(super) fn memory_bytes(&self) -> usize {
        self.bytes
    }

    /// Bytes of the largest group's results so far.
    pub(super) fn largest_bytes(&self) -> usize {
        self.largest_bytes
    }

    /// Feeds a document to its group, which is made when it is the first.
    pub(super) fn accumulate(
        &mut self,
        stage: &Group,
        key: RawBsonRef<'_>,
        document: &EvaluationContext<'_>,
    ) -> Result<()> {
        let position = match self.find(key) {
            Some(position) => position,
            None => self.insert(stage, key, document.variables())?,
        };
        let Some(group) = self.groups.get_mut(position) else { return Ok(()) };
        let mut group_bytes = 0;
        for ((_, accumulator), state) in stage.fields.iter().zip(&mut group.accumulators) {
            let before = state.memory_bytes();
            accumulator.accumulate(state.as_mut(), document)?;
            let after = state.memory_bytes();
            self.bytes = self.bytes + after - before;
            group_bytes += after;
        }
        self.largest_bytes = self.largest_bytes.max(group_bytes);
        Ok(())
    }

    /// Feeds so many documents to a group whose accumulators only count them.
    pub(super) fn accumulate_count(
        &mut self,
        stage: &Group,
        key: RawBsonRef<'_>,
        documents: u64,
        variables: &Variables,
    ) -> Result<()> {
        let position = self.insert(stage, key, variables)?;
        let Some(group) = self.groups.get_mut(position) else { return Ok(()) };
        for ((_, accumulator), state) in stage.fields.iter().zip(&mut group.accumulators) {
            accumulator.accumulate_count(state.as_mut(), documents)?;
        }
        Ok(())
    }

    fn hash(&self, key: RawBsonRef<'_>) -> u64 {
        let mut hasher = self.hasher.build_hasher();
        hash_value(key, &mut hasher);
        hasher.finish()
    }

    fn find(&self, key: RawBsonRef<'_>) -> Option<usize> {
        let positions = self.positions.get(&self.hash(key))?;
        let same = |position: &&u32| {
            let group = self.groups.get(**position as usize);
            group.is_some_and(|group| values_equal(group.key.as_raw_bson_ref(), key))
        };
        positions.iter().find(same).map(|position| *position as usize)
    }

    fn insert(&mut self, stage: &Group, key: RawBsonRef<'_>, variables: &Variables) -> Result<usize> {
        // It goes through a document, for the accumulators.
        before_copying(Some(key), 3)?;
        let group = new_group(stage, key.into(), variables)?;
        let accumulators = group.accumulators.iter().map(|state| state.memory_bytes()).sum::<usize>();
        self.bytes += GROUP_BYTES + value_bytes(&group.key) + accumulators;
        let position = self.groups.len();
        self.positions.entry(self.hash(key)).or_default().push(position as u32);
        self.groups.push(group);
        Ok(position)
    }

    /// Takes the groups out.
    pub(super) fn drain(&mut self) -> Vec<GroupState> {
        self.positions = HashMap::new();
        (self.bytes, self.largest_bytes) = (0, 0);
        std::mem::take(&mut self.groups)
    }
}

/// A group without documents yet.
pub(super) fn new_group(stage: &Group, key: RawBson, variables: &Variables) -> Result<GroupState> {
    let id: RawDocumentBuf = stage_document(bson::raw::cstr!("_id"), key);
    let context = EvaluationContext::new(&id, variables);
    let states = stage.fields.iter().map(|(_, accumulator)| accumulator.new_state(&context));
    let accumulators = states.collect::<std::result::Result<Vec<_>, _>>()?;
    let key = document::get_field(&id, "_id").map_or(RawBson::Null, RawBson::from);
    Ok(GroupState { key, accumulators })
}
