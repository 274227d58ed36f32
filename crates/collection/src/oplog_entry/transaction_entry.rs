//! The entry of a transaction of several documents: the entries of its documents in one, as MongoDB's `applyOps`.
//!
//! ```text
//! {op: "c", ns: "admin.$cmd", o: {applyOps: [<entry>, ...], parts: [<position>, ...]}, lsid, txnNumber, wall, v: 2}    the commit
//! {op: "c", ns: "admin.$cmd", o: {applyOps: [<entry>, ...], partialTxn: true}, wall, v: 2}                             a part
//! {op: "c", ns: "admin.$cmd", o: {applyOps: [], partialTxn: true, decides: [<position>, ...]}, lsid, txnNumber, wall, v: 2}  a decision
//! ```
//!
//! A part means nothing until an entry that is a commit names its position; the parts come before what is in the commit's entry itself. `parts` is ours and
//! is left out when the entry is served; without parts it is not there.
//!
//! The operations are in the order in which the transaction made them. A document that it changed more than once has an operation that says what became of it in the
//! end, with `net: true`, which is applied and not told; and one for each change, with `step: true`, which is told to followers of the oplog and not applied.
//!
//! A decision says that the parts it names will be committed, whatever happens: the commit's entry follows when they have been applied, or recovery writes it.
//! Followers of the oplog take it for a part without operations.
//!
//! Without `lsid` and `txnNumber` it is the change of one document that takes so long to apply that it is committed like a large transaction; the operation says
//! itself which statement it is of.

use bson::spec::ElementType;
use bson::{RawDocument, Uuid};
use oplog::OplogPosition;

use super::encode::{LoggedEntry, close, finish_entry, open, put_name, put_session, put_string};

/// The mark of an operation that is applied and not told.
pub(crate) const NET: &str = "net";
/// The mark of one that is told and not applied.
pub(crate) const STEP: &str = "step";

/// What an operation in the entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Telling {
    /// The only change of its document.
    Whole,
    /// What became of its document in the end, by several changes.
    Net,
    /// One of several changes of its document.
    Step,
}

/// Whether an operation of a transaction is to be told to those who follow the oplog.
pub fn is_told(operation: &RawDocument) -> bool {
    document::get_element(operation, NET).is_none()
}

/// Builds such entries in a reusable buffer.
#[derive(Debug)]
pub struct TransactionEncoder {
    bytes: Vec<u8>,
    /// Where the array begins.
    operations: usize,
    /// Where `o` begins.
    object: usize,
    count: usize,
}

impl Default for TransactionEncoder {
    fn default() -> TransactionEncoder {
        TransactionEncoder::new()
    }
}

impl TransactionEncoder {
    /// An entry without operations.
    pub fn new() -> TransactionEncoder {
        let mut encoder = TransactionEncoder { bytes: Vec::new(), operations: 0, object: 0, count: 0 };
        encoder.clear();
        encoder
    }

    /// Begins a new entry.
    pub fn clear(&mut self) {
        let bytes = &mut self.bytes;
        bytes.clear();
        bytes.extend_from_slice(&[0; 4]);
        put_string(bytes, "op", "c");
        put_string(bytes, "ns", "admin.$cmd");
        put_name(bytes, ElementType::EmbeddedDocument, "o");
        self.object = open(bytes);
        put_name(bytes, ElementType::Array, "applyOps");
        self.operations = open(bytes);
        self.count = 0;
    }

    /// Adds the entry of a document.
    pub fn push(&mut self, entry: LoggedEntry<'_>, telling: Telling) {
        put_name(&mut self.bytes, ElementType::EmbeddedDocument, &self.count.to_string());
        self.count += 1;
        let mark = match telling {
            Telling::Whole => return entry.write(&mut self.bytes),
            Telling::Net => NET,
            Telling::Step => STEP,
        };
        let operation = self.bytes.len();
        entry.write(&mut self.bytes);
        // Its end comes behind the mark.
        self.bytes.pop();
        put_name(&mut self.bytes, ElementType::Boolean, mark);
        self.bytes.push(1);
        close(&mut self.bytes, operation);
    }

    /// Whether there are no operations.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Bytes so far.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Ends the entry as a part of a transaction.
    pub fn finish_part(&mut self, wall_millis: i64) -> &[u8] {
        close(&mut self.bytes, self.operations);
        put_name(&mut self.bytes, ElementType::Boolean, "partialTxn");
        self.bytes.push(1);
        close(&mut self.bytes, self.object);
        finish_entry(&mut self.bytes, wall_millis);
        &self.bytes
    }

    /// Ends the entry, which has no operations, as the decision to commit parts.
    pub fn finish_decision(
        &mut self,
        parts: &[OplogPosition],
        transaction: Option<(Uuid, i64)>,
        wall_millis: i64,
    ) -> &[u8] {
        let put_parts = |bytes: &mut Vec<u8>| {
            put_name(bytes, ElementType::Boolean, "partialTxn");
            bytes.push(1);
            put_positions(bytes, "decides", parts);
        };
        self.finish(put_parts, transaction, wall_millis)
    }

    /// Ends the entry as the commit of a transaction.
    pub fn finish_commit(
        &mut self,
        parts: &[OplogPosition],
        transaction: Option<(Uuid, i64)>,
        wall_millis: i64,
    ) -> &[u8] {
        let put_parts = |bytes: &mut Vec<u8>| {
            if !parts.is_empty() {
                put_positions(bytes, "parts", parts);
            }
        };
        self.finish(put_parts, transaction, wall_millis)
    }

    /// Ends an entry, which belongs to a session and a number in it if it is a transaction's; `put_parts` says what follows the operations.
    fn finish(
        &mut self,
        put_parts: impl FnOnce(&mut Vec<u8>),
        transaction: Option<(Uuid, i64)>,
        wall_millis: i64,
    ) -> &[u8] {
        let bytes = &mut self.bytes;
        close(bytes, self.operations);
        put_parts(bytes);
        close(bytes, self.object);
        if let Some((session, txn_number)) = transaction {
            put_session(bytes, session, txn_number);
        }
        finish_entry(bytes, wall_millis);
        bytes
    }
}

fn put_positions(bytes: &mut Vec<u8>, name: &str, parts: &[OplogPosition]) {
    put_name(bytes, ElementType::Array, name);
    let array = open(bytes);
    for (number, part) in parts.iter().enumerate() {
        put_name(bytes, ElementType::Int64, &number.to_string());
        bytes.extend_from_slice(&part.0.to_le_bytes());
    }
    close(bytes, array);
}

/// The positions in a list; `None` when it is none. Without the list there are none.
fn read_positions(object: &RawDocument, name: &str) -> Option<Vec<OplogPosition>> {
    let mut parts = Vec::new();
    if let Some(listed) = document::get_element(object, name) {
        let listed = RawDocument::from_bytes(listed.value_bytes()).ok().filter(|listed| is_whole(listed))?;
        for part in document::elements(listed) {
            parts.push(OplogPosition(u64::from_le_bytes(*part.value_bytes().first_chunk()?)));
        }
    }
    Some(parts)
}

/// Whether nothing of a document is cut off.
fn is_whole(document: &RawDocument) -> bool {
    let mut elements = document::elements(document);
    elements.by_ref().for_each(drop);
    !elements.is_malformed()
}

/// What an entry of a transaction is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TransactionStep {
    /// A part of one.
    Part,
    /// It will be committed, whatever happens.
    Decision(TransactionCommit),
    /// It is committed.
    Commit(TransactionCommit),
}

/// A decoded entry of a transaction.
#[derive(Debug)]
pub struct TransactionEntry<'a> {
    /// Which one of its entries.
    pub step: TransactionStep,
    operations: &'a RawDocument,
}

/// What the entry of a commit, or of its decision, says beside its operations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransactionCommit {
    /// The logical session and the transaction's number in it; `None` for the change of one document.
    pub transaction: Option<(Uuid, i64)>,
    /// Where its parts are, in order.
    pub parts: Vec<OplogPosition>,
}

impl<'a> TransactionEntry<'a> {
    /// Whether `o` is a transaction's.
    pub(super) fn is_one(object: &RawDocument) -> bool {
        document::elements(object).next().is_some_and(|first| first.name_bytes() == b"applyOps")
    }

    /// Reads `o`, which is a transaction's; `None`: it makes no sense.
    pub(super) fn read(
        object: &'a RawDocument,
        session: Option<Uuid>,
        txn_number: i64,
    ) -> Option<TransactionEntry<'a>> {
        let first = document::elements(object).next().filter(|first| first.element_type == ElementType::Array)?;
        let operations = RawDocument::from_bytes(first.value_bytes()).ok()?;
        (is_whole(object) && is_whole(operations)).then_some(())?;
        let transaction = session.map(|session| (session, txn_number));
        let commit = |parts| Some(TransactionCommit { transaction, parts });
        let is_part = document::get_element(object, "partialTxn").is_some();
        let step = match (is_part, read_positions(object, "decides")?) {
            (false, _) => TransactionStep::Commit(commit(read_positions(object, "parts")?)?),
            (true, decided) if decided.is_empty() => TransactionStep::Part,
            (true, decided) => TransactionStep::Decision(commit(decided)?),
        };
        Some(TransactionEntry { step, operations })
    }

    /// The entries of its documents that are to be applied, in the form of payloads.
    pub fn operations(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let is_step = |operation: &[u8]| {
            let operation = RawDocument::from_bytes(operation).ok();
            operation.is_some_and(|operation| document::get_element(operation, STEP).is_some())
        };
        let operations = document::elements(self.operations).map(|element| element.value_bytes());
        operations.filter(move |operation| !is_step(operation))
    }
}
