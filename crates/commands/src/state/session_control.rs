//! What commands about logical sessions work with: the sessions, and all that ends with one.
//!
//! Made by `Context` for the handlers in `sessions`.

use std::collections::HashSet;
use std::sync::Arc;

use bson::Uuid;
use transaction::{Session, Store};

use crate::request::error::Result;
use crate::state::access_control::names::UserName;
use crate::state::client_cursors::ClientCursors;
use crate::state::context::Context;
use crate::state::operations::{Operation, Operations};
use crate::state::session_end;

/// See the module's head.
pub(crate) struct SessionControl<'a> {
    pub(crate) store: &'a Store,
    pub(crate) operation: &'a Operation<'a>,
    cursors: &'a ClientCursors,
    operations: &'a Operations,
    /// Who has logged in.
    user: Option<&'a Arc<UserName>>,
}

impl Context<'_> {
    /// What it works with on sessions.
    pub(crate) fn session_control(&self) -> SessionControl<'_> {
        SessionControl {
            store: &self.server.store,
            operation: &self.operation,
            cursors: &self.server.cursors,
            operations: &self.server.operations,
            user: self.login.user(),
        }
    }
}

impl SessionControl<'_> {
    /// Ends sessions; some of them when the command is to stop.
    pub(crate) fn end(&self, sessions: &HashSet<Uuid>) -> Result<()> {
        session_end::end(self.store, self.cursors, sessions, &|| self.operation.check_interrupt())
    }

    /// Ends sessions with what runs in them, but for the command that asks for it.
    pub(crate) fn kill(&self, sessions: &HashSet<Uuid>) -> Result<()> {
        self.operations.kill_of_sessions(sessions, self.operation);
        self.end(sessions)
    }

    /// The ids of all sessions that there are.
    pub(crate) fn all(&self) -> HashSet<Uuid> {
        self.store.sessions().all().iter().map(|session| session.id()).collect()
    }

    /// The command has begun a session, or goes on with it: it is its user's, if it is nobody's yet.
    pub(crate) fn claim(&self, session: &Session) {
        if let Some(user) = self.user {
            session.claim(|| user.clone());
        }
    }
}
