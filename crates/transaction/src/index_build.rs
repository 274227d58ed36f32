//! Building indexes while the collection is in use.
//!
//! 1. Start: under the gate, the indexes are added in state `Building`. From then on every writer maintains them, not
//!    knowing whether the builder has been at the record: it puts and deletes entries that may or may not be there.
//! 2. Fill: once all commits from before are visible, a snapshot has every record that the writers may not have dealt
//!    with. For each, under its lock, the entries of its newest version are put. Builder and writers do the same thing to a record, one
//!    after the other, so the order does not matter. Most builds do this in sorted pieces (`sorted_fill`). Clients' operations go first (`giving_way`).
//! 3. Commit: under the gate, keys that two documents had at one time are looked at again; then the indexes are ready,
//!    for snapshots from this commit on.
//!
//! Uniqueness: the builder refuses a key that another record has, and with it the build. A writer does not refuse anything for an index that is
//! not ready: it notes the key for step 3.
//!
//! `reIndex` builds all indexes of a collection anew in the same way (`rebuild`).
//!
//! After a crash, or an orderly end in the midst of it, the next start goes on with the build (`resume`). When the commit is
//! in the oplog and not in the checkpoint, replay builds the index again.

mod rebuild;
mod resume;
mod sorted_fill;
mod sorted_runs;

pub use rebuild::IndexesRebuilt;

use std::sync::Arc;

use bson::RawDocument;
use collection::catalog::{CatalogChange, IndexChange};
use collection::{
    Collection, CollectionError, Index, IndexSpecification, IndexState, RecordEntries, RecordId, WriteAccess,
    duplicate_key_error,
};
use platform::{LongWork, WorkingMemory};
use storage_engine::{EngineError, TreeId};

use crate::commit_order::CommitInfo;
use crate::error::{Result, TransactionError};
use crate::interleaving::Moment;
use crate::lock_table::OwnedByTransaction;
use crate::read_view::RecordCursor;
use crate::store::Store;
use crate::unique::{UniqueBuffers, is_duplicated, is_taken, lock_claims};
use crate::waiting::OwnedName;

/// Indexes in state `Building`, and the commit that says so.
pub(crate) struct StartedBuild {
    trees: Vec<TreeId>,
    /// They are held for as long as this is used, so that no other index gets one of their trees.
    _held: Vec<Arc<Index>>,
    commit: Option<CommitInfo>,
    /// Another member of the replica set says whether keys are unique, and when the index is ready.
    is_of_another: bool,
}

impl StartedBuild {
    fn of(indexes: Vec<Arc<Index>>, commit: Option<CommitInfo>) -> StartedBuild {
        let trees = indexes.iter().map(|index| index.tree()).collect();
        StartedBuild { trees, _held: indexes, commit, is_of_another: false }
    }

    /// That of one index, which another member builds.
    pub(crate) fn of_another(index: Arc<Index>) -> StartedBuild {
        StartedBuild { is_of_another: true, ..StartedBuild::of(vec![index], None) }
    }
}

/// The builder's buffers.
#[derive(Default)]
struct BuildBuffers {
    document: Vec<u8>,
    entries: RecordEntries,
    unique: UniqueBuffers,
    /// See `StartedBuild`.
    is_of_another: bool,
}

impl Store {
    /// Says how much memory index builds may use, and where there is space for temporary files. Only the first call counts; without one, builds
    /// use no files, and nobody counts their memory.
    pub fn set_working_memory(&self, memory: WorkingMemory) {
        // Set once, when the server is put together.
        let _ = self.working_memory.set(memory);
    }

    /// Step 1. The definition lock is held.
    pub(crate) fn start_index_build(
        &self,
        collection: &Arc<Collection>,
        specifications: Vec<IndexSpecification>,
    ) -> Result<StartedBuild> {
        let _gate = collection.begin_definition_change();
        if collection.ring().is_some() && specifications.iter().any(|wanted| wanted.expire_after_seconds.is_some()) {
            let message = "Cannot create TTL index on a capped collection";
            return Err(CollectionError::CannotCreateIndex(message.to_owned()).into());
        }
        check_definitions(self, collection, &specifications)?;
        self.catalog.check_room(specifications.iter().map(|wanted| wanted.to_document().as_bytes().len()).sum())?;
        let (mut indexes, mut last) = (Vec::new(), None);
        for specification in specifications {
            let change = CatalogChange::StartIndexBuild(index_change(collection, &specification));
            let logged = self.log_definition(&change, |_| {
                indexes.push(self.catalog.add_building_index(collection, specification)?);
                Ok(())
            });
            match logged {
                Ok(commit) => last = Some(commit),
                Err(error) => {
                    self.give_up(collection, &indexes);
                    return Err(error);
                }
            }
        }
        Ok(StartedBuild::of(indexes, last))
    }

    /// Steps 2 and 3.
    pub(crate) fn run_index_build(
        &self,
        collection: &Arc<Collection>,
        started: StartedBuild,
        is_stopped: &dyn Fn() -> bool,
    ) -> Result<CommitInfo> {
        let built = match self.fill_indexes(collection, &started, is_stopped) {
            Ok(()) => self.commit_index_build(collection, &started.trees),
            Err(error) => Err(error),
        };
        let built = built.map_err(|error| match error {
            TransactionError::Collection(CollectionError::CollectionDropped { .. }) => {
                let message = format!("collection {} was dropped", collection.namespace());
                CollectionError::IndexBuildAborted(message).into()
            }
            error => error,
        });
        let is_stopped = matches!(built, Err(TransactionError::Collection(CollectionError::Stopped)));
        // Where another member leads now, that one goes on with it, or gives it up.
        if built.is_err() && self.leads() && !(is_stopped && (self.is_stopping() || self.keeps_builds())) {
            let _definitions = self.lock_definitions(|| vec![collection.clone()]);
            let _gate = collection.begin_definition_change();
            self.give_up(collection, &find_indexes(collection, &started.trees));
        }
        built
    }

    /// Step 2.
    pub(crate) fn fill_indexes(
        &self,
        collection: &Arc<Collection>,
        started: &StartedBuild,
        is_stopped: &dyn Fn() -> bool,
    ) -> Result<()> {
        if let Some(commit) = started.commit {
            self.commits.wait_visible(commit.timestamp)?;
        }
        let _gives_way = LongWork::begin(&self.foreground);
        let is_plain = |index: &Arc<Index>| {
            started.is_of_another || index.state() == IndexState::Replacing || !index.specification().is_unique()
        };
        let mut buffers = BuildBuffers { is_of_another: started.is_of_another, ..BuildBuffers::default() };
        if collection.ring().is_none() && find_indexes(collection, &started.trees).iter().all(is_plain) {
            return self.fill_sorted(collection, &started.trees, buffers, is_stopped);
        }
        let mut cursor = self.newest_view().record_cursor(collection);
        let mut budget = self.work_budget();
        while let Some(record_id) = next_record(&mut cursor)? {
            if is_stopped() {
                return Err(CollectionError::Stopped.into());
            }
            self.check_space()?;
            self.pace();
            self.give_way(&mut budget);
            self.options.interleaving.at(Moment::IndexBuild);
            self.fill_record_patiently(collection, &started.trees, record_id, &mut buffers, is_stopped)?;
        }
        Ok(())
    }

    /// Puts the entries of a record's newest version, once no transaction owns what is needed for that.
    fn fill_record_patiently(
        &self,
        collection: &Arc<Collection>,
        trees: &[TreeId],
        record_id: RecordId,
        buffers: &mut BuildBuffers,
        is_stopped: &dyn Fn() -> bool,
    ) -> Result<()> {
        while let Some(owned) = self.fill_record(collection, trees, record_id, buffers)? {
            while !self.is_released(owned) {
                if is_stopped() {
                    return Err(CollectionError::Stopped.into());
                }
            }
        }
        Ok(())
    }

    /// Gives what a transaction owns and has to let go of first, if there is something.
    fn fill_record(
        &self,
        collection: &Arc<Collection>,
        trees: &[TreeId],
        record_id: RecordId,
        buffers: &mut BuildBuffers,
    ) -> Result<Option<OwnedName>> {
        let access = collection.begin_write()?;
        // So that it is not overtaken meanwhile.
        let _ring = collection.ring().map(|ring| ring.lock());
        let _record_lock = match self.record_locks.lock((collection.ident(), record_id.0 as u64)) {
            Ok(lock) => lock,
            Err(OwnedByTransaction(name)) => return Ok(Some(OwnedName::Record(name))),
        };
        if !collection.read_latest(&self.engine, record_id, &mut buffers.document)? {
            return Ok(None);
        }
        for tree in trees {
            if let Some(owned) = self.fill_entries(&access, *tree, record_id, buffers)? {
                return Ok(Some(owned));
            }
        }
        Ok(None)
    }

    fn fill_entries(
        &self,
        access: &WriteAccess<'_>,
        tree: TreeId,
        record_id: RecordId,
        buffers: &mut BuildBuffers,
    ) -> Result<Option<OwnedName>> {
        let Some(position) = access.indexes.position(tree) else { return Err(aborted(access.collection)) };
        let Some(index) = access.indexes.all().get(position) else { return Err(aborted(access.collection)) };
        let document = RawDocument::from_bytes(&buffers.document)
            .map_err(|error| CollectionError::Damaged(format!("record: {error}")))?;
        index.note_read(record_id);
        buffers.entries.generate(&access.indexes, position, record_id, document)?;
        if let Some(newly) = buffers.entries.newly_multikey(position, index) {
            self.catalog.add_multikey(access.collection, &[newly])?;
        }
        let mut locks = Default::default();
        if index.specification().is_unique() && !buffers.is_of_another {
            let claims = buffers.entries.claims(position, index);
            locks = match lock_claims(&self.unique_locks, claims, &mut buffers.unique) {
                Ok(locks) => locks,
                Err(OwnedByTransaction(name)) => return Ok(Some(OwnedName::Unique(name))),
            };
            for claim in buffers.entries.claims(position, index) {
                if is_taken(&self.engine, index, claim.key, record_id, &mut buffers.unique)? {
                    let namespace = access.definition.namespace.as_str();
                    return Err(duplicate_key_error(namespace, index, claim.key, claim.value).into());
                }
            }
        }
        let applied = self.apply_uncommitted(buffers.entries.batch());
        drop(locks);
        applied.map(|()| None)
    }

    /// Step 3.
    fn commit_index_build(&self, collection: &Arc<Collection>, trees: &[TreeId]) -> Result<CommitInfo> {
        let _definitions = self.lock_definitions(|| vec![collection.clone()]);
        let _gate = collection.begin_definition_change();
        collection.check_alive()?;
        let indexes = find_indexes(collection, trees);
        if indexes.len() < trees.len() {
            return Err(aborted(collection));
        }
        self.note_set_aside();
        for index in &indexes {
            index.check_usable()?;
            self.check_suspected_duplicates(collection, index)?;
        }
        let mut last = None;
        for index in &indexes {
            let change = CatalogChange::CommitIndexBuild(index_change(collection, index.specification()));
            let commit = self.log_definition(&change, |appended| {
                Ok(self.catalog.make_index_ready(collection, index, appended.timestamp)?)
            })?;
            last = Some(commit);
        }
        last.ok_or_else(|| aborted(collection))
    }

    /// With the gate held exclusively every commit of the collection is applied.
    fn check_suspected_duplicates(&self, collection: &Collection, index: &Index) -> Result<()> {
        let mut buffers = UniqueBuffers::default();
        for suspected in index.take_suspected_duplicates() {
            if is_duplicated(&self.engine, index, &suspected.key, &mut buffers)? {
                let namespace = collection.namespace();
                let (key, value) = (&suspected.key, &suspected.value);
                return Err(duplicate_key_error(namespace.as_str(), index, key, value).into());
            }
        }
        Ok(())
    }

    /// Ends the builds of indexes, which are gone then. The definition lock and the gate are held. What cannot be logged goes on in the background, which ends it
    /// when writes are possible again: others may have read that it began.
    fn give_up(&self, collection: &Arc<Collection>, indexes: &[Arc<Index>]) {
        if collection.is_dropped() {
            return;
        }
        for index in indexes {
            let change = CatalogChange::AbortIndexBuild(index_change(collection, index.specification()));
            let logged = self.log_definition(&change, |_| Ok(self.catalog.remove_index(collection, index)?));
            if let Err(error) = logged {
                // The build's own error is the one to be told about.
                let (namespace, index) = (collection.namespace(), index.name());
                tracing::warn!(%error, %namespace, index, "that an index build has ended could not be logged: it goes on later");
                self.note_interrupted_build(collection);
            }
        }
    }
}

/// Refuses definitions that do not fit into the collection's entry of the catalog.
pub(crate) fn check_definitions(
    store: &Store,
    collection: &Collection,
    specifications: &[IndexSpecification],
) -> Result<()> {
    let documents: Vec<_> = specifications.iter().map(IndexSpecification::to_document).collect();
    let documents = documents.iter().map(|document| &**document);
    Ok(store.catalog.check_definitions(&collection.namespace(), Some(collection), documents)?)
}

/// The next record. When a ring has overtaken the cursor, that is what is the oldest now: entries may be put twice.
fn next_record(cursor: &mut RecordCursor) -> Result<Option<RecordId>> {
    loop {
        match cursor.next() {
            Err(TransactionError::Engine(EngineError::RingPositionLost)) => cursor.seek_first()?,
            next => return next,
        }
    }
}

fn find_indexes(collection: &Collection, trees: &[TreeId]) -> Vec<Arc<Index>> {
    let indexes = collection.indexes();
    indexes.all().iter().filter(|index| trees.contains(&index.tree())).cloned().collect()
}

fn index_change(collection: &Collection, specification: &IndexSpecification) -> IndexChange {
    IndexChange { namespace: collection.namespace(), uuid: collection.uuid(), specification: specification.clone() }
}

fn aborted(collection: &Collection) -> crate::error::TransactionError {
    let message = format!("an index of {} was dropped while it was being built", collection.namespace());
    CollectionError::IndexBuildAborted(message).into()
}
