//! Going on with index builds that a restart has interrupted.
//!
//! The indexes are in state `Building` when the store is opened: from the checkpoint with what they have, or from the oplog without anything. Replay maintains
//! them like writers do. A thread of the background (`start_background`), or the simulator, then builds on, one collection after the other; queries do not
//! use them before. A unique index is filled from the start, since keys that writers had noted as suspicious were in memory.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use collection::{Collection, IndexState};

use super::StartedBuild;
use crate::commit_order::CommitInfo;
use crate::error::Result;
use crate::store::Store;

impl Store {
    /// The collections that had indexes being built when the store was opened and have them still, by name.
    pub fn interrupted_builds(&self) -> Vec<Arc<Collection>> {
        let mut interrupted: Vec<_> = self.interrupted_builds.lock().clone();
        interrupted.retain(|collection| !collection.is_dropped() && is_building(collection));
        interrupted
    }

    pub(super) fn keeps_builds(&self) -> bool {
        self.keeps_builds.load(Ordering::Acquire)
    }

    /// The server ends: index builds that are stopped from now on go on at the next start.
    pub fn keep_index_builds(&self) {
        self.keeps_builds.store(true, Ordering::Release);
    }

    /// Notes what is to be gone on with. When the store is opened.
    pub(crate) fn note_interrupted_builds(&self) {
        let mut interrupted = self.catalog.all_collections();
        interrupted.retain(is_building);
        interrupted.sort_by_key(|collection| collection.ident());
        *self.interrupted_builds.lock() = interrupted;
    }

    /// Finishes the interrupted builds of a collection. An error ends them, and the indexes are gone then, unless it is `Stopped`.
    ///
    /// # Errors
    /// As `create_indexes_unless`.
    pub fn resume_index_builds(
        &self,
        collection: &Arc<Collection>,
        is_stopped: &dyn Fn() -> bool,
    ) -> Result<Option<CommitInfo>> {
        let indexes = collection.indexes();
        let building = indexes.all().iter().filter(|index| index.state() == IndexState::Building);
        let mut last = None;
        for index in building {
            let started = StartedBuild { trees: vec![index.tree()], commit: None };
            tracing::info!(namespace = %collection.namespace(), index = index.name(), from = index.filled().0, "an index build goes on");
            last = Some(self.run_index_build(collection, started, is_stopped)?);
        }
        self.interrupted_builds.lock().retain(|known| !Arc::ptr_eq(known, collection));
        Ok(last)
    }

    /// Goes on with all of them. One turn of the background.
    pub(crate) fn resume_all_builds(&self) {
        for collection in self.interrupted_builds() {
            if self.is_stopping() {
                return;
            }
            if let Err(error) = self.resume_index_builds(&collection, &|| self.is_stopping() || self.keeps_builds())
                && !self.is_stopping()
                && !self.keeps_builds()
            {
                self.interrupted_builds.lock().retain(|known| !Arc::ptr_eq(known, &collection));
                tracing::error!(%error, namespace = %collection.namespace(), "an interrupted index build failed, and the index is gone");
            }
        }
    }
}

fn is_building(collection: &Arc<Collection>) -> bool {
    collection.indexes().all().iter().any(|index| index.state() == IndexState::Building)
}
