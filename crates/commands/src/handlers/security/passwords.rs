//! From a password and the wanted mechanisms to what is stored.

use authentication::{CredentialsError, Mechanism, ScramCredentials};

use crate::request::arguments::Field;
use crate::request::error::{CommandError, Result};
use crate::state::accounts::Accounts;

/// What a command says of a password.
#[derive(Default)]
pub(super) struct Password<'a> {
    pub(super) text: Option<&'a str>,
    /// Whether it is the password; else what a client of old has made of it.
    digest: Option<bool>,
    pub(super) mechanisms: Option<Vec<Mechanism>>,
}

impl<'a> Password<'a> {
    /// Takes a field; false: it is none of these.
    pub(super) fn take(&mut self, field: Field<'a>) -> Result<bool> {
        match field.name() {
            "pwd" => self.text = field.string()?,
            "digestPassword" => self.digest = field.optional_boolean()?,
            "mechanisms" => self.mechanisms = mechanisms(field)?,
            // The server makes the digest, which is what goes without saying.
            "passwordDigestor" if field.string()? == Some("server") => {}
            "passwordDigestor" => return Err(field.not_implemented()),
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// What is stored of it for a user.
    pub(super) fn credentials(&self, accounts: Accounts<'_>, user: &str) -> Result<Vec<ScramCredentials>> {
        let Some(text) = self.text else { return Ok(Vec::new()) };
        let is_digest = self.digest == Some(false);
        let mechanisms = match &self.mechanisms {
            Some(mechanisms) => mechanisms.clone(),
            None if is_digest => vec![Mechanism::ScramSha1],
            None => Mechanism::ALL.to_vec(),
        };
        if is_digest && mechanisms.contains(&Mechanism::ScramSha256) {
            return Err(CommandError::bad_value("Use of SCRAM-SHA-256 requires undigested passwords"));
        }
        let derive = |mechanism: Mechanism| {
            accounts.operation.check_interrupt()?;
            let salt = accounts.access.unguessable(mechanism.salt_bytes());
            ScramCredentials::derive(mechanism, user, text, is_digest, mechanism.iterations(), &salt).map_err(refused)
        };
        mechanisms.into_iter().map(derive).collect()
    }
}

fn refused(error: CredentialsError) -> CommandError {
    CommandError::bad_value(error.to_string())
}

fn mechanisms(field: Field<'_>) -> Result<Option<Vec<Mechanism>>> {
    let Some(array) = field.array()? else { return Ok(None) };
    let mut wanted = Vec::new();
    for element in document::array_elements(array) {
        let name = element.value().as_str().ok_or_else(|| field.wrong_type("an array of type 'string'"))?;
        let unknown = || CommandError::bad_value(format!("Unknown auth mechanism '{name}'"));
        let mechanism = Mechanism::of_name(name).ok_or_else(unknown)?;
        if !wanted.contains(&mechanism) {
            wanted.push(mechanism);
        }
    }
    if wanted.is_empty() {
        return Err(CommandError::bad_value("mechanisms field must not be empty"));
    }
    wanted.sort_unstable();
    Ok(Some(wanted))
}
