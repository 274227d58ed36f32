//! Which collections open transactions use, so that a change of their definitions waits for them instead of taking them away.
//!
//! Called by `commands`: each look-up of a collection in a transaction notes the use of it (`collection_seen_by`), which lasts until the transaction
//! ends; who drops, renames or converts a collection first keeps transactions out (`exclude_transactions`).
//!
//! ```text
//! transaction:  note the use ── refused with LockTimeout while somebody keeps transactions out and it does not use the collection yet
//! definition:   keep new ones out ─ wait until none uses it (time limit, interruption) ─ change ─ let them in again
//! ```
//!
//! A name that was taken away or given to another collection is remembered as long as there are snapshots from before: they would have to see what was
//! there then, and who reads from one is told to begin again (`SnapshotUnavailable`).

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use collection::{Collection, Namespace};
use parking_lot::Mutex;
use platform::{WaitKind, waiting};
use storage_engine::Timestamp;

use super::Transaction;
use crate::error::{Result, TransactionError};
use crate::store::Store;

/// How often who waits looks again.
const POLL: Duration = Duration::from_millis(2);
/// How long a transaction waits for a change of definitions, as in MongoDB (`maxTransactionLockRequestTimeoutMillis`).
const TRANSACTION_PATIENCE: Duration = Duration::from_millis(5);

/// What a change of definitions is about.
#[derive(Clone, Debug)]
pub enum DefinitionScope {
    /// Collections, by name, whether they exist or not.
    Collections(Vec<Namespace>),
    /// All collections of a database.
    Database(String),
}

/// The uses of collections, by name.
#[derive(Default)]
pub(crate) struct CollectionUses {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// How many transactions use a collection.
    users: HashMap<Namespace, usize>,
    /// What changes of definitions keep transactions out of.
    excluded: Vec<(u64, DefinitionScope)>,
    last_exclusion: u64,
    /// When a name last came to mean something else.
    renamed: HashMap<Namespace, Timestamp>,
}

impl DefinitionScope {
    fn has(&self, namespace: &Namespace) -> bool {
        match self {
            DefinitionScope::Collections(names) => names.contains(namespace),
            DefinitionScope::Database(database) => namespace.database() == database,
        }
    }
}

impl CollectionUses {
    /// `false`: somebody keeps transactions out.
    fn try_use(&self, namespace: &Namespace) -> bool {
        let mut state = self.state.lock();
        if state.excluded.iter().any(|(_, scope)| scope.has(namespace)) {
            return false;
        }
        *state.users.entry(namespace.clone()).or_default() += 1;
        true
    }

    /// Transactions do not use these any more.
    pub(super) fn release(&self, used: impl IntoIterator<Item = Namespace>) {
        let mut state = self.state.lock();
        for namespace in used {
            if let Some(count) = state.users.get_mut(&namespace) {
                *count -= 1;
                if *count == 0 {
                    state.users.remove(&namespace);
                }
            }
        }
    }

    fn keep_out(&self, scope: DefinitionScope) -> u64 {
        let mut state = self.state.lock();
        state.last_exclusion += 1;
        let number = state.last_exclusion;
        state.excluded.push((number, scope));
        number
    }

    fn let_in(&self, number: u64) {
        self.state.lock().excluded.retain(|(other, _)| *other != number);
    }

    fn are_free(&self, scope: &DefinitionScope) -> bool {
        !self.state.lock().users.keys().any(|namespace| scope.has(namespace))
    }

    fn note_renamed(&self, names: &[&Namespace], at: Option<Timestamp>) {
        let mut state = self.state.lock();
        for name in names {
            match at {
                Some(at) => drop(state.renamed.insert((*name).clone(), at)),
                None => drop(state.renamed.remove(*name)),
            }
        }
    }

    fn has_changed(&self, namespace: &Namespace, snapshot: Timestamp) -> bool {
        self.state.lock().renamed.get(namespace).is_some_and(|changed| *changed > snapshot)
    }
}

/// Transactions are kept out of some collections until this is dropped.
pub struct Exclusion<'a> {
    uses: &'a CollectionUses,
    number: u64,
}

impl Drop for Exclusion<'_> {
    fn drop(&mut self) {
        self.uses.let_in(self.number);
    }
}

impl Store {
    /// Keeps transactions out of collections, once none of those that are open uses them. Asks `is_stopped` now and then.
    ///
    /// # Errors
    /// `Interrupted`: `is_stopped` said so.
    pub fn exclude_transactions(
        &self,
        scope: &DefinitionScope,
        is_stopped: &dyn Fn() -> bool,
    ) -> Result<Exclusion<'_>> {
        let uses = self.open_transactions.uses.as_ref();
        let exclusion = Exclusion { uses, number: uses.keep_out(scope.clone()) };
        while !uses.are_free(scope) {
            if is_stopped() {
                return Err(TransactionError::Interrupted);
            }
            waiting(WaitKind::Locks, || self.clock.sleep(POLL));
        }
        Ok(exclusion)
    }

    /// The collection of this name, as who works in `transaction`, if anybody, sees it.
    ///
    /// # Errors
    /// `SnapshotUnavailable`: the name has come to mean something else since the transaction's snapshot. `LockTimeout`: it is just being changed.
    pub fn collection_seen_by(
        &self,
        transaction: Option<&Arc<Transaction>>,
        namespace: &Namespace,
    ) -> Result<Option<Arc<Collection>>> {
        let Some(transaction) = transaction else { return Ok(self.catalog.lookup(namespace.as_str())) };
        if let Some(created) = transaction.created_collection(namespace) {
            return Ok(Some(created));
        }
        // First the use, then the look: from then on nobody takes it away.
        let is_new = self.note_use(transaction, namespace)?;
        let found = self.catalog.lookup(namespace.as_str());
        // What it uses already does not change.
        let has_changed = is_new && transaction.uses.has_changed(namespace, transaction.snapshot.timestamp());
        if is_new && (found.is_none() || has_changed) {
            transaction.forget_use(namespace);
        }
        transaction.snapshot.check()?;
        if has_changed { Err(unavailable(namespace)) } else { Ok(found) }
    }

    /// The collection of this name, as a snapshot of a time outside of transactions sees it.
    ///
    /// # Errors
    /// `SnapshotUnavailable`: the name has come to mean something else since.
    pub fn collection_at(&self, namespace: &Namespace, time: Timestamp) -> Result<Option<Arc<Collection>>> {
        let found = self.catalog.lookup(namespace.as_str());
        if self.open_transactions.uses.has_changed(namespace, time) { Err(unavailable(namespace)) } else { Ok(found) }
    }

    /// Whether it is the transaction's first use of the name.
    fn note_use(&self, transaction: &Transaction, namespace: &Namespace) -> Result<bool> {
        let begun = self.clock.monotonic();
        loop {
            {
                let mut owned = transaction.owned.lock();
                if owned.used.contains(namespace) {
                    return Ok(false);
                }
                if owned.has_ended {
                    return Err(TransactionError::NoSuchTransaction("The transaction has been aborted.".to_owned()));
                }
                if transaction.uses.try_use(namespace) {
                    owned.used.insert(namespace.clone());
                    return Ok(true);
                }
            }
            if self.clock.monotonic().saturating_sub(begun) > TRANSACTION_PATIENCE {
                return Err(TransactionError::LockTimeout(namespace.as_str().to_owned()));
            }
            waiting(WaitKind::Locks, || self.clock.sleep(POLL));
        }
    }

    /// Names are about to come to mean something else: who looks now is told so.
    pub(crate) fn note_renaming(&self, names: &[&Namespace]) {
        self.open_transactions.uses.note_renamed(names, Some(Timestamp(u64::MAX)));
    }

    /// Names mean something else from a commit on; or the change has failed. What no snapshot needs to know is forgotten.
    pub(crate) fn note_renamed(&self, names: &[&Namespace], at: Option<Timestamp>) {
        let oldest = self.engine.oldest_snapshot();
        self.open_transactions.uses.note_renamed(names, at);
        self.open_transactions.uses.state.lock().renamed.retain(|_, at| *at > oldest);
    }
}

fn unavailable(namespace: &Namespace) -> TransactionError {
    TransactionError::SnapshotUnavailable(format!(
        "Unable to read from a snapshot due to pending collection catalog changes to collection '{namespace}'; please retry the \
         operation."
    ))
}

impl Transaction {
    /// There was nothing to use.
    fn forget_use(&self, namespace: &Namespace) {
        let forgotten = self.owned.lock().used.take(namespace);
        self.uses.release(forgotten);
    }
}
