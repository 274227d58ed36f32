//! `createIndexes`: builds indexes, and the collection if there is none. Other operations go on meanwhile.

use std::sync::Arc;

use bson::{RawBsonRef, RawDocument};
use collection::{Collection, CollectionError, IndexSpecification, Namespace};
use transaction::{IndexesCreated, check_indexes_of_new};

use super::{acknowledge, check_may_create, target_namespace};
use crate::DocumentWriter;
use crate::handlers::command::Command;
use crate::handlers::time_series::{self, index_face};
use crate::handlers::views;
use crate::request::arguments::{Arguments, Field, required};
use crate::request::audit_events;
use crate::request::declaration::{Changes, Declaration, Needs, SessionUse, StableApi, WithoutClient, WriteConcernUse};
use crate::request::error::{CommandError, Result};
use crate::request::privileges::{Action, on_collection};
use crate::request::write_concern::WriteConcern;
use crate::state::defining::Defining;
use crate::state::replica_set::ReplicaSet;

pub(crate) static COMMAND: Command = Command::new(
    |context, arguments, reply| run(&context.defining(), arguments, reply),
    Declaration {
        audit: Some(audit_events::indexes_created),
        changes: Changes::Stored,
        session_use: SessionUse::InTransaction,
        without_client: WithoutClient::GoesOn,
        write_concern: WriteConcernUse::Taken,
        stable_api: StableApi::Version1,
        ..Declaration::new(
            "createIndexes",
            "Builds indexes of a collection.",
            Needs::Primary,
            &[on_collection(Action::CreateIndex)],
        )
    },
);

/// Runs the command.
pub(crate) fn run(defining: &Defining<'_>, mut arguments: Arguments<'_>, reply: &mut DocumentWriter<'_>) -> Result<()> {
    let namespace = target_namespace(defining.database(), &arguments)?;
    check_may_create(&namespace)?;
    views::refuse(defining.queries(), &namespace)?;
    let is_there = defining.reading().collection(&namespace)?.is_some();
    let series = if is_there {
        None
    } else {
        time_series::to_write(defining.queries(), defining.reading().transaction(), &namespace)?
    };
    defining.operation().set_time_limit(arguments.time_limit())?;
    let (mut listed, mut parse): (_, Parse) = (None, IndexSpecification::parse);
    for field in arguments.fields() {
        match field.name() {
            "indexes" => listed = field.documents()?,
            "commitQuorum" if field.is_null() => {}
            "commitQuorum" => check_quorum(field, defining.acknowledging.replica_set)?,
            "ignoreUnknownIndexOptions" if field.boolean()? => parse = IndexSpecification::parse_known,
            "ignoreUnknownIndexOptions" => {}
            _ => arguments.generic(field)?,
        }
    }
    let listed = required(listed, "createIndexes.indexes")?;
    let mut specifications = Vec::new();
    for specification in listed {
        defining.operation().check_interrupt()?;
        let parsed = match &series {
            Some(series) => parse(&index_face::bucket_specification(series, specification)?)?,
            None => parse(specification)?,
        };
        check_clustered(defining, &namespace, &parsed)?;
        specifications.push(parsed);
    }
    let namespace = series.map_or(namespace, |series| series.collection.namespace());
    if specifications.is_empty() {
        return Err(CommandError::bad_value("Must specify at least one index to create"));
    }
    let Built { collection, created, is_new } = build(defining, &namespace, &specifications)?;
    reply.count("numIndexesBefore", created.before as u64);
    reply.count("numIndexesAfter", created.after as u64);
    if is_new {
        reply.boolean("createdCollectionAutomatically", true);
    }
    if created.before == created.after {
        reply.string("note", "all indexes already exist");
    }
    let asked = arguments.generic.write_concern;
    // What was sorted and written for an index of many documents is not work to do twice after a crash.
    let concern = if collection.counts().documents() > 0 { asked.and_durable() } else { asked };
    acknowledge(defining, concern, created.commit.as_ref(), reply)
}

/// The index of a clustered collection is made with it.
///
/// # Errors
/// `InvalidIndexSpecificationOption`.
fn check_clustered(defining: &Defining<'_>, namespace: &Namespace, specification: &IndexSpecification) -> Result<()> {
    let collection = if specification.clustered { defining.reading().collection(namespace)? } else { return Ok(()) };
    if collection.is_some_and(|collection| collection.definition().options.clustered.is_some()) {
        return Ok(());
    }
    let message = "Cannot create an index with the option 'clustered': create a collection with 'clusteredIndex'";
    Err(CommandError::named("InvalidIndexSpecificationOption", message))
}

/// Refuses what one member is not enough for: it votes, and is the majority.
///
/// # Errors
/// `UnsatisfiableCommitQuorum`, and those of a write concern.
fn check_quorum(field: Field<'_>, replica_set: &ReplicaSet) -> Result<()> {
    if matches!(field.value(), RawBsonRef::String("votingMembers")) {
        return Ok(());
    }
    let unsatisfiable = |error: CommandError| match &*error.code_name {
        "UnsatisfiableWriteConcern" => CommandError::named("UnsatisfiableCommitQuorum", error.message),
        _ => error,
    };
    WriteConcern::of_members(field)?.check_satisfiable(replica_set).map_err(unsatisfiable)
}

/// What was built, and of which collection.
struct Built {
    collection: Arc<Collection>,
    created: IndexesCreated,
    /// Whether the collection was created for it.
    is_new: bool,
}

/// Builds the indexes; once more, when the collection is dropped just before.
fn build(defining: &Defining<'_>, namespace: &Namespace, specifications: &[IndexSpecification]) -> Result<Built> {
    let (store, operation) = (defining.queries().store, defining.operation());
    loop {
        let is_new = defining.reading().collection(namespace)?.is_none();
        if is_new {
            check_indexes_of_new(namespace, specifications)?;
        }
        let collection = defining.changing.collection_or_create(namespace)?;
        let default = collection.definition().options.collator.clone();
        let specifications = specifications.iter().map(|specification| specification.of_collection(default.as_ref()));
        let specifications: Vec<_> = specifications.collect::<std::result::Result<_, _>>()?;
        let created = match defining.reading().transaction() {
            Some(transaction) => store.create_indexes_in_transaction(transaction, &collection, &specifications),
            None => store.create_indexes_unless(&collection, specifications, &|| operation.check_interrupt().is_err()),
        };
        match created {
            Ok(created) => return Ok(Built { collection, created, is_new }),
            Err(error) if error.is_dropped() && !defining.reading().is_in_transaction() => {
                operation.check_interrupt()?
            }
            Err(error) => return Err(super::reason_to_stop(error, operation)),
        }
    }
}

/// How a specification is read.
type Parse = fn(&RawDocument) -> std::result::Result<IndexSpecification, CollectionError>;
