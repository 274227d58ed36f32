//! A user whom the operator makes without a login: `plimsoll user add`.
//!
//! Called by `server`: by the command, which makes the document of a user, and by the running server, which is handed
//! that document. Who may write into the data directory may do everything anyway.

use authentication::{Mechanism, ScramCredentials, is_builtin};
use bson::{RawDocument, RawDocumentBuf, Uuid};
use platform::Random;

use super::names::{RoleName, UserName};
use super::resolve::exists;
use super::stored_user::StoredUser;
use crate::request::error::{CommandError, Result};
use crate::state::context::ServerContext;

/// The document of a user with a role of a database, without his password.
///
/// # Errors
/// The password or the name cannot be one.
pub fn user_document(
    name: &str,
    database: &str,
    password: &str,
    role: &str,
    random: &dyn Random,
) -> Result<RawDocumentBuf> {
    if name.is_empty() || database.is_empty() {
        return Err(CommandError::bad_value("a user needs a name and a database"));
    }
    // A role of the deployment is of `admin`, whatever database the user is of.
    let home = if is_builtin(database, role) || !is_builtin("admin", role) { database } else { "admin" };
    let mut id = [0; 16];
    random.fill(&mut id);
    let credentials = Mechanism::ALL.map(|mechanism| {
        let mut salt = vec![0; mechanism.salt_bytes()];
        random.fill(&mut salt);
        ScramCredentials::derive(mechanism, name, password, false, mechanism.iterations(), &salt)
    });
    let credentials = credentials.into_iter().collect::<std::result::Result<Vec<_>, _>>();
    let user = StoredUser {
        name: UserName::new(name, database),
        user_id: Some(Uuid::from_bytes(id)),
        credentials: credentials.map_err(|error| CommandError::bad_value(error.to_string()))?,
        is_external: false,
        custom_data: None,
        roles: vec![RoleName::new(role, home)],
        restrictions: None,
    };
    user.encode()
}

impl ServerContext {
    /// Takes in a user whose document the operator has made. One who is there gets the password, and the role beside his others.
    ///
    /// # Errors
    /// The document is none, the role is not there, or it cannot be stored.
    pub fn take_in_user(&self, document: &RawDocument) -> Result<()> {
        let mut user = StoredUser::decode(document)?;
        let _one_at_a_time = self.access.changing.lock();
        for role in &user.roles {
            if !exists(&self.writing, role)? {
                return Err(CommandError::named("RoleNotFound", format!("Could not find role: {role}")));
            }
        }
        if let Some(known) = StoredUser::find(&self.writing, &user.name)? {
            let more: Vec<_> = user.roles.into_iter().filter(|role| !known.roles.contains(role)).collect();
            user = StoredUser { credentials: user.credentials, ..known };
            user.roles.extend(more);
        }
        self.access.note_changes(|| user.put(&self.writing))?;
        tracing::info!(target: "access", user = %user.name, "a user was taken in from the data directory");
        Ok(())
    }
}
