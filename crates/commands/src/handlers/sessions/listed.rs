//! The sessions as `$listLocalSessions` and `$listSessions` show them.

use aggregation::ListedSessions;
use bson::raw::cstr;
use bson::spec::BinarySubtype;
use bson::{Binary, DateTime, RawBson, RawDocumentBuf};
use platform::Clock;
use sha2::{Digest, Sha256};
use transaction::Store;

use super::owner;
use crate::request::error::Result;
use crate::state::access_control::names::UserName;
use crate::state::operations::before_allocating;

/// Bytes of a document, about.
const DOCUMENT_BYTES: usize = 160;
/// Sessions between two questions whether to stop.
const PER_CHECK: usize = 1024;

/// A document for each.
///
/// # Errors
/// The command is to stop; there is no memory for the list.
pub(crate) fn documents(
    store: &Store,
    clock: &dyn Clock,
    wanted: &ListedSessions,
    asking: Option<&UserName>,
    check: &dyn Fn() -> Result<()>,
) -> Result<Vec<RawDocumentBuf>> {
    let is_wanted = |owner: Option<&UserName>| match wanted {
        ListedSessions::OfAll => true,
        // Where nobody is asked who he is, all are one's own.
        ListedSessions::OwnOnly => asking.is_none() || owner == asking,
        ListedSessions::Of(users) => owner.is_some_and(|owner| {
            users.iter().any(|(user, database)| *user == owner.name && *database == owner.database)
        }),
    };
    let sessions = store.sessions().all();
    before_allocating(sessions.len() * DOCUMENT_BYTES)?;
    let (now, wall) = (clock.monotonic(), clock.wall_millis());
    let mut documents = Vec::with_capacity(sessions.len());
    for (number, session) in sessions.iter().enumerate() {
        if number % PER_CHECK == 0 {
            check()?;
        }
        let owner = owner(session.owner());
        if !is_wanted(owner) {
            continue;
        }
        let name = owner.map(|owner| format!("{}@{}", owner.name, owner.database));
        let idle = now.saturating_sub(session.last_use()).as_millis() as i64;
        let mut identity = RawDocumentBuf::new();
        identity.append(cstr!("id"), RawBson::Binary(session.id().into()));
        identity.append(cstr!("uid"), RawBson::Binary(digest(name.as_deref().unwrap_or_default())));
        let mut document = RawDocumentBuf::new();
        document.append(cstr!("_id"), identity);
        document.append(cstr!("lastUse"), DateTime::from_millis(wall.saturating_sub(idle)));
        if let Some(name) = name {
            document.append(cstr!("user"), name);
        }
        documents.push(document);
    }
    Ok(documents)
}

/// What stands for a user in a session's identity.
fn digest(name: &str) -> Binary {
    Binary { subtype: BinarySubtype::Generic, bytes: Sha256::digest(name.as_bytes()).to_vec() }
}
