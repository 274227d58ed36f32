//! Who may come in and what they may do, as pure functions: SCRAM, actions, resources, what the built-in roles allow.
//!
//! Called by `commands`, which stores users and roles, keeps what a connection may do and asks before each command. Must
//! not know: BSON, storage, commands, the wire.
//!
//! ```text
//! password ─ ScramCredentials::derive ─▶ stored with the user ─ ScramConversation ─▶ logged in
//! roles ─ builtin_privileges, or what is stored ─▶ PrivilegeSet ─ allows(target, action)
//! ```
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

mod action;
mod builtin_roles;
mod credentials;
mod privilege_set;
mod scram;
mod scram_client;

pub use action::{Action, ActionSet};
pub use builtin_roles::{builtin_privileges, builtin_role_names, is_builtin};
pub use credentials::{CredentialsError, Mechanism, ScramCredentials, hash, keyed_hash};
pub use privilege_set::{PrivilegeSet, Resource, Target};
pub use scram::{ScramConversation, ScramError, ScramReply, read_user_name};
pub use scram_client::ScramClient;
