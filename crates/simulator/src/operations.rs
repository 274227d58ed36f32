//! What simulated clients write: documents, indexes, collections; each against what the model foretells.

use std::cell::Cell;
use std::sync::Arc;

use bson::RawDocument;
use collection::{Collection, CollectionOptions, IndexSpecification, Namespace, RecordId, Validation};
use platform::Random;
use transaction::{
    Acknowledgement, ChangeOutcome, CommitInfo, Decision, RenameTarget, Result, TransactionError, WhichIndexes,
    WriteContext,
};

use crate::documents::{self, INDEXES, UNIQUE_INDEX};
use crate::errors::{Kind, kind};
use crate::model::{CollectionNumber, CollectionState, Document, Effect};
use crate::simulation::{Health, Intent, Simulation};

/// A collection to work on: as the model has it and as the store has it.
pub(crate) struct Target {
    pub(crate) number: CollectionNumber,
    pub(crate) state: Arc<CollectionState>,
    pub(crate) handle: Arc<Collection>,
}

impl Simulation {
    /// Any operation of a client, but none on the collections in `locked`.
    pub(crate) fn client_operation(&self, locked: &[CollectionNumber]) {
        match self.random.below(100) {
            0..86 => self.document_operation(locked),
            86..90 => self.transaction_operation(locked),
            90..94 => self.create_index(locked),
            94 => self.rebuild_indexes(locked),
            95..97 => self.drop_index(locked),
            97 if self.plan.has_rings() => self.resize_ring(locked),
            97 => self.create_or_drop_collection(locked),
            98 => self.rename_collection(locked),
            _ => self.create_or_drop_collection(locked),
        }
    }

    /// A change of one document.
    pub(crate) fn document_operation(&self, locked: &[CollectionNumber]) {
        let Some(target) = self.choose(locked) else {
            if locked.is_empty() && self.depth() == 0 {
                self.create_or_drop_collection(locked);
            }
            return;
        };
        let id = self.choose_id(&target);
        let result = match (target.state.documents.get(&id).cloned(), self.random.below(10)) {
            (None, _) | (Some(_), 0) if target.state.ring.is_some() => self.insert_into_ring(&target, id),
            (None, _) | (Some(_), 0) => self.insert(&target, id),
            // Changed while another commit is under way: no client sees it yet, so none has its record id.
            (Some(old), _) if !self.is_visible(&target, id, &old) => return,
            (Some(old), 1..4) => self.delete(&target, id, &old),
            (Some(old), _) => self.update(&target, id, &old),
        };
        if let Ok(Some(commit)) = result {
            self.unacknowledged.lock().push(commit);
            if self.depth() == 0 && self.chance(0.3) {
                self.acknowledge_one();
            }
        }
    }

    /// A collection of the model that is not locked, with its handle.
    pub(crate) fn choose(&self, locked: &[CollectionNumber]) -> Option<Target> {
        let (number, state) = {
            let model = self.model.lock();
            let collections = &model.newest().collections;
            let (number, state) = collections.iter().nth(self.random.below(collections.len() as u64) as usize)?;
            (*number, state.clone())
        };
        if locked.contains(&number) {
            return None;
        }
        match self.store().catalog().lookup(&state.namespace) {
            Some(handle) => Some(Target { number, state, handle }),
            // A definition change was logged and could not be applied.
            None if self.is_stopped() => None,
            None => self.fail(format_args!("collection {} is not in the catalog", state.namespace)),
        }
    }

    fn is_visible(&self, target: &Target, id: i32, document: &Arc<Document>) -> bool {
        // What only waits to be confirmed is there for those who write.
        if self.following.is_some() && self.depth() == 0 {
            return true;
        }
        let now = self.store().readable_timestamp();
        let mut model = self.model.lock();
        let visible = model.visible_at(now).collections.get(&target.number);
        visible.and_then(|state| state.documents.get(&id)).is_some_and(|seen| Arc::ptr_eq(seen, document))
    }

    fn insert(&self, target: &Target, id: i32) -> Result<Option<CommitInfo>> {
        let document = documents::draw(&self.random, id, self.plan.ids, self.plan.sizes);
        self.say(format_args!("insert {} {id}: {} bytes", target.state.namespace, document.raw.as_bytes().len()));
        let clashes = target.state.documents.contains_key(&id) || target.clashes(&document, id);
        let effect = Effect::Put { number: target.number, id, document: document.clone() };
        let result = self.perform(Intent::Document { number: target.number, effect }, |store| {
            store.insert_document(&mut WriteContext::new(), &target.handle, &document.raw, Validation::Enforce)
        });
        self.check_clash(clashes, result.map(Some))
    }

    pub(crate) fn check_clash(&self, clashes: bool, result: Result<Option<CommitInfo>>) -> Result<Option<CommitInfo>> {
        match &result {
            // `None`: nothing was changed, as a store that has stopped does not have the document.
            Ok(Some(_)) if clashes => self.fail(format_args!("a duplicate key was accepted")),
            Err(error) if kind(error) == Kind::DuplicateKey && !clashes && !self.is_stopped() => {
                self.fail(format_args!("a key that is not there was called a duplicate: {error}"))
            }
            _ => result,
        }
    }

    fn update(&self, target: &Target, id: i32, old: &Arc<Document>) -> Result<Option<CommitInfo>> {
        let new = match self.random.below(10) {
            0..6 => documents::redraw_field(&self.random, old),
            _ => documents::draw(&self.random, id, self.plan.ids, self.plan.sizes),
        };
        self.say(format_args!("update {} {id}: {} bytes", target.state.namespace, new.raw.as_bytes().len()));
        let clashes = target.clashes(&new, id);
        let effect = Effect::Put { number: target.number, id, document: new.clone() };
        let result = self.change(target, id, old, effect, |_, buffer| {
            buffer.extend_from_slice(new.raw.as_bytes());
            Decision::Replace
        });
        self.check_clash(clashes, result)
    }

    pub(crate) fn delete(&self, target: &Target, id: i32, old: &Arc<Document>) -> Result<Option<CommitInfo>> {
        self.say(format_args!("delete {} {id}", target.state.namespace));
        let effect = Effect::Delete { number: target.number, id };
        let result = self.change(target, id, old, effect, |_, _| Decision::Delete);
        if let (Err(error), Health::Full) = (&result, self.health())
            && kind(error) == Kind::DiskFull
        {
            self.note_refused_delete(error);
        }
        result
    }

    fn change(
        &self,
        target: &Target,
        id: i32,
        old: &Arc<Document>,
        effect: Effect,
        mut decide: impl FnMut(&RawDocument, &mut Vec<u8>) -> Decision,
    ) -> Result<Option<CommitInfo>> {
        let record_id = match self.find_record(target, id)? {
            Some(record_id) => record_id,
            None if self.is_stopped() => return Ok(None),
            None => self.fail(format_args!("_id {id} of {} is not found", target.state.namespace)),
        };
        let outcome = self.perform(Intent::Document { number: target.number, effect }, |store| {
            let decide = |found: &RawDocument, buffer: &mut Vec<u8>| -> Result<Decision> {
                if found.as_bytes() != old.raw.as_bytes() && !self.is_stopped() {
                    self.fail(format_args!("_id {id} is {found:?}, not {:?}", old.raw));
                }
                Ok(decide(found, buffer))
            };
            store.change_document(&mut WriteContext::new(), &target.handle, record_id, Validation::Enforce, decide)
        })?;
        match outcome {
            ChangeOutcome::Gone if self.is_stopped() => Ok(None),
            ChangeOutcome::Gone | ChangeOutcome::Kept => {
                self.fail(format_args!("the record of _id {id} is {outcome:?}"))
            }
            outcome => Ok(outcome.commit()),
        }
    }

    /// The record with an `_id`, by the index; an error is one that may happen just now.
    fn find_record(&self, target: &Target, id: i32) -> Result<Option<RecordId>> {
        let view = self.store().newest_view();
        let found = self.find_by_id(&view, &target.handle, id);
        if let Err(error) = &found {
            self.check_read_error(error);
        }
        found
    }

    fn create_index(&self, locked: &[CollectionNumber]) {
        let Some(target) = self.choose(locked) else { return };
        let index = self.random.below(u64::from(INDEXES)) as u8;
        // A build that is interrupted is gone on with by this thread, and not while this waits for it.
        let is_interrupted = target.handle.indexes().all().iter().any(|index| !index.is_ready());
        if is_interrupted || self.building().contains(&target.number) {
            return;
        }
        self.say(format_args!("create index {index} of {}", target.state.namespace));
        let specification = IndexSpecification::parse(&documents::index(index));
        let specification = specification.unwrap_or_else(|error| self.fail(format_args!("{error}")));
        let intent = Intent::IndexBuild { number: target.number, indexes: vec![index] };
        let result = self.perform(intent, |store| store.create_indexes(&target.handle, vec![specification]));
        match result {
            Ok(created) => self.unacknowledged.lock().extend(created.commit),
            Err(error) => {
                let may_clash = index == UNIQUE_INDEX && (target.state.has_duplicates() || self.has_changed(&target));
                let may_be_gone = self.has_changed(&target);
                match kind(&error) {
                    Kind::DuplicateKey if !may_clash => self.fail(format_args!("the build found a duplicate: {error}")),
                    Kind::Dropped if !may_be_gone => self.fail(format_args!("{error}")),
                    _ => {}
                }
            }
        }
    }

    /// Builds all indexes anew, which changes nothing that anybody can see. A transaction that is open in this thread is not waited for.
    fn rebuild_indexes(&self, locked: &[CollectionNumber]) {
        const QUESTIONS_MAX: u64 = 50_000;
        let Some(target) = self.choose(locked) else { return };
        // It is refused then.
        if target.handle.indexes().all().iter().any(|index| index.state().is_being_filled()) {
            return;
        }
        self.say(format_args!("rebuild the indexes of {}", target.state.namespace));
        let intent = Intent::IndexBuild { number: target.number, indexes: Vec::new() };
        let questions = Cell::new(0);
        let is_stopped = || {
            questions.set(questions.get() + 1);
            questions.get() > QUESTIONS_MAX
        };
        let result = self.perform(intent, |store| store.rebuild_indexes(&target.handle, &is_stopped));
        match result.as_ref().map_err(kind) {
            Ok(rebuilt) => self.unacknowledged.lock().push(rebuilt.commit),
            Err(Kind::DuplicateKey) => self.fail(format_args!("the rebuild found a duplicate: {result:?}")),
            Err(Kind::Dropped) if !self.has_changed(&target) => self.fail(format_args!("{result:?}")),
            Err(_) => {}
        }
    }

    /// Goes on with the index builds that earlier lives have left: more than one of a collection when going on with one failed before.
    pub(crate) fn resume_index_builds(&self) {
        for handle in self.store().interrupted_builds() {
            // Meanwhile: much else is done while the build before goes on.
            if handle.is_dropped() {
                continue;
            }
            let indexes = handle.indexes();
            let building: Vec<_> =
                indexes.listed().filter(|index| !index.is_ready()).map(|index| index.name().to_owned()).collect();
            let number = self.model.lock().newest().find(handle.namespace().as_str());
            let known = (0..INDEXES).filter(|index| building.contains(&documents::index_name(*index)));
            let known: Vec<u8> = known.collect();
            let Some(number) = number.filter(|_| known.len() == building.len()) else {
                self.fail(format_args!("an index is being built that nobody asked for: {building:?}"))
            };
            self.say(format_args!("go on with {building:?} of {}", handle.namespace()));
            let has_unique = known.contains(&UNIQUE_INDEX);
            let intent = Intent::IndexBuild { number, indexes: known };
            match self.perform(intent, |store| store.resume_index_builds(&handle, &|| false)) {
                Ok(commit) => self.unacknowledged.lock().extend(commit),
                Err(error) if kind(&error) == Kind::DuplicateKey && !has_unique => {
                    self.fail(format_args!("the build found a duplicate: {error}"))
                }
                Err(_) => {}
            }
        }
    }

    /// Whether others have changed the collection since it was chosen.
    fn has_changed(&self, target: &Target) -> bool {
        let model = self.model.lock();
        model.newest().collections.get(&target.number).is_none_or(|now| !Arc::ptr_eq(now, &target.state))
    }

    fn drop_index(&self, locked: &[CollectionNumber]) {
        let Some(target) = self.choose(locked) else { return };
        let count = target.state.indexes.len() as u64;
        let Some(index) = target.state.indexes.iter().nth(self.random.below(count) as usize).copied() else { return };
        self.say(format_args!("drop index {index} of {}", target.state.namespace));
        let effect = Effect::DropIndex { number: target.number, index };
        let which = WhichIndexes::Names(vec![documents::index_name(index)]);
        let result = self.perform(Intent::Definition { effect }, |store| store.drop_indexes(&target.handle, which));
        self.expect_done("drop an index", result.map(|(_, commit)| commit));
    }

    fn create_or_drop_collection(&self, locked: &[CollectionNumber]) {
        let namespace = self.choose_name();
        let found = self.model.lock().newest().find(&namespace);
        if found.is_some_and(|number| locked.contains(&number)) {
            return;
        }
        let parsed = self.namespace(&namespace);
        let result = match found {
            None => {
                self.say(format_args!("create {namespace}"));
                let number = self.model.lock().new_number();
                let capped = self.draw_limits();
                let effect = Effect::Create { number, namespace, capped };
                let options = CollectionOptions { capped, ..CollectionOptions::default() };
                self.perform(Intent::Definition { effect }, |store| store.create_collection(&parsed, options))
                    .map(|(_, commit)| Some(commit))
            }
            Some(number) => {
                self.say(format_args!("drop {namespace}"));
                let effect = Effect::Drop { number };
                self.perform(Intent::Definition { effect }, |store| store.drop_collection(&parsed))
                    .map(|dropped| dropped.map(|(_, commit)| commit))
            }
        };
        self.expect_done("create or drop a collection", result);
    }

    fn rename_collection(&self, locked: &[CollectionNumber]) {
        let Some(target) = self.choose(locked) else { return };
        let to = self.choose_name();
        let dropped = self.model.lock().newest().find(&to);
        if to == target.state.namespace || dropped.is_some_and(|number| locked.contains(&number)) {
            return;
        }
        self.say(format_args!("rename {} to {to}", target.state.namespace));
        let (from, parsed) = (self.namespace(&target.state.namespace), self.namespace(&to));
        let effect = Effect::Rename { number: target.number, to, dropped };
        let result = self.perform(Intent::Definition { effect }, |store| {
            store.rename_collection(&from, &parsed, RenameTarget::Drop)
        });
        self.expect_done("rename a collection", result.map(Some));
    }

    pub(crate) fn choose_name(&self) -> String {
        let number = self.random.below(self.plan.collections);
        if number % 3 == 2 { format!("other.c{number}") } else { format!("db.c{number}") }
    }

    pub(crate) fn namespace(&self, full: &str) -> Namespace {
        Namespace::parse(full).unwrap_or_else(|error| self.fail(format_args!("{error}")))
    }

    /// Nothing but the disk can have refused it.
    pub(crate) fn expect_done(&self, what: &str, result: Result<Option<CommitInfo>>) {
        match result {
            Ok(Some(commit)) => self.unacknowledged.lock().push(commit),
            // Its creation was logged and could not be applied.
            Ok(None) if self.health() == Health::Stopped => {}
            Ok(None) => self.fail(format_args!("{what}: there was nothing to do")),
            Err(error) if matches!(kind(&error), Kind::Disk | Kind::DiskFull) || self.disk.is_down() => {}
            Err(_) if self.health() == Health::Stopped => {}
            Err(error) => self.fail(format_args!("{what}: {error}")),
        }
    }

    /// A client is told that its write is done.
    pub(crate) fn acknowledge_one(&self) {
        let commit = {
            let mut waiting = self.unacknowledged.lock();
            if waiting.is_empty() {
                return;
            }
            let chosen = self.random.below(waiting.len() as u64) as usize;
            waiting.swap_remove(chosen)
        };
        let acknowledgement = if self.chance(0.6) { Acknowledgement::Durable } else { Acknowledgement::Visible };
        self.say(format_args!("acknowledge {} {acknowledgement:?}", commit.timestamp));
        let store = self.store();
        match store.acknowledge(&commit, acknowledgement) {
            Ok(()) if acknowledgement == Acknowledgement::Durable => self.model.lock().set_durable(commit.timestamp),
            Ok(()) => {
                let is_durable = oplog::Oplog::durable_position(store.oplog()) >= commit.end;
                if oplog::Oplog::check_writable(store.oplog()).is_err() && !is_durable {
                    self.fail(format_args!("acknowledged after the oplog's disk had failed"));
                }
                if store.visible_timestamp() < commit.timestamp {
                    self.fail(format_args!("acknowledged as visible, and it is not"));
                }
            }
            Err(error) => self.check_background_error(&error),
        }
    }

    /// An error of something that logs nothing.
    pub(crate) fn check_background_error(&self, error: &TransactionError) {
        self.say(format_args!("  {error}"));
        if self.disk.is_down() {
            return;
        }
        match (kind(error), self.health()) {
            (Kind::Disk, Health::Failing | Health::Stopped) => self.note_failure(false),
            (Kind::DiskFull, Health::Full) => {}
            _ => self.fail(format_args!("unexpected error in the background: {error}")),
        }
    }
}

impl Target {
    pub(crate) fn clashes(&self, document: &Document, id: i32) -> bool {
        self.state.indexes.contains(&UNIQUE_INDEX) && self.state.is_taken(document.unique, id)
    }
}
