//! `authenticate`: the login of a client by its certificate (MONGODB-X509), also the one that it sends in its first `hello`.
//!
//! The connection's handshake has verified the certificate. Its subject, as RFC 2253 writes it, is the name of a user of
//! `$external`. A client that names another user is refused: it does not have the certificate that it believes to have.

use bson::RawDocument;

use super::create_user::EXTERNAL;
use super::log_in::{Claim, fail, finish};
use crate::DocumentWriter;
use crate::handlers::command::Command;
use crate::request::arguments::{Arguments, Field, required};
use crate::request::declaration::{Authentication, Declaration, Needs};
use crate::request::error::{CommandError, Result};
use crate::state::access_control::login_figures::{Begun, LoginMechanism};
use crate::state::access_control::names::UserName;
use crate::state::logging_in::LoggingIn;

pub(crate) static COMMAND: Command = Command::new(
    |context, arguments, reply| run(&mut context.logging_in(), arguments, reply),
    Declaration {
        authentication: Authentication::NotNeeded,
        secrets: &["key", "nonce"],
        ..Declaration::new("authenticate", "Logs in by the client's certificate.", Needs::Nothing, &[])
    },
);

#[derive(Default)]
struct Fields {
    mechanism: Option<String>,
    user: Option<String>,
}

impl Fields {
    fn take(&mut self, field: Field<'_>) -> Result<bool> {
        match field.name() {
            "mechanism" => self.mechanism = field.string()?.map(str::to_owned),
            "user" => self.user = field.string()?.map(str::to_owned),
            // Of MONGODB-CR, which is refused by its name.
            "nonce" | "key" => drop(field.string()?),
            _ => return Ok(false),
        }
        Ok(true)
    }
}

/// Runs `authenticate`.
pub(crate) fn run(
    logging_in: &mut LoggingIn<'_>,
    mut arguments: Arguments<'_>,
    reply: &mut DocumentWriter<'_>,
) -> Result<()> {
    let mut parsed = Fields::default();
    for field in arguments.fields() {
        if !parsed.take(field)? {
            arguments.generic(field)?;
        }
    }
    let database = logging_in.database;
    let user = log_in(logging_in, &parsed, database, Begun::ByCommand)?;
    write_user(&user, reply);
    Ok(())
}

/// The login that a client sends in its first `hello`. `None`: it does not succeed so, and the client sends it in the usual way.
pub(crate) fn log_in_by_hello(logging_in: &mut LoggingIn<'_>, asked: &RawDocument) -> Option<UserName> {
    let mut parsed = Fields::default();
    let mut database = EXTERNAL;
    for element in document::elements(asked).skip(1) {
        let field = Field::of("speculativeAuthenticate", element);
        match field.name() {
            "db" => database = field.string().ok()??,
            _ if parsed.take(field).ok()? => {}
            _ => return None,
        }
    }
    log_in(logging_in, &parsed, database, Begun::InHello).ok()
}

fn log_in(logging_in: &mut LoggingIn<'_>, parsed: &Fields, database: &str, begun: Begun) -> Result<UserName> {
    logging_in.login.conversation = None;
    let wanted = required(parsed.mechanism.as_deref(), "authenticate.mechanism")?;
    if wanted != LoginMechanism::X509.name() {
        let message = format!("Received authentication for mechanism {wanted} which is unknown or not enabled");
        return Err(CommandError::named("MechanismUnavailable", message));
    }
    if database != EXTERNAL {
        let message = "X.509 authentication must always use the $external database.";
        return Err(CommandError::named("ProtocolError", message));
    }
    let mechanism = LoginMechanism::X509;
    logging_in.access.logins.count_received(mechanism, begun);
    let subject = logging_in.login.certificate_subject.clone().filter(|subject| !subject.is_empty());
    let name = subject.as_deref().or(parsed.user.as_deref()).unwrap_or_default();
    let user = UserName::new(name, EXTERNAL);
    let claim = Claim { user: &user, mechanism, begun };
    let Some(subject) = subject.as_deref() else {
        return Err(fail(logging_in, claim, "the client has shown no certificate, or one without a subject"));
    };
    if parsed.user.as_deref().is_some_and(|named| named != subject) {
        return Err(fail(logging_in, claim, "the client names another user than its certificate"));
    }
    logging_in.login.check_may_log_in(&user)?;
    finish(logging_in, claim)?;
    Ok(user)
}

/// Writes who has logged in.
pub(crate) fn write_user(user: &UserName, reply: &mut DocumentWriter<'_>) {
    reply.string("dbname", &user.database);
    reply.string("user", &user.name);
}
