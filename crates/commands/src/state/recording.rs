//! What the records of slow and profiled operations are made of, and where they are kept.
//!
//! Made by `Context` for what has ended: a command (`finished_operation.rs`), or a statement of one
//! (`ended_statement.rs`). Who writes a record knows the request, the client and what was noted, and changes nothing.

use std::sync::Arc;

use bson::RawDocumentBuf;

use crate::request::command_request::CommandRequest;
use crate::state::access_control::names::UserName;
use crate::state::context::Context;
use crate::state::fsync_lock::FsyncLock;
use crate::state::noting::Noting;
use crate::state::operations::Operation;
use crate::state::writing::Writing;

/// See the module's head.
#[derive(Clone, Copy)]
pub(crate) struct Recording<'a> {
    pub(crate) request: &'a CommandRequest<'a>,
    pub(crate) operation: &'a Operation<'a>,
    pub(crate) noting: Noting<'a>,
    /// Who has logged in.
    pub(crate) user: Option<&'a Arc<UserName>>,
    /// What the client said of itself in its first `hello`.
    pub(crate) metadata: Option<&'a Arc<RawDocumentBuf>>,
    pub(crate) writing: &'a Writing,
    pub(crate) fsync_lock: &'a FsyncLock,
}

impl Context<'_> {
    /// What records of it are made of.
    pub(crate) fn recording(&self) -> Recording<'_> {
        Recording {
            request: self.request,
            operation: &self.operation,
            noting: self.noting(),
            user: self.login.user(),
            metadata: self.metadata.as_ref(),
            writing: &self.server.writing,
            fsync_lock: &self.server.fsync_lock,
        }
    }
}
