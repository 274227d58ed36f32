//! The check of everything against the model: what is there, in what version, in which indexes, and every page.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use collection::{Collection, ID_INDEX_NAME};
use transaction::Store;

use crate::documents;
use crate::model::{CollectionState, State};
use crate::simulation::Simulation;

impl Simulation {
    /// Checks the whole store. Nothing may be under way and no fault may fire.
    pub(crate) fn check_all(&self, when: &str) {
        let store = self.store();
        let _ = self.confirm_all();
        let expected = {
            let mut model = self.model.lock();
            model.visible_at(store.readable_timestamp()).clone()
        };
        self.say(format_args!("check everything {when}"));
        if let Err(problem) = check_store(&store, &expected)
            && !self.disk.is_down()
        {
            self.fail(format_args!("{when}: {problem}"));
        }
    }
}

type Check = Result<(), String>;

pub(crate) fn check_store(store: &Arc<Store>, expected: &State) -> Check {
    let found = store.catalog().all_collections();
    let names: BTreeSet<String> = found.iter().map(|collection| collection.namespace().to_string()).collect();
    let expected: BTreeMap<&str, &Arc<CollectionState>> =
        expected.collections.values().map(|state| (state.namespace.as_str(), state)).collect();
    if !names.iter().map(String::as_str).eq(expected.keys().copied()) {
        return Err(format!("the collections are {names:?}, not {:?}", expected.keys()));
    }
    for collection in &found {
        let namespace = collection.namespace();
        let Some(state) = expected.get(namespace.as_str()) else { continue };
        check_collection(store, collection, state).map_err(|problem| format!("{namespace}: {problem}"))?;
    }
    check_pages(store)
}

/// Each page is whole and belongs to one tree.
pub(crate) fn check_pages(store: &Arc<Store>) -> Check {
    let pages = store.engine().verify(&store.catalog().trees()).map_err(|error| format!("verify: {error}"))?;
    if pages.is_ok() { Ok(()) } else { Err(format!("pages: {:#?}", pages.errors)) }
}

fn check_collection(store: &Arc<Store>, collection: &Arc<Collection>, state: &CollectionState) -> Check {
    check_documents(store, collection, state)?;
    let counts = (collection.counts().documents(), collection.counts().bytes());
    if counts != (state.documents.len() as u64, state.bytes()) {
        return Err(format!("counts {counts:?}, not {} documents of {} bytes", state.documents.len(), state.bytes()));
    }
    let indexes = collection.indexes();
    let names: BTreeSet<String> = indexes.all().iter().map(|index| index.name().to_owned()).collect();
    let mut expected: BTreeSet<String> = state.indexes.iter().map(|index| documents::index_name(*index)).collect();
    expected.insert(ID_INDEX_NAME.to_owned());
    if names != expected {
        return Err(format!("the indexes are {names:?}, not {expected:?}"));
    }
    let report = store.validate(collection, &|| false).map_err(|error| format!("validate: {error}"))?;
    if report.is_valid() { Ok(()) } else { Err(format!("validate: {report:#?}")) }
}

fn check_documents(store: &Arc<Store>, collection: &Arc<Collection>, state: &CollectionState) -> Check {
    let failed = |error: transaction::TransactionError| format!("scan: {error}");
    let mut cursor = store.read_view().record_cursor(collection);
    let mut seen = BTreeSet::new();
    let mut order = Vec::new();
    while cursor.next().map_err(failed)?.is_some() {
        let document = cursor.document().map_err(failed)?;
        let id = document.get_i32("_id").map_err(|error| format!("a document without _id: {error}"))?;
        match state.documents.get(&id) {
            None => return Err(format!("_id {id} should not be there")),
            Some(expected) if expected.raw.as_bytes() != document.as_bytes() => {
                return Err(format!("_id {id} is {document:?}, not {:?}", expected.raw));
            }
            Some(_) if !seen.insert(id) => return Err(format!("_id {id} is there twice")),
            Some(_) => order.push(id),
        }
    }
    if let Some(ring) = &state.ring
        && !ring.slots.values().filter_map(|slot| slot.id).eq(order.iter().copied())
    {
        return Err("natural order is not the order of insertion".to_owned());
    }
    match state.documents.keys().find(|id| !seen.contains(id)) {
        Some(missing) => Err(format!("_id {missing} is missing ({} documents are there)", seen.len())),
        None => Ok(()),
    }
}
