//! Commands about logical sessions, and what ends with a session.
//!
//! The sessions themselves are in `transaction::SessionTable`: a session lives from its first use until it is ended or has not been used
//! for [`TIMEOUT`]. Its cursors are closed with it.

use std::time::Duration;

use bson::{RawBsonRef, RawDocument, Uuid};

use crate::request::arguments::{Arguments, Field};
use crate::request::error::{CommandError, Result};
use crate::state::context::{Context, ServerContext};

pub(crate) mod end_sessions;
pub(crate) mod kill_all_sessions;
pub(crate) mod kill_all_sessions_by_pattern;
pub(crate) mod kill_sessions;
pub(crate) mod refresh_sessions;
pub(crate) mod start_session;

/// How long a session lives without being used, in minutes, as `hello` says it.
pub(crate) const TIMEOUT_MINUTES: i32 = 30;
/// The same.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(TIMEOUT_MINUTES as u64 * 60);

/// Ends a session and closes its cursors. It need not be known.
pub(crate) fn end(server: &ServerContext, session: Uuid) {
    if let Some(ended) = server.store.sessions().end(session) {
        server.store.abort_open_transaction(&ended);
    }
    server.cursors.close_of_session(session);
}

/// Ends the sessions that have not been used for too long; called now and then.
pub(crate) fn end_expired(server: &ServerContext) {
    server.store.sessions().expired(server.session_timeout).into_iter().for_each(|session| end(server, session));
}

/// Ends a session with what runs in it, but for the command that asks for it.
fn kill(context: &Context<'_>, session: Uuid) {
    context.server.operations.kill_of_session(session, &context.operation);
    end(context.server, session);
}

/// The sessions that a command of the form `{<command>: [{id: <UUID>}, ...]}` names.
fn session_list(arguments: &mut Arguments<'_>) -> Result<Vec<Uuid>> {
    let target = arguments.target().ok_or_else(|| CommandError::bad_value("an empty command"))?;
    let sessions = target.documents()?.into_iter().flatten().map(session_id).collect::<Result<_>>()?;
    for field in arguments.fields() {
        arguments.generic(field)?;
    }
    Ok(sessions)
}

fn session_id(session: &RawDocument) -> Result<Uuid> {
    let mut id = None;
    for element in document::elements(session) {
        let field = Field::of("LogicalSessionFromClient", element);
        match (field.name(), field.value()) {
            ("id", RawBsonRef::Binary(binary)) if binary.subtype == bson::spec::BinarySubtype::Uuid => {
                let bytes = <[u8; 16]>::try_from(binary.bytes).map_err(|_| field.wrong_type("a UUID of 16 bytes"))?;
                id = Some(Uuid::from_bytes(bytes));
            }
            ("id", _) => return Err(field.wrong_type("type 'binData' of subtype 4")),
            // The digest of a user's name: there are no users yet.
            ("uid", _) => return Err(field.not_implemented()),
            _ => return Err(field.unknown()),
        }
    }
    id.ok_or_else(|| {
        CommandError::numbered(40414, "BSON field 'LogicalSessionFromClient.id' is missing but a required field")
    })
}

#[cfg(test)]
mod tests {
    use bson::rawdoc;

    use super::*;

    #[test]
    fn session_ids_are_uuids() {
        assert_eq!(
            session_id(&rawdoc! {"id": bson::Binary::from(Uuid::from_bytes([7; 16]))}).unwrap(),
            Uuid::from_bytes([7; 16])
        );
        assert_eq!(session_id(&rawdoc! {"id": 5}).unwrap_err().code, 14);
        assert_eq!(session_id(&rawdoc! {}).unwrap_err().code, 40414);
        assert_eq!(session_id(&rawdoc! {"x": 1}).unwrap_err().code, 40415);
    }
}
