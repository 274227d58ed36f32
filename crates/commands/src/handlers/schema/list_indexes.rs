//! `listIndexes`: the indexes of a collection as a cursor. Those still being built are not listed.

use super::{batch_size, existing_collection, target_namespace, write_list};
use crate::DocumentWriter;
use crate::handlers::command::Command;
use crate::request::arguments::Arguments;
use crate::request::declaration::{Declaration, Needs, StableApi};
use crate::request::error::Result;
use crate::request::privileges::{Action, on_collection};
use crate::state::context::Context;

pub(crate) static COMMAND: Command = Command::new(
    run,
    Declaration {
        stable_api: StableApi::Version1,
        ..Declaration::new(
            "listIndexes",
            "Lists the indexes of a collection.",
            Needs::Data,
            &[on_collection(Action::ListIndexes)],
        )
    },
);

/// Runs the command.
pub(crate) fn run(
    context: &mut Context<'_>,
    mut arguments: Arguments<'_>,
    reply: &mut DocumentWriter<'_>,
) -> Result<()> {
    let namespace = target_namespace(context, &arguments)?;
    let mut size = None;
    for field in arguments.fields() {
        match field.name() {
            "cursor" => size = batch_size(field)?,
            "includeBuildUUIDs" | "includeIndexBuildInfo" if !field.boolean()? => {}
            "includeBuildUUIDs" | "includeIndexBuildInfo" => return Err(field.not_implemented()),
            _ => arguments.generic(field)?,
        }
    }
    context.operation.set_time_limit(arguments.generic.max_time)?;
    let missing = || format!("ns does not exist: {namespace}");
    let collection = existing_collection(context.server, namespace.as_str(), missing)?;
    let indexes = collection.indexes();
    let documents = indexes.complete().map(|index| index.specification().to_document()).collect();
    write_list(context, &arguments, namespace.as_str().to_owned(), size, documents, reply)
}
