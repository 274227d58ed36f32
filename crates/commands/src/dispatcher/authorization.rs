//! Whether a client may run a command: asked before anything else is done for it.

use authentication::{PrivilegeSet, Target};
use document::elements;

use crate::registry;
use crate::request::command_request::CommandRequest;
use crate::request::declaration::{Authentication, Declaration};
use crate::request::error::{CommandError, Result};
use crate::request::privileges::{Action, Resource};
use crate::request::requirements::Requirements;
use crate::request::secrets::unauthorized;
use crate::state::context::{ClientContext, ServerContext};

/// Fails unless the client may run the command.
pub(super) fn check(
    server: &ServerContext,
    command: &Declaration,
    request: &CommandRequest<'_>,
    client: &mut ClientContext,
) -> Result<()> {
    let control = &server.access;
    let is_free = !control.is_enforced() || command.authentication == Authentication::NotNeeded;
    if is_free || client.login.is_server() {
        return Ok(());
    }
    let is_user = client.login.access(control, &server.writing)?.is_some();
    let privileges = client.login.find_privileges(control, &server.writing)?;
    let needs_login =
        || CommandError::named("Unauthorized", format!("Command {} requires authentication", command.name));
    let privileges = privileges.ok_or_else(needs_login)?;
    let needs_nothing = command.privileges.is_empty() && command.computed.is_none() && !command.is_about_command;
    match allows(privileges, command, request)? && (is_user || !needs_nothing) {
        true => Ok(()),
        false if is_user => Err(unauthorized(command, request)),
        // The localhost exception is for very little.
        false => Err(needs_login()),
    }
}

fn allows(privileges: &PrivilegeSet, command: &Declaration, request: &CommandRequest<'_>) -> Result<bool> {
    let mut allowed = true;
    tell_needs(command, request, &mut |target, action| allowed &= privileges.allows(target, action))?;
    Ok(allowed)
}

/// Tells everything that a command needs.
pub(crate) fn tell_needs(
    command: &Declaration,
    request: &CommandRequest<'_>,
    take: &mut dyn FnMut(Target<'_>, Action),
) -> Result<()> {
    for privilege in command.privileges {
        take(target(privilege.resource, request), privilege.action);
    }
    if let Some(computed) = command.computed {
        computed(request, &mut Requirements::new(take))?;
    }
    match command.is_about_command {
        true => tell_needs_of_inner(request, take),
        false => Ok(()),
    }
}

/// What the command needs that a command is about.
fn tell_needs_of_inner(request: &CommandRequest<'_>, take: &mut dyn FnMut(Target<'_>, Action)) -> Result<()> {
    let inner = elements(request.body).next().and_then(|element| element.value().as_document());
    let named = inner.and_then(|inner| Some((inner, elements(inner).next()?.name())));
    // What is no command its handler refuses.
    let Some((body, name)) = named else { return Ok(()) };
    let Some(command) = registry::declaration(name).filter(|command| !command.is_about_command) else { return Ok(()) };
    tell_needs(command, &CommandRequest { name, body, ..*request }, take)
}

/// What a declared privilege is about.
fn target<'a>(resource: Resource, request: &CommandRequest<'a>) -> Target<'a> {
    match resource {
        Resource::Cluster => Target::Cluster,
        Resource::Anything => Target::Anything,
        Resource::Database => Target::Database(request.database),
        Resource::Collection => match elements(request.body).next().map(|element| element.value()) {
            Some(bson::RawBsonRef::String(collection)) => Target::Collection(request.database, collection),
            // Of the database as a whole, or none, which its handler refuses.
            _ => Target::Database(request.database),
        },
    }
}

#[cfg(test)]
mod tests;
