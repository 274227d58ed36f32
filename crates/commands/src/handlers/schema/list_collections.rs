//! `listCollections`: the collections and views of a database, sorted by name, as a cursor.

use authentication::Target;
use bson::RawDocumentBuf;
use collection::{Collection, check_database_name};

use super::{batch_size, is_wanted, list_filter, write_list};
use crate::DocumentWriter;
use crate::handlers::command::Command;
use crate::handlers::oplog_entries;
use crate::handlers::time_series;
use crate::handlers::views::{self, Definition};
use crate::request::arguments::{Arguments, Field};
use crate::request::command_request::CommandRequest;
use crate::request::declaration::{Declaration, Needs, StableApi};
use crate::request::document_writer::document_of;
use crate::request::error::Result;
use crate::request::privileges::Action;
use crate::request::requirements::Requirements;
use crate::state::client_cursors::CursorWork;
use crate::state::default_concerns;
use crate::state::queries::Queries;
use crate::state::replica_set::ReplicaSet;
use crate::state::rights::Rights;

/// How much is told of each.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Detail {
    NameAndType,
    All,
}

pub(crate) static COMMAND: Command = Command::new(
    |context, arguments, reply| {
        let server = context.server;
        run(server.queries(), &server.replica_set, context.rights(), &context.cursor_work(), arguments, reply)
    },
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
    queries: Queries<'_>,
    replica_set: &ReplicaSet,
    rights: Rights<'_>,
    cursors: &CursorWork<'_>,
    mut arguments: Arguments<'_>,
    reply: &mut DocumentWriter<'_>,
) -> Result<()> {
    let (database, operation) = (rights.database, cursors.operation);
    check_database_name(database)?;
    operation.set_time_limit(arguments.time_limit())?;
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
    let only_own = only_own && !rights.allows(Target::Database(database), Action::ListCollections);
    let mut documents = Vec::new();
    for collection in queries.store.catalog().collections_of(database) {
        operation.check_interrupt()?;
        if default_concerns::is_unlisted(replica_set, collection.namespace().as_str()) {
            continue;
        }
        if let Some(name) = time_series::face_of(&collection)
            && (!only_own || rights.allows_any(Target::Collection(database, &name)))
        {
            let document = describe_series(&name, &collection, detail)?;
            if is_wanted(filter.as_ref(), &document)? {
                documents.push(document);
            }
        }
        if only_own && !rights.allows_any(Target::Collection(database, collection.namespace().collection())) {
            continue;
        }
        let document = describe(&collection, detail)?;
        if is_wanted(filter.as_ref(), &document)? {
            documents.push(document);
        }
    }
    for view in views::all(queries, database)? {
        operation.check_interrupt()?;
        if only_own && !rights.allows_any(Target::Collection(database, view.name())) {
            continue;
        }
        let document = describe_view(&view, detail)?;
        if is_wanted(filter.as_ref(), &document)? {
            documents.push(document);
        }
    }
    let name = |document: &RawDocumentBuf| {
        let name = document::get_field(document, "name").and_then(|name| name.as_str());
        name.unwrap_or_default().to_owned()
    };
    documents.sort_by_cached_key(name);
    if database == "local" && !only_own {
        let document = oplog_entries::description(queries.store)?;
        if is_wanted(filter.as_ref(), &document)? {
            documents.push(document);
        }
    }
    write_list(cursors, &arguments, format!("{database}.$cmd.listCollections"), size, documents, reply)
}

fn describe_view(view: &Definition, detail: Detail) -> Result<RawDocumentBuf> {
    document_of(|document| {
        document.string("name", view.name());
        document.string("type", "view");
        if detail == Detail::All {
            document.embed("options", &view.options());
            document.document("info", |info| info.boolean("readOnly", true));
        }
    })
}

fn describe_series(name: &str, buckets: &Collection, detail: Detail) -> Result<RawDocumentBuf> {
    document_of(|document| {
        document.string("name", name);
        document.string("type", "timeseries");
        if detail == Detail::All {
            document.embed("options", &buckets.definition().options.to_document());
            document.document("info", |info| info.boolean("readOnly", false));
        }
    })
}

fn describe(collection: &Collection, detail: Detail) -> Result<RawDocumentBuf> {
    let definition = collection.definition();
    let id_index = definition.options.id_index()?.to_document();
    document_of(|document| {
        document.string("name", definition.namespace.collection());
        document.string("type", "collection");
        if detail == Detail::All {
            document.embed("options", &definition.options.to_document());
            document.document("info", |info| {
                info.boolean("readOnly", false);
                info.uuid("uuid", collection.uuid());
            });
            // A clustered collection shows it among its options.
            if definition.options.clustered.is_none() {
                document.embed("idIndex", &id_index);
            }
        }
    })
}

/// The documents of `$listClusterCatalog`: all collections and views of a database, or of all databases.
pub(crate) fn catalog(
    queries: Queries<'_>,
    replica_set: &ReplicaSet,
    database: Option<&str>,
    shows_shards: bool,
    check: &dyn Fn() -> Result<()>,
) -> Result<Vec<RawDocumentBuf>> {
    let databases = database.map_or_else(|| queries.store.catalog().databases(), |one| vec![one.to_owned()]);
    let mut found = Vec::new();
    for database in databases {
        for collection in queries.store.catalog().collections_of(&database) {
            check()?;
            if !default_concerns::is_unlisted(replica_set, collection.namespace().as_str()) {
                found.push(catalogued(&database, &describe(&collection, Detail::All)?, shows_shards)?);
            }
        }
        for view in views::all(queries, &database)? {
            check()?;
            found.push(catalogued(&database, &describe_view(&view, Detail::All)?, shows_shards)?);
        }
    }
    Ok(found)
}

/// What `listCollections` says, as `$listClusterCatalog` says it. There are no shards.
fn catalogued(database: &str, described: &RawDocumentBuf, shows_shards: bool) -> Result<RawDocumentBuf> {
    let name = document::get_field(described, "name").and_then(|name| name.as_str()).unwrap_or_default();
    document_of(|document| {
        document.string("ns", &format!("{database}.{name}"));
        document.string("db", database);
        for field in ["type", "idIndex", "options", "info"] {
            if let Some(value) = document::get_field(described, field) {
                document.value(field, value);
            }
        }
        document.boolean("sharded", false);
        if shows_shards {
            document.array("shards", |_| {});
        }
    })
}
