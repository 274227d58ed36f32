//! What simulated clients read: by `_id`, and with cursors that stay open while others write.
//!
//! A reader keeps what the model said when its view was opened, and everything it is given must agree with that.

use std::collections::BTreeSet;
use std::sync::Arc;

use bson::RawDocument;
use collection::{Collection, RecordId};
use platform::Random;
use transaction::{IndexCursor, ReadView, RecordCursor, Result, TransactionError};

use crate::documents;
use crate::errors::{Kind, kind};
use crate::model::{CollectionNumber, CollectionState};
use crate::simulation::{Health, Simulation};

/// Readers open at a time.
const READERS_MAX: usize = 4;

/// A client's cursor.
pub(crate) struct Reader {
    number: CollectionNumber,
    expected: Arc<CollectionState>,
    view: ReadView,
    handle: Arc<Collection>,
    cursor: Cursor,
    seen: BTreeSet<i32>,
}

enum Cursor {
    Records(RecordCursor),
    /// And whether the index has an entry for every document.
    Index(IndexCursor, bool),
}

/// Where a reader is after some steps.
enum Progress {
    More,
    End,
}

impl Simulation {
    /// Opens a reader, moves one on, or looks up an `_id`.
    pub(crate) fn read_something(&self) {
        let open = self.readers.lock().len();
        match self.random.below(6) {
            0 if open < READERS_MAX => self.open_reader(),
            0..3 if open > 0 => {
                let mut reader = {
                    let mut readers = self.readers.lock();
                    let chosen = self.random.below(readers.len() as u64) as usize;
                    readers.swap_remove(chosen)
                };
                let count = 1 + self.random.below(200);
                if self.advance(&mut reader, count) && self.chance(0.9) {
                    self.readers.lock().push(reader);
                }
            }
            _ => self.look_up(),
        }
    }

    /// What a view sees of a collection that exists for it.
    fn visible_collection(&self, view: &ReadView) -> Option<(CollectionNumber, Arc<CollectionState>)> {
        self.note_seen(view.timestamp());
        let mut model = self.model.lock();
        let collections = &model.visible_at(view.timestamp()).collections;
        let chosen = self.random.below(collections.len() as u64) as usize;
        collections.iter().nth(chosen).map(|(number, state)| (*number, state.clone()))
    }

    fn look_up(&self) {
        let view = self.store().read_view();
        let Some((number, state)) = self.visible_collection(&view) else { return };
        let Some(handle) = self.handle_of(number, &state) else { return };
        // Its indexes have been built again since, which is not confirmed.
        if self.following.is_some() && handle.indexes().id_index_at(view.timestamp()).is_none() {
            return;
        }
        let id = self.choose_known_id(&state);
        self.say(format_args!("look up {} {id}", state.namespace));
        let mut found = Vec::new();
        let result = self.find_by_id(&view, &handle, id).and_then(|record_id| match record_id {
            Some(record_id) => view.get_record(&handle, record_id, &mut found),
            None => Ok(false),
        });
        match result {
            Err(error) => self.check_reader_error(number, &error),
            Ok(_) => {
                let expected = state.documents.get(&id).map(|document| document.raw.as_bytes()).unwrap_or_default();
                let is_overtaken = found.is_empty() && self.is_overtaken(number, &state, id);
                if found != expected && !is_overtaken {
                    self.fail(format_args!("_id {id} is {} bytes, not {}", found.len(), expected.len()));
                }
            }
        }
    }

    /// The handle of a collection as it is called now; `None` when it is gone meanwhile.
    fn handle_of(&self, number: CollectionNumber, expected: &CollectionState) -> Option<Arc<Collection>> {
        let name = self.model.lock().newest().collections.get(&number)?.namespace.clone();
        let found = self.store().catalog().lookup(&name);
        if found.is_none() && !self.is_stopped() {
            self.fail(format_args!("collection {} is not in the catalog", expected.namespace));
        }
        found
    }

    pub(crate) fn find_by_id(&self, view: &ReadView, handle: &Arc<Collection>, id: i32) -> Result<Option<RecordId>> {
        let indexes = handle.indexes();
        let Some(index) = indexes.id_index_at(view.timestamp()) else {
            if let Some(Err(error)) = indexes.id_index().map(|index| index.check_usable()) {
                return Err(error.into());
            }
            self.fail(format_args!("a collection has no index on _id"));
        };
        let mut prefix = Vec::new();
        index_key::encode_prefix(&mut prefix, index.pattern(), [bson::RawBsonRef::Int32(id)]);
        view.find_in_index(handle, &index, &prefix, &mut Vec::new(), &mut Vec::new())
    }

    fn open_reader(&self) {
        let view = self.store().read_view();
        let Some((number, expected)) = self.visible_collection(&view) else { return };
        let Some(handle) = self.handle_of(number, &expected) else { return };
        let indexes = handle.indexes();
        let ready: Vec<_> = indexes.ready_at(view.timestamp()).collect();
        let cursor = match ready.get(self.random.below(ready.len() as u64 * 2) as usize) {
            Some(index) => {
                let is_full = (0..documents::INDEXES)
                    .find(|number| documents::index_name(*number) == index.name())
                    .is_none_or(documents::is_full);
                self.say(format_args!("open a cursor on {} of {}", index.name(), expected.namespace));
                Cursor::Index(view.index_cursor(&handle, index), is_full)
            }
            None => {
                self.say(format_args!("open a cursor on {}", expected.namespace));
                Cursor::Records(view.record_cursor(&handle))
            }
        };
        let reader = Reader { number, expected, view, handle: handle.clone(), cursor, seen: BTreeSet::new() };
        self.readers.lock().push(reader);
    }

    /// Moves a reader on; `false` when it is done.
    fn advance(&self, reader: &mut Reader, count: u64) -> bool {
        self.say(format_args!("read {} documents of {}", count, reader.expected.namespace));
        for _ in 0..count {
            match self.read_one(reader) {
                Ok(Progress::More) => {}
                Ok(Progress::End) => {
                    self.check_end(reader);
                    return false;
                }
                Err(error) => {
                    self.check_reader_error(reader.number, &error);
                    return false;
                }
            }
        }
        true
    }

    fn read_one(&self, reader: &mut Reader) -> Result<Progress> {
        let mut document = Vec::new();
        let is_repeatable = match &mut reader.cursor {
            Cursor::Records(cursor) => {
                if cursor.next()?.is_none() {
                    return Ok(Progress::End);
                }
                document.extend_from_slice(cursor.document()?.as_bytes());
                false
            }
            Cursor::Index(cursor, _) => {
                if !cursor.next()? {
                    return Ok(Progress::End);
                }
                let record_id = cursor.record_id();
                if !reader.view.get_record(&reader.handle, record_id, &mut document)? {
                    if reader.expected.ring.is_some() && self.is_place_overtaken(reader.number, record_id.0) {
                        return Ok(Progress::More);
                    }
                    self.fail(format_args!("an index entry leads to record {}, which is not there", record_id.0));
                }
                true
            }
        };
        let id = RawDocument::from_bytes(&document).ok().and_then(|document| document.get_i32("_id").ok());
        let expected = id.and_then(|id| reader.expected.documents.get(&id));
        let (Some(id), Some(expected)) = (id, expected) else {
            self.fail(format_args!("the cursor gave a document that its view should not see: {id:?}"));
        };
        if expected.raw.as_bytes() != document {
            self.fail(format_args!("the cursor gave another version of _id {id}"));
        }
        if !reader.seen.insert(id) && !is_repeatable {
            self.fail(format_args!("the cursor gave _id {id} twice"));
        }
        Ok(Progress::More)
    }

    fn check_end(&self, reader: &Reader) {
        let is_complete = matches!(reader.cursor, Cursor::Records(_) | Cursor::Index(_, true));
        if is_complete && reader.seen.len() != reader.expected.documents.len() {
            let is_missing =
                |id: &&i32| !reader.seen.contains(id) && !self.is_overtaken(reader.number, &reader.expected, **id);
            let missing: Vec<_> = reader.expected.documents.keys().filter(is_missing).collect();
            if missing.is_empty() {
                return;
            }
            self.fail(format_args!("the cursor on {} left out {missing:?}", reader.expected.namespace));
        }
    }

    fn check_reader_error(&self, number: CollectionNumber, error: &TransactionError) {
        // Dropped, or an index of it was: the model's number of indexes does not tell which, and both are allowed.
        if kind(error) == Kind::Dropped {
            let is_index =
                matches!(error, TransactionError::Collection(collection::CollectionError::IndexDropped { .. }));
            let is_gone = !self.model.lock().newest().collections.contains_key(&number);
            if is_index || is_gone {
                return self.say(format_args!("  {error}"));
            }
        }
        let is_ring = self.model.lock().newest().collections.get(&number).is_some_and(|state| state.ring.is_some());
        if kind(error) == Kind::PositionLost && is_ring {
            return self.say(format_args!("  {error}"));
        }
        self.check_read_error(error);
    }

    /// An error of a read: there must be a reason for it.
    pub(crate) fn check_read_error(&self, error: &TransactionError) {
        self.say(format_args!("  {error}"));
        let is_allowed = self.disk.is_down()
            || match kind(error) {
                Kind::Disk => matches!(self.health(), Health::Failing | Health::Stopped),
                _ => false,
            };
        if !is_allowed {
            self.fail(format_args!("a read failed: {error}"));
        }
    }
}
