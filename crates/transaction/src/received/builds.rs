//! Indexes that another member builds, filled here beside what follows.
//!
//! From the start of a build on entries maintain the index, as a primary's writers do, and the thread of the background that goes on with interrupted builds
//! (`index_build/resume`) fills it, as a primary's builder does. When the commit comes, the thread that applies waits for what is left of that. Uniqueness is not
//! looked at: at the moment that is read here two documents may have had a key, and what counts is what the primary has found.
//!
//! ```text
//! start applied ──> filling ──┬──> filled ─────────────────────────> commit
//!                             └──> left (it failed, or came late) ──> filled by the thread that applies, when the commit comes
//! ```
//!
//! Who takes the lead goes on with the builds in the same thread, so nobody fills beside it. Left is also what could not be filled: a document from before the build that cannot be indexed, and is gone when the primary's builder comes to it.

use std::sync::Arc;
use std::time::Duration;

use collection::{CollectionError, Index, IndexIdentity, IndexState};
use parking_lot::{Condvar, Mutex};

use crate::commit_order::Leadership;
use crate::error::TransactionError;
use crate::index_build::StartedBuild;
use crate::store::Store;

/// How long is waited at a time for an index to be filled.
const LOOK: Duration = Duration::from_millis(100);

/// See the module's head.
#[derive(Default)]
pub(super) struct ReceivedBuilds {
    state: Mutex<Builds>,
    changed: Condvar,
}

#[derive(Default)]
struct Builds {
    filling: Option<IndexIdentity>,
    filled: Vec<IndexIdentity>,
    left: Vec<IndexIdentity>,
}

impl ReceivedBuilds {
    /// `false`: it is not to be filled beside.
    fn begin(&self, index: IndexIdentity) -> bool {
        let mut state = self.state.lock();
        let is_wanted = state.filling.is_none() && !state.filled.contains(&index) && !state.left.contains(&index);
        if is_wanted {
            state.filling = Some(index);
        }
        is_wanted
    }

    fn end(&self, index: IndexIdentity, outcome: Option<bool>) {
        let mut state = self.state.lock();
        state.filling = None;
        match outcome {
            Some(true) => state.filled.push(index),
            Some(false) => state.left.push(index),
            None => {}
        }
        self.changed.notify_all();
    }

    /// Its build is over.
    pub(super) fn forget(&self, index: IndexIdentity) {
        let mut state = self.state.lock();
        state.filled.retain(|filled| *filled != index);
        state.left.retain(|left| *left != index);
    }
}

impl Store {
    /// Fills what another member builds. One turn of the background.
    pub fn fill_received_builds(&self) {
        let follows = || self.commits.leadership() == Leadership::Following;
        for collection in self.interrupted_builds() {
            let indexes = collection.indexes();
            let is_building = |index: &&Arc<Index>| index.state() == IndexState::Building && index.aside().is_none();
            for index in indexes.all().iter().filter(is_building) {
                if self.is_stopping() || !follows() || !self.received.builds.begin(index.identity()) {
                    continue;
                }
                let is_stopped = || self.is_stopping() || !follows();
                let outcome = match self.fill_indexes(
                    &collection,
                    &StartedBuild::of_another(index.clone()),
                    &is_stopped,
                ) {
                    Ok(()) => Some(true),
                    Err(TransactionError::Collection(CollectionError::Stopped)) => None,
                    Err(error) => {
                        tracing::info!(%error, namespace = %collection.namespace(), index = index.name(), "an index is filled when its build ends");
                        Some(false)
                    }
                };
                self.received.builds.end(index.identity(), outcome);
            }
        }
    }

    /// The commit of a build has come: waits while its index is being filled. `true`: it is; otherwise nobody else does it from now on.
    pub(super) fn is_filled_beside(&self, index: IndexIdentity) -> bool {
        let builds = &self.received.builds;
        let mut state = builds.state.lock();
        while state.filling == Some(index) && !self.is_stopping() {
            builds.changed.wait_for(&mut state, LOOK);
        }
        let is_filled = state.filled.contains(&index);
        if !is_filled {
            state.left.push(index);
        }
        is_filled
    }
}
