//! Building all indexes of a collection anew (`reIndex`), while it is in use.
//!
//! 1. Start: under the gate, each index gets a double in state `Replacing` (`collection::catalog::replacement`), which writers maintain beside it.
//! 2. Fill: as an index build does, and in sorted pieces also where keys are unique: the index itself refuses what others insert. What
//!    damage has let in is found afterwards, where one key has two entries.
//! 3. Replace: transactions that use the collection are waited for. Under the gate a note is logged, and the doubles take the places of the
//!    indexes, all at once, for snapshots from the note on. Transactions and other reads of an older point in time are told to begin again;
//!    what else has an older snapshot reads the old trees.
//!
//! Nothing of it is in the oplog but the notes: what is stored says the same before and after. Whatever ends it before the doubles have
//! their places, an error, an interruption or a crash, leaves the indexes as they were; after a crash from before the next checkpoint, too.

use std::sync::Arc;

use bson::RawDocumentBuf;
use bson::raw::cstr;
use collection::{
    Collection, CollectionError, Index, IndexSpecification, LoggedEntry, duplicate_whole_key_error, encode_note,
    long_key,
};
use storage_engine::TreeId;

use super::{StartedBuild, aborted, find_indexes};
use crate::commit_order::CommitInfo;
use crate::error::{Result, TransactionError};
use crate::multi_document::DefinitionScope;
use crate::store::Store;
use crate::unique::{UniqueBuffers, is_duplicated};

/// Entries that are looked at between two questions whether to stop.
const ENTRIES_PER_CHECK: u64 = 128;

/// What `rebuild_indexes` did.
#[derive(Clone, Debug)]
pub struct IndexesRebuilt {
    /// The indexes, which are those that there were.
    pub indexes: Vec<IndexSpecification>,
    /// The note that was logged last.
    pub commit: CommitInfo,
}

impl Store {
    /// Builds all indexes of a collection anew, that on `_id` among them, unless `is_stopped`, which is asked now and then, ends it. Other
    /// operations go on meanwhile.
    ///
    /// # Errors
    /// `Collection` with `DuplicateKey` and those of index keys: what is stored cannot be indexed so; `IndexBuildInProgress`;
    /// `IndexBuildAborted`: the collection or an index was dropped meanwhile; `CollectionDropped`: before anything was begun; `Stopped`.
    /// `Oplog`, `Engine`, `OutOfSpace`. The indexes are as they were then.
    pub fn rebuild_indexes(
        &self,
        collection: &Arc<Collection>,
        is_stopped: &dyn Fn() -> bool,
    ) -> Result<IndexesRebuilt> {
        self.check_space()?;
        let started = self.start_rebuild(collection)?;
        let rebuilt = self.fill_doubles(collection, &started, is_stopped);
        let rebuilt = rebuilt.and_then(|()| self.replace_indexes(collection, &started.trees, is_stopped));
        let rebuilt = rebuilt.map_err(|error| match error {
            TransactionError::Collection(CollectionError::CollectionDropped { .. }) => {
                let message = format!("collection {} was dropped", collection.namespace());
                CollectionError::IndexBuildAborted(message).into()
            }
            TransactionError::Interrupted => CollectionError::Stopped.into(),
            error => error,
        });
        if rebuilt.is_err()
            && let Err(error) = self.abandon_rebuild(collection)
        {
            // The first error is the one to be told about. What is left in memory goes with the process, and the disk has nothing of it.
            tracing::warn!(%error, namespace = %collection.namespace(), "a rebuild of indexes could not be ended in order");
        }
        rebuilt
    }

    /// Step 1.
    fn start_rebuild(&self, collection: &Arc<Collection>) -> Result<StartedBuild> {
        let _definitions = self.lock_definitions(|| vec![collection.clone()]);
        let _gate = collection.begin_definition_change();
        collection.check_alive()?;
        if collection.indexes().all().iter().any(|index| index.state().is_being_filled()) {
            let namespace = collection.namespace();
            let message = format!("cannot perform operation: an index build is currently running for {namespace}");
            return Err(CollectionError::IndexBuildInProgress(message).into());
        }
        if let Some(index) = collection.indexes().listed().find(|index| !index.is_readable()) {
            index.check_usable()?;
        }
        let begun = self.catalog.begin_replacement(collection).map_err(TransactionError::from);
        let logged = begun.and_then(|trees| Ok((trees, self.log_note(&note(collection, "started"))?)));
        match logged {
            Ok((trees, commit)) => Ok(StartedBuild::of(find_indexes(collection, &trees), Some(commit))),
            Err(error) => {
                self.catalog.abandon_replacement(collection)?;
                Err(error)
            }
        }
    }

    /// Step 2.
    fn fill_doubles(
        &self,
        collection: &Arc<Collection>,
        started: &StartedBuild,
        is_stopped: &dyn Fn() -> bool,
    ) -> Result<()> {
        self.fill_indexes(collection, started, is_stopped)?;
        let filled = self.log_note(&note(collection, "filled"))?;
        self.commits.wait_visible(filled.timestamp)?;
        for index in find_indexes(collection, &started.trees) {
            if index.specification().is_unique() {
                self.check_uniqueness(collection, &index, is_stopped)?;
            }
        }
        Ok(())
    }

    /// Looks for a key with two entries, which a snapshot never sees where nothing is damaged.
    fn check_uniqueness(
        &self,
        collection: &Arc<Collection>,
        index: &Arc<Index>,
        is_stopped: &dyn Fn() -> bool,
    ) -> Result<()> {
        let mut cursor = self.newest_view().index_cursor(collection, index);
        let (mut previous, mut budget) = (Vec::new(), self.work_budget());
        let (mut seen, mut buffers) = (0_u64, UniqueBuffers::default());
        cursor.seek_first()?;
        while cursor.next()? {
            if seen.is_multiple_of(ENTRIES_PER_CHECK) && is_stopped() {
                return Err(CollectionError::Stopped.into());
            }
            self.give_way(&mut budget);
            if seen > 0 && cursor.key() == previous {
                let mut stored = previous.clone();
                long_key::shorten(&mut stored);
                if is_duplicated(&self.engine, index, &stored, &mut buffers)? {
                    let namespace = collection.namespace();
                    let type_bits = cursor.type_bits()?.to_vec();
                    return Err(duplicate_whole_key_error(namespace.as_str(), index, &previous, &type_bits).into());
                }
            }
            previous.clear();
            previous.extend_from_slice(cursor.key());
            seen += 1;
        }
        Ok(())
    }

    /// Step 3.
    fn replace_indexes(
        &self,
        collection: &Arc<Collection>,
        trees: &[TreeId],
        is_stopped: &dyn Fn() -> bool,
    ) -> Result<IndexesRebuilt> {
        loop {
            let namespace = collection.namespace();
            let scope = DefinitionScope::Collections(vec![namespace.clone()]);
            let _excluded = self.exclude_transactions(&scope, is_stopped)?;
            let _definitions = self.lock_definitions(|| vec![collection.clone()]);
            let _gate = collection.begin_definition_change();
            collection.check_alive()?;
            if is_stopped() {
                return Err(CollectionError::Stopped.into());
            }
            if collection.namespace() != namespace {
                continue;
            }
            let doubles = find_indexes(collection, trees);
            if doubles.len() < trees.len() {
                return Err(aborted(collection));
            }
            self.note_set_aside();
            for index in &doubles {
                index.check_usable()?;
                self.check_suspected_duplicates(collection, index)?;
            }
            let entry = encode_note(&note(collection, "replaced"), self.clock.wall_millis());
            self.note_renaming(&[&namespace]);
            let replaced = self.log_and_apply(&LoggedEntry::whole(&entry), None, |appended| {
                Ok(self.catalog.finish_replacement(collection, trees, appended.timestamp)?)
            });
            self.note_renamed(&[&namespace], replaced.as_ref().ok().map(|commit| commit.timestamp));
            let indexes = collection.indexes();
            let indexes = indexes.complete().map(|index| index.specification().clone()).collect();
            return Ok(IndexesRebuilt { indexes, commit: replaced? });
        }
    }

    fn abandon_rebuild(&self, collection: &Arc<Collection>) -> Result<()> {
        let _definitions = self.lock_definitions(|| vec![collection.clone()]);
        let _gate = collection.begin_definition_change();
        // A dropped collection takes all its trees with it.
        if collection.is_dropped() { Ok(()) } else { Ok(self.catalog.abandon_replacement(collection)?) }
    }
}

/// What is logged of a rebuild, for whoever reads the oplog.
fn note(collection: &Collection, step: &str) -> RawDocumentBuf {
    let mut note = RawDocumentBuf::new();
    note.append(cstr!("msg"), "reIndex");
    note.append(cstr!("ns"), collection.namespace().as_str());
    note.append(cstr!("step"), step);
    note
}
