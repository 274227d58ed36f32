//! `listCollections`: the collections of a database, sorted by name, as a cursor.

use bson::RawDocumentBuf;
use collection::{Collection, IndexSpecification, check_database_name};

use super::{batch_size, is_wanted, list_filter, write_list};
use crate::DocumentWriter;
use crate::handlers::command::Command;
use crate::handlers::oplog_view;
use crate::request::arguments::Arguments;
use crate::request::declaration::{Declaration, Needs, StableApi};
use crate::request::document_writer::document_of;
use crate::request::error::Result;
use crate::request::privileges::{Action, on_database};
use crate::state::context::Context;
use crate::state::default_concerns;

/// How much is told of each.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Detail {
    NameAndType,
    All,
}

pub(crate) static COMMAND: Command = Command::new(
    run,
    Declaration {
        stable_api: StableApi::Version1,
        ..Declaration::new(
            "listCollections",
            "Lists the collections of a database.",
            Needs::Data,
            &[on_database(Action::ListCollections)],
        )
    },
);

/// Runs the command.
pub(crate) fn run(
    context: &mut Context<'_>,
    mut arguments: Arguments<'_>,
    reply: &mut DocumentWriter<'_>,
) -> Result<()> {
    let database = context.request.database;
    check_database_name(database)?;
    context.operation.set_time_limit(arguments.time_limit())?;
    let (mut filter, mut size, mut detail) = (None, None, Detail::All);
    for field in arguments.fields() {
        match field.name() {
            "filter" => filter = list_filter(field)?,
            "nameOnly" => detail = if field.boolean()? { Detail::NameAndType } else { Detail::All },
            // Without access control everybody is authorized for everything.
            "authorizedCollections" => drop(field.boolean()?),
            "cursor" => size = batch_size(field)?,
            "includePendingDrops" if !field.boolean()? => {}
            "includePendingDrops" => return Err(field.not_implemented()),
            _ => arguments.generic(field)?,
        }
    }
    let mut documents = Vec::new();
    for collection in context.server.store.catalog().collections_of(database) {
        context.operation.check_interrupt()?;
        if default_concerns::is_unlisted(&context.server.replica_set, collection.namespace().as_str()) {
            continue;
        }
        let document = describe(&collection, detail)?;
        if is_wanted(filter.as_ref(), &document)? {
            documents.push(document);
        }
    }
    if database == "local" {
        let document = oplog_view::description(context.server)?;
        if is_wanted(filter.as_ref(), &document)? {
            documents.push(document);
        }
    }
    write_list(context, &arguments, format!("{database}.$cmd.listCollections"), size, documents, reply)
}

fn describe(collection: &Collection, detail: Detail) -> Result<RawDocumentBuf> {
    let definition = collection.definition();
    let id_index = IndexSpecification::id_index()?.to_document();
    document_of(|document| {
        document.string("name", definition.namespace.collection());
        document.string("type", "collection");
        if detail == Detail::All {
            document.embed("options", &definition.options.to_document());
            document.document("info", |info| {
                info.boolean("readOnly", false);
                info.uuid("uuid", collection.uuid());
            });
            document.embed("idIndex", &id_index);
        }
    })
}
