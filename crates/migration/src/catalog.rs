//! What the source has: collections with their options and indexes, and views. Called by `copy` and `verify`.

use bson::{Bson, Document, doc};
use mongodb::Client;

use crate::error::CopyError;
use crate::selection::Selection;

/// What a collection is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Ordinary,
    Capped,
    TimeSeries,
    View,
}

/// What a collection is called on the target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TargetName {
    pub(crate) database: String,
    pub(crate) name: String,
}

impl TargetName {
    pub(crate) fn namespace(&self) -> String {
        format!("{}.{}", self.database, self.name)
    }
}

/// A collection, or a view.
#[derive(Debug, Clone)]
pub(crate) struct Listed {
    pub(crate) database: String,
    pub(crate) name: String,
    /// Where it is copied to.
    pub(crate) target: TargetName,
    pub(crate) kind: Kind,
    /// What it was created with.
    pub(crate) options: Document,
    /// All but that on `_id`.
    pub(crate) indexes: Vec<Document>,
    /// About how many documents it has, and bytes.
    pub(crate) documents: u64,
    pub(crate) bytes: u64,
}

impl Listed {
    pub(crate) fn namespace(&self) -> String {
        format!("{}.{}", self.database, self.name)
    }

    /// Whether documents have one order by `_id` that ranges of it can be cut by.
    pub(crate) fn has_ranges(&self) -> bool {
        let collation = self.options.get_document("collation").ok();
        let is_simple = collation.is_none_or(|collation| collation.get_str("locale").ok() == Some("simple"));
        self.kind == Kind::Ordinary && is_simple && !self.options.contains_key("clusteredIndex")
    }
}

/// Everything that is selected, in the order of names.
pub(crate) async fn list(client: &Client, selection: &Selection) -> Result<Vec<Listed>, CopyError> {
    let names = client.list_database_names().await.map_err(CopyError::command("list the databases"))?;
    let mut found = Vec::new();
    for database in names.into_iter().filter(|name| selection.has_database(name)) {
        for listed in collections(client, &database).await? {
            let name = listed.get_str("name").unwrap_or_default();
            if name.starts_with("system.") || !selection.has(&database, name) {
                continue;
            }
            found.push(describe(client, &database, &listed).await?);
        }
    }
    found.sort_by_key(Listed::namespace);
    Ok(found)
}

async fn collections(client: &Client, database: &str) -> Result<Vec<Document>, CopyError> {
    let what = || CopyError::command(format!("list the collections of {database}"));
    let mut cursor =
        client.database(database).run_cursor_command(doc! { "listCollections": 1 }).await.map_err(what())?;
    let mut found = Vec::new();
    while cursor.advance().await.map_err(what())? {
        found.push(cursor.deserialize_current().map_err(what())?);
    }
    Ok(found)
}

async fn describe(client: &Client, database: &str, listed: &Document) -> Result<Listed, CopyError> {
    let name = listed.get_str("name").unwrap_or_default().to_owned();
    let options = listed.get_document("options").cloned().unwrap_or_default();
    let kind = match listed.get_str("type") {
        Ok("view") => Kind::View,
        Ok("timeseries") => Kind::TimeSeries,
        _ if options.get_bool("capped").unwrap_or(false) => Kind::Capped,
        _ => Kind::Ordinary,
    };
    let target = TargetName { database: database.to_owned(), name: name.clone() };
    let database_of = database.to_owned();
    let mut listed =
        Listed { database: database_of, name, target, kind, options, indexes: Vec::new(), documents: 0, bytes: 0 };
    if kind != Kind::View {
        listed.indexes = indexes(client, database, &listed.name).await?;
        let sizes = client.database(database).run_command(doc! { "collStats": &listed.name }).await;
        // A figure for the progress bar; a collection that went away meanwhile has none.
        let sizes = sizes.unwrap_or_default();
        (listed.documents, listed.bytes) = (whole(&sizes, "count"), whole(&sizes, "size"));
    }
    Ok(listed)
}

/// All indexes but that on `_id`.
pub(crate) async fn indexes(client: &Client, database: &str, name: &str) -> Result<Vec<Document>, CopyError> {
    let what = || CopyError::command(format!("list the indexes of {database}.{name}"));
    let mut cursor = client.database(database).run_cursor_command(doc! { "listIndexes": name }).await.map_err(what())?;
    let mut found = Vec::new();
    while cursor.advance().await.map_err(what())? {
        let index: Document = cursor.deserialize_current().map_err(what())?;
        let is_of_id = index.get_document("key").is_ok_and(|key| key.len() == 1 && key.contains_key("_id"));
        if !is_of_id || index.contains_key("clustered") {
            found.push(index);
        }
    }
    found.retain(|index| !index.contains_key("clustered"));
    Ok(found)
}

pub(crate) fn whole(document: &Document, field: &str) -> u64 {
    document.get(field).map_or(0, whole_number)
}

pub(crate) fn whole_number(value: &Bson) -> u64 {
    match value {
        Bson::Int32(number) => u64::try_from(*number).unwrap_or(0),
        Bson::Int64(number) => u64::try_from(*number).unwrap_or(0),
        Bson::Double(number) => *number as u64,
        _ => 0,
    }
}
