//! `replSetInitiate`: gives the set its first configuration, whose only member is this server, and makes it the primary.
//!
//! Whatever host the configuration names for it is believed: behind a port mapping the server does not know its address from outside, and there is no other member
//! that it could be mistaken for.

use bson::RawBsonRef;

use crate::DocumentWriter;
use crate::handlers::command::Command;
use crate::request::arguments::Arguments;
use crate::request::audit_events;
use crate::request::declaration::{Declaration, Needs, WithoutClient};
use crate::request::error::{CommandError, Result};
use crate::request::privileges::{Action, on_cluster};
use crate::state::replica_set::ReplicaSet;
use crate::state::replica_set::configuration::Configuration;
use crate::state::writing::Writing;

pub(crate) static COMMAND: Command = Command::new(
    |context, arguments, reply| {
        let server = context.server;
        run(&server.replica_set, &server.writing, arguments, reply)?;
        server.topology_changed();
        Ok(())
    },
    Declaration {
        audit: Some(audit_events::as_named),
        is_admin_only: true,
        without_client: WithoutClient::GoesOn,
        ..Declaration::new(
            "replSetInitiate",
            "Begins a replica set of which this server is the only member.",
            Needs::Nothing,
            &[on_cluster(Action::ReplSetConfigure)],
        )
    },
);

/// Runs the command.
pub(crate) fn run(
    replica_set: &ReplicaSet,
    writing: &Writing,
    mut arguments: Arguments<'_>,
    reply: &mut DocumentWriter<'_>,
) -> Result<()> {
    let target = arguments.target().ok_or_else(|| CommandError::bad_value("an empty command"))?;
    for field in arguments.fields() {
        arguments.generic(field)?;
    }
    let facts = replica_set.facts()?;
    match target.value() {
        RawBsonRef::Document(given) if !given.is_empty() => {
            replica_set.initiate(writing, Configuration::parse(given)?)?;
        }
        // What shells send that were given nothing.
        RawBsonRef::Document(_)
        | RawBsonRef::Null
        | RawBsonRef::Undefined
        | RawBsonRef::Boolean(true)
        | RawBsonRef::Int32(1)
        | RawBsonRef::Double(1.0) => {
            replica_set.initiate(writing, Configuration::of_one(&facts.name, facts.host()))?;
            reply.string("info2", "no configuration specified. Using a default configuration for the set");
            reply.string("me", facts.host());
        }
        _ => return Err(target.wrong_type("type 'object'")),
    }
    Ok(())
}
