//! Writing entries. Called by `document_change` for documents and by `transaction` for definition changes.
//!
//! Bytes are written directly: the prefix (`op`, `ns`, `ui`) is prepared once per collection, so an entry costs a few copies.

use bson::spec::ElementType;
use bson::{RawDocument, RawDocumentBuf, Uuid};
use query_language::update::diff::{Diff, DiffForm, diff};

use crate::error::{CollectionError, Result};
use crate::field_changes::{FieldChangeKind, FieldChanges};
use crate::oplog_entry::RingMove;
use crate::record_id::RecordId;

/// The elements `op`, `ns` and `ui`, as every entry about one collection's documents starts.
#[derive(Clone, Debug)]
pub(crate) struct EntryPrefix {
    bytes: Vec<u8>,
}

/// Where the letter of `op` is: behind type, "op\0" and the string's length.
const OPERATION_POSITION: usize = 1 + 3 + 4;

impl EntryPrefix {
    pub(crate) fn new(namespace: &str, uuid: Uuid) -> EntryPrefix {
        let mut bytes = Vec::with_capacity(64 + namespace.len());
        put_string(&mut bytes, "op", "?");
        put_string(&mut bytes, "ns", namespace);
        put_uuid(&mut bytes, "ui", uuid);
        EntryPrefix { bytes }
    }
}

/// Which statement of which session a change comes from: what makes a retry of the statement known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatementOrigin {
    /// The logical session.
    pub session: Uuid,
    /// The number of the retryable write in the session.
    pub txn_number: i64,
    /// The number of the statement in it.
    pub statement: i32,
    /// What a retry's reply needs beside the operation.
    pub details: StatementDetails,
}

/// What of a change a retry has to find in its entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatementDetails {
    /// Nothing.
    None,
    /// The `_id` of an upserted document, which the entry has anyway.
    Upserted,
    /// The document as it was (`findAndModify`).
    ImageBefore,
    /// The document as it is then.
    ImageAfter,
}

/// Builds the entry of one change in a reusable buffer. A whole document in it is not copied there, but put in its place when the entry is
/// written into the oplog's buffer.
#[derive(Debug, Default)]
pub struct EntryEncoder {
    bytes: Vec<u8>,
    /// Where the document belongs that is left out, and its length.
    left_out: Option<(usize, usize)>,
    origin: Option<StatementOrigin>,
}

/// A finished entry in pieces.
#[derive(Clone, Copy, Debug)]
pub struct LoggedEntry<'a> {
    head: &'a [u8],
    document: &'a [u8],
    tail: &'a [u8],
}

impl<'a> LoggedEntry<'a> {
    /// An entry in one piece.
    pub fn whole(entry: &'a [u8]) -> LoggedEntry<'a> {
        LoggedEntry { head: entry, document: &[], tail: &[] }
    }

    /// Its pieces, one behind the other.
    fn pieces(&self) -> [&'a [u8]; 3] {
        [self.head, self.document, self.tail]
    }

    /// Appends it to `bytes`.
    pub fn write(&self, bytes: &mut Vec<u8>) {
        self.pieces().iter().for_each(|piece| bytes.extend_from_slice(piece));
    }

    /// In one piece.
    pub fn to_vec(&self) -> Vec<u8> {
        self.pieces().concat()
    }
}

impl EntryEncoder {
    /// The finished entry; `document` is the one that was inserted, or the new one of an update.
    pub(crate) fn entry<'a>(&'a self, document: &'a [u8]) -> LoggedEntry<'a> {
        let Some((place, length)) = self.left_out else { return LoggedEntry::whole(&self.bytes) };
        debug_assert_eq!(document.len(), length, "the document of the entry");
        let (head, tail) = self.bytes.split_at(place.min(self.bytes.len()));
        LoggedEntry { head, document, tail }
    }

    /// `o`, of which only the place is noted.
    fn leave_out(&mut self, document: &RawDocument) {
        put_name(&mut self.bytes, ElementType::EmbeddedDocument, "o");
        self.left_out = Some((self.bytes.len(), document.as_bytes().len()));
    }

    fn begin(&mut self, prefix: &EntryPrefix, operation: u8, record_id: RecordId, size_change: i64) {
        self.bytes.clear();
        self.left_out = None;
        self.bytes.extend_from_slice(&[0; 4]);
        self.bytes.extend_from_slice(&prefix.bytes);
        if let Some(letter) = self.bytes.get_mut(4 + OPERATION_POSITION) {
            *letter = operation;
        }
        put_name(&mut self.bytes, ElementType::Int64, "rid");
        self.bytes.extend_from_slice(&record_id.0.to_le_bytes());
        put_name(&mut self.bytes, ElementType::Int32, "sz");
        self.bytes.extend_from_slice(&(size_change as i32).to_le_bytes());
    }

    /// From which statement the next changes come.
    pub(crate) fn set_origin(&mut self, origin: Option<StatementOrigin>) {
        self.origin = origin;
    }

    fn finish(&mut self, before: Option<&RawDocument>, after: Option<&RawDocument>, wall_millis: i64) {
        if let Some(origin) = self.origin {
            self.put_origin(&origin, before, after);
        }
        finish_entry(&mut self.bytes, wall_millis);
        let left_out = self.left_out.map_or(0, |(_, length)| length);
        let length = (self.bytes.len() + left_out) as i32;
        if let Some(field) = self.bytes.get_mut(..4) {
            field.copy_from_slice(&length.to_le_bytes());
        }
    }

    fn put_origin(&mut self, origin: &StatementOrigin, before: Option<&RawDocument>, after: Option<&RawDocument>) {
        put_session(&mut self.bytes, origin.session, origin.txn_number);
        put_name(&mut self.bytes, ElementType::Int32, "stmtId");
        self.bytes.extend_from_slice(&origin.statement.to_le_bytes());
        match (origin.details, before, after) {
            (StatementDetails::None, _, _) | (StatementDetails::Upserted, Some(_), _) => {}
            (StatementDetails::ImageBefore, Some(image), _) | (StatementDetails::ImageAfter, Some(_), Some(image)) => {
                put_document(&mut self.bytes, "im", image.as_bytes());
            }
            // The document that an upsert has inserted is the entry's own.
            (_, None, _) | (StatementDetails::ImageAfter, Some(_), None) => {
                put_name(&mut self.bytes, ElementType::Boolean, "up");
                self.bytes.push(1);
            }
        }
    }

    /// A document was inserted.
    pub(crate) fn insert(
        &mut self,
        prefix: &EntryPrefix,
        record_id: RecordId,
        document: &RawDocument,
        wall_millis: i64,
    ) {
        self.begin(prefix, b'i', record_id, document.as_bytes().len() as i64);
        self.leave_out(document);
        self.finish(None, Some(document), wall_millis);
    }

    /// A document was inserted into a capped collection.
    pub(crate) fn insert_into_ring(
        &mut self,
        prefix: &EntryPrefix,
        record_id: RecordId,
        document: &RawDocument,
        (moved, size_change): (RingMove, i64),
        wall_millis: i64,
    ) {
        self.begin(prefix, b'i', record_id, size_change);
        put_name(&mut self.bytes, ElementType::Int64, "rh");
        self.bytes.extend_from_slice(&moved.head.0.to_le_bytes());
        for (name, number) in [("rs", moved.slots), ("rd", moved.documents)] {
            put_name(&mut self.bytes, ElementType::Int32, name);
            self.bytes.extend_from_slice(&(number as i32).to_le_bytes());
        }
        self.leave_out(document);
        self.finish(None, Some(document), wall_millis);
    }

    /// A document was changed. Logs what changed in it, unless it was replaced as a whole or there is no such delta.
    ///
    /// # Errors
    /// `Damaged` when the old document has no `_id`.
    pub(crate) fn update(
        &mut self,
        prefix: &EntryPrefix,
        record_id: RecordId,
        versions: (&RawDocument, &RawDocument),
        changes: &FieldChanges,
        style: EntryStyle,
        wall_millis: i64,
    ) -> Result<()> {
        let (old, new) = versions;
        self.begin(prefix, b'u', record_id, new.as_bytes().len() as i64 - old.as_bytes().len() as i64);
        let nested = match style.update {
            UpdateStyle::Fields => nested_delta(changes, old, new)?,
            UpdateStyle::Whole => None,
        };
        match nested {
            Some(delta) => put_document(&mut self.bytes, "o", delta.as_bytes()),
            None if style.update == UpdateStyle::Fields && changes.is_delta() => {
                put_delta(&mut self.bytes, changes, old, new);
            }
            None => self.leave_out(new),
        }
        put_id(&mut self.bytes, "o2", old)?;
        self.pre_image(style, old);
        self.finish(Some(old), Some(new), wall_millis);
        Ok(())
    }

    /// A document was deleted.
    ///
    /// # Errors
    /// `Damaged` when the document has no `_id`.
    pub(crate) fn delete(
        &mut self,
        prefix: &EntryPrefix,
        record_id: RecordId,
        old: &RawDocument,
        style: EntryStyle,
        wall_millis: i64,
    ) -> Result<()> {
        self.begin(prefix, b'd', record_id, -(old.as_bytes().len() as i64));
        put_id(&mut self.bytes, "o", old)?;
        self.pre_image(style, old);
        self.finish(Some(old), None, wall_millis);
        Ok(())
    }

    /// What the document was before, for change streams that want to know it.
    fn pre_image(&mut self, style: EntryStyle, old: &RawDocument) {
        if style.keeps_pre_image {
            put_document(&mut self.bytes, "pre", old.as_bytes());
        }
    }
}

/// How a change was asked for, as far as followers of the oplog are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum UpdateStyle {
    /// Some fields were changed.
    #[default]
    Fields,
    /// The document was replaced.
    Whole,
}

/// What an entry says beyond the change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) struct EntryStyle {
    pub(crate) update: UpdateStyle,
    /// Whether the document as it was is part of the entry.
    pub(crate) keeps_pre_image: bool,
}

/// The entry of a definition change.
pub(crate) fn encode_command(
    database: &str,
    uuid: Option<Uuid>,
    command: &RawDocument,
    second: Option<&RawDocument>,
    wall_millis: i64,
) -> Vec<u8> {
    let mut bytes = vec![0; 4];
    put_string(&mut bytes, "op", "c");
    put_string(&mut bytes, "ns", &format!("{database}.$cmd"));
    if let Some(uuid) = uuid {
        put_uuid(&mut bytes, "ui", uuid);
    }
    put_document(&mut bytes, "o", command.as_bytes());
    if let Some(second) = second {
        put_document(&mut bytes, "o2", second.as_bytes());
    }
    finish_entry(&mut bytes, wall_millis);
    bytes
}

/// The entry of something that changes nothing.
pub fn encode_note(note: &RawDocument, wall_millis: i64) -> Vec<u8> {
    let mut bytes = vec![0; 4];
    put_string(&mut bytes, "op", "n");
    put_string(&mut bytes, "ns", "");
    put_document(&mut bytes, "o", note.as_bytes());
    finish_entry(&mut bytes, wall_millis);
    bytes
}

/// The delta down to the paths that changed, when something inside a document or an array did, or fields have moved: change
/// streams tell the paths.
fn nested_delta(changes: &FieldChanges, old: &RawDocument, new: &RawDocument) -> Result<Option<RawDocumentBuf>> {
    const NESTED: [u8; 2] = [ElementType::EmbeddedDocument as u8, ElementType::Array as u8];
    let mut set = changes.elements(FieldChangeKind::Set, new);
    if changes.is_delta() && !set.any(|element| element.first().is_some_and(|kind| NESTED.contains(kind))) {
        return Ok(None);
    }
    match diff(old, new, DiffForm::Paths)? {
        Diff::Delta(delta) => Ok(Some(delta)),
        Diff::Replacement(_) => Ok(None),
    }
}

/// `o: {$v: 2, diff: {d: {name: false}, u: {name: value}, i: {name: value}}}`.
fn put_delta(bytes: &mut Vec<u8>, changes: &FieldChanges, old: &RawDocument, new: &RawDocument) {
    put_name(bytes, ElementType::EmbeddedDocument, "o");
    let outer = open(bytes);
    put_name(bytes, ElementType::Int32, "$v");
    bytes.extend_from_slice(&2_i32.to_le_bytes());
    put_name(bytes, ElementType::EmbeddedDocument, "diff");
    let diff = open(bytes);
    let mut removed = changes.removed_names(old).peekable();
    if removed.peek().is_some() {
        put_name(bytes, ElementType::EmbeddedDocument, "d");
        let names = open(bytes);
        for name in removed {
            bytes.push(ElementType::Boolean as u8);
            bytes.extend_from_slice(name);
            bytes.extend_from_slice(&[0, 0]);
        }
        close(bytes, names);
    }
    for (kind, section) in [(FieldChangeKind::Set, "u"), (FieldChangeKind::Inserted, "i")] {
        let mut elements = changes.elements(kind, new).peekable();
        if elements.peek().is_none() {
            continue;
        }
        put_name(bytes, ElementType::EmbeddedDocument, section);
        let fields = open(bytes);
        elements.for_each(|element| bytes.extend_from_slice(element));
        close(bytes, fields);
    }
    close(bytes, diff);
    close(bytes, outer);
}

pub(super) fn finish_entry(bytes: &mut Vec<u8>, wall_millis: i64) {
    put_name(bytes, ElementType::DateTime, "wall");
    bytes.extend_from_slice(&wall_millis.to_le_bytes());
    put_name(bytes, ElementType::Int32, "v");
    bytes.extend_from_slice(&2_i32.to_le_bytes());
    close(bytes, 0);
}

/// `lsid: {id: UUID}, txnNumber: int64`.
pub(super) fn put_session(bytes: &mut Vec<u8>, session: Uuid, txn_number: i64) {
    put_name(bytes, ElementType::EmbeddedDocument, "lsid");
    let start = open(bytes);
    put_uuid(bytes, "id", session);
    close(bytes, start);
    put_name(bytes, ElementType::Int64, "txnNumber");
    bytes.extend_from_slice(&txn_number.to_le_bytes());
}

/// Starts a document; the returned position goes to `close`.
pub(super) fn open(bytes: &mut Vec<u8>) -> usize {
    let start = bytes.len();
    bytes.extend_from_slice(&[0; 4]);
    start
}

pub(super) fn close(bytes: &mut Vec<u8>, start: usize) {
    bytes.push(0);
    let length = (bytes.len() - start) as i32;
    if let Some(field) = bytes.get_mut(start..start + 4) {
        field.copy_from_slice(&length.to_le_bytes());
    }
}

pub(super) fn put_name(bytes: &mut Vec<u8>, element_type: ElementType, name: &str) {
    bytes.push(element_type as u8);
    bytes.extend_from_slice(name.as_bytes());
    bytes.push(0);
}

pub(super) fn put_string(bytes: &mut Vec<u8>, name: &str, value: &str) {
    put_name(bytes, ElementType::String, name);
    bytes.extend_from_slice(&(value.len() as i32 + 1).to_le_bytes());
    bytes.extend_from_slice(value.as_bytes());
    bytes.push(0);
}

fn put_uuid(bytes: &mut Vec<u8>, name: &str, uuid: Uuid) {
    put_name(bytes, ElementType::Binary, name);
    bytes.extend_from_slice(&16_i32.to_le_bytes());
    bytes.push(4);
    bytes.extend_from_slice(&uuid.bytes());
}

fn put_document(bytes: &mut Vec<u8>, name: &str, document: &[u8]) {
    put_name(bytes, ElementType::EmbeddedDocument, name);
    bytes.extend_from_slice(document);
}

/// `name: {_id: ...}`.
fn put_id(bytes: &mut Vec<u8>, name: &str, document: &RawDocument) -> Result<()> {
    let id = document::get_element(document, "_id")
        .ok_or_else(|| CollectionError::Damaged("a stored document has no _id".to_owned()))?;
    put_name(bytes, ElementType::EmbeddedDocument, name);
    let start = open(bytes);
    put_name(bytes, id.element_type, "_id");
    bytes.extend_from_slice(id.value_bytes());
    close(bytes, start);
    Ok(())
}
