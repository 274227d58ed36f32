//! `replSetReconfig`: another configuration: the member's address, priority and tags, and the settings.

use bson::RawDocument;

use crate::DocumentWriter;
use crate::handlers::command::Command;
use crate::request::arguments::{Arguments, Field};
use crate::request::audit_events;
use crate::request::declaration::{Declaration, Needs, WithoutClient, WriteConcernUse};
use crate::request::error::{CommandError, Result};
use crate::request::privileges::{Action, on_cluster};
use crate::state::operations::Operation;
use crate::state::replica_set::ReplicaSet;
use crate::state::replica_set::configuration::Configuration;
use crate::state::writing::Writing;

/// By how much a forced configuration is newer: so that it goes before any that others may have made meanwhile.
const FORCED_VERSIONS: i32 = 10_000;

pub(crate) static COMMAND: Command = Command::new(
    |context, arguments, reply| {
        let server = context.server;
        run(&server.replica_set, &server.writing, &context.operation, arguments, reply)?;
        server.topology_changed();
        Ok(())
    },
    Declaration {
        audit: Some(audit_events::as_named),
        is_admin_only: true,
        without_client: WithoutClient::GoesOn,
        write_concern: WriteConcernUse::Taken,
        ..Declaration::new(
            "replSetReconfig",
            "Changes the member's address, priority and tags, and the settings.",
            Needs::Nothing,
            &[on_cluster(Action::ReplSetConfigure)],
        )
    },
);

/// Runs the command.
pub(crate) fn run(
    replica_set: &ReplicaSet,
    writing: &Writing,
    operation: &Operation<'_>,
    mut arguments: Arguments<'_>,
    _reply: &mut DocumentWriter<'_>,
) -> Result<()> {
    let target = arguments.target().ok_or_else(|| CommandError::bad_value("an empty command"))?;
    let mut is_forced = false;
    for field in arguments.fields() {
        match field.name() {
            "force" => is_forced = field.boolean()?,
            _ => arguments.generic(field)?,
        }
    }
    operation.set_time_limit(arguments.generic.max_time)?;
    replica_set.initiated()?;
    let given: &RawDocument = target.required(Field::document)?;
    if replica_set.is_secondary() {
        return Err(CommandError::named(
            "NotWritablePrimary",
            "replSetReconfig should only be run on a writable primary",
        ));
    }
    let (new, gone) = match replica_set.members() {
        Some(members) => Configuration::parse_of_members(given, &members.look(), members.address())?,
        None => (Configuration::parse(given)?, Vec::new()),
    };
    let of_several = replica_set.members().is_some();
    replica_set.reconfigure(writing, |old| {
        // Members of a set with a log are told by their places in the list, which change.
        let new = if of_several { new.with_member_number(old) } else { new };
        succeed(old, new, is_forced)
    })?;
    for host in gone {
        let forgotten = replica_set.members().map_or(Ok(()), |members| members.withdraw(&host));
        forgotten.map_err(|reason| CommandError::named("HostUnreachable", reason))?;
    }
    Ok(())
}

/// The new configuration, if it may follow the old one.
fn succeed(old: &Configuration, mut new: Configuration, is_forced: bool) -> Result<Configuration> {
    let (name, before, after) = (&old.name, old.version, new.version);
    if is_forced {
        new.version = before.max(after).saturating_add(FORCED_VERSIONS);
    } else if after <= before {
        return Err(incompatible(format!(
            "New replica set configuration version must be greater than old, but {after} is not greater than {before} for replica set {name}"
        )));
    }
    if new.name != *name {
        let message =
            format!("New and old configurations differ in replica set name; old was {name}, and new is {}", new.name);
        return Err(incompatible(message));
    }
    if let (Some(old_id), Some(new_id)) = (old.id(), new.id())
        && old_id != new_id
    {
        let message =
            format!("New and old configurations differ in replica set ID; old was {old_id}, and new is {new_id}");
        return Err(incompatible(message));
    }
    if new.member.host == old.member.host && new.member.id() != old.member.id() {
        let (host, old_id, new_id) = (&new.member.host, old.member.id(), new.member.id());
        return Err(incompatible(format!(
            "New and old configurations both have members with host of {host} but in the new configuration the _id field is {new_id} and in the old \
             configuration it is {old_id} for replica set {name}"
        )));
    }
    Ok(match old.id() {
        Some(id) => new.with_id(id),
        None => new,
    })
}

fn incompatible(message: String) -> CommandError {
    CommandError::named("NewReplicaSetConfigurationIncompatible", message)
}
