//! `setFeatureCompatibilityVersion`, and the document of that version in `admin.system.version`, which tools read.
//!
//! The version is that of the server ([`crate::state::versions`]) and cannot be another.

use bson::{RawBsonRef, doc};
use collection::Namespace;
use document::get_field;
use executor::IdLookup;

use crate::DocumentWriter;
use crate::handlers::command::Command;
use crate::request::arguments::Arguments;
use crate::request::audit_events;
use crate::request::declaration::{Declaration, Needs, WriteConcernUse};
use crate::request::error::{CommandError, Result};
use crate::request::privileges::{Action, on_cluster};
use crate::state::versions::FEATURE_COMPATIBILITY_VERSION;
use crate::state::writing::Writing;

const DATABASE: &str = "admin";
const COLLECTION: &str = "system.version";
const ID: &str = "featureCompatibilityVersion";

pub(crate) static COMMAND: Command = Command::new(
    |_, arguments, reply| run(arguments, reply),
    Declaration {
        audit: Some(audit_events::as_named),
        is_admin_only: true,
        write_concern: WriteConcernUse::Taken,
        ..Declaration::new(
            "setFeatureCompatibilityVersion",
            "Confirms the feature compatibility version, which is that of the server.",
            Needs::Primary,
            &[on_cluster(Action::SetFeatureCompatibilityVersion)],
        )
    },
);

/// Runs the command.
pub(crate) fn run(mut arguments: Arguments<'_>, _reply: &mut DocumentWriter<'_>) -> Result<()> {
    let mut is_confirmed = false;
    for field in arguments.fields() {
        match field.name() {
            "confirm" => is_confirmed = field.boolean()?,
            "downgradeOnDiskChanges" | "fromConfigServer" | "phase" | "changeTimestamp" => {
                field.refuse_unless_null()?
            }
            _ => arguments.generic(field)?,
        }
    }
    match arguments.target().map(|field| field.value()) {
        Some(RawBsonRef::String(FEATURE_COMPATIBILITY_VERSION)) => {}
        Some(RawBsonRef::String(other)) => {
            return Err(CommandError::numbered(
                4_926_900,
                format!(
                    "Invalid feature compatibility version '{other}': this server's is {FEATURE_COMPATIBILITY_VERSION}"
                ),
            ));
        }
        _ => return Err(CommandError::type_mismatch("the feature compatibility version must be a string")),
    }
    if is_confirmed {
        return Ok(());
    }
    Err(CommandError::numbered(
        7_369_100,
        "setFeatureCompatibilityVersion must be run with 'confirm: true', which says that a way back to an older version is not needed",
    ))
}

/// Whether this is the collection of the document.
pub(crate) fn is_version_collection(namespace: &Namespace) -> bool {
    namespace.database() == DATABASE && namespace.collection() == COLLECTION
}

/// Stores the document, in the place of what an older build has stored.
///
/// # Errors
/// Those of reading and writing.
pub(crate) fn store_document(writing: &Writing) -> Result<()> {
    let namespace = Namespace::new(DATABASE, COLLECTION)?;
    let collection = writing.store.collection_or_create(&namespace)?;
    let mut lookup = IdLookup::default();
    let found = lookup.fetch(&writing.store.newest_view(), &collection, RawBsonRef::String(ID));
    let (place, version) = match found? {
        Some((place, document)) => (Some(place), get_field(document, "version")),
        None => (None, None),
    };
    if version == Some(RawBsonRef::String(FEATURE_COMPATIBILITY_VERSION)) {
        return Ok(());
    }
    let document = doc! { "_id": ID, "version": FEATURE_COMPATIBILITY_VERSION };
    writing.put_at(&collection, place, &bson::RawDocumentBuf::try_from(&document)?)?;
    Ok(())
}
