//! What `hello` works with: what the server is, what the client says of itself, and the login that may begin in it.
//!
//! Made by `Context` for `hello` and `isMaster`.

use std::sync::Arc;

use bson::RawDocumentBuf;

use crate::request::command_request::Attempt;
use crate::state::context::Context;
use crate::state::logging_in::LoggingIn;
use crate::state::operations::Operations;
use crate::state::server_identity::ServerIdentity;

/// See the module's head.
pub(crate) struct Greeting<'a> {
    pub(crate) identity: ServerIdentity<'a>,
    /// Which time this request is run.
    pub(crate) attempt: Attempt,
    /// Who knows whether the server stops.
    pub(crate) operations: &'a Operations,
    /// What the client has said of itself.
    pub(crate) metadata: &'a mut Option<Arc<RawDocumentBuf>>,
    pub(crate) logging_in: LoggingIn<'a>,
}

impl Context<'_> {
    /// What `hello` works with.
    pub(crate) fn greeting(&mut self) -> Greeting<'_> {
        Greeting {
            identity: self.server.identity(),
            attempt: self.request.attempt,
            operations: &self.server.operations,
            metadata: &mut *self.metadata,
            logging_in: LoggingIn::of(self.server, self.request.database, self.login, self.slot),
        }
    }
}
