//! Values that a search has met: in memory as they are, or, when they are too many, as hashes in sorted runs.
//!
//! A hash has 128 bits, with seeds of its own: of a billion values two would be taken for one in one search of 10^20.
//! Used by `search`.

use std::collections::HashSet;
use std::hash::{BuildHasher, Hasher, RandomState};

use bson::raw::RawBsonRef;
use document::{hash_value, work};

use super::hash_runs::HashRuns;
use super::value_set::ValueSet;
use crate::context::RunContext;
use crate::error::Result;

/// What a hash costs in memory.
const HASH_BYTES: usize = 4 * size_of::<u128>();

/// See the module's head.
#[derive(Default)]
pub(super) struct SeenValues {
    held: ValueSet,
    seeds: [RandomState; 2],
    /// Once something has spilled: the hashes that have come since, and those before.
    fresh: HashSet<u128>,
    runs: HashRuns,
}

impl SeenValues {
    /// Adds a value, and says what it costs in memory; `None` when it is there already.
    pub(super) fn insert(&mut self, value: RawBsonRef<'_>) -> Result<Option<usize>> {
        if self.runs.is_empty() {
            return Ok(self.held.insert(value));
        }
        let hash = hash_of(&self.seeds, value);
        if self.fresh.contains(&hash) || self.runs.contains(hash)? {
            return Ok(None);
        }
        self.fresh.insert(hash);
        Ok(Some(HASH_BYTES))
    }

    /// Puts what is in memory on temporary storage.
    pub(super) fn spill(&mut self, run: &RunContext) -> Result<()> {
        let mut hashes: Vec<u128> = std::mem::take(&mut self.fresh).into_iter().collect();
        let held = std::mem::take(&mut self.held);
        hashes.extend(held.values().map(|value| hash_of(&self.seeds, value)));
        work::sort_copies_by(&mut hashes, u128::cmp)?;
        self.runs.add(&hashes, run)
    }
}

fn hash_of(seeds: &[RandomState; 2], value: RawBsonRef<'_>) -> u128 {
    seeds.iter().fold(0, |hash, seed| {
        let mut state = seed.build_hasher();
        hash_value(value, &mut state);
        hash << 64 | u128::from(state.finish())
    })
}
