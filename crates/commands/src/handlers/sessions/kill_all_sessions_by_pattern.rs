//! `killAllSessionsByPattern`: ends the sessions that match one of the patterns `{lsid}`, `{uid}`, `{users}`, `{roles}` or `{}`.
//!
//! A pattern with several of these means sessions that match each. A session is whose command was the first in it since the
//! start of the server; it matches the roles that its owner has now, also by other roles.

use std::collections::HashSet;

use bson::spec::BinarySubtype;
use bson::{RawBsonRef, RawDocument, Uuid};
use document::elements;
use transaction::KnownSession;

use crate::DocumentWriter;
use crate::handlers::command::Command;
use crate::request::arguments::{Arguments, Field};
use crate::request::declaration::{Declaration, Needs, WithoutClient};
use crate::request::error::{CommandError, Result};
use crate::request::privileges::{Action, on_cluster};
use crate::state::access_control::AccessControl;
use crate::state::access_control::names::{RoleName, UserName, read_roles};
use crate::state::session_control::SessionControl;
use crate::state::writing::Writing;

const OWNER: &str = "KillAllSessionsByPattern";
type Digest = [u8; 32];

/// What a session must be to match.
#[derive(Default)]
struct Pattern {
    session: Option<Uuid>,
    digest: Option<Digest>,
    users: Option<HashSet<UserName>>,
    roles: Option<Vec<RoleName>>,
}

pub(crate) static COMMAND: Command = Command::new(
    |context, arguments, reply| {
        let (users, database) = ((&context.server.access, &*context.server.writing), context.request.database);
        run(&context.session_control(), users, database, arguments, reply)
    },
    Declaration {
        without_client: WithoutClient::GoesOn,
        ..Declaration::new(
            "killAllSessionsByPattern",
            "Ends sessions that match.",
            Needs::Nothing,
            &[on_cluster(Action::KillAnySession)],
        )
    },
);

/// Runs the command.
pub(crate) fn run(
    control: &SessionControl<'_>,
    (access, writing): (&AccessControl, &Writing),
    database: &str,
    mut arguments: Arguments<'_>,
    _reply: &mut DocumentWriter<'_>,
) -> Result<()> {
    let target = arguments.target().ok_or_else(|| CommandError::bad_value("an empty command"))?;
    let (mut killed, mut patterns, mut names_all) = (HashSet::new(), Vec::new(), false);
    for source in target.documents()?.into_iter().flatten() {
        control.operation.check_interrupt()?;
        match Pattern::parse(source, database)? {
            Pattern { session: None, digest: None, users: None, roles: None } => names_all = true,
            // Of these there may be very many.
            Pattern { session: Some(session), digest: None, users: None, roles: None } => drop(killed.insert(session)),
            pattern => patterns.push(pattern),
        }
    }
    for field in arguments.fields() {
        arguments.generic(field)?;
    }
    let sessions = control.store.sessions().all();
    killed.retain(|id| control.store.sessions().knows(*id));
    for session in &sessions {
        control.operation.check_interrupt()?;
        if names_all || matches_any((access, writing), &patterns, session)? {
            killed.insert(session.id());
        }
    }
    control.kill(&killed)
}

fn matches_any(users: (&AccessControl, &Writing), patterns: &[Pattern], session: &KnownSession) -> Result<bool> {
    for pattern in patterns {
        if pattern.matches(users, session)? {
            return Ok(true);
        }
    }
    Ok(false)
}

impl Pattern {
    fn parse(source: &RawDocument, database: &str) -> Result<Self> {
        let mut pattern = Self::default();
        for element in elements(source) {
            let field = Field::of(OWNER, element);
            match field.name() {
                "lsid" => pattern.session = field.document()?.map(super::session_id).transpose()?,
                "uid" => pattern.digest = Some(digest(field)?),
                "users" => {
                    let named = field.documents()?.unwrap_or_default();
                    let read =
                        |user: &&RawDocument| UserName::read(OWNER, "user", RawBsonRef::Document(user), database);
                    pattern.users = Some(named.iter().map(read).collect::<Result<_>>()?);
                }
                "roles" => {
                    let read = |array| read_roles(OWNER, array, database);
                    pattern.roles = Some(field.array()?.map(read).transpose()?.unwrap_or_default());
                }
                _ => return Err(field.unknown()),
            }
        }
        Ok(pattern)
    }

    fn matches(&self, (access, writing): (&AccessControl, &Writing), session: &KnownSession) -> Result<bool> {
        if self.session.is_some_and(|id| id != session.id()) {
            return Ok(false);
        }
        let owner = super::owner(session.owner());
        let is_owner = |is: &dyn Fn(&UserName) -> bool| owner.is_some_and(is);
        let is_digest = |digest: &Digest| is_owner(&|user| authentication::hash(&user.to_string()) == *digest);
        if !self.digest.as_ref().is_none_or(is_digest) {
            return Ok(false);
        }
        if !self.users.as_ref().is_none_or(|users| is_owner(&|user| users.contains(user))) {
            return Ok(false);
        }
        let Some(roles) = &self.roles else { return Ok(true) };
        let Some(owner) = owner else { return Ok(false) };
        let access = access.access(writing, owner)?;
        Ok(access.is_some_and(|access| roles.iter().any(|role| access.roles.contains(role))))
    }
}

/// The SHA-256 of `user@database`.
fn digest(field: Field<'_>) -> Result<Digest> {
    let RawBsonRef::Binary(bson::RawBinaryRef { subtype: BinarySubtype::Generic, bytes }) = field.value() else {
        return Err(field.wrong_type("type 'binData' of subtype 0"));
    };
    bytes.try_into().map_err(|_| CommandError::bad_value(format!("{OWNER}.uid: 32 bytes are wanted")))
}
