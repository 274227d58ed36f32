//! Making collections, indexes and views on the target. Called by `copy`.

use bson::{Bson, Document, doc};
use mongodb::Client;

use crate::catalog::{Kind, Listed};
use crate::error::{CopyError, reason};
use crate::report::Report;

/// Of a listed index, what `createIndexes` does not take.
const NOT_OF_DEFINITIONS: &[&str] = &["v", "ns", "background", "prepareUnique"];
/// Of listed options, what `create` does not take.
const NOT_OF_CREATION: &[&str] = &["uuid", "autoIndexId", "flags"];
const NAMESPACE_EXISTS: i32 = 48;

/// Makes an empty collection as the source's is. Whether it could be made: if not, the report says why.
pub(crate) async fn create(target: &Client, listed: &Listed, report: &mut Report) -> Result<bool, CopyError> {
    let mut command = doc! { "create": &listed.target.name };
    for (name, value) in &listed.options {
        if !NOT_OF_CREATION.contains(&name.as_str()) {
            command.insert(name, value.clone());
        }
    }
    match target.database(&listed.target.database).run_command(command).await {
        Ok(_) => Ok(true),
        Err(error) if code(&error) == Some(NAMESPACE_EXISTS) => Ok(true),
        Err(error) if code(&error).is_some() => {
            report.left(listed.namespace(), format!("it could not be created: {}", reason(&error)));
            Ok(false)
        }
        Err(error) => Err(CopyError::command(format!("create {}", listed.namespace()))(error)),
    }
}

/// Builds the indexes of a collection, all at once if that goes, otherwise one by one, so that one that is refused costs no other.
pub(crate) async fn build_indexes(target: &Client, listed: &Listed, report: &mut Report) -> Result<(), CopyError> {
    let indexes: Vec<Document> = listed.indexes.iter().map(definition).collect();
    if indexes.is_empty() {
        return Ok(());
    }
    let database = target.database(&listed.target.database);
    let build = |indexes: &[Document]| doc! { "createIndexes": &listed.target.name, "indexes": indexes.to_vec() };
    if database.run_command(build(&indexes)).await.is_ok() {
        report.indexes += indexes.len() as u64;
        return Ok(());
    }
    for index in &indexes {
        match database.run_command(build(std::slice::from_ref(index))).await {
            Ok(_) => report.indexes += 1,
            Err(error) if code(&error).is_some() => {
                let name = index.get_str("name").unwrap_or_default();
                report.left(format!("{}, index {name}", listed.namespace()), reason(&error));
            }
            Err(error) => return Err(CopyError::command(format!("build indexes of {}", listed.namespace()))(error)),
        }
    }
    Ok(())
}

fn definition(listed: &Document) -> Document {
    listed
        .iter()
        .filter(|(name, _)| !NOT_OF_DEFINITIONS.contains(&name.as_str()))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}

/// Makes a view. Those that views stand on may come later: a view may stand on nothing.
pub(crate) async fn create_view(target: &Client, listed: &Listed, report: &mut Report) -> Result<(), CopyError> {
    debug_assert_eq!(listed.kind, Kind::View);
    if create(target, listed, report).await? {
        report.views += 1;
    }
    Ok(())
}

/// How many documents the target has of this name, to begin with.
pub(crate) async fn is_empty(target: &Client, listed: &Listed) -> Result<bool, CopyError> {
    let collection = target.database(&listed.target.database).collection::<Document>(&listed.target.name);
    let found = collection.find_one(doc! {}).projection(doc! { "_id": 1 }).await;
    Ok(found.map_err(CopyError::command(format!("look into {} of the target", listed.target.namespace())))?.is_none())
}

pub(crate) async fn drop(target: &Client, listed: &Listed) -> Result<(), CopyError> {
    let collection = target.database(&listed.target.database).collection::<Document>(&listed.target.name);
    collection.drop().await.map_err(CopyError::command(format!("drop {} of the target", listed.target.namespace())))
}

pub(crate) fn code(error: &mongodb::error::Error) -> Option<i32> {
    match error.kind.as_ref() {
        mongodb::error::ErrorKind::Command(refusal) => Some(refusal.code),
        _ => None,
    }
}

/// The same index, whatever order its options are listed in: for comparing both sides.
pub(crate) fn comparable(index: &Document) -> (String, Vec<(String, Bson)>) {
    let mut options: Vec<(String, Bson)> =
        definition(index).into_iter().filter(|(name, _)| name != "name" && name != "key").collect();
    options.sort_by(|left, right| left.0.cmp(&right.0));
    let key = index.get_document("key").map(ToString::to_string).unwrap_or_default();
    (format!("{} {key}", index.get_str("name").unwrap_or_default()), options)
}
