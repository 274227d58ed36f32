//! `setParameter`: changes a server parameter while the server runs.

use crate::DocumentWriter;
use crate::handlers::schema::take_generic;
use crate::request::arguments::Arguments;
use crate::request::error::{CommandError, Result};
use crate::state::context::Context;
use crate::state::parameters::PARAMETERS;

/// Runs the command.
pub(crate) fn run(
    context: &mut Context<'_>,
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
        (parameter.read)(context.server, "was", &mut writer);
        writer.finish();
        set(context.server, field)?;
        document::elements_of_bytes(&before).for_each(|element| reply.element(element));
    }
    Ok(())
}
