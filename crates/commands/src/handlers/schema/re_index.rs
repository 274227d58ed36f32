//! `reIndex`: builds all indexes of a collection anew, that on `_id` among them. Other operations go on meanwhile.
//!
//! As in MongoDB only a server that is no member of a replica set does it: members of a set build their indexes by what the oplog says, which has
//! nothing of this.

use super::{acknowledge, existing_collection, reason_to_stop, target_namespace};
use crate::DocumentWriter;
use crate::handlers::command::Command;
use crate::request::arguments::Arguments;
use crate::request::audit_events;
use crate::request::declaration::{Changes, Declaration, Needs, WithoutClient, WriteConcernUse};
use crate::request::error::{CommandError, Result};
use crate::request::privileges::{Action, on_collection};
use crate::state::defining::Defining;

pub(crate) static COMMAND: Command = Command::new(
    |context, arguments, reply| run(&context.defining(), arguments, reply),
    Declaration {
        audit: Some(audit_events::as_named),
        changes: Changes::Stored,
        without_client: WithoutClient::GoesOn,
        write_concern: WriteConcernUse::Taken,
        ..Declaration::new(
            "reIndex",
            "Builds all indexes of a collection anew, beside other clients' reads and writes; not on a member of a replica set.",
            Needs::Primary,
            &[on_collection(Action::ReIndex)],
        )
    },
);

/// Runs the command.
pub(crate) fn run(defining: &Defining<'_>, mut arguments: Arguments<'_>, reply: &mut DocumentWriter<'_>) -> Result<()> {
    let namespace = target_namespace(defining.database(), &arguments)?;
    for field in arguments.fields() {
        arguments.generic(field)?;
    }
    if !defining.acknowledging.replica_set.is_alone() {
        let message = format!(
            "reIndex is only allowed on a standalone server: the indexes of '{namespace}' cannot be rebuilt on a member of a replica set"
        );
        return Err(CommandError::named("IllegalOperation", message));
    }
    defining.operation().set_time_limit(arguments.generic.max_time)?;
    let missing = || format!("collection does not exist: {namespace}");
    let collection = existing_collection(defining.queries(), namespace.as_str(), missing)?;
    let operation = defining.operation();
    let before = collection.indexes().listed().count();
    let rebuilt = defining.queries().store.rebuild_indexes(&collection, &|| operation.check_interrupt().is_err());
    let rebuilt = rebuilt.map_err(|error| reason_to_stop(error, operation))?;
    reply.count("nIndexesWas", before as u64);
    reply.count("nIndexes", rebuilt.indexes.len() as u64);
    reply.array("indexes", |written| {
        rebuilt.indexes.iter().for_each(|specification| written.push(&specification.to_document()));
    });
    acknowledge(defining, arguments.generic.write_concern, Some(&rebuilt.commit), reply)
}
