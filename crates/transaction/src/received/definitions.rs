//! Changes of definitions that another member has logged, applied under the locks and gates that its own would take.
//!
//! The build of an index: from its start on entries that follow maintain it, and it is filled beside them (`builds`). Its commit waits for what is left of that, or
//! has it filled. That holds up what follows: readers behind it may use the index.

use std::sync::Arc;

use collection::catalog::{CatalogChange, IndexChange};
use collection::{Collection, CollectionError, Index, IndexState, Namespace};
use oplog::{Appended, ReceivedEntry};
use parking_lot::MutexGuard;

use super::{Source, State};
use crate::commit_order::tell_why_stopped;
use crate::error::{Result, TransactionError};
use crate::index_build::StartedBuild;
use crate::store::Store;

impl Store {
    pub(super) fn apply_definition(
        &self,
        state: &mut State,
        entry: &ReceivedEntry<'_>,
        change: &CatalogChange,
    ) -> Result<()> {
        loop {
            let filled = match change {
                CatalogChange::CommitIndexBuild(build) => self.fill_received(build)?,
                _ => None,
            };
            let definitions = self.definition_lock.lock();
            if !self.is_gone(change, filled) {
                return self.apply_with_locked(state, entry, change, definitions);
            }
            // A builder of the time when this member led has given it up meanwhile.
        }
    }

    /// Whether an index that was filled is not there any more.
    fn is_gone(&self, change: &CatalogChange, filled: Option<Arc<Index>>) -> bool {
        let (CatalogChange::CommitIndexBuild(build), Some(filled)) = (change, filled) else { return false };
        self.find_build(build).is_some_and(|(_, index)| index.is_none_or(|index| index.identity() != filled.identity()))
    }

    fn apply_with_locked(
        &self,
        state: &mut State,
        entry: &ReceivedEntry<'_>,
        change: &CatalogChange,
        _definitions: MutexGuard<'_, ()>,
    ) -> Result<()> {
        let mut gated: Vec<Arc<Collection>> =
            concerned(change).into_iter().filter_map(|uuid| self.catalog.lookup_uuid(uuid)).collect();
        gated.sort_by_key(|collection| collection.ident());
        let gates: Vec<_> = gated.iter().map(|collection| collection.begin_definition_change()).collect();
        let names = renamed(change);
        if !names.is_empty() {
            self.note_renaming(&names);
        }
        let (appended, in_flight) = self.append(&Source::Received(entry))?;
        self.commits.note_definition(appended.end);
        let applied = self.apply_to_catalog(change, &appended).inspect_err(tell_why_stopped);
        if !names.is_empty() {
            self.note_renamed(&names, applied.is_ok().then_some(appended.timestamp));
        }
        applied?;
        self.applier(state).forget_collection();
        drop(gates);
        in_flight.complete(appended.end, None);
        Ok(())
    }

    fn apply_to_catalog(&self, change: &CatalogChange, appended: &Appended) -> Result<()> {
        let (CatalogChange::StartIndexBuild(build)
        | CatalogChange::CommitIndexBuild(build)
        | CatalogChange::AbortIndexBuild(build)) = change
        else {
            return Ok(self.catalog.apply(change)?);
        };
        let Some((collection, found)) = self.find_build(build) else { return Ok(()) };
        match (change, found) {
            (CatalogChange::StartIndexBuild(_), None) => {
                self.catalog.add_building_index(&collection, build.specification.clone())?;
                self.note_interrupted_build(&collection);
            }
            (CatalogChange::CommitIndexBuild(_), Some(index)) if index.state() == IndexState::Building => {
                self.catalog.make_index_ready(&collection, &index, appended.timestamp)?;
                self.received.builds.forget(index.identity());
            }
            (CatalogChange::AbortIndexBuild(_), Some(index)) if index.state() == IndexState::Building => {
                self.received.builds.forget(index.identity());
                self.catalog.remove_index(&collection, &index)?;
            }
            _ => {}
        }
        Ok(())
    }

    fn find_build(&self, build: &IndexChange) -> Option<(Arc<Collection>, Option<Arc<Index>>)> {
        let collection = self.catalog.lookup_uuid(build.uuid).filter(|collection| collection.aside().is_none())?;
        let index = collection.indexes().find(&build.specification.name).cloned();
        Some((collection, index))
    }

    /// Puts into an index what was there before its build began; which one that is.
    fn fill_received(&self, build: &IndexChange) -> Result<Option<Arc<Index>>> {
        let Some((collection, found)) = self.find_build(build) else { return Ok(None) };
        let index = match found {
            Some(index) => index,
            // Its start was before anything that is here.
            None => self.catalog.add_building_index(&collection, build.specification.clone())?,
        };
        if index.state() != IndexState::Building {
            return Ok(None);
        }
        if self.is_filled_beside(index.identity()) {
            return Ok(Some(index));
        }
        let started = StartedBuild::of_another(index.clone());
        match self.fill_indexes(&collection, &started, &|| self.is_stopping()) {
            Err(error) if error.is_damage() => {
                let reason = format!("the index '{}' could not be built: {error}", index.name());
                collection.set_aside(&reason);
                Ok(None)
            }
            Err(TransactionError::Collection(CollectionError::Stopped)) => Err(TransactionError::Stopped),
            filled => filled.map(|()| Some(index)),
        }
    }
}

/// The collections whose gates are taken.
fn concerned(change: &CatalogChange) -> Vec<bson::Uuid> {
    let target = match change {
        CatalogChange::Rename { drop_target, .. } => *drop_target,
        _ => None,
    };
    change.uuid().into_iter().chain(target).collect()
}

/// Names that mean something else afterwards.
fn renamed(change: &CatalogChange) -> Vec<&Namespace> {
    match change {
        CatalogChange::Drop { namespace, .. } => vec![namespace],
        CatalogChange::Rename { from, to, .. } => vec![from, to],
        _ => Vec::new(),
    }
}
