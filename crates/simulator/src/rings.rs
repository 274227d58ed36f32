//! What simulated clients do with capped collections: inserts that overtake, new limits; and which documents a reader may miss because they were overtaken.
//!
//! Called by `operations` and `reading`. Updates, deletes and indexes are those of every collection.

use std::sync::Arc;

use collection::catalog::Modification;
use collection::{CappedOptions, Validation};
use platform::Random;
use transaction::{CommitInfo, Result, WriteContext};

use crate::documents::{self, Sizes};
use crate::model::{CollectionNumber, CollectionState, Effect};
use crate::operations::Target;
use crate::simulation::{Intent, Simulation};

impl Simulation {
    /// The limits of a new collection, if it is to be capped.
    pub(crate) fn draw_limits(&self) -> Option<CappedOptions> {
        if !self.plan.has_rings() || !self.chance(self.plan.ring_chance) {
            return None;
        }
        let pages = match self.plan.sizes {
            Sizes::Tiny => 1 + self.random.below(4),
            Sizes::Small => 1 + self.random.below(16),
            Sizes::Mixed => 10 + self.random.below(500),
        };
        let max = self.chance(0.3).then(|| 1 + self.random.below(40));
        Some(CappedOptions { size: pages * 4096, max })
    }

    /// Of a ring mostly an `_id` that is new, so that it goes around.
    pub(crate) fn choose_id(&self, target: &Target) -> i32 {
        if target.state.ring.is_none() {
            return self.random.below(self.plan.ids as u64) as i32;
        }
        if self.chance(0.7) { self.random.below(1 << 30) as i32 } else { self.choose_known_id(&target.state) }
    }

    /// An `_id` to look for.
    pub(crate) fn choose_known_id(&self, state: &CollectionState) -> i32 {
        if state.ring.is_none() || state.documents.is_empty() {
            return self.random.below(self.plan.ids as u64) as i32;
        }
        let chosen = self.random.below(state.documents.len() as u64) as usize;
        state.documents.keys().nth(chosen).copied().unwrap_or_default()
    }

    pub(crate) fn insert_into_ring(&self, target: &Target, id: i32) -> Result<Option<CommitInfo>> {
        let document = documents::draw(&self.random, id, self.plan.ids.max(60), self.plan.sizes);
        let bytes = document.raw.as_bytes().len() as u64;
        if target.state.ring.as_ref().is_none_or(|ring| bytes > ring.limits.size) {
            return Ok(None);
        }
        self.say(format_args!("insert {} {id}: {bytes} bytes into its ring", target.state.namespace));
        let clashes = target.state.documents.contains_key(&id) || target.clashes(&document, id);
        let effect = Effect::PutInRing { number: target.number, id, document: document.clone(), place: 0, head: 0 };
        let result = self.perform(Intent::Document { number: target.number, effect }, |store| {
            store.insert_document(&mut WriteContext::new(), &target.handle, &document.raw, Validation::Enforce)
        });
        self.check_clash(clashes, result.map(Some))
    }

    /// Gives a capped collection other limits.
    pub(crate) fn resize_ring(&self, locked: &[CollectionNumber]) {
        let Some(target) = self.choose(locked).filter(|target| target.state.ring.is_some()) else { return };
        let Some(capped) = self.draw_limits() else { return };
        self.say(format_args!("limit {} to {capped:?}", target.state.namespace));
        let mut options = target.handle.definition().options.clone();
        options.capped = Some(capped);
        let effect = Effect::Resize { number: target.number, capped };
        let modification = Modification { options: Some(options), ..Modification::default() };
        let result =
            self.perform(Intent::Definition { effect }, |store| store.modify_collection(&target.handle, modification));
        self.expect_done("limit a collection", result.map(Some));
    }

    /// Whether a document that a reader's view has is in the ring no more.
    pub(crate) fn is_overtaken(&self, number: CollectionNumber, expected: &Arc<CollectionState>, id: i32) -> bool {
        let place = expected.ring.as_ref().and_then(|ring| ring.place_of(id));
        place.is_some_and(|place| self.is_place_overtaken(number, place))
    }

    /// Whether a place was overtaken, or its collection is gone.
    pub(crate) fn is_place_overtaken(&self, number: CollectionNumber, place: i64) -> bool {
        match self.model.lock().newest().collections.get(&number) {
            Some(state) => state.ring.as_ref().is_some_and(|ring| !ring.slots.contains_key(&place)),
            None => true,
        }
    }
}
