//! `saslStart`, `saslContinue` and `logout`: SCRAM logins, also the one that a client begins in its first `hello`.
//!
//! Who fails is told the same whatever was wrong; the log says what. A proof is checked against what a user who does not
//! exist seems to have, so that takes as long. After some failures each further proof waits before it is looked at.

use std::sync::atomic::Ordering;

use authentication::{Mechanism, ScramConversation, ScramCredentials, ScramReply, read_user_name};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bson::{RawBsonRef, RawDocument};

use crate::DocumentWriter;
use crate::handlers::command::Command;
use crate::request::arguments::{Arguments, Field, required};
use crate::request::declaration::{Authentication, Declaration, Needs};
use crate::request::error::{CommandError, Result};
use crate::state::access_control::login::Conversation;
use crate::state::access_control::login_figures::{Begun, LoginMechanism};
use crate::state::access_control::names::UserName;
use crate::state::access_control::restrictions::address_of;
use crate::state::access_control::stored_user::StoredUser;
use crate::state::logging_in::LoggingIn;

/// Bytes of a message of a login.
const PAYLOAD_BYTES_MAX: usize = 4096;

pub(crate) static START: Command = Command::new(
    |context, arguments, reply| run_start(&mut context.logging_in(), arguments, reply),
    Declaration {
        authentication: Authentication::NotNeeded,
        secrets: &["payload"],
        ..Declaration::new("saslStart", "Begins a login.", Needs::Nothing, &[])
    },
);

pub(crate) static CONTINUE: Command = Command::new(
    |context, arguments, reply| run_continue(&mut context.logging_in(), arguments, reply),
    Declaration {
        authentication: Authentication::NotNeeded,
        secrets: &["payload"],
        ..Declaration::new("saslContinue", "Goes on with a login.", Needs::Nothing, &[])
    },
);

pub(crate) static LOGOUT: Command = Command::new(
    |context, arguments, reply| run_logout(&mut context.logging_in(), arguments, reply),
    Declaration {
        authentication: Authentication::NotNeeded,
        ..Declaration::new("logout", "Makes the client nobody again.", Needs::Nothing, &[])
    },
);

/// The fields of `saslStart`.
struct Start {
    mechanism: String,
    payload: Vec<u8>,
    skips_empty: bool,
}

/// Runs `saslStart`.
pub(crate) fn run_start(
    logging_in: &mut LoggingIn<'_>,
    mut arguments: Arguments<'_>,
    reply: &mut DocumentWriter<'_>,
) -> Result<()> {
    let mut parsed = StartFields::default();
    for field in arguments.fields() {
        if !parsed.take(field)? {
            arguments.generic(field)?;
        }
    }
    let start = parsed.finish()?;
    let database = logging_in.database;
    let (id, said) = begin(logging_in, &start, database, Begun::ByCommand)?;
    write_reply(id, &said, reply);
    Ok(())
}

/// The login that a client begins in its first `hello`. `None`: it cannot begin so, and the client begins it in the usual way.
pub(crate) fn begin_in_hello(logging_in: &mut LoggingIn<'_>, asked: &RawDocument) -> Option<(i32, ScramReply)> {
    let mut parsed = StartFields::default();
    let mut database = None;
    let mut elements = document::elements(asked);
    let is_start = elements.next().is_some_and(|first| first.name() == "saslStart");
    for element in elements {
        let field = Field::of("speculativeAuthenticate", element);
        match field.name() {
            "db" => database = field.string().ok()?,
            _ if parsed.take(field).ok()? => {}
            _ => return None,
        }
    }
    let start = parsed.finish().ok().filter(|_| is_start)?;
    let database = database.unwrap_or("admin");
    // Clients go on with what has begun, also by another mechanism than the one that they find out the user has.
    let user = UserName::new(&read_user_name(&start.payload).ok()?, database);
    let known = StoredUser::find(logging_in.writing, &user).ok()?;
    let can_begin = known.is_none_or(|user| user.mechanisms().any(|name| name == start.mechanism));
    if can_begin { begin(logging_in, &start, database, Begun::InHello).ok() } else { None }
}

#[derive(Default)]
struct StartFields {
    mechanism: Option<String>,
    payload: Option<Vec<u8>>,
    skips_empty: bool,
}

impl StartFields {
    fn take(&mut self, field: Field<'_>) -> Result<bool> {
        match field.name() {
            "mechanism" => self.mechanism = field.string()?.map(str::to_owned),
            "payload" => self.payload = Some(payload(field)?),
            // Of old: whether the user is then used for what follows, which is always so.
            "autoAuthorize" if field.boolean()? => {}
            "autoAuthorize" => return Err(field.not_implemented()),
            "options" => {
                for option in field.fields_of("saslStart.options")? {
                    match option.name() {
                        "skipEmptyExchange" => self.skips_empty = option.boolean()?,
                        _ => return Err(option.unknown()),
                    }
                }
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn finish(self) -> Result<Start> {
        Ok(Start {
            mechanism: required(self.mechanism, "saslStart.mechanism")?,
            payload: required(self.payload, "saslStart.payload")?,
            skips_empty: self.skips_empty,
        })
    }
}

/// Bytes, or text that stands for bytes.
fn payload(field: Field<'_>) -> Result<Vec<u8>> {
    let bytes = match field.value() {
        RawBsonRef::Binary(binary) => binary.bytes.to_vec(),
        RawBsonRef::String(text) => {
            STANDARD.decode(text).map_err(|_| CommandError::bad_value("the payload is no base64"))?
        }
        _ => return Err(field.wrong_type("types '[binData, string]'")),
    };
    match bytes.len() <= PAYLOAD_BYTES_MAX {
        true => Ok(bytes),
        false => Err(CommandError::bad_value(format!("the payload is longer than {PAYLOAD_BYTES_MAX} bytes"))),
    }
}

fn begin(logging_in: &mut LoggingIn<'_>, start: &Start, database: &str, begun: Begun) -> Result<(i32, ScramReply)> {
    logging_in.login.conversation = None;
    let mechanism = Mechanism::of_name(&start.mechanism).ok_or_else(|| {
        let message =
            format!("Received authentication for mechanism {} which is unknown or not enabled", start.mechanism);
        CommandError::named("MechanismUnavailable", message)
    })?;
    logging_in.access.logins.count_received(LoginMechanism::Scram(mechanism), begun);
    let name = read_user_name(&start.payload).map_err(|error| CommandError::bad_value(error.to_string()))?;
    let user = UserName::new(&name, database);
    logging_in.login.check_may_log_in(&user)?;
    let (credentials, is_known) = credentials(logging_in, &user, mechanism)?;
    let nonce = logging_in.access.unguessable(24);
    let (scram, said) = ScramConversation::begin(&start.payload, credentials, is_known, &nonce, start.skips_empty)
        .map_err(|error| CommandError::bad_value(error.to_string()))?;
    logging_in.login.conversations = logging_in.login.conversations.wrapping_add(1);
    let id = logging_in.login.conversations;
    logging_in.login.conversation = Some(Box::new(Conversation { id, user, scram, begun }));
    Ok((id, said))
}

/// What is stored of a user, or what one who does not exist seems to have.
fn credentials(logging_in: &LoggingIn<'_>, user: &UserName, mechanism: Mechanism) -> Result<(ScramCredentials, bool)> {
    let LoggingIn { access, writing, .. } = logging_in;
    let decoy = ScramCredentials::decoy(mechanism, access.decoy_secret(), &user.name, &user.database);
    let stored = StoredUser::find_for_login(writing, user)?;
    let known = stored.and_then(|user| user.credentials.into_iter().find(|known| known.mechanism == mechanism));
    Ok(known.map_or((decoy, false), |credentials| (credentials, true)))
}

/// Runs `saslContinue`.
pub(crate) fn run_continue(
    logging_in: &mut LoggingIn<'_>,
    mut arguments: Arguments<'_>,
    reply: &mut DocumentWriter<'_>,
) -> Result<()> {
    let (mut id, mut message) = (None, None);
    for field in arguments.fields() {
        match field.name() {
            "conversationId" => id = field.integer()?,
            "payload" => message = Some(payload(field)?),
            _ => arguments.generic(field)?,
        }
    }
    let id = required(id, "saslContinue.conversationId")?;
    let message = required(message, "saslContinue.payload")?;
    let Some(mut conversation) = logging_in.login.conversation.take() else {
        return Err(CommandError::named("ProtocolError", "No SASL session state found"));
    };
    if i64::from(conversation.id) != id {
        return Err(CommandError::named("ProtocolError", "sasl: Mismatched conversation id"));
    }
    let (client, now) = (address_of(&logging_in.slot.client), logging_in.writing.clock.monotonic());
    if let Some(wait) = logging_in.access.failed.wait(client, &conversation.user, now) {
        logging_in.writing.clock.sleep(wait);
    }
    let said = match conversation.scram.go_on(&message) {
        Ok(said) => said,
        Err(error) => return Err(fail(logging_in, Claim::of(&conversation), &error.to_string())),
    };
    if said.is_done {
        finish(logging_in, Claim::of(&conversation))?;
    }
    write_reply(conversation.id, &said, reply);
    if !said.is_done {
        logging_in.login.conversation = Some(conversation);
    }
    Ok(())
}

/// Who somebody says that he is, and how he shows it.
#[derive(Clone, Copy)]
pub(super) struct Claim<'a> {
    pub(super) user: &'a UserName,
    pub(super) mechanism: LoginMechanism,
    pub(super) begun: Begun,
}

impl<'a> Claim<'a> {
    fn of(conversation: &'a Conversation) -> Self {
        let mechanism = LoginMechanism::Scram(conversation.scram.mechanism());
        Self { user: &conversation.user, mechanism, begun: conversation.begun }
    }
}

/// The user has proved who he is: he is logged in, if he may from there.
pub(super) fn finish(logging_in: &mut LoggingIn<'_>, claim: Claim<'_>) -> Result<()> {
    let user = claim.user;
    let Some(access) = logging_in.access.access(logging_in.writing, user)? else {
        return Err(fail(logging_in, claim, "there is no such user"));
    };
    let client = address_of(&logging_in.slot.client);
    if !access.restrictions.iter().all(|list| list.allow(client, logging_in.login.server_address)) {
        return Err(fail(logging_in, claim, "authentication restrictions unmet"));
    }
    logging_in.auditing().tell_login(user, claim.mechanism.name(), 0)?;
    logging_in.login.log_in(user.clone());
    logging_in.slot.set_user(logging_in.login.user().cloned());
    logging_in.access.failed.note(client, user, logging_in.writing.clock.monotonic(), true);
    logging_in.access.logins.count_successful(claim.mechanism, claim.begun);
    tracing::info!(
        target: "access", log_id = 5_286_306, user = %user, client = logging_in.slot.client,
        mechanism = claim.mechanism.name(), "Successfully authenticated"
    );
    Ok(())
}

/// Notes a failure, and gives what the client is told.
pub(super) fn fail(logging_in: &LoggingIn<'_>, claim: Claim<'_>, reason: &str) -> CommandError {
    let user = claim.user;
    logging_in.access.failed.note(
        address_of(&logging_in.slot.client),
        user,
        logging_in.writing.clock.monotonic(),
        false,
    );
    tracing::warn!(
        target: "access", log_id = 5_286_307, user = %user, client = logging_in.slot.client,
        mechanism = claim.mechanism.name(), reason,
        failures = logging_in.access.failed.failed.load(Ordering::Relaxed), "Failed to authenticate"
    );
    let failed = CommandError::named("AuthenticationFailed", "Authentication failed.");
    logging_in.auditing().tell_login(user, claim.mechanism.name(), failed.code).err().unwrap_or(failed)
}

fn write_reply(id: i32, said: &ScramReply, reply: &mut DocumentWriter<'_>) {
    reply.int32("conversationId", id);
    reply.boolean("done", said.is_done);
    let payload = bson::RawBinaryRef { subtype: bson::spec::BinarySubtype::Generic, bytes: &said.payload };
    reply.value("payload", RawBsonRef::Binary(payload));
}

/// Writes what `hello` says of a login that begins in it.
pub(crate) fn write_begun((id, said): &(i32, ScramReply), reply: &mut DocumentWriter<'_>) {
    reply.document("speculativeAuthenticate", |begun| write_reply(*id, said, begun));
}

/// Runs `logout`.
pub(crate) fn run_logout(
    logging_in: &mut LoggingIn<'_>,
    mut arguments: Arguments<'_>,
    _reply: &mut DocumentWriter<'_>,
) -> Result<()> {
    arguments.fields().try_for_each(|field| arguments.generic(field))?;
    if let Some(user) = logging_in.login.user().cloned() {
        logging_in.auditing().tell("logout", 0, |param| write_logout(&user, param))?;
        logging_in.login.log_out();
        tracing::info!(target: "access", %user, client = logging_in.slot.client, "logged out");
    }
    logging_in.slot.set_user(None);
    Ok(())
}

fn write_logout(user: &UserName, param: &mut DocumentWriter<'_>) {
    param.string("reason", "Client has explicitly logged out");
    param.array("initialUsers", |users| users.push_document(|fields| user.write("user", fields)));
    param.array("updatedUsers", |_| {});
}
