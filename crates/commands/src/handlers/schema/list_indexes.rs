//! `listIndexes`: the indexes of a collection as a cursor. Those still being built are not listed.

use bson::RawDocumentBuf;
use bson::raw::cstr;
use collection::{CollectionOptions, IndexSpecification};

use super::{batch_size, existing_or_series, target_namespace, write_list};
use crate::DocumentWriter;
use crate::handlers::command::Command;
use crate::handlers::time_series::index_face;
use crate::request::arguments::Arguments;
use crate::request::declaration::{Declaration, Needs, StableApi};
use crate::request::error::Result;
use crate::request::privileges::{Action, on_collection};
use crate::state::client_cursors::CursorWork;
use crate::state::reading::Reading;

pub(crate) static COMMAND: Command = Command::new(
    |context, arguments, reply| run(context.reading(), &context.cursor_work(), arguments, reply),
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
    reading: Reading<'_>,
    cursors: &CursorWork<'_>,
    mut arguments: Arguments<'_>,
    reply: &mut DocumentWriter<'_>,
) -> Result<()> {
    let namespace = target_namespace(reading.database, &arguments)?;
    let mut size = None;
    for field in arguments.fields() {
        match field.name() {
            "cursor" => size = batch_size(field)?,
            "includeBuildUUIDs" | "includeIndexBuildInfo" if !field.boolean()? => {}
            "includeBuildUUIDs" | "includeIndexBuildInfo" => return Err(field.not_implemented()),
            _ => arguments.generic(field)?,
        }
    }
    cursors.operation.set_time_limit(arguments.generic.max_time)?;
    let missing = || format!("ns does not exist: {namespace}");
    let (collection, series) = existing_or_series(reading.queries, &namespace, missing)?;
    let (indexes, definition) = (collection.indexes(), collection.definition());
    let shown = |index: &IndexSpecification| match &series {
        Some(series) => index_face::shown(series, index),
        None => Some(shown_index(index, &definition.options)),
    };
    let documents = indexes.complete().filter_map(|index| shown(index.specification())).collect();
    write_list(cursors, &arguments, namespace.as_str().to_owned(), size, documents, reply)
}

/// The index of a clustered collection says when documents expire, which is an option of the collection.
fn shown_index(index: &IndexSpecification, options: &CollectionOptions) -> RawDocumentBuf {
    let mut shown = index.to_document();
    if let (true, Some(seconds)) = (index.clustered, options.expire_after_seconds) {
        shown.append(cstr!("expireAfterSeconds"), seconds);
    }
    shown
}
