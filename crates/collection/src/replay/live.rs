//! Applying entries of another member while this one's readers read.
//!
//! Called by `transaction` of a member that follows, entry by entry, those of one record in the order of the oplog: each is applied at its timestamp, and what was
//! before is kept for snapshots. The caller holds the record's lock, notes the record id, counts, and makes visible. Several threads may do so, with an applier each.

use std::sync::Arc;

use storage_engine::{Engine, Timestamp};

use super::apply::{Applying, EntryApplier, Stored};
use crate::catalog::Catalog;
use crate::collection::Collection;
use crate::error::Result;
use crate::oplog_entry::DocumentEntry;

/// See the module's head.
pub struct LiveApplier {
    entries: EntryApplier,
}

impl LiveApplier {
    /// For the collections of a store.
    pub fn new(catalog: Arc<Catalog>, engine: Arc<Engine>) -> LiveApplier {
        LiveApplier { entries: EntryApplier::applying(Applying::Live, catalog, engine) }
    }

    /// The collection that an entry is about, if it is there and was not set aside.
    pub fn collection(&mut self, entry: &DocumentEntry<'_>) -> Option<Arc<Collection>> {
        self.entries.collection(entry.uuid).filter(|collection| collection.aside().is_none())
    }

    /// Applies an entry to its collection. Where what is stored is damaged, the collection is set aside.
    ///
    /// # Errors
    /// `Engine`, `Damaged`.
    pub fn apply(
        &mut self,
        collection: &Arc<Collection>,
        entry: &DocumentEntry<'_>,
        timestamp: Timestamp,
        stored: Stored,
    ) -> Result<()> {
        self.entries.apply_in(collection, entry, timestamp, stored)
    }

    /// Forgets what a change of definitions may have changed.
    pub fn forget_collection(&mut self) {
        self.entries.forget_collection();
    }
}
