//! Finding collections by name and by UUID without waiting for anybody.
//!
//! Sharded copy-on-write maps: a lookup is one atomic load and one hash; a change copies one shard, 1/64 of the names.
//! Changes are made one at a time, under the catalog's definition lock.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use arc_swap::ArcSwap;

use crate::collection::Collection;

const SHARDS: usize = 64;

/// One order in every run: the simulator's runs can be repeated.
type Shard<K> = HashMap<K, Arc<Collection>, BuildHasherDefault<DefaultHasher>>;

/// A map from `K` to collections.
#[derive(Debug)]
pub(crate) struct CollectionMap<K> {
    shards: Vec<ArcSwap<Shard<K>>>,
}

impl<K: Hash + Eq + Clone> CollectionMap<K> {
    pub(crate) fn new() -> CollectionMap<K> {
        CollectionMap { shards: (0..SHARDS).map(|_| ArcSwap::from_pointee(Shard::default())).collect() }
    }

    fn shard<Q: Hash + ?Sized>(&self, key: &Q) -> Option<&ArcSwap<Shard<K>>> {
        let mut hasher = DefaultHasher::new();
        key.hash(&mut hasher);
        self.shards.get(hasher.finish() as usize % SHARDS)
    }

    pub(crate) fn get<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> Option<Arc<Collection>>
    where
        K: Borrow<Q>,
    {
        self.shard(key)?.load().get(key).cloned()
    }

    pub(crate) fn insert(&self, key: K, collection: Arc<Collection>) {
        if let Some(shard) = self.shard(&key) {
            let mut copy = Shard::clone(&shard.load());
            copy.insert(key, collection);
            shard.store(Arc::new(copy));
        }
    }

    pub(crate) fn remove<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> Option<Arc<Collection>>
    where
        K: Borrow<Q>,
    {
        let shard = self.shard(key)?;
        let mut copy = Shard::clone(&shard.load());
        let removed = copy.remove(key)?;
        shard.store(Arc::new(copy));
        Some(removed)
    }

    /// Fills an empty map at once.
    pub(crate) fn fill(&self, entries: impl IntoIterator<Item = (K, Arc<Collection>)>) {
        let mut maps: Vec<Shard<K>> = (0..SHARDS).map(|_| Shard::default()).collect();
        for (key, collection) in entries {
            let mut hasher = DefaultHasher::new();
            key.hash(&mut hasher);
            if let Some(map) = maps.get_mut(hasher.finish() as usize % SHARDS) {
                map.insert(key, collection);
            }
        }
        self.shards.iter().zip(maps).for_each(|(shard, map)| shard.store(Arc::new(map)));
    }

    /// Every collection, in no order.
    pub(crate) fn all(&self) -> Vec<Arc<Collection>> {
        self.shards.iter().flat_map(|shard| shard.load().values().cloned().collect::<Vec<_>>()).collect()
    }
}
