//! `setParameter`: changes a server parameter while the server runs.

use crate::DocumentWriter;
use crate::handlers::command::Command;
use crate::handlers::schema::take_generic;
use crate::request::arguments::Arguments;
use crate::request::audit_events;
use crate::request::declaration::{Declaration, Needs, WithoutClient};
use crate::request::error::{CommandError, Result};
use crate::request::privileges::{Action, on_cluster};
use crate::state::parameters::{PARAMETERS, ServerParameters};

pub(crate) static COMMAND: Command = Command::new(
    |context, arguments, reply| run(context.server.server_parameters(), arguments, reply),
    Declaration {
        audit: Some(audit_events::as_named),
        is_admin_only: true,
        without_client: WithoutClient::GoesOn,
        ..Declaration::new(
            "setParameter",
            "Changes a server parameter.",
            Needs::Nothing,
            &[on_cluster(Action::SetParameter)],
        )
    },
);

/// Runs the command.
pub(crate) fn run(
    server: ServerParameters<'_>,
    mut arguments: Arguments<'_>,
    reply: &mut DocumentWriter<'_>,
) -> Result<()> {
    let mut changes = Vec::new();
    for field in arguments.fields() {
        if take_generic(&mut arguments, field)? {
            continue;
        }
        let name = field.name();
        let Some(parameter) = PARAMETERS.iter().find(|parameter| parameter.name == name) else {
            let message = format!("attempted to set unrecognized parameter [{name}], use help:true to see options ");
            return Err(CommandError::named("InvalidOptions", message));
        };
        let Some(set) = parameter.set else {
            return Err(CommandError::named("IllegalOperation", format!("not allowed to change [{name}] at runtime")));
        };
        changes.push((parameter, set, field));
    }
    if changes.is_empty() {
        return Err(CommandError::named("InvalidOptions", "no option found to set"));
    }
    for (parameter, set, field) in changes {
        let mut before = Vec::new();
        let mut writer = DocumentWriter::begin(&mut before);
        server.write(parameter, "was", &mut writer);
        writer.finish();
        server.change(set, field)?;
        document::elements_of_bytes(&before).for_each(|element| reply.element(element));
    }
    Ok(())
}
