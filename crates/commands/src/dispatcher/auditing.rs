//! What the audit log is told of a command: that it was refused or allowed, and what it has changed.
//!
//! Where the log is strict, there must be room before the command runs, and what cannot be written is not acknowledged.

use collection::access_change_count;

use super::authorization;
use crate::handlers::command::Command;
use crate::handlers::diagnostics::current_op::namespace;
use crate::request::audit_events::write_check;
use crate::request::command_request::CommandRequest;
use crate::request::document_writer::document_of;
use crate::request::error::{CommandError, Result};
use crate::state::audit::Actor;
use crate::state::context::{ClientContext, ServerContext};

/// The code of who may not do something.
const UNAUTHORIZED: i32 = 13;

/// Runs a command that its client may run, and has the audit log told.
pub(super) fn run_allowed<T>(
    server: &ServerContext,
    found: &Command,
    request: &CommandRequest<'_>,
    client: &mut ClientContext,
    run: impl FnOnce(&mut ClientContext) -> Result<T>,
) -> Result<T> {
    let command = &found.declaration;
    let allowed = authorization::check(server, command, request, client);
    if !server.audit.is_on() || client.login.is_server() {
        allowed?;
        return server.access.note_changes(|| run(client));
    }
    tell_check(server, found, request, client, allowed.as_ref().err())?;
    allowed?;
    let audited = command.audit.map(|tell| tell(command, request)).unwrap_or_default();
    if !audited.is_empty() {
        server.audit_trail().prepare()?;
    }
    let before = access_change_count();
    let result = server.access.note_changes(|| run(client));
    let code = result.as_ref().map_or_else(|error| error.code, |_| 0);
    let is_told = !audited.is_empty();
    for event in audited {
        server.audit_trail().write(actor(client), event.kind, &event.param, code)?;
    }
    // Somebody else's change, too, is told twice rather than not at all.
    if !is_told && access_change_count() != before && result.is_ok() {
        let param = document_of(|param| {
            param.string("ns", &namespace(command.name, request.database, Some(request.body)));
            param.string("operation", command.name);
        })?;
        server.audit_trail().write(actor(client), "directAuthMutation", &param, code)?;
    }
    result
}

/// Tells a refusal; what is allowed only where that is asked for.
fn tell_check(
    server: &ServerContext,
    found: &Command,
    request: &CommandRequest<'_>,
    client: &ClientContext,
    refusal: Option<&CommandError>,
) -> Result<()> {
    let code = match refusal {
        Some(error) if error.code == UNAUTHORIZED => UNAUTHORIZED,
        None if server.audit.tells_success() => 0,
        _ => return Ok(()),
    };
    let param = document_of(|param| write_check(&found.declaration, request, param))?;
    server.audit_trail().write(actor(client), "authCheck", &param, code)
}

fn actor(client: &ClientContext) -> Actor<'_> {
    Actor { login: &client.login, client: &client.slot.client }
}
