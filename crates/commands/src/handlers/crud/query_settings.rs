//! What has been said of a command by `setQuerySettings`, and what `explain` and `$querySettings` tell of it.
//!
//! Called by `find`, `aggregate`, `distinct` and `explain` before they plan. The settings are in
//! `state/query_settings.rs`.

use std::sync::Arc;

use bson::{Bson, Document, RawDocument, RawDocumentBuf};
use document::{elements, get_field};

use crate::request::document_writer::document_of;
use crate::request::error::Result;
use crate::request::query_shape::QueryShape;
use crate::state::query_settings::{QuerySettings, StoredSettings};
use crate::state::reading::Reading;

/// Databases whose queries are the server's own.
const INTERNAL: [&str; 3] = ["admin", "config", "local"];

/// Whether nothing can be said of queries to a database.
pub(crate) fn is_internal(database: &str) -> bool {
    INTERNAL.contains(&database)
}

/// What has been said of a command to the request's database.
///
/// # Errors
/// There is no memory for its shape; the command is to stop.
pub(crate) fn of_command(reading: Reading<'_>, body: &RawDocument) -> Result<Option<Arc<StoredSettings>>> {
    let (known, database) = (reading.settings, reading.database);
    if known.is_empty() || is_internal(database) {
        return Ok(None);
    }
    Ok(QueryShape::of(database, body)?.and_then(|shape| known.find(&shape.hash())))
}

/// Adds the shape of a command that is explained, and what has been said of it.
///
/// # Errors
/// As `of_command`.
pub(crate) fn explain(reading: Reading<'_>, body: &RawDocument, explained: &mut Document) -> Result<()> {
    let Some(shape) = QueryShape::of(reading.database, body)? else { return Ok(()) };
    explained.insert("queryShapeHash", shape.hash());
    let Some(settings) = of_command(reading, body)? else { return Ok(()) };
    let settings = Document::try_from(&*settings.settings)?;
    if let Some(planner) = planner_section(explained) {
        planner.insert("querySettings", settings);
    }
    Ok(())
}

/// That of a query, or of the first of a pipeline's stages.
fn planner_section(explained: &mut Document) -> Option<&mut Document> {
    if explained.contains_key("queryPlanner") {
        return explained.get_document_mut("queryPlanner").ok();
    }
    let first = explained.get_array_mut("stages").ok()?.first_mut()?;
    let Bson::Document(first) = first else { return None };
    first.get_document_mut("$cursor").ok()?.get_document_mut("queryPlanner").ok()
}

/// The documents of `$querySettings`: one a shape that something has been said of.
///
/// # Errors
/// There is no memory for them.
pub(crate) fn documents(settings: &QuerySettings, shows_shape: bool) -> Result<Vec<RawDocumentBuf>> {
    let describe = |known: &Arc<StoredSettings>| {
        let shape = known.representative.as_deref().filter(|_| shows_shape).map(shape_of).transpose()?.flatten();
        document_of(|document| {
            document.string("queryShapeHash", &known.hash);
            document.embed("settings", &known.settings);
            if let Some(representative) = &known.representative {
                document.embed("representativeQuery", representative);
            }
            if let Some(shape) = &shape {
                document.embed("debugQueryShape", shape.document());
            }
        })
    };
    settings.all().iter().map(describe).collect()
}

/// The shape of a query with its `$db`.
///
/// # Errors
/// There is no memory for it; the command is to stop.
pub(crate) fn shape_of(query: &RawDocument) -> Result<Option<QueryShape>> {
    let Some(database) = get_field(query, "$db").and_then(|database| database.as_str()) else { return Ok(None) };
    debug_assert!(elements(query).next().is_some());
    QueryShape::of(database, query)
}
