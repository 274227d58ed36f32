//! Transactions of several documents: each write against what the model says that the transaction sees, then a commit or an abort.
//!
//! Called by `operations`. While a transaction is open other clients work on other collections, checkpoints are made, and documents that the transaction
//! has not written are deleted under it: writing those is a conflict. Some have so little memory that every change is spilled. Its commit is one
//! effect in the model; of a large one the decision comes first, and a crash in between must not take it back.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bson::{RawDocument, Uuid};
use collection::{CollectionOptions, IndexSpecification, Validation};
use platform::{MemoryBudget, MemoryUse, Random};
use transaction::{Decision, Result, Session, Transaction, TransactionError, WriteContext};

use crate::documents;
use crate::errors::{Kind, kind};
use crate::model::{CollectionNumber, CollectionState, Document, Effect};
use crate::operations::Target;
use crate::simulation::{Created, Health, Intent, Simulation};

/// So little that each change is spilled before the next.
const LITTLE_MEMORY_BYTES: u64 = 200 << 10;

/// A transaction as the model has it.
struct Open {
    targets: Vec<Target>,
    transaction: Arc<Transaction>,
    context: WriteContext,
    /// What it has made of documents; `None`: deleted.
    written: BTreeMap<(CollectionNumber, i32), Option<Arc<Document>>>,
    /// Deleted by others since its snapshot.
    lost: BTreeSet<(CollectionNumber, i32)>,
    created: Option<Created>,
}

impl Open {
    /// What it sees of a document.
    fn sees(&self, target: &Target, id: i32) -> Option<Arc<Document>> {
        match self.written.get(&(target.number, id)) {
            Some(written) => written.clone(),
            None => target.state.documents.get(&id).cloned(),
        }
    }

    /// Whether another document that it sees has the unique value; and whether one has or had it.
    fn clashes(&self, target: &Target, document: &Document, id: i32) -> (bool, bool) {
        if document.unique.is_none() || !target.state.indexes.contains(&documents::UNIQUE_INDEX) {
            return (false, false);
        }
        let written = self.written.iter().filter(|((number, _), _)| *number == target.number).map(|((_, id), _)| *id);
        let ids: BTreeSet<i32> = target.state.documents.keys().copied().chain(written).collect();
        let has_value = |other: &Arc<Document>| other.unique == document.unique;
        let is_seen = ids.iter().any(|other| *other != id && self.sees(target, *other).as_ref().is_some_and(has_value));
        let was_there = |other: &i32| target.state.documents.get(other).is_some_and(has_value);
        let is_lost = self.lost.iter().any(|(number, other)| *number == target.number && was_there(other));
        (is_seen, is_lost)
    }
}

impl Simulation {
    /// A whole transaction, from its begin to its end.
    pub(crate) fn transaction_operation(&self, locked: &[CollectionNumber]) {
        if self.depth() > 0 || self.is_stopped() {
            return;
        }
        let Some(targets) = self.choose_targets(locked) else { return };
        let store = self.store();
        let mut id = [0; 16];
        self.random.fill(&mut id);
        let Ok(session) = store.sessions().refresh(Uuid::from_bytes(id)) else { return };
        let budget = match self.random.below(2) {
            0 => MemoryBudget::new(LITTLE_MEMORY_BYTES),
            _ => MemoryBudget::unlimited(),
        };
        // Its snapshot is what is confirmed, and what it changes must not have changed since.
        if !self.confirm_all() {
            return;
        }
        let begun = store.begin_transaction(&session, 1, budget.reservation(MemoryUse::WriteSets), 0);
        let transaction = begun.unwrap_or_else(|error| self.fail(format_args!("{error}")));
        let mut context = WriteContext::new();
        context.set_transaction(Some(transaction.clone()));
        let (written, lost) = (BTreeMap::new(), BTreeSet::new());
        let mut open = Open { targets, transaction, context, written, lost, created: None };
        self.say(format_args!("begin a transaction"));
        if self.chance(0.2) && !self.create_in(&mut open) {
            let _ = store.abort_open_transaction(&session);
            return;
        }
        *self.in_transaction.lock() = open.targets.iter().map(|target| target.number).collect();
        let is_whole = self.write_in(&mut open);
        if self.disk.is_down() {
            self.in_transaction.lock().clear();
            return;
        }
        if is_whole && self.chance(0.8) {
            self.commit_transaction(open, &session);
            self.in_transaction.lock().clear();
        } else {
            self.in_transaction.lock().clear();
            self.say(format_args!("abort"));
            // A commit that failed has ended it already; this one was not tried.
            if let Err(error) = store.abort_transaction(&session, 1) {
                self.fail(format_args!("a transaction could not be aborted: {error}"));
            }
        }
    }

    fn choose_targets(&self, locked: &[CollectionNumber]) -> Option<Vec<Target>> {
        // Capped collections are not written in transactions.
        let is_plain = |target: &Target| target.state.ring.is_none();
        let first = self.choose(locked).filter(is_plain)?;
        let mut taken = locked.to_vec();
        taken.push(first.number);
        let mut targets = vec![first];
        if self.chance(0.5) {
            targets.extend(self.choose(&taken).filter(is_plain));
        }
        Some(targets)
    }

    /// Creates a collection in the transaction; `false`: that failed.
    fn create_in(&self, open: &mut Open) -> bool {
        let name = self.choose_name();
        if self.model.lock().newest().find(&name).is_some() {
            return true;
        }
        let index = if self.chance(0.5) { Some(self.random.below(u64::from(documents::INDEXES)) as u8) } else { None };
        self.say(format_args!("  create {name} with index {index:?}"));
        let (store, namespace) = (self.store(), self.namespace(&name));
        let specifications = index.map(|index| IndexSpecification::parse(&documents::index(index)));
        let specifications: std::result::Result<Vec<_>, _> = specifications.into_iter().collect();
        let specifications = specifications.unwrap_or_else(|error| self.fail(format_args!("{error}")));
        let created = store
            .create_in_transaction(&open.transaction, &namespace, CollectionOptions::default())
            .and_then(|handle| {
                store.create_indexes_in_transaction(&open.transaction, &handle, &specifications)?;
                Ok(handle)
            });
        let handle = match created {
            Ok(handle) => handle,
            Err(error) => {
                self.check_background_error(&error);
                return false;
            }
        };
        let number = self.model.lock().new_number();
        let indexes = index.into_iter().collect();
        let state = Arc::new(CollectionState { namespace: name.clone(), indexes, ..CollectionState::default() });
        open.targets.push(Target { number, state, handle });
        open.created = Some(Created { number, namespace: name, index });
        true
    }

    /// Writes; `false`: the transaction has to be aborted.
    fn write_in(&self, open: &mut Open) -> bool {
        let writes = self.random.below(if self.chance(0.2) { 150 } else { 12 });
        for _ in 0..=writes {
            if self.disk.is_down() || self.is_stopped() {
                return false;
            }
            if self.chance(0.1) {
                self.work_beside(open);
                continue;
            }
            let place = self.random.below(open.targets.len() as u64) as usize;
            let id = self.random.below(self.plan.ids as u64) as i32;
            if !self.write_one(open, place, id) {
                return false;
            }
        }
        true
    }

    /// What others do meanwhile.
    fn work_beside(&self, open: &mut Open) {
        let own: Vec<CollectionNumber> = open.targets.iter().map(|target| target.number).collect();
        match self.random.below(4) {
            0 => self.document_operation(&own),
            1 => self.delete_under(open),
            2 => self.read_something(),
            _ => self.background_step(),
        }
    }

    /// Deletes a document that the transaction sees and has not written.
    fn delete_under(&self, open: &mut Open) {
        let id = self.random.below(self.plan.ids as u64) as i32;
        let Some(target) = open.targets.first() else { return };
        let place = (target.number, id);
        let Some(old) = target.state.documents.get(&id).filter(|_| !open.written.contains_key(&place)) else { return };
        if open.lost.contains(&place) {
            return;
        }
        if let Ok(Some(commit)) = self.delete(target, id, old) {
            self.unacknowledged.lock().push(commit);
            open.lost.insert(place);
        }
    }

    /// `false`: the transaction has to be aborted.
    fn write_one(&self, open: &mut Open, place: usize, id: i32) -> bool {
        let target = &open.targets[place];
        let seen = open.sees(target, id);
        let is_lost = open.lost.contains(&(target.number, id));
        let new = match (&seen, self.random.below(10)) {
            (Some(_), 0..3) => None,
            (Some(old), 3..7) => Some(documents::redraw_field(&self.random, old)),
            _ => Some(documents::draw(&self.random, id, self.plan.ids, self.plan.sizes)),
        };
        let (clashes, may_conflict) = new.as_ref().map_or((false, false), |new| open.clashes(target, new, id));
        let written = match &seen {
            None => self.insert_in(open, place, id, new.as_deref()),
            Some(old) => self.change_in(open, place, id, old, new.as_deref()),
        };
        let is_unchanged = matches!((&seen, &new), (Some(old), Some(new)) if old.raw.as_bytes() == new.raw.as_bytes());
        match written {
            // Nothing was written, so nobody is in conflict.
            Ok(()) if is_unchanged => true,
            Ok(()) if clashes => self.fail(format_args!("a duplicate key was accepted in a transaction")),
            Ok(()) if is_lost && seen.is_some() => {
                self.fail(format_args!("_id {id} was deleted since, and is written"))
            }
            Ok(()) => {
                open.written.insert((open.targets[place].number, id), new);
                true
            }
            Err(error) => {
                self.check_refusal(&error, clashes, is_lost || may_conflict);
                false
            }
        }
    }

    fn insert_in(&self, open: &mut Open, place: usize, id: i32, new: Option<&Document>) -> Result<()> {
        let (target, Some(new)) = (&open.targets[place], new) else { return Ok(()) };
        self.say(format_args!("  insert {} {id}: {} bytes", target.state.namespace, new.raw.as_bytes().len()));
        let store = self.store();
        store.insert_document(&mut open.context, &target.handle, &new.raw, Validation::Enforce).map(drop)
    }

    fn change_in(
        &self,
        open: &mut Open,
        place: usize,
        id: i32,
        old: &Arc<Document>,
        new: Option<&Document>,
    ) -> Result<()> {
        let target = &open.targets[place];
        self.say(format_args!(
            "  change {} {id}: {:?} bytes",
            target.state.namespace,
            new.map(|new| new.raw.as_bytes().len())
        ));
        let record_id = self.find_by_id(&open.transaction.read_view(), &target.handle, id)?;
        let Some(record_id) = record_id else {
            self.fail(format_args!("_id {id} of {} is not found in the transaction", target.state.namespace))
        };
        let decide = |found: &RawDocument, buffer: &mut Vec<u8>| -> Result<Decision> {
            if found.as_bytes() != old.raw.as_bytes() {
                self.fail(format_args!("the transaction sees _id {id} as {found:?}, not {:?}", old.raw));
            }
            let Some(new) = new else { return Ok(Decision::Delete) };
            buffer.extend_from_slice(new.raw.as_bytes());
            Ok(Decision::Replace)
        };
        let store = self.store();
        store.change_document(&mut open.context, &target.handle, record_id, Validation::Enforce, decide).map(drop)
    }

    fn check_refusal(&self, error: &TransactionError, clashes: bool, may_conflict: bool) {
        self.say(format_args!("  {error}"));
        match error {
            TransactionError::WriteConflict if may_conflict => {}
            // A large document, and little memory.
            TransactionError::TransactionTooLarge(_) => {}
            error if kind(error) == Kind::DuplicateKey && clashes => {}
            TransactionError::WriteConflict if !self.is_stopped() => self.fail(format_args!("a conflict with nobody")),
            error => self.check_background_error(error),
        }
    }

    fn commit_transaction(&self, open: Open, session: &Arc<Session>) {
        let effects = open.written.iter().map(|((number, id), document)| match document {
            Some(document) => Effect::Put { number: *number, id: *id, document: document.clone() },
            None => Effect::Delete { number: *number, id: *id },
        });
        let effects = Arc::new(effects.collect::<Vec<_>>());
        let numbers = open.targets.iter().map(|target| target.number).collect();
        self.say(format_args!("commit {} documents", effects.len()));
        let is_taken = |created: &Created| self.model.lock().newest().find(&created.namespace).is_some();
        if open.created.as_ref().is_some_and(is_taken) {
            match self.store().commit_transaction(session, 1) {
                Err(TransactionError::WriteConflict) => return self.say(format_args!("  somebody else has the name")),
                Err(error) => return self.check_background_error(&error),
                Ok(_) => self.fail(format_args!("a name that is taken was taken again")),
            }
        }
        let intent = Intent::Transaction { numbers, effects, created: open.created.clone() };
        match self.perform(intent, |store| store.commit_transaction(session, 1)) {
            Ok(commit) => self.unacknowledged.lock().extend(commit),
            Err(error) if kind(&error) == Kind::DiskFull && self.health() == Health::Full => {}
            Err(_) => {}
        }
    }
}
