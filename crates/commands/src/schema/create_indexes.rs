//! `createIndexes`: builds indexes, and the collection if there is none. Other operations go on meanwhile.

use bson::{RawBsonRef, RawDocument};
use collection::{CollectionError, IndexSpecification};

use super::{acknowledge, check_may_create, missing_field, target_namespace};
use crate::DocumentWriter;
use crate::arguments::Arguments;
use crate::context::Context;
use crate::error::{CommandError, Result};

/// Runs the command.
pub(crate) fn run(
    context: &mut Context<'_>,
    mut arguments: Arguments<'_>,
    reply: &mut DocumentWriter<'_>,
) -> Result<()> {
    let namespace = target_namespace(context, &arguments)?;
    check_may_create(&namespace)?;
    let (mut listed, mut parse): (_, Parse) = (None, IndexSpecification::parse);
    for field in arguments.fields() {
        match field.name() {
            "indexes" => listed = Some(field.documents()?),
            "commitQuorum" if !matches!(field.value(), RawBsonRef::Null) => {
                return Err(CommandError::bad_value("Standalones can't specify commitQuorum"));
            }
            "commitQuorum" => {}
            "ignoreUnknownIndexOptions" if field.boolean()? => parse = IndexSpecification::parse_known,
            "ignoreUnknownIndexOptions" => {}
            _ => arguments.generic(field)?,
        }
    }
    let listed = listed.ok_or_else(|| missing_field("createIndexes", "indexes"))?;
    let specifications: Vec<_> = listed.into_iter().map(parse).collect::<std::result::Result<_, _>>()?;
    if specifications.is_empty() {
        return Err(CommandError::bad_value("Must specify at least one index to create"));
    }
    let store = &context.server.store;
    let is_new = context.collection(&namespace).is_none();
    let collection = context.collection_or_create(&namespace)?;
    context.operation.set_time_limit(arguments.generic.max_time)?;
    let operation = &context.operation;
    let created = match context.session.transaction() {
        Some(transaction) => store.create_indexes_in_transaction(transaction, &collection, &specifications)?,
        None => store
            .create_indexes_unless(&collection, specifications, &|| operation.check_interrupt().is_err())
            .map_err(|error| super::reason_to_stop(error, operation))?,
    };
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
    acknowledge(context, concern, created.commit.as_ref(), reply)
}

/// How a specification is read.
type Parse = fn(&RawDocument) -> std::result::Result<IndexSpecification, CollectionError>;
