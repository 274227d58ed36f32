//! Operations on collections and indexes: each is the command of the same name, run inside this one, in the form that commands have.
//!
//! What is as it should be already is no error: a dropped collection that is not there, an index that is.

use bson::{RawBsonRef, RawDocument, RawDocumentBuf, Uuid, rawdoc};
use collection::{CollectionOptions, Namespace};
use document::{elements, get_field};
use transaction::Store;

use super::{Applying, without};
use crate::handlers::schema::check_may_create;
use crate::request::document_writer::document_of;
use crate::request::error::{CommandError, Result};

/// Does what a command entry says.
pub(super) fn apply(applying: &Applying<'_>, namespace: &str, uuid: Option<Uuid>, object: &RawDocument) -> Result<()> {
    let database = namespace.strip_suffix(".$cmd").filter(|database| !database.is_empty()).ok_or_else(|| {
        CommandError::named(
            "InvalidNamespace",
            format!("the ns of a command must end in .$cmd, which '{namespace}' does not"),
        )
    })?;
    let first = elements(object).next().ok_or_else(|| CommandError::failed_to_parse("an empty command"))?;
    let fine: &[&str] = match first.name() {
        "create" => return create(applying, database, uuid, object),
        "drop" => &["NamespaceNotFound"],
        "dropDatabase" => &["NamespaceNotFound"],
        "createIndexes" | "commitIndexBuild" => &["IndexAlreadyExists"],
        "dropIndexes" | "deleteIndexes" => &["NamespaceNotFound", "IndexNotFound"],
        "collMod" => &["NamespaceNotFound", "IndexNotFound"],
        "renameCollection" => &["NamespaceNotFound", "NamespaceExists"],
        "convertToCapped" => &[],
        "startIndexBuild" | "abortIndexBuild" | "commitTransaction" | "abortTransaction" | "emptycapped" => {
            let message = format!("{} is not supported in applyOps", first.name());
            return Err(CommandError::named("CommandNotSupported", message));
        }
        other => return Err(CommandError::bad_value(format!("Invalid key '{other}' found in 'o' field"))),
    };
    let name = collection_name(&applying.changing.writing.store, uuid, first.value(), database)?;
    let (database, command) = match first.name() {
        "createIndexes" => (database, create_index(&name, object)?),
        "commitIndexBuild" => (database, create_indexes(&name, object)?),
        "renameCollection" => ("admin", rename(&name, object)?),
        "dropDatabase" => (database, rawdoc! { "dropDatabase": 1 }),
        other => (database, renamed(other, &name, object)?),
    };
    match applying.commands.run_inside(applying.changing.operation, database, &command) {
        Err(error) if fine.contains(&error.code_name.as_ref()) => Ok(()),
        outcome => outcome,
    }
}

/// The collection that the entry names, or has the identity of; a rename has a whole namespace.
fn collection_name(store: &Store, uuid: Option<Uuid>, value: RawBsonRef<'_>, database: &str) -> Result<String> {
    let RawBsonRef::String(named) = value else { return Ok(String::new()) };
    let found = uuid.and_then(|uuid| store.catalog().lookup_uuid(uuid));
    let found = found.map(|collection| collection.namespace()).filter(|namespace| namespace.database() == database);
    let is_whole = named.starts_with(&format!("{database}."));
    Ok(match found {
        Some(namespace) if is_whole => namespace.as_str().to_owned(),
        Some(namespace) => namespace.collection().to_owned(),
        None => named.to_owned(),
    })
}

/// Creates a collection, with the identity that the entry gives it.
fn create(applying: &Applying<'_>, database: &str, uuid: Option<Uuid>, object: &RawDocument) -> Result<()> {
    let named = get_field(object, "create").and_then(|name| name.as_str());
    let name = named.ok_or_else(|| CommandError::type_mismatch("'create' has to be the name of a collection"))?;
    let Some(uuid) = uuid else {
        return match applying.commands.run_inside(applying.changing.operation, database, object) {
            Err(error) if error.code_name == "NamespaceExists" => Ok(()),
            outcome => outcome,
        };
    };
    let namespace = Namespace::new(database, name)?;
    check_may_create(&namespace)?;
    let options = CollectionOptions::parse(&without(object, &["create", "idIndex"])?)?;
    let store = &applying.changing.writing.store;
    if store.catalog().lookup(namespace.as_str()).is_some_and(|existing| existing.uuid() == uuid) {
        return Ok(());
    }
    store.create_collection_as(&namespace, uuid, options)?;
    Ok(())
}

/// `{createIndexes: name, v, key, name, ...}`, as an entry has it, as the command has it.
fn create_index(name: &str, object: &RawDocument) -> Result<RawDocumentBuf> {
    if get_field(object, "indexes").is_some() {
        return renamed("createIndexes", name, object);
    }
    let specification = without(object, &["createIndexes", "ns"])?;
    Ok(rawdoc! { "createIndexes": name, "indexes": [specification] })
}

/// The indexes of a build that was committed.
fn create_indexes(name: &str, object: &RawDocument) -> Result<RawDocumentBuf> {
    let Some(RawBsonRef::Array(indexes)) = get_field(object, "indexes") else {
        return Err(CommandError::bad_value("commitIndexBuild needs its 'indexes'"));
    };
    document_of(|command| {
        command.string("createIndexes", name);
        command.value("indexes", RawBsonRef::Array(indexes));
    })
}

/// The collection that an entry drops is named by its identity; a command only says that it may be dropped.
fn rename(from: &str, object: &RawDocument) -> Result<RawDocumentBuf> {
    let drops = match get_field(object, "dropTarget") {
        Some(RawBsonRef::Boolean(drops)) => drops,
        Some(RawBsonRef::Binary(_)) => true,
        _ => false,
    };
    let to = get_field(object, "to").and_then(|to| to.as_str());
    let to = to.ok_or_else(|| CommandError::bad_value("renameCollection needs 'to'"))?;
    Ok(rawdoc! { "renameCollection": from, "to": to, "dropTarget": drops })
}

/// The command with the name that the collection has here.
fn renamed(command: &str, name: &str, object: &RawDocument) -> Result<RawDocumentBuf> {
    document_of(|document| {
        document.string(command, name);
        elements(object).skip(1).for_each(|field| document.element(field));
    })
}
