//! Who a connection's client is: nobody, in the midst of a login, or a user.
//!
//! ```text
//! Nobody ── saslStart ──▶ in a conversation ── its last message ──▶ logged in ◀── authenticate ── Nobody
//!    ▲                       │ it fails                               │
//!    └───────────────────────┴────────────── logout ──────────────────┘
//! ```
//!
//! Held by `ClientContext`. `dispatcher` asks before each command what the user may do ([`Login::access`]).

use std::net::IpAddr;
use std::sync::{Arc, OnceLock};

use authentication::{PrivilegeSet, ScramConversation};

use super::AccessControl;
use super::login_figures::Begun;
use super::names::UserName;
use super::resolve::Access;
use crate::request::error::{CommandError, Result};
use crate::state::writing::Writing;

/// A login that is under way.
pub(crate) struct Conversation {
    pub(crate) id: i32,
    pub(crate) user: UserName,
    pub(crate) scram: ScramConversation,
    pub(crate) begun: Begun,
}

/// Whether a client has logged in, where it has to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoginState {
    /// It has, or need not.
    Done,
    /// It is doing so.
    UnderWay,
    /// It has not begun.
    Missing,
}

/// What was found of the user, and in which generation.
struct Found {
    generation: u64,
    access: Arc<Access>,
}

/// See the module's head.
#[derive(Default)]
pub(crate) struct Login {
    pub(crate) conversation: Option<Box<Conversation>>,
    /// Conversations that were begun.
    pub(crate) conversations: i32,
    user: Option<Arc<UserName>>,
    found: Option<Found>,
    /// What the localhost exception allows who has not logged in.
    exception: Option<PrivilegeSet>,
    /// The server itself, which may do everything.
    is_server: bool,
    /// Whether the client is on the server's machine.
    pub(crate) is_local: bool,
    /// The subject of the certificate that the client has shown and that the server has verified, as RFC 2253 writes it.
    pub(crate) certificate_subject: Option<Arc<str>>,
    /// Which connection it is in the audit log, from the first event on.
    pub(crate) connection: OnceLock<bson::Uuid>,
    /// At which address of the server the client has come in.
    pub(crate) server_address: Option<IpAddr>,
    pub(crate) server_port: u16,
}

impl Login {
    /// Of a client, perhaps on the server's machine.
    pub(crate) fn of_client(is_local: bool) -> Self {
        Self { is_local, ..Self::default() }
    }

    /// Of the server itself.
    pub(crate) fn of_server() -> Self {
        Self { is_server: true, ..Self::default() }
    }

    /// Of another connection of the same client, who has proved who he is already.
    pub(crate) fn again(&self) -> Self {
        Self {
            user: self.user.clone(),
            is_local: self.is_local,
            certificate_subject: self.certificate_subject.clone(),
            server_address: self.server_address,
            server_port: self.server_port,
            ..Self::default()
        }
    }

    /// Whether it is the server itself.
    pub(crate) fn is_server(&self) -> bool {
        self.is_server
    }

    /// Who has logged in.
    pub(crate) fn user(&self) -> Option<&Arc<UserName>> {
        self.user.as_ref()
    }

    /// He has proved who he is.
    pub(crate) fn log_in(&mut self, user: UserName) {
        self.user = Some(Arc::new(user));
        self.found = None;
    }

    /// Ends it. Gives who it was.
    pub(crate) fn log_out(&mut self) -> Option<Arc<UserName>> {
        (self.conversation, self.found) = (None, None);
        self.user.take()
    }

    /// What the user may do, as it is stored now; `None`: nobody has logged in. A user who has been dropped is logged out.
    pub(crate) fn access(&mut self, control: &AccessControl, writing: &Writing) -> Result<Option<&Arc<Access>>> {
        let Some(user) = &self.user else { return Ok(None) };
        let generation = control.generation();
        if self.found.as_ref().is_none_or(|found| found.generation != generation) {
            match control.access(writing, user)? {
                Some(access) => self.found = Some(Found { generation, access }),
                None => {
                    tracing::info!(target: "access", %user, "a user has been dropped: the connection is logged out");
                    self.log_out();
                }
            }
        }
        Ok(self.found.as_ref().map(|found| &found.access))
    }

    /// What was found last, for a command that runs: it was allowed by this.
    pub(crate) fn found(&self) -> Option<&Arc<Access>> {
        self.found.as_ref().map(|found| &found.access)
    }

    /// What the user may do, or who comes while there are no users; `None`: he has to log in.
    pub(crate) fn find_privileges(
        &mut self,
        control: &AccessControl,
        writing: &Writing,
    ) -> Result<Option<&PrivilegeSet>> {
        self.exception = match self.access(control, writing)? {
            Some(_) => None,
            None => control.localhost_exception(writing, self.is_local)?,
        };
        Ok(self.privileges())
    }

    /// What was found last.
    pub(crate) fn privileges(&self) -> Option<&PrivilegeSet> {
        self.found().map(|access| &access.privileges).or(self.exception.as_ref())
    }

    /// Refuses a second user.
    pub(crate) fn check_may_log_in(&self, user: &UserName) -> Result<()> {
        match &self.user {
            Some(known) if **known != *user => {
                let message = format!(
                    "Each client connection may only be authenticated once. Previously authenticated as: {known}"
                );
                Err(CommandError::named("Unauthorized", message))
            }
            _ => Ok(()),
        }
    }
}
