//! `removeQuerySettings`: takes back what `setQuerySettings` has said of a shape of query.

use super::set_query_settings::{Named, named};
use crate::handlers::command::Command;
use crate::request::arguments::Arguments;
use crate::request::audit_events;
use crate::request::declaration::{Declaration, Needs, WithoutClient};
use crate::request::error::{CommandError, Result};
use crate::request::privileges::{Action, on_cluster};
use crate::state::reading::Reading;
use crate::state::writing::Writing;

pub(crate) static COMMAND: Command = Command::new(
    |context, arguments, _| run(context.reading(), &context.server.writing, arguments),
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
pub(crate) fn run(reading: Reading<'_>, writing: &Writing, mut arguments: Arguments<'_>) -> Result<()> {
    for field in arguments.fields() {
        arguments.generic(field)?;
    }
    let hash = match named(reading, arguments.target())? {
        Named::Hash(hash) => hash.to_owned(),
        Named::Query(_, shape) => shape.hash(),
    };
    if !reading.settings.remove(writing, &hash)? {
        return Err(CommandError::numbered(7_746_701, "A matching query settings entry does not exist"));
    }
    reading.queries.plan_cache.clear();
    Ok(())
}
