//! What a command does in its session, as its fields ask for it ([`crate::request::session_fields`]).
//!
//! Begun by `dispatcher` before the command runs. A command with a `txnNumber` has its session for itself until it has
//! replied. The write commands ask here which statements were executed before, all that read in which view; an error in
//! a transaction aborts it.

use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

use collection::StatementDetails;
use platform::{MemoryUse, WorkingMemory};
use storage_engine::EngineError;
use transaction::{CheckedOutSession, ExecutedStatement, Session, Statement, Store, Transaction, TransactionError};

use crate::request::declaration::{Declaration, SessionUse};
use crate::request::error::{CommandError, Result};
use crate::request::session_fields::{SessionFields, invalid};
use crate::state::access_control::names::UserName;
use crate::state::client_cursors::ClientCursors;
use crate::state::operations::Operation;

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

/// What a command begins with.
pub(crate) struct Beginning<'a> {
    pub(crate) command: &'a Declaration,
    pub(crate) database: &'a str,
    /// Who has logged in.
    pub(crate) user: Option<&'a Arc<UserName>>,
    pub(crate) store: &'a Store,
    pub(crate) memory: &'a WorkingMemory,
    /// Those of transactions that are aborted to make room are closed.
    pub(crate) cursors: &'a ClientCursors,
}

impl OperationSession {
    /// Begins what the fields ask for.
    pub(crate) fn begin(fields: &SessionFields, with: &Beginning<'_>, operation: &Operation<'_>) -> Result<Self> {
        let Beginning { command, store, .. } = *with;
        fields.check_concerns(command)?;
        if let Err(error) = fields.read_concern.wait(store, &|| operation.check_locked().is_err()) {
            operation.check_locked()?;
            return Err(error);
        }
        let Some(id) = fields.session else { return Self::plain(command) };
        let session = store.sessions().refresh(id)?;
        if let Some(user) = with.user {
            session.claim(|| user.clone());
        }
        let Some(txn_number) = fields.txn_number else { return Self::plain(command) };
        fields.check_number(command, with.database)?;
        let Some(session) = session.check_out(&|| operation.check_interrupt().is_err()) else {
            operation.check_interrupt()?;
            return Err(CommandError::named("Interrupted", "operation was interrupted"));
        };
        if fields.is_in_transaction() {
            return Self::begin_in_transaction(fields, with, session, txn_number, operation.connection());
        }
        store.begin_retryable_write(session.session(), txn_number)?;
        Ok(Self::Retryable { session, txn_number })
    }

    fn begin_in_transaction(
        fields: &SessionFields,
        with: &Beginning<'_>,
        session: CheckedOutSession,
        txn_number: i64,
        connection: u64,
    ) -> Result<Self> {
        if with.command.session_use == SessionUse::EndsTransaction {
            return Ok(Self::Ending { session, txn_number });
        }
        let (store, own) = (with.store, session.session());
        let transaction = if fields.goes_on_with_transaction() {
            store.continue_transaction(own, txn_number)?
        } else {
            let begin = || {
                let memory = with.memory.budget().reservation(MemoryUse::WriteSets);
                store.begin_transaction(own, txn_number, memory, connection)
            };
            match begin() {
                Err(TransactionError::Engine(EngineError::NoMemory(_))) => {
                    for (session, number) in store.end_forgotten_transactions(connection) {
                        with.cursors.close_of_transaction(session, number);
                    }
                    begin()?
                }
                begun => begun?,
            }
        };
        Ok(Self::Transaction { session, txn_number, transaction, has_failed: Cell::new(false) })
    }

    fn plain(command: &Declaration) -> Result<Self> {
        if command.session_use == SessionUse::EndsTransaction {
            return Err(invalid(&format!("{} must be run within a transaction", command.name)));
        }
        Ok(Self::Plain)
    }

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

    /// What to do about an error of one statement: one that is not the statement's own ends the command, and any aborts the transaction. Not its own
    /// are an interruption, what drivers may try again (as the loss of the lead: they look only at errors of whole commands), and a conflict in a transaction.
    pub(crate) fn check_failure(&self, error: &CommandError) -> Result<()> {
        if error.is_interruption() || error.is_retryable() {
            return Err(error.clone());
        }
        let Self::Transaction { has_failed, .. } = self else { return Ok(()) };
        has_failed.set(true);
        let error = &error.clone().in_transaction();
        let ends_command = error.is_transient_in_transaction(false) || error.code_name == "TransactionTooLargeForCache";
        if ends_command { Err(error.clone()) } else { Ok(()) }
    }

    /// The command has ended after so long; a transaction in which anything has failed is aborted.
    pub(crate) fn end(&self, store: &Store, cursors: &ClientCursors, elapsed: Duration, is_error: bool) {
        let Self::Transaction { session, txn_number, has_failed, .. } = self else { return };
        session.session().note_active(elapsed);
        if is_error || has_failed.get() {
            store.abort_open_transaction(session.session());
            cursors.close_of_transaction(session.session().id(), *txn_number);
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
