//! What a command changes documents with: what it reads from, where it writes, and the statement, or the transaction, that each of its writes is.
//!
//! Made by `Context` for the write commands, and as a part of [`crate::state::defining`]. What writes of the server's own accord has no session,
//! and takes [`Writing`] alone.

use std::cell::Cell;
use std::sync::Arc;

use collection::{Collection, CollectionOptions, Namespace, StatementDetails};
use transaction::WriteContext;

use crate::request::error::Result;
use crate::state::audit::Auditing;
use crate::state::context::Context;
use crate::state::fail_points::{FailPoints, error_of};
use crate::state::issued_timestamps::IssuedTimestamps;
use crate::state::noting::Noting;
use crate::state::operation_session::OperationSession;
use crate::state::operations::Operation;
use crate::state::reading::Reading;
use crate::state::writing::Writing;

/// See the module's head.
pub(crate) struct Changing<'a> {
    pub(crate) reading: Reading<'a>,
    pub(crate) writing: &'a Writing,
    /// Those that replace empty ones in documents.
    pub(crate) timestamps: &'a Arc<IssuedTimestamps>,
    pub(crate) session: &'a OperationSession,
    pub(crate) operation: &'a Operation<'a>,
    pub(crate) noting: Noting<'a>,
    auditing: Auditing<'a>,
    fail_points: &'a FailPoints,
    /// Whether a fail point wants the connection closed in place of a reply.
    closes_connection: &'a Cell<bool>,
}

impl Context<'_> {
    /// What it changes documents with.
    pub(crate) fn changing(&self) -> Changing<'_> {
        Changing {
            reading: self.reading(),
            writing: &self.server.writing,
            timestamps: &self.server.timestamps,
            session: &self.session,
            operation: &self.operation,
            noting: self.noting(),
            auditing: self.auditing(),
            fail_points: &self.server.fail_points,
            closes_connection: &self.closes_connection,
        }
    }
}

impl Changing<'_> {
    /// The collection of a name, created without options if there is none: what a write into nothing does.
    pub(crate) fn collection_or_create(&self, namespace: &Namespace) -> Result<Arc<Collection>> {
        if let Some(collection) = self.reading.collection(namespace)? {
            return Ok(collection);
        }
        let store = &self.writing.store;
        self.auditing.trail.prepare()?;
        let created = match self.session.transaction() {
            None => store.collection_or_create(namespace)?,
            Some(transaction) => {
                match store.create_in_transaction(transaction, namespace, CollectionOptions::default()) {
                    Ok(created) => created,
                    Err(error) => match self.reading.collection(namespace)? {
                        // Somebody else just has created it.
                        Some(collection) if error.is_namespace_exists() => return Ok(collection),
                        _ => return Err(error.into()),
                    },
                }
            }
        };
        self.auditing.tell("createCollection", 0, |param| param.string("ns", &namespace.to_string()))?;
        Ok(created)
    }

    /// Lends the reusable buffers of a write: for a statement, if the command is a retryable write, or as a part of its transaction.
    pub(crate) fn write<T>(
        &self,
        statement: i32,
        details: StatementDetails,
        write: impl FnOnce(&mut WriteContext) -> T,
    ) -> T {
        let written = self.writing.with_context(|context| {
            context.set_statement(self.session.statement(statement, details));
            context.set_transaction(self.session.transaction().cloned());
            context.set_waiting(self.operation.waiting());
            write(context)
        });
        self.after_write(statement);
        written
    }

    /// Before a statement of a write: a fail point may have it fail.
    pub(crate) fn before_write(&self) -> Result<()> {
        if !self.session.is_retryable_write() {
            return Ok(());
        }
        let Some(fault) = self.fail_points.strike_write(false) else { return Ok(()) };
        self.closes_connection.set(fault.closes_connection);
        match fault.error_code {
            Some(code) => Err(error_of(code, "onPrimaryTransactionalWrite")),
            None => Ok(()),
        }
    }

    /// After a statement of a write that has changed something: a fail point may have the connection closed.
    fn after_write(&self, statement: i32) {
        let is_done = || self.session.is_retryable_write() && self.session.executed(statement).is_some();
        if self.fail_points.is_active()
            && is_done()
            && let Some(fault) = self.fail_points.strike_write(true)
        {
            self.closes_connection.set(fault.closes_connection);
        }
    }
}
