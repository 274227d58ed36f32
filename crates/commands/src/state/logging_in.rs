//! What a login works with: the client who says who he is, what is known of users, and who is told of it.
//!
//! Made by `Context` for `saslStart`, `saslContinue`, `authenticate`, `logout`, and `hello`, in which a login may begin.

use crate::state::access_control::AccessControl;
use crate::state::access_control::login::Login;
use crate::state::audit::{Actor, AuditTrail, Auditing};
use crate::state::context::{Context, ServerContext};
use crate::state::operations::OperationSlot;
use crate::state::writing::Writing;

/// See the module's head.
pub(crate) struct LoggingIn<'a> {
    /// The database that the request names.
    pub(crate) database: &'a str,
    pub(crate) login: &'a mut Login,
    /// Where others see who has logged in.
    pub(crate) slot: &'a OperationSlot,
    pub(crate) access: &'a AccessControl,
    pub(crate) writing: &'a Writing,
    trail: AuditTrail<'a>,
}

impl Context<'_> {
    /// What a login of its client works with.
    pub(crate) fn logging_in(&mut self) -> LoggingIn<'_> {
        LoggingIn::of(self.server, self.request.database, self.login, self.slot)
    }
}

impl<'a> LoggingIn<'a> {
    /// For a client.
    pub(super) fn of(
        server: &'a ServerContext,
        database: &'a str,
        login: &'a mut Login,
        slot: &'a OperationSlot,
    ) -> Self {
        let (access, writing, trail) = (&server.access, &*server.writing, server.audit_trail());
        LoggingIn { database, login, slot, access, writing, trail }
    }

    /// Who is told of it.
    pub(crate) fn auditing(&self) -> Auditing<'_> {
        Auditing { trail: self.trail, actor: Actor { login: self.login, client: &self.slot.client } }
    }
}
