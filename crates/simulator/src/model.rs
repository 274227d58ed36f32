//! What the store must be: collections, documents and indexes as of every commit since the last one known to have survived.
//!
//! Fed by `simulation` when a commit is logged, in timestamp order; asked by every check. It knows no file, page or lock. The
//! state after a crash is the base with a prefix of the history: that is the whole promise of the oplog.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bson::RawDocumentBuf;
use collection::CappedOptions;
use platform::Timestamp;

use crate::ring_model::RingModel;

/// A collection for ever, whatever it is called.
pub(crate) type CollectionNumber = u32;

/// A document and the value of its unique field.
#[derive(Debug, PartialEq)]
pub(crate) struct Document {
    pub(crate) raw: RawDocumentBuf,
    pub(crate) unique: Option<i32>,
}

/// One collection.
#[derive(Clone, Debug, Default)]
pub(crate) struct CollectionState {
    pub(crate) namespace: String,
    pub(crate) documents: BTreeMap<i32, Arc<Document>>,
    /// Numbers in the pool of `documents::index`.
    pub(crate) indexes: BTreeSet<u8>,
    /// Of a capped collection.
    pub(crate) ring: Option<RingModel>,
}

/// Everything, as of one commit.
#[derive(Clone, Debug, Default)]
pub(crate) struct State {
    pub(crate) collections: BTreeMap<CollectionNumber, Arc<CollectionState>>,
}

/// What a commit does.
#[derive(Clone, Debug)]
pub(crate) enum Effect {
    Nothing,
    Create {
        number: CollectionNumber,
        namespace: String,
        capped: Option<CappedOptions>,
    },
    Resize {
        number: CollectionNumber,
        capped: CappedOptions,
    },
    Drop {
        number: CollectionNumber,
    },
    Rename {
        number: CollectionNumber,
        to: String,
        dropped: Option<CollectionNumber>,
    },
    Put {
        number: CollectionNumber,
        id: i32,
        document: Arc<Document>,
    },
    /// Into a capped collection; where, and where its head is then, is what the oplog's entry says.
    PutInRing {
        number: CollectionNumber,
        id: i32,
        document: Arc<Document>,
        place: i64,
        head: i64,
    },
    Delete {
        number: CollectionNumber,
        id: i32,
    },
    AddIndex {
        number: CollectionNumber,
        index: u8,
    },
    DropIndex {
        number: CollectionNumber,
        index: u8,
    },
    /// The commit of a transaction.
    All(Arc<Vec<Effect>>),
    /// The decision that these will be committed.
    Decide(Arc<Vec<Effect>>),
}

impl Effect {
    /// Whether it changes what there is, and not what is in it.
    pub(crate) fn is_of_definition(&self) -> bool {
        matches!(self, Effect::Create { .. } | Effect::Drop { .. } | Effect::AddIndex { .. })
    }

    /// Those of which it consists.
    fn parts(&self) -> &[Effect] {
        match self {
            Effect::All(effects) | Effect::Decide(effects) => effects,
            single => std::slice::from_ref(single),
        }
    }
}

impl CollectionState {
    /// Bytes of all documents.
    pub(crate) fn bytes(&self) -> u64 {
        self.documents.values().map(|document| document.raw.as_bytes().len() as u64).sum()
    }

    /// Whether a document other than `id` has this value of the unique field.
    pub(crate) fn is_taken(&self, unique: Option<i32>, id: i32) -> bool {
        unique.is_some() && self.documents.iter().any(|(other, document)| *other != id && document.unique == unique)
    }

    /// Whether two documents have the same value of the unique field.
    pub(crate) fn has_duplicates(&self) -> bool {
        let mut seen = BTreeSet::new();
        self.documents.values().filter_map(|document| document.unique).any(|unique| !seen.insert(unique))
    }
}

impl State {
    pub(crate) fn find(&self, namespace: &str) -> Option<CollectionNumber> {
        self.collections.iter().find(|(_, state)| state.namespace == namespace).map(|(number, _)| *number)
    }

    fn change(&mut self, number: CollectionNumber, change: impl FnOnce(&mut CollectionState)) {
        if let Some(collection) = self.collections.get_mut(&number) {
            change(Arc::make_mut(collection));
        }
    }

    /// What is wrong with a commit, if it can be told.
    fn judge(&self, effect: &Effect) -> Option<String> {
        let Effect::PutInRing { number, document, place, head, .. } = effect else { return None };
        let state = self.collections.get(number)?;
        let bytes_of = |id| state.documents.get(&id).map_or(0, |document| document.raw.as_bytes().len() as u64);
        state.ring.as_ref()?.judge(*place, *head, document.raw.as_bytes().len() as u64, bytes_of)
    }

    pub(crate) fn apply(&mut self, effect: &Effect) {
        match effect {
            Effect::Nothing => {}
            Effect::Create { number, namespace, capped } => {
                let ring = capped.map(RingModel::new);
                let created = CollectionState { namespace: namespace.clone(), ring, ..CollectionState::default() };
                self.collections.insert(*number, Arc::new(created));
            }
            Effect::Drop { number } => {
                self.collections.remove(number);
            }
            Effect::Rename { number, to, dropped } => {
                dropped.iter().for_each(|dropped| {
                    self.collections.remove(dropped);
                });
                self.change(*number, |collection| collection.namespace.clone_from(to));
            }
            Effect::Put { number, id, document } => self.change(*number, |collection| {
                collection.documents.insert(*id, document.clone());
            }),
            Effect::PutInRing { number, id, document, place, head } => self.change(*number, |collection| {
                let Some(ring) = &mut collection.ring else { return };
                for gone in ring.insert(*id, *place, *head, document.raw.as_bytes().len() as u64) {
                    collection.documents.remove(&gone);
                }
                collection.documents.insert(*id, document.clone());
            }),
            Effect::Resize { number, capped } => self.change(*number, |collection| {
                collection.ring.iter_mut().for_each(|ring| ring.resize(*capped));
            }),
            Effect::Delete { number, id } => self.change(*number, |collection| {
                collection.documents.remove(id);
                collection.ring.iter_mut().for_each(|ring| ring.delete(*id));
            }),
            Effect::AddIndex { number, index } => self.change(*number, |collection| {
                collection.indexes.insert(*index);
            }),
            Effect::DropIndex { number, index } => self.change(*number, |collection| {
                collection.indexes.remove(index);
            }),
            Effect::All(effects) => effects.iter().for_each(|effect| self.apply(effect)),
            Effect::Decide(_) => {}
        }
    }
}

/// Documents by `_id` and bytes.
pub(crate) type Versions = BTreeSet<(i32, Vec<u8>)>;

/// The history since the last recovery.
#[derive(Default)]
pub(crate) struct Model {
    /// As the store was recovered.
    base: State,
    base_timestamp: Timestamp,
    /// Where the oplog ended when the store was last opened.
    recovered: Timestamp,
    /// Every commit that was logged since.
    history: Vec<(Timestamp, Effect)>,
    /// With all of the history.
    newest: State,
    /// With the first `visible_count` of the history.
    visible: State,
    visible_count: usize,
    /// Every version of every document that ever was.
    versions: Arc<Versions>,
    /// Must survive whatever happens.
    durable: Timestamp,
    next_number: CollectionNumber,
    keeps_versions: bool,
}

impl Model {
    /// With every commit that was logged.
    pub(crate) fn newest(&self) -> &State {
        &self.newest
    }

    /// Keeps every version of every document from now on.
    pub(crate) fn keep_versions(&mut self) {
        self.keeps_versions = true;
    }

    /// Every version of every document that ever was.
    pub(crate) fn versions(&self) -> Arc<Versions> {
        self.versions.clone()
    }

    pub(crate) fn new_number(&mut self) -> CollectionNumber {
        self.next_number += 1;
        self.next_number
    }

    /// A commit was logged.
    pub(crate) fn log(&mut self, timestamp: Timestamp, effect: Effect) -> Result<(), String> {
        if self.last_logged() >= timestamp {
            return Err(format!("a commit got {timestamp}, the one before it {}", self.last_logged()));
        }
        if let Some(problem) = self.newest.judge(&effect) {
            return Err(problem);
        }
        self.newest.apply(&effect);
        for part in effect.parts() {
            if let Effect::Put { id, document, .. } | Effect::PutInRing { id, document, .. } = part
                && self.keeps_versions
            {
                Arc::make_mut(&mut self.versions).insert((*id, document.raw.as_bytes().to_vec()));
            }
        }
        self.history.push((timestamp, effect));
        Ok(())
    }

    /// Recovery has replayed the oplog, which ends here.
    pub(crate) fn note_recovered(&mut self, timestamp: Timestamp) {
        self.recovered = timestamp;
    }

    /// Recovery has logged the commit of a transaction that was decided. What was logged behind what it has replayed is lost.
    pub(crate) fn log_completed(&mut self, timestamp: Timestamp) -> Result<(), String> {
        self.history.truncate(self.history.partition_point(|(logged, _)| *logged <= self.recovered));
        let Some(decided) = self.history.iter().rposition(|(_, effect)| matches!(effect, Effect::Decide(_))) else {
            return Err("a transaction was completed that nobody decided".to_owned());
        };
        // Its commit, or what an opening that failed has logged, is lost.
        let after = self.history.split_off(decided + 1);
        self.history.extend(after.into_iter().filter(|(_, effect)| !matches!(effect, Effect::All(_))));
        let Some(effects) = self.decided() else { return Err("there is nothing to complete".to_owned()) };
        self.history.push((timestamp, Effect::All(effects)));
        Ok(())
    }

    /// What is decided and not committed: there is one such transaction at most.
    fn decided(&self) -> Option<Arc<Vec<Effect>>> {
        let last = self.history.iter().rev().find(|(_, effect)| matches!(effect, Effect::All(_) | Effect::Decide(_)));
        match last {
            Some((_, Effect::Decide(effects))) => Some(effects.clone()),
            _ => None,
        }
    }

    pub(crate) fn last_logged(&self) -> Timestamp {
        self.history.last().map_or(self.base_timestamp, |(timestamp, _)| *timestamp)
    }

    /// Everything up to here was acknowledged as durable.
    pub(crate) fn set_durable(&mut self, timestamp: Timestamp) {
        self.durable = self.durable.max(timestamp);
    }

    /// What a snapshot of this time sees; times never go back.
    pub(crate) fn visible_at(&mut self, timestamp: Timestamp) -> &State {
        while let Some((next, effect)) = self.history.get(self.visible_count).filter(|(next, _)| *next <= timestamp) {
            debug_assert!(*next <= timestamp);
            self.visible.apply(effect);
            self.visible_count += 1;
        }
        &self.visible
    }

    /// The store was opened and has everything up to `timestamp`; what came after is lost.
    pub(crate) fn recover(&mut self, timestamp: Timestamp) -> Result<usize, String> {
        if timestamp < self.durable {
            return Err(format!("recovered up to {timestamp}, but {} was acknowledged as durable", self.durable));
        }
        let kept = self.history.partition_point(|(logged, _)| *logged <= timestamp);
        let last_kept = kept.checked_sub(1).and_then(|last| self.history.get(last));
        let last_kept = last_kept.map_or(self.base_timestamp, |(logged, _)| *logged);
        if last_kept != timestamp {
            return Err(format!("recovered up to {timestamp}, which nobody logged; the last before it is {last_kept}"));
        }
        let lost = self.history.len() - kept;
        self.history.truncate(kept);
        self.history.iter().for_each(|(_, effect)| self.base.apply(effect));
        if let Some(effects) = self.decided() {
            // The disk is full, so that its commit could not be logged.
            self.base.apply(&Effect::All(effects));
        }
        self.history.clear();
        self.base_timestamp = timestamp;
        self.newest = self.base.clone();
        self.visible = self.base.clone();
        self.visible_count = 0;
        self.durable = timestamp;
        Ok(lost)
    }
}
