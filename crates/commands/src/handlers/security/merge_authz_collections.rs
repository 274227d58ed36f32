//! `_mergeAuthzCollections`: takes in the users and roles of two collections, into which mongorestore has put those of a dump.
//!
//! A user who is there gets the place of the one in the dump. With `drop` those who are in no dump are removed; with `db` all this
//! is about one database. Each document is looked at before any is changed.

use std::collections::HashSet;

use authentication::Target;
use bson::{RawDocument, RawDocumentBuf};

use super::{changed, changing};
use crate::handlers::command::Command;
use crate::request::arguments::{Arguments, Field};
use crate::request::audit_events;
use crate::request::command_request::CommandRequest;
use crate::request::declaration::Declaration;
use crate::request::error::{CommandError, Result};
use crate::request::privileges::Action;
use crate::request::requirements::Requirements;
use crate::state::access_control::names::QualifiedName;
use crate::state::access_control::stored_role::StoredRole;
use crate::state::access_control::stored_user::StoredUser;
use crate::state::access_control::{ROLES, USERS, for_each, put, remove};
use crate::state::accounts::Accounts;

const USERS_FIELD: &str = "tempUsersCollection";
const ROLES_FIELD: &str = "tempRolesCollection";

pub(crate) static COMMAND: Command = Command::new(
    |context, arguments, reply| {
        changed(context.accounts(), context.acknowledging(), arguments, reply, |accounts, arguments, _| {
            run(accounts, arguments)
        })
    },
    Declaration {
        is_admin_only: true,
        computed: Some(needs),
        audit: Some(audit_events::as_named),
        ..changing("_mergeAuthzCollections", "Takes in the users and roles of a dump.")
    },
);

/// To read where they come from, and to write where they go.
fn needs(request: &CommandRequest<'_>, needs: &mut Requirements<'_>) -> Result<()> {
    for element in document::elements(request.body) {
        let stored = match element.name() {
            USERS_FIELD => "system.users",
            ROLES_FIELD => "system.roles",
            _ => continue,
        };
        let from = element.value().as_str().filter(|from| !from.is_empty());
        let Some((database, collection)) = from.and_then(|from| from.split_once('.')) else { continue };
        needs.need_on(database, collection, Action::Find);
        for action in [Action::Insert, Action::Update, Action::Remove] {
            needs.need(Target::Collection("admin", stored), action);
        }
    }
    Ok(())
}

/// Users, or roles.
#[derive(Clone, Copy)]
struct Kind {
    stored: &'static str,
    name: fn(&RawDocument) -> Result<QualifiedName>,
}

const USER: Kind = Kind { stored: USERS, name: |document| Ok(StoredUser::decode(document)?.name) };
const ROLE: Kind = Kind { stored: ROLES, name: |document| Ok(StoredRole::decode(document)?.name) };

#[derive(Default)]
struct Fields<'a> {
    users: Option<&'a str>,
    roles: Option<&'a str>,
    database: Option<&'a str>,
    drops: bool,
}

/// Runs the command.
pub(crate) fn run(accounts: Accounts<'_>, arguments: &mut Arguments<'_>) -> Result<()> {
    let mut fields = Fields::default();
    for field in arguments.fields() {
        match field.name() {
            USERS_FIELD => fields.users = source(field)?,
            ROLES_FIELD => fields.roles = source(field)?,
            "db" => fields.database = field.string()?.filter(|database| !database.is_empty()),
            "drop" => fields.drops = field.boolean()?,
            _ => arguments.generic(field)?,
        }
    }
    if fields.users.is_none() && fields.roles.is_none() {
        let message = format!("Must provide at least one of \"{USERS_FIELD}\" and \"{ROLES_FIELD}\"");
        return Err(CommandError::bad_value(message));
    }
    {
        let _one_at_a_time = accounts.access.changing.lock();
        for (kind, from) in [(USER, fields.users), (ROLE, fields.roles)] {
            if let Some(from) = from {
                take_in(accounts, kind, from, &fields)?;
            }
        }
    }
    Ok(())
}

/// Where they come from; an empty name is nowhere.
fn source<'a>(field: Field<'a>) -> Result<Option<&'a str>> {
    match field.string()? {
        None | Some("") => Ok(None),
        Some(name) if name.contains('.') => Ok(Some(name)),
        Some(name) => Err(CommandError::named("InvalidNamespace", format!("{name} is not a valid namespace name"))),
    }
}

fn take_in(accounts: Accounts<'_>, kind: Kind, from: &str, fields: &Fields<'_>) -> Result<()> {
    let writing = accounts.writing;
    let is_meant = |name: &QualifiedName| fields.database.is_none_or(|database| name.database == database);
    let mut wanted = HashSet::new();
    let mut found: Vec<(String, RawDocumentBuf)> = Vec::new();
    for_each(writing, from, |document| {
        accounts.operation.check_interrupt()?;
        let name = (kind.name)(document)?;
        if is_meant(&name) {
            let is_right = document::get_field(document, "_id").and_then(|id| id.as_str()) == Some(name.id().as_str());
            if !is_right {
                return Err(CommandError::bad_value(format!("the document of {name} in {from} has another _id")));
            }
            wanted.insert(name.id());
            found.push((name.id(), document.to_owned()));
        }
        Ok(())
    })?;
    let mut superfluous = Vec::new();
    if fields.drops {
        for_each(writing, kind.stored, |document| {
            accounts.operation.check_interrupt()?;
            let name = (kind.name)(document)?;
            if is_meant(&name) && !wanted.contains(&name.id()) {
                superfluous.push(name.id());
            }
            Ok(())
        })?;
    }
    for (id, document) in &found {
        accounts.operation.check_interrupt()?;
        put(writing, kind.stored, id, document)?;
    }
    for id in &superfluous {
        accounts.operation.check_interrupt()?;
        remove(writing, kind.stored, id)?;
    }
    let (taken, removed) = (found.len(), superfluous.len());
    tracing::info!(target: "access", from, into = kind.stored, taken, removed, "users or roles of a dump were taken in");
    Ok(())
}
