//! Reading entries back. Called by replay, and later by whoever serves `local.oplog.rs` and change streams.

use bson::spec::ElementType;
use bson::{RawDocument, Uuid};
use document::Element;

use super::TransactionEntry;
use crate::error::{CollectionError, Result};
use crate::record_id::RecordId;

/// A decoded entry.
#[derive(Debug)]
pub enum Entry<'a> {
    /// Of one document: `op` is i, u or d.
    Document(DocumentEntry<'a>),
    /// A definition change: `op` is c.
    Command {
        /// The database of `ns`.
        database: &'a str,
        /// The collection's identity, if the change has one.
        uuid: Option<Uuid>,
        /// The command.
        command: &'a RawDocument,
        /// What belongs to it (`o2`).
        second: Option<&'a RawDocument>,
    },
    /// Of several documents: `op` is c, with `applyOps`.
    Transaction(TransactionEntry<'a>),
    /// Nothing happened: `op` is n.
    Nothing,
}

/// The change of one document.
#[derive(Debug)]
pub struct DocumentEntry<'a> {
    /// Of the collection.
    pub uuid: Uuid,
    /// Of the document.
    pub record_id: RecordId,
    /// By how many bytes the total size of the documents changes.
    pub size_change: i64,
    /// What the insertion into a ring overtook.
    pub ring: Option<RingMove>,
    /// What happened.
    pub operation: DocumentOperation<'a>,
    /// The statement it comes from, if that can be retried.
    pub origin: Option<EntryOrigin<'a>>,
}

/// The statement of a session that an entry comes from.
#[derive(Clone, Copy, Debug)]
pub struct EntryOrigin<'a> {
    /// The logical session.
    pub session: Uuid,
    /// The number of the retryable write in the session.
    pub txn_number: i64,
    /// The number of the statement in it.
    pub statement: i32,
    /// Whether a retry's reply needs what is in this entry.
    pub has_details: bool,
    /// The document that `findAndModify` has returned.
    pub image: Option<&'a RawDocument>,
}

/// What the insertion of a document into a ring overtook.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingMove {
    /// Everything below this is gone.
    pub head: RecordId,
    /// Slots overtaken.
    pub slots: u64,
    /// Documents overtaken.
    pub documents: u64,
}

impl DocumentEntry<'_> {
    /// By how many documents the collection grows.
    pub fn count_change(&self) -> i64 {
        self.operation.count_change() - self.ring.map_or(0, |moved| moved.documents as i64)
    }
}

/// What happened to a document.
#[derive(Clone, Copy, Debug)]
pub enum DocumentOperation<'a> {
    /// It was inserted.
    Insert(&'a RawDocument),
    /// It was replaced by this.
    Replace(&'a RawDocument),
    /// These fields changed: the `diff` document.
    Delta(&'a RawDocument),
    /// It was deleted.
    Delete,
}

impl DocumentOperation<'_> {
    /// By how many documents the collection grows.
    pub fn count_change(&self) -> i64 {
        match self {
            DocumentOperation::Insert(_) => 1,
            DocumentOperation::Replace(_) | DocumentOperation::Delta(_) => 0,
            DocumentOperation::Delete => -1,
        }
    }
}

impl<'a> Entry<'a> {
    /// Decodes the payload of an oplog entry.
    ///
    /// # Errors
    /// `Damaged` when it is not one of the forms this build writes.
    pub fn decode(payload: &'a [u8]) -> Result<Entry<'a>> {
        let fields = Fields::read(payload)?;
        match fields.operation {
            b"i" | b"u" | b"d" => Ok(Entry::Document(fields.document_entry()?)),
            b"c" => fields.command(),
            b"n" => Ok(Entry::Nothing),
            _ => Err(damaged("op")),
        }
    }
}

#[derive(Default)]
struct Fields<'a> {
    operation: &'a [u8],
    namespace: &'a str,
    uuid: Option<Uuid>,
    record_id: Option<i64>,
    size_change: i32,
    ring_head: Option<i64>,
    ring_slots: i32,
    ring_documents: i32,
    object: Option<&'a RawDocument>,
    second: Option<&'a RawDocument>,
    session: Option<Uuid>,
    txn_number: i64,
    statement: i32,
    is_upserted: bool,
    image: Option<&'a RawDocument>,
}

impl<'a> Fields<'a> {
    fn read(payload: &'a [u8]) -> Result<Fields<'a>> {
        let mut fields = Fields::default();
        let mut elements = document::elements_of_bytes(payload);
        for element in elements.by_ref() {
            fields.take(&element).ok_or_else(|| damaged(element.name()))?;
        }
        match elements.is_malformed() {
            true => Err(CollectionError::Damaged("oplog entry that is no document".to_owned())),
            false => Ok(fields),
        }
    }

    fn take(&mut self, element: &Element<'a>) -> Option<()> {
        let value = element.value_bytes();
        match element.name_bytes() {
            b"op" => self.operation = value.get(4..value.len().checked_sub(1)?)?,
            b"ns" => self.namespace = std::str::from_utf8(value.get(4..value.len().checked_sub(1)?)?).ok()?,
            b"ui" => self.uuid = Some(Uuid::from_bytes(*value.get(5..)?.first_chunk::<16>()?)),
            b"rid" => self.record_id = Some(i64::from_le_bytes(*value.first_chunk()?)),
            b"sz" => self.size_change = i32::from_le_bytes(*value.first_chunk()?),
            b"rh" => self.ring_head = Some(i64::from_le_bytes(*value.first_chunk()?)),
            b"rs" => self.ring_slots = i32::from_le_bytes(*value.first_chunk()?),
            b"rd" => self.ring_documents = i32::from_le_bytes(*value.first_chunk()?),
            b"o" => self.object = Some(embedded(element)?),
            b"o2" => self.second = Some(embedded(element)?),
            b"lsid" => self.session = Some(session_of(embedded(element)?)?),
            b"txnNumber" => self.txn_number = i64::from_le_bytes(*value.first_chunk()?),
            b"stmtId" => self.statement = i32::from_le_bytes(*value.first_chunk()?),
            b"up" => self.is_upserted = true,
            b"im" => self.image = Some(embedded(element)?),
            b"wall" | b"v" | b"pre" => {}
            // See `transaction_entry`: how the operation is told is nothing to who applies it.
            b"net" => {}
            _ => return None,
        }
        Some(())
    }

    fn object(&self) -> Result<&'a RawDocument> {
        self.object.ok_or_else(|| damaged("o"))
    }

    fn database(&self) -> Result<&'a str> {
        self.namespace.split_once('.').map(|(database, _)| database).ok_or_else(|| damaged("ns"))
    }

    fn document_entry(&self) -> Result<DocumentEntry<'a>> {
        let operation = match self.operation {
            b"i" => DocumentOperation::Insert(self.object()?),
            b"d" => DocumentOperation::Delete,
            _ => update_operation(self.object()?)?,
        };
        Ok(DocumentEntry {
            uuid: self.uuid.ok_or_else(|| damaged("ui"))?,
            record_id: RecordId(self.record_id.ok_or_else(|| damaged("rid"))?),
            size_change: i64::from(self.size_change),
            ring: self.ring_head.map(|head| RingMove {
                head: RecordId(head),
                slots: self.ring_slots.max(0) as u64,
                documents: self.ring_documents.max(0) as u64,
            }),
            operation,
            origin: self.origin(),
        })
    }

    fn command(&self) -> Result<Entry<'a>> {
        let command = self.object()?;
        if TransactionEntry::is_one(command) {
            let transaction = TransactionEntry::read(command, self.session, self.txn_number);
            return transaction.map(Entry::Transaction).ok_or_else(|| damaged("o.applyOps"));
        }
        Ok(Entry::Command { database: self.database()?, uuid: self.uuid, command, second: self.second })
    }

    fn origin(&self) -> Option<EntryOrigin<'a>> {
        let has_details = self.is_upserted || self.image.is_some();
        self.session.map(|session| EntryOrigin {
            session,
            txn_number: self.txn_number,
            statement: self.statement,
            has_details,
            image: self.image,
        })
    }
}

/// The `id` of `lsid`.
fn session_of(lsid: &RawDocument) -> Option<Uuid> {
    let id = document::get_element(lsid, "id")?;
    Some(Uuid::from_bytes(*id.value_bytes().get(5..)?.first_chunk::<16>()?))
}

/// A delta starts with `$v`; a stored document never does: its first field is `_id`.
fn update_operation(object: &RawDocument) -> Result<DocumentOperation<'_>> {
    match document::elements(object).next() {
        Some(first) if first.name_bytes() == b"$v" => {
            let diff = document::get_element(object, "diff").ok_or_else(|| damaged("o.diff"))?;
            Ok(DocumentOperation::Delta(embedded(&diff).ok_or_else(|| damaged("o.diff"))?))
        }
        _ => Ok(DocumentOperation::Replace(object)),
    }
}

fn embedded<'a>(element: &Element<'a>) -> Option<&'a RawDocument> {
    if element.element_type != ElementType::EmbeddedDocument {
        return None;
    }
    RawDocument::from_bytes(element.value_bytes()).ok()
}

fn damaged(field: &str) -> CollectionError {
    CollectionError::Damaged(format!("oplog entry with a bad field '{field}'"))
}

#[cfg(test)]
mod tests;
