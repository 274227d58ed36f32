//! What the client of a command may do beyond what its command needs in any case, which `dispatcher` has asked already.
//!
//! Made by `Context` for handlers that show or do more to those who may.

use authentication::{Action, Target};

use crate::request::error::CommandError;
use crate::state::access_control::AccessControl;
use crate::state::access_control::login::Login;
use crate::state::context::Context;

/// See the module's head.
#[derive(Clone, Copy)]
pub(crate) struct Rights<'a> {
    /// The database that the request names.
    pub(crate) database: &'a str,
    /// The command, as it was called.
    pub(crate) command: &'a str,
    pub(crate) login: &'a Login,
    access: &'a AccessControl,
}

impl Context<'_> {
    /// What its client may do.
    pub(crate) fn rights(&self) -> Rights<'_> {
        Rights {
            database: self.request.database,
            command: self.request.name,
            login: &*self.login,
            access: &self.server.access,
        }
    }
}

impl Rights<'_> {
    /// Whether nobody is asked who he is, or the server asks itself.
    fn is_free(&self) -> bool {
        !self.is_enforced() || self.login.is_server()
    }

    /// Whether users are asked who they are.
    pub(crate) fn is_enforced(&self) -> bool {
        self.access.is_enforced()
    }

    /// Whether the client may do something.
    pub(crate) fn allows(&self, target: Target<'_>, action: Action) -> bool {
        self.is_free() || self.login.privileges().is_some_and(|privileges| privileges.allows(target, action))
    }

    /// Whether the client may do anything at all to something.
    pub(crate) fn allows_any(&self, target: Target<'_>) -> bool {
        let has_any = || self.login.privileges().is_some_and(|privileges| !privileges.actions_on(target).is_empty());
        self.is_free() || has_any()
    }

    /// Whether the client may do anything at all to a database, or to something in it.
    pub(crate) fn allows_any_in(&self, database: &str) -> bool {
        let named = || self.login.privileges().is_some_and(|privileges| privileges.has_any_in(database));
        self.allows_any(Target::Database(database)) || named()
    }

    /// Fails if the client may not do something.
    ///
    /// # Errors
    /// Unauthorized (13).
    pub(crate) fn require(&self, target: Target<'_>, action: Action) -> Result<(), CommandError> {
        if self.allows(target, action) {
            return Ok(());
        }
        let Rights { database, command, .. } = self;
        let message = format!("not authorized on {database} to execute command {{ {command}: ... }}");
        Err(CommandError::named("Unauthorized", message))
    }
}
