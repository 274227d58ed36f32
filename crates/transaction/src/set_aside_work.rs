//! What is set aside, so that the server serves the rest: background work that failed in a way that trying again does not heal, and what is damaged.
//!
//! Three kinds of work end here: building an index again when the oplog is replayed, going on with an index build, and deleting what has expired. Each reports to
//! `set_aside`, which logs it once; `serverStatus` shows the list until the server is started again. What is set aside is marked by its index,
//! so a new index on the same fields is a new try.
//!
//! Indexes and collections that lack changes because of a damaged page are marked themselves (`Index::set_aside`, `Collection::set_aside`): by whoever reads the
//! page, or by the engine, which applies the rest of a commit. `note_set_aside` is called between a commit's application and its becoming visible, so that
//! nobody reads what lacks it. A checkpoint keeps the marks (`save_set_aside`): what it has from before its mark is not replayed.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use collection::{Collection, CollectionError, IndexIdentity, REBUILD_ADVICE, REPAIR_ADVICE, set_aside_count};
use parking_lot::Mutex;
use storage_engine::TreeId;

use crate::error::{Result, TransactionError};
use crate::store::Store;

/// Reports kept: the oldest go.
const REPORTS_MAX: usize = 256;

/// Work that is not done any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetAsideWork {
    /// What was to be done.
    pub what: &'static str,
    /// `database.collection`.
    pub namespace: String,
    /// Name of the index.
    pub index: String,
    /// Why it failed.
    pub reason: String,
    /// What an operator can do.
    pub advice: &'static str,
}

/// Whose work is set aside. Nobody else gets the same while the process runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkOf {
    /// An index.
    Index(IndexIdentity),
    /// A collection, by its ident.
    Collection(u64),
}

/// See the module's head.
#[derive(Debug, Default)]
pub(crate) struct SetAsideList {
    reports: Mutex<Vec<(Option<WorkOf>, SetAsideWork)>>,
    /// How much had been set aside when somebody looked last, by the engine and in collections.
    seen: [AtomicUsize; 2],
    marked: Mutex<Vec<Marked>>,
}

/// A collection, or an index of one, that is marked.
#[derive(Debug)]
struct Marked {
    collection: Weak<Collection>,
    index: Option<IndexIdentity>,
    is_saved: bool,
    work: SetAsideWork,
}

impl Marked {
    /// The collection, while it is there and what is marked is.
    fn holder(&self) -> Option<Arc<Collection>> {
        let collection = self.collection.upgrade().filter(|collection| !collection.is_dropped())?;
        let is_there =
            self.index.is_none_or(|index| collection.indexes().all().iter().any(|there| there.identity() == index));
        is_there.then_some(collection)
    }
}

/// What an index is that is marked, and a collection.
const INDEX: &str = "an index";
const COLLECTION: &str = "a collection";

impl Store {
    /// What is set aside, oldest first: first what is damaged, then background work that failed and is not tried again.
    pub fn set_aside_work(&self) -> Vec<SetAsideWork> {
        let marked = self.set_aside.marked.lock();
        let marked = marked.iter().filter(|marked| marked.holder().is_some()).map(|marked| marked.work.clone());
        marked.chain(self.set_aside.reports.lock().iter().map(|(_, work)| work.clone())).collect()
    }

    /// Marks and tells what has been set aside since somebody looked. Called before a commit becomes visible, and in the background.
    #[inline]
    pub(crate) fn note_set_aside(&self) {
        let [by_engine, marked] = &self.set_aside.seen;
        if self.engine.trees_set_aside_count() != by_engine.load(Ordering::Acquire)
            || set_aside_count() != marked.load(Ordering::Acquire)
        {
            self.mark_set_aside();
        }
    }

    #[cold]
    fn mark_set_aside(&self) {
        let mut marked = self.set_aside.marked.lock();
        let counts = [self.engine.trees_set_aside_count(), set_aside_count()];
        let trees = self.engine.trees_set_aside();
        for collection in self.catalog.all_collections() {
            for (tree, reason) in &trees {
                if collection.record_tree() == *tree {
                    collection.set_aside(reason);
                } else if let Some(index) = collection.indexes().all().iter().find(|index| index.tree() == *tree) {
                    index.set_aside(collection.namespace().as_str(), reason);
                }
            }
            tell_marked(&collection, &mut marked);
        }
        // What this has marked is counted, too: the next one who looks finds nothing new.
        for (seen, count) in self.set_aside.seen.iter().zip(counts) {
            seen.store(count, Ordering::Release);
        }
    }

    /// Keeps the marks. With the mark of a checkpoint fixed and before it is frozen, under the definition lock.
    ///
    /// # Errors
    /// `Engine`.
    pub(crate) fn save_set_aside(&self) -> Result<()> {
        self.note_set_aside();
        let mut marked = self.set_aside.marked.lock();
        marked.retain(|marked| marked.holder().is_some());
        for marked in marked.iter_mut().filter(|marked| !marked.is_saved) {
            if let Some(collection) = marked.holder() {
                self.catalog.save_set_aside(&collection)?;
                marked.is_saved = true;
            }
        }
        Ok(())
    }

    /// After recovery: what replay and the catalog have marked, and what follows from damage that is nobody's own.
    pub(crate) fn note_damage_of_start(&self) {
        if let Some(reason) = self.engine.lost_saved_changes() {
            let reason = format!("changes of indexes that the last checkpoint had saved cannot be read: {reason}");
            for collection in self.catalog.all_collections() {
                let namespace = collection.namespace();
                collection.indexes().all().iter().for_each(|index| index.set_aside(namespace.as_str(), &reason));
            }
        }
        self.mark_set_aside();
        if let Some(aside) = self.oplog.set_aside() {
            let advice = "no document is lost; what followers of the oplog lose is in the log of the start. The files may be removed";
            let (namespace, index) = Default::default();
            let reason = format!("{}: {}", aside.files.join(", "), aside.damage);
            self.set_aside(None, SetAsideWork { what: "the oplog from before", namespace, index, reason, advice });
        }
        for reason in self.catalog.unreadable() {
            let advice = "what belongs to it is not served. `plimsoll repair` saves what can be read";
            let (namespace, index) = Default::default();
            self.set_aside(None, SetAsideWork { what: "a part of the catalog", namespace, index, reason, advice });
        }
    }

    /// Fails when the catalog is damaged: then nothing is written, since no checkpoint could have it.
    ///
    /// # Errors
    /// `CatalogDamaged`.
    #[inline]
    pub(crate) fn check_catalog(&self) -> Result<()> {
        if self.engine.trees_set_aside_count() == 0 {
            return Ok(());
        }
        let trees = self.engine.trees_set_aside();
        match trees.into_iter().find(|(tree, _)| *tree == TreeId::CATALOG) {
            Some((_, reason)) => Err(TransactionError::CatalogDamaged(reason)),
            None => Ok(()),
        }
    }

    /// An error of something that is committed and must be applied: where a collection is damaged, it is set aside, and the rest is applied.
    pub(crate) fn pass_over_damage(&self, collection: &Collection, error: TransactionError) -> Result<()> {
        if !error.is_damage() {
            return Err(error);
        }
        self.engine.set_tree_aside(collection.record_tree(), &error.to_string());
        Ok(())
    }

    /// An insert into a capped collection comes to a damaged document that it is to overtake, as all later ones will: that is told once.
    pub(crate) fn tell_stuck_ring(&self, collection: &Collection, error: &CollectionError) {
        let (what, of) = ("inserting into a capped collection", WorkOf::Collection(collection.ident()));
        if !error.is_damage() || self.is_set_aside(what, of) {
            return;
        }
        let advice = "what can be read is served, and inserts fail. `plimsoll repair` saves what can be read";
        let (namespace, index) = (collection.namespace().as_str().to_owned(), String::new());
        self.set_aside(Some(of), SetAsideWork { what, namespace, index, reason: error.to_string(), advice });
    }

    /// Tells and marks it. `of`: whose it is, if that is still there.
    pub fn set_aside(&self, of: Option<WorkOf>, work: SetAsideWork) {
        let SetAsideWork { what, namespace, index, reason, advice } = &work;
        tracing::error!(what, namespace, index, reason, advice, "something is set aside");
        let mut reports = self.set_aside.reports.lock();
        if reports.len() == REPORTS_MAX {
            reports.remove(0);
        }
        reports.push((of, work));
    }

    /// Whether work of this kind has been set aside.
    pub(crate) fn is_set_aside(&self, what: &str, of: WorkOf) -> bool {
        self.set_aside.reports.lock().iter().any(|(marked, work)| *marked == Some(of) && work.what == what)
    }
}

/// Tells of what is marked of a collection, once.
fn tell_marked(collection: &Arc<Collection>, marked: &mut Vec<Marked>) {
    let indexes = collection.indexes();
    let of_indexes = indexes.all().iter().filter_map(|index| {
        let advice = if index.is_readable() { REBUILD_ADVICE } else { "drop it and create it again" };
        Some((Some(index.identity()), index.name(), index.aside()?, advice))
    });
    let of_collection = collection.aside().map(|reason| (None, "", reason, REPAIR_ADVICE));
    for (index, name, reason, advice) in of_collection.into_iter().chain(of_indexes) {
        let is_known = |known: &Marked| {
            known.index == index && known.holder().is_some_and(|holder| Arc::ptr_eq(&holder, collection))
        };
        if marked.iter().any(is_known) {
            continue;
        }
        let what = if index.is_some() { INDEX } else { COLLECTION };
        let namespace = collection.namespace().as_str().to_owned();
        tracing::error!(what, namespace, index = name, reason, advice, "what is damaged is set aside");
        let work = SetAsideWork { what, namespace, index: name.to_owned(), reason: reason.to_owned(), advice };
        marked.push(Marked { collection: Arc::downgrade(collection), index, is_saved: false, work });
    }
}
