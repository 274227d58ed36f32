//! How far `$densify` has come in each partition.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher, RandomState};

use bson::raw::{RawBsonRef, RawDocumentBuf};
use document::{hash_value, values_equal};
use smallvec::SmallVec;

use crate::context::Memory;
use crate::error::{AggregationError, Result};
use crate::stages::position::Position;

/// What a partition costs beside its key.
const PARTITION_BYTES: usize = 2 * size_of::<Partition>() + 3 * size_of::<(u64, SmallVec<[u32; 1]>)>() + 16;

/// One partition.
pub(super) struct Partition {
    /// The fields by which it is told from others.
    pub(super) key: RawDocumentBuf,
    /// Where the next document may have to be made.
    pub(super) next: Position,
}

/// All partitions that documents have come of, found by the hash of their keys.
pub(super) struct Partitions {
    all: Vec<Partition>,
    places: HashMap<u64, SmallVec<[u32; 1]>>,
    hasher: RandomState,
    memory: Memory,
    bytes: usize,
}

impl Partitions {
    pub(super) fn new(memory: Memory) -> Partitions {
        Partitions { all: Vec::new(), places: HashMap::new(), hasher: RandomState::new(), memory, bytes: 0 }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// The place of a partition; a new one begins at `start`.
    pub(super) fn find_or_insert(&mut self, key: RawDocumentBuf, start: Position) -> Result<usize> {
        let value = RawBsonRef::Document(&key);
        let mut state = self.hasher.build_hasher();
        hash_value(value, &mut state);
        let same = self.places.entry(state.finish()).or_default();
        let is_it = |place: &&u32| {
            let partition = self.all.get(**place as usize);
            partition.is_some_and(|partition| values_equal(RawBsonRef::Document(&partition.key), value))
        };
        if let Some(place) = same.iter().find(is_it) {
            return Ok(*place as usize);
        }
        self.bytes += PARTITION_BYTES + key.as_bytes().len();
        if !self.memory.holds(self.bytes) {
            let message = "$densify exceeded memory limit for its partitions";
            return Err(AggregationError::numbered(6007200, message));
        }
        let place = self.all.len();
        same.push(place as u32);
        self.all.push(Partition { key, next: start });
        Ok(place)
    }

    pub(super) fn get_mut(&mut self, place: usize) -> Option<&mut Partition> {
        self.all.get_mut(place)
    }

    pub(super) fn last_mut(&mut self) -> Option<&mut Partition> {
        self.all.last_mut()
    }

    pub(super) fn remove_last(&mut self) {
        self.all.pop();
    }
}
