//! Entries of the oplog that are whole and make no sense: a later version wrote them, or a fault of an earlier one.
//!
//! Called by `replay`, which goes on behind them: a start survives whatever an earlier life has stored. Whom such an entry is about it may still say (`ui`):
//! that collection lacks a change, and is set aside. Where it does not say, any collection may lack it: that is told, and nobody is set aside for it.

use std::sync::Arc;

use bson::Uuid;
use bson::spec::ElementType;
use oplog::OplogPosition;

use crate::catalog::Catalog;
use crate::collection::Collection;
use crate::error::{CollectionError, Result};

/// Listed one by one; the rest is counted.
const LISTED_MAX: usize = 64;

/// Entries of which nobody knows whom they are about.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UnreadEntries {
    /// Where the first ones are.
    pub listed: Vec<UnreadEntry>,
    /// How many there are.
    pub count: u64,
}

/// One of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnreadEntry {
    /// Where it is.
    pub position: OplogPosition,
    /// What is wrong with it.
    pub reason: String,
}

impl UnreadEntries {
    /// Notes an entry that cannot be read, or an operation of the entry at a position.
    ///
    /// # Errors
    /// `Engine`.
    pub(super) fn lose(
        &mut self,
        catalog: &Catalog,
        payload: &[u8],
        position: OplogPosition,
        error: &CollectionError,
    ) -> Result<()> {
        match collections_of(catalog, payload) {
            Some(collections) => {
                let reason = format!("the oplog entry at {position}, which is about it, cannot be read: {error}");
                collections.iter().try_for_each(|collection| set_aside(catalog, collection, &reason))
            }
            None => {
                self.lose_whole(position, error);
                Ok(())
            }
        }
    }

    /// The same of one that says nothing.
    pub(super) fn lose_whole(&mut self, position: OplogPosition, error: &CollectionError) {
        self.count += 1;
        if self.listed.len() < LISTED_MAX {
            self.listed.push(UnreadEntry { position, reason: error.to_string() });
        }
    }
}

/// For good: what was logged before the next checkpoint is not replayed again.
pub(super) fn set_aside(catalog: &Catalog, collection: &Collection, reason: &str) -> Result<()> {
    collection.set_aside(reason);
    catalog.save_set_aside(collection)
}

/// The collections that an entry is about and that are there; `None`: it does not say.
fn collections_of(catalog: &Catalog, payload: &[u8]) -> Option<Vec<Arc<Collection>>> {
    // One that is not there was dropped later, or never made, of which an entry of its own tells.
    let found = |uuid: Option<Uuid>| uuid.map(|uuid| catalog.lookup_uuid(uuid));
    if let Some(collection) = found(uuid_of(payload)) {
        return Some(collection.into_iter().collect());
    }
    let object = document::elements_of_bytes(payload).find(|element| element.name_bytes() == b"o")?;
    let first = document::elements_of_bytes(object.value_bytes()).next()?;
    if first.name_bytes() != b"applyOps" || first.element_type != ElementType::Array {
        return None;
    }
    let (mut collections, mut operations) = (Vec::new(), document::elements_of_bytes(first.value_bytes()));
    for operation in operations.by_ref() {
        collections.extend(found(uuid_of(operation.value_bytes()))?);
    }
    // Without operations it has parts, of which it does not say whom they are about.
    (!operations.is_malformed() && !collections.is_empty()).then_some(collections)
}

/// The collection that an entry, or an operation of one, says it is about.
fn uuid_of(payload: &[u8]) -> Option<Uuid> {
    let element = document::elements_of_bytes(payload).find(|element| element.name_bytes() == b"ui")?;
    (element.element_type == ElementType::Binary).then_some(())?;
    Some(Uuid::from_bytes(*element.value_bytes().get(5..)?.first_chunk()?))
}
