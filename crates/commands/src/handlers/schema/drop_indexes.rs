//! `dropIndexes`: drops indexes by name, by key pattern, or all but the one on `_id` (`"*"`).

use std::cmp::Ordering;

use bson::{RawBsonRef, RawDocument};
use collection::Collection;
use document::{array_elements, compare_documents};
use transaction::{DefinitionScope, WhichIndexes};

use super::{acknowledge, existing_or_series, target_namespace};
use crate::DocumentWriter;
use crate::handlers::command::Command;
use crate::handlers::time_series::TimeSeries;
use crate::handlers::time_series::index_face::bucket_key;
use crate::request::arguments::{Arguments, Field, required};
use crate::request::audit_events;
use crate::request::declaration::{Changes, Declaration, Needs, StableApi, WithoutClient, WriteConcernUse};
use crate::request::error::{CommandError, Result};
use crate::request::privileges::{Action, on_collection};
use crate::state::defining::Defining;

pub(crate) static COMMAND: Command = Command::new(
    |context, arguments, reply| run(&context.defining(), arguments, reply),
    Declaration {
        audit: Some(audit_events::indexes_dropped),
        aliases: &["deleteIndexes"],
        changes: Changes::Stored,
        without_client: WithoutClient::GoesOn,
        write_concern: WriteConcernUse::Taken,
        stable_api: StableApi::Version1,
        ..Declaration::new(
            "dropIndexes",
            "Drops indexes of a collection.",
            Needs::Primary,
            &[on_collection(Action::DropIndex)],
        )
    },
);

/// Runs the command.
pub(crate) fn run(defining: &Defining<'_>, mut arguments: Arguments<'_>, reply: &mut DocumentWriter<'_>) -> Result<()> {
    let namespace = target_namespace(defining.database(), &arguments)?;
    let mut index = None;
    for field in arguments.fields() {
        match field.name() {
            "index" => index = Some(field),
            _ => arguments.generic(field)?,
        }
    }
    let index = required(index, "dropIndexes.index")?;
    defining.operation().set_time_limit(arguments.generic.max_time)?;
    let store = defining.queries().store;
    let missing = || format!("ns not found {namespace}");
    let (collection, series) = existing_or_series(defining.queries(), &namespace, missing)?;
    let stored = collection.namespace();
    let excluded = defining.exclude_transactions(&DefinitionScope::Collections(vec![stored]))?;
    let which = parse_which(index, &collection, series.as_ref())?;
    let (indexes, commit) = store.drop_indexes(&collection, which)?;
    reply.count("nIndexesWas", indexes as u64);
    drop(excluded);
    acknowledge(defining, arguments.generic.write_concern, commit.as_ref(), reply)
}

fn parse_which(index: Field<'_>, collection: &Collection, series: Option<&TimeSeries>) -> Result<WhichIndexes> {
    match index.value() {
        RawBsonRef::String("*") => Ok(WhichIndexes::All),
        RawBsonRef::String(name) => Ok(WhichIndexes::Names(vec![name.to_owned()])),
        RawBsonRef::Array(names) => {
            let name = |value| match value {
                RawBsonRef::String(name) => Ok(name.to_owned()),
                _ => Err(CommandError::type_mismatch("dropIndexes with an array of non-strings is not supported")),
            };
            array_elements(names).map(|element| name(element.value())).collect::<Result<_>>().map(WhichIndexes::Names)
        }
        RawBsonRef::Document(pattern) => match series {
            Some(series) => Ok(by_pattern(&bucket_key(series, pattern)?, collection)),
            None => Ok(by_pattern(pattern, collection)),
        },
        _ => Err(index.wrong_type("types '[string, object, array]'")),
    }
}

/// Finds the index by its pattern as values, so that `{a: 1.0}` names the index on `{a: 1}`.
fn by_pattern(pattern: &RawDocument, collection: &Collection) -> WhichIndexes {
    let indexes = collection.indexes();
    let is_same = |key: &RawDocument| compare_documents(key, pattern) == Ordering::Equal;
    let found = indexes.all().iter().map(|index| index.specification()).find(|found| is_same(&found.key));
    WhichIndexes::KeyPattern(found.map_or_else(|| pattern.to_owned(), |found| found.key.clone()))
}
