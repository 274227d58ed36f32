//! `removeQuerySettings`: takes back what `setQuerySettings` has said of a shape of query.

use super::set_query_settings::{Named, named};
use crate::DocumentWriter;
use crate::handlers::command::Command;
use crate::request::arguments::Arguments;
use crate::request::audit_events;
use crate::request::declaration::{Declaration, Needs, WithoutClient};
use crate::request::error::{CommandError, Result};
use crate::request::privileges::{Action, on_cluster};
use crate::state::context::Context;

pub(crate) static COMMAND: Command = Command::new(
    run,
    Declaration {
        audit: Some(audit_events::as_named),
        is_admin_only: true,
        without_client: WithoutClient::GoesOn,
        ..Declaration::new(
            "removeQuerySettings",
            "Takes back what has been said of queries of a shape.",
            Needs::Primary,
            &[on_cluster(Action::QuerySettings)],
        )
    },
);

/// Runs the command.
pub(crate) fn run(
    context: &mut Context<'_>,
    mut arguments: Arguments<'_>,
    _reply: &mut DocumentWriter<'_>,
) -> Result<()> {
    for field in arguments.fields() {
        arguments.generic(field)?;
    }
    let hash = match named(context, arguments.target())? {
        Named::Hash(hash) => hash.to_owned(),
        Named::Query(_, shape) => shape.hash(),
    };
    let server = context.server;
    if !server.query_settings.remove(&server.writing, &hash)? {
        return Err(CommandError::numbered(7_746_701, "A matching query settings entry does not exist"));
    }
    server.plan_cache.clear();
    Ok(())
}
