//! `startSession`: begins a session and tells its id. Drivers make the ids themselves; this is for those who do not.

use crate::DocumentWriter;
use crate::request::arguments::Arguments;
use crate::request::error::Result;
use crate::state::context::Context;

/// Runs the command.
pub(crate) fn run(
    context: &mut Context<'_>,
    mut arguments: Arguments<'_>,
    reply: &mut DocumentWriter<'_>,
) -> Result<()> {
    for field in arguments.fields() {
        arguments.generic(field)?;
    }
    let session = context.server.store.catalog().new_uuid();
    context.server.store.sessions().refresh(session)?;
    reply.document("id", |id| id.uuid("id", session));
    reply.int32("timeoutMinutes", super::TIMEOUT_MINUTES);
    Ok(())
}
