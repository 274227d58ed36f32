//! The fields of `$changeStream`, and what a stream is about.

use bson::{RawBsonRef, RawDocument};
use collection::Namespace;
use document::elements;
use storage_engine::Timestamp;

use super::token::ResumeToken;
use crate::request::arguments::Field;
use crate::request::error::{CommandError, Result};

/// Whose changes a stream tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Scope {
    Collection(String),
    Database(String),
    Cluster,
}

/// The document after an update.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FullDocument {
    Default,
    UpdateLookup,
    WhenAvailable,
    Required,
}

/// The document before a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BeforeChange {
    Off,
    WhenAvailable,
    Required,
}

/// Where a stream begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Beginning {
    Now,
    After(ResumeToken),
    At(Timestamp),
}

/// All of it.
#[derive(Debug, Clone)]
pub(super) struct ChangeStreamOptions {
    pub(super) scope: Scope,
    pub(super) full_document: FullDocument,
    pub(super) before_change: BeforeChange,
    pub(super) beginning: Beginning,
    pub(super) shows_expanded_events: bool,
}

impl ChangeStreamOptions {
    /// Whether events are shown as most streams show them, so that they can share them.
    pub(super) fn are_plain(&self) -> bool {
        self.full_document == FullDocument::Default
            && self.before_change == BeforeChange::Off
            && !self.shows_expanded_events
    }

    /// Whether each update needs the document as it is now.
    pub(super) fn looks_up(&self) -> bool {
        self.full_document == FullDocument::UpdateLookup
    }
}

impl Scope {
    /// Whether changes of documents of a collection are told.
    pub(super) fn has(&self, namespace: &str) -> bool {
        let Some((database, collection)) = namespace.split_once('.') else { return false };
        match self {
            Scope::Collection(wanted) => wanted == namespace,
            Scope::Database(wanted) => wanted == database && !collection.starts_with("system."),
            Scope::Cluster => !["admin", "local", "config"].contains(&database) && !collection.starts_with("system."),
        }
    }

    /// Whether a stream is about a whole database.
    pub(super) fn is_database(&self, database: &str) -> bool {
        matches!(self, Scope::Database(wanted) if wanted == database)
    }

    /// Whether changes of a database as such are told.
    pub(super) fn has_database(&self, database: &str) -> bool {
        match self {
            Scope::Collection(_) => false,
            Scope::Database(wanted) => wanted == database,
            Scope::Cluster => true,
        }
    }
}

impl ChangeStreamOptions {
    pub(super) fn parse(stage: &RawDocument, namespace: &Namespace) -> Result<ChangeStreamOptions> {
        let Some(RawBsonRef::Document(fields)) = elements(stage).next().map(|stage| stage.value()) else {
            let message = "the $changeStream stage specification must be an object";
            return Err(CommandError::numbered(50808, message));
        };
        let mut options = ChangeStreamOptions {
            scope: Scope::Collection(namespace.as_str().to_owned()),
            full_document: FullDocument::Default,
            before_change: BeforeChange::Off,
            beginning: Beginning::Now,
            shows_expanded_events: false,
        };
        let (mut is_cluster, mut beginnings) = (false, 0);
        for element in elements(fields) {
            let field = Field::of(super::STAGE, element);
            match field.name() {
                "fullDocument" => options.full_document = full_document(field)?,
                "fullDocumentBeforeChange" => options.before_change = before_change(field)?,
                "allChangesForCluster" => is_cluster = field.boolean()?,
                "showExpandedEvents" => options.shows_expanded_events = field.boolean()?,
                // Names in a sharded cluster's events; there is no cluster.
                "showMigrationEvents" | "showSystemEvents" if !field.boolean()? => {}
                "showMigrationEvents" | "showSystemEvents" | "matchCollectionUUIDForUpdateLookup" => {
                    field.refuse_unless_null()?;
                }
                name @ ("resumeAfter" | "startAfter") => {
                    let Some(token) = field.document()? else { continue };
                    beginnings += 1;
                    let token = ResumeToken::parse(token)?;
                    if name == "resumeAfter" && token.is_invalidate {
                        let message = "Attempting to resume a change stream using 'resumeAfter' is not allowed from an invalidate notification.";
                        return Err(CommandError::named("InvalidResumeToken", message));
                    }
                    options.beginning = Beginning::After(token);
                }
                "startAtOperationTime" if field.is_null() => {}
                "startAtOperationTime" => {
                    beginnings += 1;
                    options.beginning = Beginning::At(timestamp(field)?);
                }
                _ => return Err(field.unknown()),
            }
        }
        if beginnings > 1 {
            let message = "Only one type of resume option is allowed, but multiple were found.";
            return Err(CommandError::numbered(50865, message));
        }
        options.scope = scope(namespace, is_cluster)?;
        Ok(options)
    }
}

fn scope(namespace: &Namespace, is_cluster: bool) -> Result<Scope> {
    let invalid = |message: String| Err(CommandError::named("InvalidNamespace", message));
    let (database, is_whole) = (namespace.database(), namespace.collection() == "$cmd.aggregate");
    if is_cluster {
        return match (database, is_whole) {
            ("admin", true) => Ok(Scope::Cluster),
            _ => Err(CommandError::named(
                "InvalidOptions",
                "A $changeStream with 'allChangesForCluster:true' may only be opened on the 'admin' database, and with no collection name",
            )),
        };
    }
    if ["admin", "local", "config"].contains(&database) {
        return invalid(format!("$changeStream may not be opened on the internal {database} database"));
    }
    if is_whole {
        return Ok(Scope::Database(database.to_owned()));
    }
    if namespace.collection().starts_with("system.") {
        return invalid(format!("$changeStream may not be opened on the internal {namespace} collection"));
    }
    Ok(Scope::Collection(namespace.as_str().to_owned()))
}

fn timestamp(field: Field<'_>) -> Result<Timestamp> {
    match field.value() {
        RawBsonRef::Timestamp(time) => Ok(Timestamp(u64::from(time.time) << 32 | u64::from(time.increment))),
        _ => Err(CommandError::type_mismatch("BSON field '$changeStream.startAtOperationTime' must be a timestamp")),
    }
}

fn full_document(field: Field<'_>) -> Result<FullDocument> {
    match field.string()?.unwrap_or("default") {
        "default" => Ok(FullDocument::Default),
        "updateLookup" => Ok(FullDocument::UpdateLookup),
        "whenAvailable" => Ok(FullDocument::WhenAvailable),
        "required" => Ok(FullDocument::Required),
        other => Err(bad_mode("fullDocument", other)),
    }
}

fn before_change(field: Field<'_>) -> Result<BeforeChange> {
    match field.string()?.unwrap_or("off") {
        "off" => Ok(BeforeChange::Off),
        "whenAvailable" => Ok(BeforeChange::WhenAvailable),
        "required" => Ok(BeforeChange::Required),
        other => Err(bad_mode("fullDocumentBeforeChange", other)),
    }
}

fn bad_mode(field: &str, value: &str) -> CommandError {
    CommandError::bad_value(format!(
        "Enumeration value '{value}' for field '$changeStream.{field}' is not a valid value."
    ))
}
