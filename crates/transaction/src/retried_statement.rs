//! What the reply to a retried statement needs and the session does not have: read from the statement's entry in the oplog.
//!
//! Called by `update` (the `_id` of an upsert) and `findAndModify` (the document returned). An entry that is not there any more is an error:
//! then nobody knows what the reply was.

use bson::RawDocumentBuf;
use collection::{CollectionError, DocumentOperation, Entry};
use oplog::{Oplog, OplogError, OplogPosition};

use crate::error::{Result, TransactionError};
use crate::store::Store;

/// What an entry says of its statement.
#[derive(Debug, Default)]
pub struct RetriedStatement {
    /// The document that it inserted.
    pub inserted: Option<RawDocumentBuf>,
    /// The document that `findAndModify` returned.
    pub image: Option<RawDocumentBuf>,
}

impl Store {
    /// Reads the entry at `position`, which `ExecutedStatement::details` gave.
    ///
    /// # Errors
    /// `IncompleteTransactionHistory` when the oplog does not reach back so far; `Oplog`; `Collection(Damaged)`.
    pub fn retried_statement(&self, position: OplogPosition) -> Result<RetriedStatement> {
        let gone = || {
            let message =
                "Incomplete history detected for transaction: the oplog entry of the statement is not there any more";
            TransactionError::IncompleteTransactionHistory(message.to_owned())
        };
        let mut reader = match self.oplog.read_from(position) {
            Err(OplogError::PositionTruncated { .. }) => return Err(gone()),
            reader => reader?,
        };
        let entry = match reader.next_entry() {
            Err(OplogError::PositionTruncated { .. }) => return Err(gone()),
            entry => entry?.ok_or_else(gone)?,
        };
        let damaged = || CollectionError::Damaged("the oplog entry of a session's statement".to_owned());
        let change = match Entry::decode(entry.payload)? {
            Entry::Document(change) => change,
            // A change of one document that was committed as a large transaction is.
            Entry::Transaction(part) => match part.operations().next().map(Entry::decode) {
                Some(Ok(Entry::Document(change))) => change,
                _ => return Err(damaged().into()),
            },
            _ => return Err(damaged().into()),
        };
        let image = change.origin.and_then(|origin| origin.image).map(ToOwned::to_owned);
        let inserted = match change.operation {
            DocumentOperation::Insert(document) => Some(document.to_owned()),
            DocumentOperation::Replace(_) | DocumentOperation::Delta(_) | DocumentOperation::Delete => None,
        };
        Ok(RetriedStatement { inserted, image })
    }
}
