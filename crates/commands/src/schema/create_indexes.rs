//! `createIndexes`: builds indexes, and the collection if there is none. Other operations go on meanwhile.

use bson::RawBsonRef;
use collection::IndexSpecification;

use super::{acknowledge, check_may_create, missing_field, target_namespace};
use crate::DocumentWriter;
use crate::arguments::{Arguments, Field};
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
    let mut specifications = None;
    for field in arguments.fields() {
        match field.name() {
            "indexes" => specifications = Some(parse_specifications(field)?),
            "commitQuorum" if !matches!(field.value(), RawBsonRef::Null) => {
                return Err(CommandError::bad_value("Standalones can't specify commitQuorum"));
            }
            "commitQuorum" => {}
            "ignoreUnknownIndexOptions" if !field.boolean()? => {}
            "ignoreUnknownIndexOptions" => return Err(field.not_implemented()),
            _ => arguments.generic(field)?,
        }
    }
    let specifications = specifications.ok_or_else(|| missing_field("createIndexes", "indexes"))?;
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

fn parse_specifications(field: Field<'_>) -> Result<Vec<IndexSpecification>> {
    let parse = |document| IndexSpecification::parse(document).map_err(CommandError::from);
    field.documents()?.into_iter().map(parse).collect()
}
