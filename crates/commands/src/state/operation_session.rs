//! What a command has to do with a session: the fields `lsid`, `txnNumber`, `autocommit` and `startTransaction`, and what follows from them.
//!
//! Read by `dispatcher` before the command runs. A command with a `txnNumber` has its session for itself until it has replied. The write
//! commands ask here which statements were executed before, all that read in which view; an error in a transaction aborts it.

use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

use bson::{RawBsonRef, RawDocument, Uuid};
use collection::StatementDetails;
use document::{Number, elements};
use platform::{MemoryUse, Timestamp};
use transaction::{CheckedOutSession, ExecutedStatement, Session, Statement, Transaction};

use crate::registry::{Command, SessionUse};
use crate::request::cluster_time;
use crate::request::error::{CommandError, Result};
use crate::request::read_concern::ReadConcern;
use crate::request::stable_api::ApiParameters;
use crate::request::write_concern::check_is_taken;
use crate::state::context::ServerContext;
use crate::state::operations::Operation;

/// The fields, as they came.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SessionFields {
    pub(crate) session: Option<Uuid>,
    txn_number: Option<i64>,
    autocommit: Option<bool>,
    starts_transaction: Option<bool>,
    has_read_concern: bool,
    has_write_concern: bool,
    pub(crate) read_concern: ReadConcern,
    pub(crate) api: ApiParameters,
    /// `$clusterTime.clusterTime`.
    pub(crate) cluster_time: Option<Timestamp>,
}

/// What the command does in its session.
pub(crate) enum OperationSession {
    /// Nothing beyond being a use of it.
    Plain,
    /// It is a retryable write.
    Retryable {
        /// The session, for this command alone.
        session: CheckedOutSession,
        /// The number of the write.
        txn_number: i64,
    },
    /// It is a part of a transaction.
    Transaction {
        /// The session, for this command alone.
        session: CheckedOutSession,
        /// The transaction's number.
        txn_number: i64,
        /// The transaction.
        transaction: Arc<Transaction>,
        /// Whether a statement has failed, though the command succeeds.
        has_failed: Cell<bool>,
    },
    /// It ends a transaction.
    Ending {
        /// The session, for this command alone.
        session: CheckedOutSession,
        /// The transaction's number.
        txn_number: i64,
    },
}

fn invalid(message: &str) -> CommandError {
    CommandError::named("InvalidOptions", message)
}

fn not_in_transaction(message: String) -> CommandError {
    CommandError::named("OperationNotSupportedInTransaction", message)
}

impl SessionFields {
    /// Finds the fields among those of a command. A malformed `lsid` is refused when the command's fields are read.
    pub(crate) fn read(body: &RawDocument) -> Result<Self> {
        let mut fields = Self::default();
        for element in elements(body).skip(1) {
            match element.name_bytes() {
                b"lsid" | b"txnNumber" | b"autocommit" | b"startTransaction" | b"readConcern" | b"writeConcern" => {
                    fields.take(element.name(), element.value())?;
                }
                b"$clusterTime" => fields.cluster_time = cluster_time::parse(element.value())?,
                b"apiVersion" | b"apiStrict" | b"apiDeprecationErrors" => {
                    fields.api.take(element.name(), element.value())?;
                }
                _ => {}
            }
        }
        fields.check()?;
        Ok(fields)
    }

    fn take(&mut self, name: &str, value: RawBsonRef<'_>) -> Result<()> {
        match (name, value) {
            (_, RawBsonRef::Null | RawBsonRef::Undefined) => {}
            ("lsid", RawBsonRef::Document(lsid)) => self.session = crate::request::arguments::session_id(lsid).ok(),
            ("txnNumber", RawBsonRef::Int64(number)) => self.txn_number = Some(number),
            ("txnNumber", other) => return Err(wrong_type(name, other, "type 'long'")),
            ("autocommit", RawBsonRef::Boolean(value)) => self.autocommit = Some(value),
            ("startTransaction", RawBsonRef::Boolean(value)) => self.starts_transaction = Some(value),
            ("autocommit" | "startTransaction", other) => return Err(wrong_type(name, other, "type 'bool'")),
            ("readConcern", RawBsonRef::Document(concern)) => {
                self.has_read_concern = !concern.is_empty();
                self.read_concern = ReadConcern::parse(concern)?;
            }
            ("writeConcern", _) => self.has_write_concern = true,
            _ => {}
        }
        Ok(())
    }

    fn check(&self) -> Result<()> {
        if self.txn_number.is_some() && self.session.is_none() {
            return Err(invalid("Transaction number requires a session ID to also be specified"));
        }
        if self.txn_number.is_some_and(|number| number < 0) {
            return Err(invalid("Transaction number cannot be negative"));
        }
        match self.autocommit {
            Some(_) if self.txn_number.is_none() => {
                Err(invalid("'autocommit' field requires a transaction number to also be specified"))
            }
            Some(true) => Err(invalid("Specifying autocommit=true is not allowed.")),
            None if self.starts_transaction.is_some() => {
                Err(invalid("'startTransaction' field requires 'autocommit' field to also be specified"))
            }
            _ if self.starts_transaction == Some(false) => {
                Err(invalid("Specifying startTransaction=false is not allowed."))
            }
            _ => Ok(()),
        }
    }

    /// Whether the command belongs to a transaction.
    pub(crate) fn is_in_transaction(&self) -> bool {
        self.autocommit.is_some()
    }

    /// Whether it goes on with a transaction, which may own what those who run wait for.
    pub(crate) fn goes_on_with_transaction(&self) -> bool {
        self.autocommit.is_some() && self.starts_transaction.is_none()
    }

    /// Whether the command is a retryable write.
    pub(crate) fn is_retryable_write(&self) -> bool {
        self.txn_number.is_some() && self.autocommit.is_none()
    }

    /// Begins what the fields ask for.
    pub(crate) fn begin(
        &self,
        server: &ServerContext,
        command: &Command,
        database: &str,
        operation: &Operation<'_>,
    ) -> Result<OperationSession> {
        self.read_concern.check(command.name, self.autocommit.is_some())?;
        if self.has_write_concern {
            check_is_taken(command.name)?;
        }
        self.read_concern.wait(&server.store)?;
        let Some(id) = self.session else { return plain(command) };
        let session = server.store.sessions().refresh(id)?;
        let Some(txn_number) = self.txn_number else { return plain(command) };
        if self.autocommit.is_some() {
            self.check_in_transaction(command, database)?;
        } else if command.session_use != SessionUse::RetryableWrite {
            let message = format!(
                "txnNumber may only be provided for multi-document transactions and retryable write commands. autocommit:false \
                 was not provided, and {} is not a retryable write command.",
                command.name
            );
            return Err(CommandError::numbered(50768, message));
        }
        let Some(session) = session.check_out(&|| operation.check_interrupt().is_err()) else {
            operation.check_interrupt()?;
            return Err(CommandError::named("Interrupted", "operation was interrupted"));
        };
        if self.autocommit.is_some() {
            return self.begin_in_transaction(server, command, session, txn_number);
        }
        server.store.begin_retryable_write(session.session(), txn_number)?;
        Ok(OperationSession::Retryable { session, txn_number })
    }

    fn check_in_transaction(&self, command: &Command, database: &str) -> Result<()> {
        let ends = command.session_use == SessionUse::EndsTransaction;
        if !matches!(
            command.session_use,
            SessionUse::RetryableWrite | SessionUse::InTransaction | SessionUse::EndsTransaction
        ) {
            return Err(not_in_transaction(format!("Cannot run '{}' in a multi-document transaction.", command.name)));
        }
        if !ends && matches!(database, "admin" | "config" | "local") {
            return Err(not_in_transaction(format!(
                "Cannot run command against the '{database}' database in a transaction."
            )));
        }
        if ends && self.starts_transaction.is_some() {
            return Err(not_in_transaction(format!("Cannot start a transaction with '{}'.", command.name)));
        }
        if self.has_write_concern && !ends {
            return Err(invalid("writeConcern is not allowed within a multi-statement transaction"));
        }
        if self.has_read_concern && self.starts_transaction.is_none() {
            return Err(invalid("Only the first command in a transaction may specify a readConcern"));
        }
        Ok(())
    }

    fn begin_in_transaction(
        &self,
        server: &ServerContext,
        command: &Command,
        session: CheckedOutSession,
        txn_number: i64,
    ) -> Result<OperationSession> {
        if command.session_use == SessionUse::EndsTransaction {
            return Ok(OperationSession::Ending { session, txn_number });
        }
        let (store, own) = (&server.store, session.session());
        let transaction = if self.starts_transaction.is_some() {
            store.begin_transaction(own, txn_number, server.memory.budget().reservation(MemoryUse::WriteSets))?
        } else {
            store.continue_transaction(own, txn_number)?
        };
        Ok(OperationSession::Transaction { session, txn_number, transaction, has_failed: Cell::new(false) })
    }
}

fn plain(command: &Command) -> Result<OperationSession> {
    if command.session_use == SessionUse::EndsTransaction {
        return Err(invalid(&format!("{} must be run within a transaction", command.name)));
    }
    Ok(OperationSession::Plain)
}

fn wrong_type(field: &str, value: RawBsonRef<'_>, expected: &str) -> CommandError {
    let found = document::type_name(value.element_type());
    CommandError::type_mismatch(format!("BSON field '{field}' is the wrong type '{found}', expected {expected}"))
}

impl OperationSession {
    /// Whether the command is a retryable write.
    pub(crate) fn is_retryable_write(&self) -> bool {
        matches!(self, Self::Retryable { .. })
    }

    /// The transaction that the command is a part of.
    pub(crate) fn transaction(&self) -> Option<&Arc<Transaction>> {
        match self {
            Self::Transaction { transaction, .. } => Some(transaction),
            _ => None,
        }
    }

    /// The number of the transaction that the command is a part of.
    pub(crate) fn txn_number(&self) -> Option<i64> {
        match self {
            Self::Transaction { txn_number, .. } => Some(*txn_number),
            _ => None,
        }
    }

    /// The transaction that the command is to end.
    pub(crate) fn ending(&self) -> Result<(&Arc<Session>, i64)> {
        match self {
            Self::Ending { session, txn_number } => Ok((session.session(), *txn_number)),
            _ => Err(invalid("the command must be run within a transaction")),
        }
    }

    /// What to do about an error of one statement: one that is not the statement's own ends the command, an interruption always and a conflict
    /// in a transaction; and any aborts the transaction.
    pub(crate) fn check_failure(&self, error: &CommandError) -> Result<()> {
        if error.is_interruption() {
            return Err(error.clone());
        }
        let Self::Transaction { has_failed, .. } = self else { return Ok(()) };
        has_failed.set(true);
        let error = &error.clone().in_transaction();
        let ends_command = error.is_transient_in_transaction(false) || error.code_name == "TransactionTooLargeForCache";
        if ends_command { Err(error.clone()) } else { Ok(()) }
    }

    /// The command has ended after so long; a transaction in which anything has failed is aborted.
    pub(crate) fn end(&self, server: &ServerContext, elapsed: Duration, is_error: bool) {
        let Self::Transaction { session, txn_number, has_failed, .. } = self else { return };
        session.session().note_active(elapsed);
        if is_error || has_failed.get() {
            server.store.abort_open_transaction(session.session());
            server.cursors.close_of_transaction(session.session().id(), *txn_number);
        }
    }

    /// What a statement has done already, when this is a retry.
    pub(crate) fn executed(&self, statement: i32) -> Option<ExecutedStatement> {
        match self {
            Self::Retryable { session, .. } => session.session().executed(statement),
            _ => None,
        }
    }

    /// The statement as a write has to know it.
    pub(crate) fn statement(&self, id: i32, details: StatementDetails) -> Option<Statement> {
        match self {
            Self::Retryable { session, txn_number } => {
                Some(Statement { session: session.session().clone(), txn_number: *txn_number, id, details })
            }
            _ => None,
        }
    }
}

/// The numbers of a write command's statements: `stmtIds`, or those from `stmtId` on.
#[derive(Debug, Default, Clone)]
pub(crate) struct StatementIds {
    first: i32,
    listed: Vec<i32>,
}

impl StatementIds {
    /// Takes `stmtId` or `stmtIds`.
    pub(crate) fn parse(&mut self, field: crate::request::arguments::Field<'_>) -> Result<()> {
        if field.is_null() {
            return Ok(());
        }
        let number = |value: RawBsonRef<'_>| {
            let number = Number::from_bson(value).and_then(Number::to_i64_exact);
            let number = number.and_then(|number| i32::try_from(number).ok());
            number.ok_or_else(|| field.wrong_type("type 'int'"))
        };
        if field.name() == "stmtId" {
            self.first = number(field.value())?;
        } else {
            self.listed = field
                .array()?
                .into_iter()
                .flat_map(document::array_elements)
                .map(|id| number(id.value()))
                .collect::<Result<_>>()?;
        }
        Ok(())
    }

    /// Refuses a list of another length than that of the statements.
    pub(crate) fn check_count(&self, statements: usize) -> Result<()> {
        if self.listed.is_empty() || self.listed.len() == statements {
            return Ok(());
        }
        let given = self.listed.len();
        Err(invalid(&format!(
            "Number of statement ids must match the number of batch entries. Got {given} statement ids but {statements} operations."
        )))
    }

    /// The number of the statement at a position.
    pub(crate) fn of(&self, position: usize) -> i32 {
        let counted = i64::from(self.first) + position as i64;
        self.listed.get(position).copied().unwrap_or_else(|| i32::try_from(counted).unwrap_or(i32::MAX))
    }
}

#[cfg(test)]
mod tests {
    use bson::{Binary, rawdoc};

    use super::*;

    fn lsid() -> bson::RawDocumentBuf {
        rawdoc! {"id": Binary::from(Uuid::from_bytes([7; 16]))}
    }

    #[test]
    fn fields_that_need_each_other_are_checked() {
        let code = |body: bson::RawDocumentBuf| SessionFields::read(&body).unwrap_err().code;
        assert_eq!(code(rawdoc! {"insert": "c", "txnNumber": 1i64}), 72);
        assert_eq!(code(rawdoc! {"insert": "c", "lsid": lsid(), "txnNumber": 1}), 14);
        assert_eq!(code(rawdoc! {"insert": "c", "lsid": lsid(), "txnNumber": -1i64}), 72);
        assert_eq!(code(rawdoc! {"insert": "c", "lsid": lsid(), "autocommit": false}), 72);
        assert_eq!(code(rawdoc! {"insert": "c", "lsid": lsid(), "txnNumber": 1i64, "autocommit": true}), 72);
        assert_eq!(code(rawdoc! {"insert": "c", "lsid": lsid(), "txnNumber": 1i64, "startTransaction": true}), 72);
        let good = rawdoc! {"insert": "c", "lsid": lsid(), "txnNumber": 1i64};
        let read = SessionFields::read(&good).unwrap();
        assert_eq!((read.session, read.txn_number), (Some(Uuid::from_bytes([7; 16])), Some(1)));
    }

    #[test]
    fn statements_are_numbered_from_the_first_or_as_listed() {
        let mut ids = StatementIds { first: 5, listed: Vec::new() };
        assert_eq!((ids.of(0), ids.of(2)), (5, 7));
        ids.listed = vec![9, 4];
        assert_eq!((ids.of(0), ids.of(1)), (9, 4));
        assert!(ids.check_count(2).is_ok());
        assert_eq!(ids.check_count(3).unwrap_err().code, 72);
    }
}
