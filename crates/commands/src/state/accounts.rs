//! What commands about users and roles work with: who is known, where that is written, and what the client may do.
//!
//! Made by `Context` for the handlers in `security`.

use crate::state::access_control::AccessControl;
use crate::state::context::Context;
use crate::state::operations::Operation;
use crate::state::rights::Rights;
use crate::state::writing::Writing;

/// See the module's head.
#[derive(Clone, Copy)]
pub(crate) struct Accounts<'a> {
    /// The database that the request names.
    pub(crate) database: &'a str,
    pub(crate) access: &'a AccessControl,
    pub(crate) writing: &'a Writing,
    pub(crate) rights: Rights<'a>,
    pub(crate) operation: &'a Operation<'a>,
}

impl Context<'_> {
    /// See the type.
    pub(crate) fn accounts(&self) -> Accounts<'_> {
        Accounts {
            database: self.request.database,
            access: &self.server.access,
            writing: &self.server.writing,
            rights: self.rights(),
            operation: &self.operation,
        }
    }
}
