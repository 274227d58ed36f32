//! The buffers of one writer, reused from change to change.

use std::sync::Arc;

use bson::RawDocument;
use collection::{DocumentChange, StatementDetails, StatementOrigin};

use crate::multi_document::Transaction;
use crate::sessions::Session;
use crate::unique::UniqueBuffers;
use crate::waiting::Waiting;

/// What a thread needs to change documents. Make one per worker or operation and pass it to every call.
#[derive(Default)]
pub struct WriteContext {
    pub(crate) change: DocumentChange,
    pub(crate) old: Vec<u8>,
    pub(crate) new: Vec<u8>,
    pub(crate) unique: UniqueBuffers,
    pub(crate) statement: Option<Statement>,
    /// For `insert_documents`: the number of the statement that each document is; none when `statement` is.
    pub(crate) statement_ids: Vec<i32>,
    pub(crate) waiting: Waiting,
    pub(crate) transaction: Option<Arc<Transaction>>,
}

/// A statement of a retryable write.
#[derive(Clone, Debug)]
pub struct Statement {
    /// The session, which the command has checked out.
    pub session: Arc<Session>,
    /// The number of the write in the session.
    pub txn_number: i64,
    /// The number of the statement in the write.
    pub id: i32,
    /// What a retry's reply needs beside the operation.
    pub details: StatementDetails,
}

impl Statement {
    pub(crate) fn origin(&self) -> StatementOrigin {
        StatementOrigin {
            session: self.session.id(),
            txn_number: self.txn_number,
            statement: self.id,
            details: self.details,
        }
    }
}

impl WriteContext {
    /// Empty buffers.
    pub fn new() -> WriteContext {
        WriteContext::default()
    }

    /// What is changed from here on is done for this statement: it is executed once, however often it is tried again.
    pub fn set_statement(&mut self, statement: Option<Statement>) {
        self.change.set_origin(statement.as_ref().map(Statement::origin));
        self.statement = statement;
        self.statement_ids.clear();
    }

    /// What to do when a transaction is in the way.
    pub fn set_waiting(&mut self, waiting: Waiting) {
        self.waiting = waiting;
    }

    /// What is changed from here on is a part of this transaction.
    pub fn set_transaction(&mut self, transaction: Option<Arc<Transaction>>) {
        self.transaction = transaction;
    }

    /// The numbers of the statements that the documents of the next `insert_documents` are.
    pub fn set_statement_ids(&mut self, ids: impl Iterator<Item = i32>) {
        self.statement_ids.clear();
        self.statement_ids.extend(ids);
    }

    /// Goes on to the statement of a document of `insert_documents`.
    pub(crate) fn begin_document(&mut self, position: usize) {
        if let (Some(statement), Some(id)) = (&mut self.statement, self.statement_ids.get(position)) {
            statement.id = *id;
            self.change.set_origin(Some(statement.origin()));
        }
    }

    /// The document as the last `change_document` found it; meaningful when it did not report `Gone`.
    pub fn old_document(&self) -> Option<&RawDocument> {
        RawDocument::from_bytes(&self.old).ok()
    }

    /// The document as the last `change_document` left it; meaningful when it reported `Replaced`.
    pub fn new_document(&self) -> Option<&RawDocument> {
        RawDocument::from_bytes(&self.new).ok()
    }
}
