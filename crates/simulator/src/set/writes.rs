//! What the writes of a set's clients do in a store, as commands do it: by sessions and statements, so that a retry finds what was done.
//!
//! Called by `client` with the store of the member that it was sent to.

use std::sync::Arc;

use bson::{RawArrayBuf, RawDocument, RawDocumentBuf, rawdoc};
use collection::{
    CappedOptions, Collection, CollectionError, CollectionOptions, IndexSpecification, Namespace, RecordId,
    StatementDetails, Validation,
};
use platform::{MemoryBudget, MemoryUse, Random};
use transaction::{
    ChangeOutcome, Decision, Leadership, ReadView, RenameTarget, Result, Session, Statement, Store, TransactionError,
    WhichIndexes, WriteContext,
};

use super::client::{Client, Outcome, Wish, Write};
use super::machine::Running;
use super::mistakes::Mistake;
use super::world::World;
use crate::documents::{self, INDEXES};

pub(super) const LISTS: &str = "db.lists";
pub(super) const ITEMS: &str = "db.items";
pub(super) const RING: &str = "db.ring";
/// Before the number of a collection that comes and goes.
pub(super) const COMES_AND_GOES: &str = "db.made";
const RING_BYTES: u64 = 8_192;
/// Values of the unique field are below four times this.
const VALUES: i32 = 30;

impl World {
    /// What a client wants next.
    pub(super) fn wish(&self) -> Wish {
        let list = || self.random.below(self.plan.lists) as i32;
        let padding = || self.random.below(if self.random.chance(0.1) { 6_000 } else { 300 }) as usize;
        let one_of = |numbers: Vec<i32>| numbers.get(self.random.below(numbers.len() as u64) as usize).copied();
        let wish = match self.random.below(100) {
            0..40 => Wish::Append { list: list(), padding: padding() },
            40..52 => Wish::Transaction { lists: [list(), list()], padding: padding() },
            52..66 => Wish::Insert,
            66..74 => one_of(self.truth.lock().known_items()).map_or(Wish::Insert, |item| Wish::Change { item }),
            74..82 => one_of(self.truth.lock().known_items()).map_or(Wish::Insert, |item| Wish::Delete { item }),
            82..91 => Wish::PutInRing,
            91..96 => Wish::Index { number: self.random.below(u64::from(INDEXES)) as u8 },
            96 | 97 => Wish::Create,
            98 => one_of(self.truth.lock().known_collections()).map_or(Wish::Create, |number| Wish::Drop { number }),
            _ => one_of(self.truth.lock().known_collections()).map_or(Wish::Create, |number| Wish::Rename { number }),
        };
        match wish {
            Wish::Transaction { lists: [one, other], padding } if one == other => Wish::Append { list: one, padding },
            wish => wish,
        }
    }

    /// Does a write, or finds that it was done.
    pub(super) fn execute(&self, running: &Running, client: &mut Client, write: &Write) -> Result<Outcome> {
        let store = &running.store;
        // As the dispatcher: a secondary is not asked what has become of a transaction.
        if store.leadership() == Leadership::Following {
            return Err(TransactionError::NotPrimary);
        }
        store.check_writable()?;
        let session = store.sessions().refresh(client.session)?;
        let Some(_checked_out) = session.check_out(&|| true) else { return Err(TransactionError::Interrupted) };
        match write.wish {
            Wish::Transaction { lists, padding } => {
                self.in_transaction(store, &session, client, write, (lists, padding)).map(|()| Outcome::Done)
            }
            wish if wish.is_definition() => self.define(store, write.id, wish),
            wish => {
                store.begin_retryable_write(&session, client.txn_number)?;
                if self.mistake != Some(Mistake::RetriesDoItAgain) && session.executed(0).is_some() {
                    self.say(format_args!("  was executed"));
                    return Ok(Outcome::Done);
                }
                let context = &mut WriteContext::new();
                let txn_number = client.txn_number;
                context.set_statement(Some(Statement { session, txn_number, id: 0, details: StatementDetails::None }));
                self.change(store, context, write.id, wish)
            }
        }
    }

    fn change(&self, store: &Arc<Store>, context: &mut WriteContext, id: i32, wish: Wish) -> Result<Outcome> {
        match wish {
            Wish::Append { list, padding } => {
                let lists = collection(store, LISTS)?;
                append(store, context, &store.newest_view(), &lists, (list, id, padding))?;
                Ok(Outcome::Done)
            }
            Wish::Insert => {
                let document = documents::draw(&self.random, id, VALUES, self.plan.sizes);
                let items = collection(store, ITEMS)?;
                store.insert_document(context, &items, &document.raw, Validation::Enforce).map(|_| Outcome::Done)
            }
            Wish::PutInRing => {
                let ring = ring(store)?;
                let document = rawdoc! { "_id": id, "text": "x".repeat(self.random.below(400) as usize) };
                store.insert_document(context, &ring, &document, Validation::Enforce).map(|_| Outcome::Done)
            }
            Wish::Change { item } => {
                let number = self.random.below(1_000) as i32;
                change_item(store, context, item, |old, new| {
                    new.extend_from_slice(with_number(old, number).as_bytes());
                    Decision::Replace
                })
            }
            Wish::Delete { item } => change_item(store, context, item, |_, _| Decision::Delete),
            _ => Ok(Outcome::Nothing),
        }
    }

    /// Commits again what was perhaps committed; does it anew if it was not.
    fn in_transaction(
        &self,
        store: &Arc<Store>,
        session: &Arc<Session>,
        client: &mut Client,
        write: &Write,
        (lists, padding): ([i32; 2], usize),
    ) -> Result<()> {
        let is_retried = write.is_retried() && self.mistake != Some(Mistake::RetriesDoItAgain);
        if is_retried {
            match store.commit_transaction(session, client.txn_number) {
                Err(TransactionError::NoSuchTransaction(_)) => {}
                other => return other.map(drop),
            }
        }
        if write.is_retried() {
            client.txn_number += 1;
        }
        let all = collection(store, LISTS)?;
        let memory = MemoryBudget::unlimited().reservation(MemoryUse::WriteSets);
        let transaction = store.begin_transaction(session, client.txn_number, memory, 0)?;
        let context = &mut WriteContext::new();
        context.set_transaction(Some(transaction.clone()));
        for list in lists {
            let appended = append(store, context, &transaction.read_view(), &all, (list, write.id, padding));
            if let Err(error) = appended {
                store.abort_open_transaction(session);
                return Err(error);
            }
        }
        store.commit_transaction(session, client.txn_number).map(drop)
    }

    fn define(&self, store: &Arc<Store>, id: i32, wish: Wish) -> Result<Outcome> {
        match wish {
            Wish::Create => {
                let made = collection(store, &format!("{COMES_AND_GOES}{id}"))?;
                let document = rawdoc! { "_id": id };
                store.insert_document(&mut WriteContext::new(), &made, &document, Validation::Enforce)?;
                Ok(Outcome::Done)
            }
            Wish::Drop { number } => {
                let Some(name) = name_of(store, number) else { return Ok(Outcome::Nothing) };
                let dropped = store.drop_collection(&name)?;
                Ok(if dropped.is_some() { Outcome::Done } else { Outcome::Nothing })
            }
            Wish::Rename { number } => {
                let Some(name) = name_of(store, number) else { return Ok(Outcome::Nothing) };
                let other = match name.as_str().strip_suffix(".renamed") {
                    Some(before) => before.to_owned(),
                    None => format!("{}.renamed", name.as_str()),
                };
                store.rename_collection(&name, &Namespace::parse(&other)?, RenameTarget::MustNotExist)?;
                Ok(Outcome::Done)
            }
            Wish::Index { number } => {
                let items = collection(store, ITEMS)?;
                let name = documents::index_name(number);
                let found = items.indexes().find(&name).is_some();
                match found {
                    true => drop(store.drop_indexes(&items, WhichIndexes::Names(vec![name]))?),
                    false => {
                        let specification = IndexSpecification::parse(&documents::index(number))?;
                        store.create_indexes(&items, vec![specification])?;
                    }
                }
                Ok(Outcome::Done)
            }
            _ => Ok(Outcome::Nothing),
        }
    }
}

/// A collection, made if it is not there.
fn collection(store: &Store, name: &str) -> Result<Arc<Collection>> {
    store.collection_or_create(&Namespace::parse(name)?)
}

/// What a collection that comes and goes is called now.
pub(super) fn name_of(store: &Store, number: i32) -> Option<Namespace> {
    let name = format!("{COMES_AND_GOES}{number}");
    let renamed = format!("{name}.renamed");
    [name, renamed].iter().find_map(|name| store.catalog().lookup(name)).map(|found| found.namespace())
}

fn ring(store: &Store) -> Result<Arc<Collection>> {
    if let Some(ring) = store.catalog().lookup(RING) {
        return Ok(ring);
    }
    let capped = Some(CappedOptions { size: RING_BYTES, max: None });
    let options = CollectionOptions { capped, ..CollectionOptions::default() };
    store.create_collection(&Namespace::parse(RING)?, options).map(|(ring, _)| ring)
}

/// Finds a record by `_id`.
fn find(view: &ReadView, collection: &Arc<Collection>, id: i32) -> Result<Option<RecordId>> {
    let indexes = collection.indexes();
    let Some(index) = indexes.id_index_at(view.timestamp()) else {
        let message = "a collection has no index on _id".to_owned();
        return Err(CollectionError::Damaged(message).into());
    };
    let mut prefix = Vec::new();
    index_key::encode_prefix(&mut prefix, index.pattern(), [bson::RawBsonRef::Int32(id)]);
    view.find_in_index(collection, &index, &prefix, &mut Vec::new(), &mut Vec::new())
}

/// Adds a number to a list, which begins with it if it is not there.
fn append(
    store: &Store,
    context: &mut WriteContext,
    view: &ReadView,
    lists: &Arc<Collection>,
    (list, id, padding): (i32, i32, usize),
) -> Result<()> {
    let Some(record) = find(view, lists, list)? else {
        let document = list_document(list, [id], padding);
        return store.insert_document(context, lists, &document, Validation::Enforce).map(drop);
    };
    let changed = store.change_document(context, lists, record, Validation::Enforce, |old, new| {
        let numbers = numbers_of(old);
        new.extend_from_slice(list_document(list, numbers.into_iter().chain([id]), padding).as_bytes());
        Ok::<_, TransactionError>(Decision::Replace)
    })?;
    // Lists are never deleted.
    if changed == ChangeOutcome::Gone { Err(TransactionError::WriteConflict) } else { Ok(()) }
}

fn list_document(list: i32, numbers: impl IntoIterator<Item = i32>, padding: usize) -> RawDocumentBuf {
    let numbers = RawArrayBuf::from_iter(numbers);
    rawdoc! { "_id": list, "numbers": numbers, "padding": "y".repeat(padding) }
}

/// What is in a list.
pub(super) fn numbers_of(document: &RawDocument) -> Vec<i32> {
    let Ok(array) = document.get_array("numbers") else { return Vec::new() };
    array.into_iter().flatten().filter_map(|number| number.as_i32()).collect()
}

fn change_item(
    store: &Store,
    context: &mut WriteContext,
    item: i32,
    mut decide: impl FnMut(&RawDocument, &mut Vec<u8>) -> Decision,
) -> Result<Outcome> {
    let items = collection(store, ITEMS)?;
    let Some(record) = find(&store.newest_view(), &items, item)? else { return Ok(Outcome::Nothing) };
    let changed = store.change_document(context, &items, record, Validation::Enforce, |old, new| {
        Ok::<_, TransactionError>(decide(old, new))
    })?;
    Ok(if changed.commit().is_some() { Outcome::Done } else { Outcome::Nothing })
}

/// The document with another `a`.
fn with_number(old: &RawDocument, number: i32) -> RawDocumentBuf {
    let mut new = RawDocumentBuf::new();
    for (key, value) in old.iter().flatten() {
        match key.as_str() {
            "a" => new.append(key, number),
            _ => new.append(key, value),
        }
    }
    new
}
