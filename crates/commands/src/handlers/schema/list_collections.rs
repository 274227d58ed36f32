//! `listCollections`: the collections of a database, sorted by name, as a cursor.

use authentication::Target;
use bson::RawDocumentBuf;
use collection::{Collection, IndexSpecification, check_database_name};

use super::{batch_size, is_wanted, list_filter, write_list};
use crate::DocumentWriter;
use crate::handlers::command::Command;
use crate::handlers::oplog_view;
use crate::request::arguments::{Arguments, Field};
use crate::request::command_request::CommandRequest;
use crate::request::declaration::{Declaration, Needs, StableApi};
use crate::request::document_writer::document_of;
use crate::request::error::Result;
use crate::request::privileges::Action;
use crate::request::requirements::Requirements;
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
        computed: Some(needs),
        stable_api: StableApi::Version1,
        ..Declaration::new("listCollections", "Lists the collections of a database.", Needs::Data, &[])
    },
);

/// Who asks for the names of what he may use needs nothing.
fn needs(request: &CommandRequest<'_>, needs: &mut Requirements<'_>) -> Result<()> {
    let is_true = |name| match document::elements(request.body).find(|element| element.name() == name) {
        Some(element) => Field::of("listCollections", element).boolean(),
        None => Ok(false),
    };
    if !(is_true("nameOnly")? && is_true("authorizedCollections")?) {
        needs.need(Target::Database(request.database), Action::ListCollections);
    }
    Ok(())
}

/// Runs the command.
pub(crate) fn run(
    context: &mut Context<'_>,
    mut arguments: Arguments<'_>,
    reply: &mut DocumentWriter<'_>,
) -> Result<()> {
    let database = context.request.database;
    check_database_name(database)?;
    context.operation.set_time_limit(arguments.time_limit())?;
    let (mut filter, mut size, mut detail, mut only_own) = (None, None, Detail::All, false);
    for field in arguments.fields() {
        match field.name() {
            "filter" => filter = list_filter(field)?,
            "nameOnly" => detail = if field.boolean()? { Detail::NameAndType } else { Detail::All },
            "authorizedCollections" => only_own = field.boolean()?,
            "cursor" => size = batch_size(field)?,
            "includePendingDrops" if !field.boolean()? => {}
            "includePendingDrops" => return Err(field.not_implemented()),
            _ => arguments.generic(field)?,
        }
    }
    // Who may list all of them sees all of them.
    let only_own = only_own && !context.allows(Target::Database(database), Action::ListCollections);
    let mut documents = Vec::new();
    for collection in context.server.store.catalog().collections_of(database) {
        context.operation.check_interrupt()?;
        if default_concerns::is_unlisted(&context.server.replica_set, collection.namespace().as_str()) {
            continue;
        }
        if only_own && !context.allows_any(Target::Collection(database, collection.namespace().collection())) {
            continue;
        }
        let document = describe(&collection, detail)?;
        if is_wanted(filter.as_ref(), &document)? {
            documents.push(document);
        }
    }
    if database == "local" && !only_own {
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
