//! Bits that flip on the medium, at the end of a run: everything damaged is found by a checksum and named, everything else is
//! read as it was, and `repair` saves all that can be read into a new directory.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use collection::Collection;
use platform::{Clock, Disk, OpenMode, Random, SeededRandom, SimulatedDisk};
use transaction::{RepairReport, Store, StoreOptions, TransactionError};

use crate::checks::check_store;
use crate::errors::{Kind, kind};
use crate::model::{CollectionState, State};
use crate::simulation::Simulation;

/// Words of a report of losses that may concern any collection.
const GENERAL_LOSSES: [&str; 6] = ["oplog", "the catalog", "unknown tree", "whole file", "lost_found", "tree "];

impl Simulation {
    /// Ends the run with flipped bits. All that was logged is durable.
    pub(crate) fn flip_bits(&self) {
        // A power loss that has not come yet does not.
        self.disk.power_on();
        self.flush_oplog();
        let is_clean = self.chance(0.5);
        if is_clean {
            self.shut_down();
        }
        let expected = self.model.lock().newest().clone();
        self.set_store(None);
        self.disk.process_crash();
        let flips = if self.chance(0.8) { 1 } else { 1 + self.random.below(20) };
        let flipped: Vec<PathBuf> = (0..flips).filter_map(|_| self.flip_one()).collect();
        self.check_repair(&expected);
        self.check_damaged(&expected, &flipped, is_clean);
    }

    fn flip_one(&self) -> Option<PathBuf> {
        let files = self.files();
        let (path, length) = files.get(self.random.below(files.len() as u64) as usize)?;
        let file = self.disk.open(path, OpenMode::Read).ok()?;
        // Most of the bytes are zeros that mean nothing.
        let offset = (0..40).map(|_| self.random.below(*length)).find(|offset| {
            let mut byte = [0];
            file.read_exact_at(&mut byte, *offset).is_ok() && byte[0] != 0
        })?;
        let bit = self.random.below(8) as u8;
        self.say(format_args!("bit {bit} of byte {offset} of {} flips", path.display()));
        self.summary.lock().faults += 1;
        self.disk.flip_bit(path, offset, bit).ok()?;
        Some(path.clone())
    }

    fn files(&self) -> Vec<(PathBuf, u64)> {
        let mut files = Vec::new();
        for directory in ["", "oplog", "page_table", "rings"] {
            for name in self.disk.list(Path::new(directory)).unwrap_or_default() {
                // Of it the operator has a copy: without it nothing can be read.
                if name == platform::KEYS_FILE {
                    continue;
                }
                let path = Path::new(directory).join(name);
                let length = self.disk.open(&path, OpenMode::Read).and_then(|file| file.length());
                files.extend(length.ok().filter(|length| *length > 0).map(|length| (path, length)));
            }
        }
        files
    }

    fn check_repair(&self, expected: &State) {
        let into = Arc::new(SimulatedDisk::new(self.random.next_u64()));
        let from = match self.store_disk() {
            Ok(from) => from,
            Err(error) => self.fail(format_args!("the damaged disk cannot be used: {error}")),
        };
        let target: Arc<dyn Disk> = into.clone();
        let (clock, random): (Arc<dyn Clock>, Arc<dyn Random>) =
            (self.clock.clone(), Arc::new(SeededRandom::new(self.random.next_u64())));
        let report = match transaction::repair(&from, &target, &clock, &random, &self.plan.options) {
            Ok(report) => report,
            Err(error) => self.fail(format_args!("the repair failed: {error}")),
        };
        report.lost.iter().for_each(|line| self.say(format_args!("lost: {line}")));
        let store = Store::open(target, clock, random, StoreOptions { ..self.plan.options.clone() });
        let store =
            store.unwrap_or_else(|error| self.fail(format_args!("the repaired store cannot be opened: {error}")));
        let checked = self.check_repaired(&store, &report, expected);
        if let Err(problem) = checked {
            self.fail(format_args!("after repair: {problem}; lost: {:#?}", report.lost));
        }
        self.say(format_args!("repaired: {} collections, {} lost", report.collections.len(), report.lost.len()));
    }

    fn check_repaired(&self, store: &Arc<Store>, report: &RepairReport, expected: &State) -> Result<(), String> {
        if report.lost.is_empty() {
            return check_store(store, expected);
        }
        let states: BTreeMap<&str, &Arc<CollectionState>> =
            expected.collections.values().map(|state| (state.namespace.as_str(), state)).collect();
        let is_general = |line: &String| GENERAL_LOSSES.iter().any(|words| line.contains(words));
        let any_may_lack = report.lost.iter().any(is_general);
        for collection in store.catalog().all_collections() {
            let namespace = collection.namespace();
            let validated = store.validate(&collection, &|| false).map_err(|error| format!("validate: {error}"))?;
            if !validated.is_valid() {
                return Err(format!("{namespace}: {validated:#?}"));
            }
            let found = read_all(store, &collection).map_err(|error| format!("{namespace}: {error}"))?;
            let versions = self.model.lock().versions();
            if let Some((id, _)) = found.iter().find(|(id, bytes)| !versions.contains(&(**id, (*bytes).clone()))) {
                return Err(format!("{namespace}: _id {id} is as it never was: {} bytes", found[id].len()));
            }
            let is_concerned = any_may_lack || report.lost.iter().any(|line| line.contains(namespace.as_str()));
            if let (false, Some(state)) = (is_concerned, states.get(namespace.as_str())) {
                let same = state.documents.len() == found.len()
                    && state
                        .documents
                        .iter()
                        .all(|(id, document)| found.get(id).map(Vec::as_slice) == Some(document.raw.as_bytes()));
                if !same {
                    return Err(format!("{namespace} is not as it was, and nothing says so"));
                }
            }
        }
        Ok(())
    }

    /// Opens the damaged directory itself: nothing wrong is ever given out.
    fn check_damaged(&self, expected: &State, flipped: &[PathBuf], is_clean: bool) {
        // Opening may complete a transaction, which ends the model's history there.
        let last_logged = self.model.lock().last_logged();
        let store = match self.try_open() {
            Ok(store) => store,
            // After an orderly stop nobody needs the oplog: it is put aside.
            Err(error)
                if is_clean && flipped.iter().all(|path| path.extension().is_some_and(|end| end == "segment")) =>
            {
                self.fail(format_args!(
                    "only the oplog is damaged, after an orderly stop, and the start is refused: {error}"
                ));
            }
            Err(error) if kind(&error) == Kind::Corrupt => {
                return self.say(format_args!("opening failed: {error}"));
            }
            Err(error) => self.fail(format_args!("opening failed without saying what is damaged: {error}")),
        };
        let recovered = store.visible_timestamp();
        if recovered < last_logged {
            // The last flush of the oplog: nothing tells it from a write that was torn before it was acknowledged.
            let is_oplog = flipped.iter().any(|path| path.starts_with("oplog"));
            if !is_oplog {
                self.fail(format_args!("recovered up to {recovered}, and the oplog is whole"));
            }
            return self.say(format_args!("the last flush of the oplog was damaged and taken for torn"));
        }
        for state in expected.collections.values() {
            self.check_damaged_collection(&store, state);
        }
        self.check_served(&store);
        self.say(format_args!("everything that could be read was right"));
    }

    /// What is damaged is told, and nothing but a damaged catalog stops writes.
    fn check_served(&self, store: &Arc<Store>) {
        store.watch_writes();
        for work in store.set_aside_work() {
            self.say(format_args!("  set aside: {} {} {}", work.what, work.namespace, work.index));
        }
        match store.writes_stopped() {
            None => {}
            Some(reason) if reason.contains("catalog") => self.say(format_args!("  {reason}")),
            Some(reason) => self.fail(format_args!("writes have stopped: {reason}")),
        }
    }

    fn check_damaged_collection(&self, store: &Arc<Store>, state: &CollectionState) {
        let Some(collection) = store.catalog().lookup(&state.namespace) else {
            if !store.catalog().is_whole() {
                return self.say(format_args!("  {} is in a part of the catalog that cannot be read", state.namespace));
            }
            self.fail(format_args!("collection {} is gone", state.namespace));
        };
        let scanned = read_all(store, &collection);
        match &scanned {
            Ok(found) => {
                let same = state.documents.len() == found.len()
                    && state
                        .documents
                        .iter()
                        .all(|(id, document)| found.get(id).map(Vec::as_slice) == Some(document.raw.as_bytes()));
                if !same {
                    self.fail(format_args!("{} was read without an error, and wrong", state.namespace));
                }
            }
            Err(error) => self.check_names(error, &state.namespace),
        }
        for (id, document) in &state.documents {
            let view = store.read_view();
            let mut bytes = Vec::new();
            let found = self.find_by_id(&view, &collection, *id).and_then(|record_id| match record_id {
                Some(record_id) => view.get_record(&collection, record_id, &mut bytes),
                None => Ok(false),
            });
            match found {
                Ok(_) if bytes == document.raw.as_bytes() => {}
                Ok(_) => {
                    self.fail(format_args!("_id {id} of {} was read without an error, and wrong", state.namespace))
                }
                Err(error) => self.check_names(&error, &state.namespace),
            }
        }
        match store.validate(&collection, &|| false) {
            Ok(report) if report.is_valid() && scanned.is_err() => {
                self.fail(format_args!("validate finds nothing wrong with {}, which cannot be read", state.namespace));
            }
            Ok(_) => {}
            Err(error) => self.fail(format_args!("validate of {} failed: {error}", state.namespace)),
        }
    }

    /// An error about damage says what is damaged.
    fn check_names(&self, error: &TransactionError, namespace: &str) {
        self.say(format_args!("  {error}"));
        if kind(error) != Kind::Corrupt || !error.to_string().contains(namespace) {
            self.fail(format_args!("the error does not say that {namespace} is damaged: {error}"));
        }
    }
}

fn read_all(store: &Arc<Store>, collection: &Arc<Collection>) -> transaction::Result<BTreeMap<i32, Vec<u8>>> {
    let mut found = BTreeMap::new();
    let mut cursor = store.read_view().record_cursor(collection);
    while cursor.next()?.is_some() {
        let document = cursor.document()?;
        found.insert(document.get_i32("_id").unwrap_or(-1), document.as_bytes().to_vec());
    }
    Ok(found)
}
