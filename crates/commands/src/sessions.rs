//! Logical sessions: which ones clients use, and when each was used last.
//!
//! Used by the session commands and by whoever runs commands that carry an `lsid`. A session lives from its first use until it is
//! ended or has not been used for [`TIMEOUT`]; its cursors are closed with it.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use bson::{RawBsonRef, RawDocument, Uuid};
use parking_lot::Mutex;
use platform::Clock;

use crate::arguments::{Arguments, Field};
use crate::client_cursors::ClientCursors;
use crate::error::{CommandError, Result};

pub(crate) mod end_sessions;
pub(crate) mod refresh_sessions;
pub(crate) mod start_session;

/// How long a session lives without being used, in minutes, as `hello` says it.
pub(crate) const TIMEOUT_MINUTES: i32 = 30;
/// The same.
const TIMEOUT: Duration = Duration::from_secs(TIMEOUT_MINUTES as u64 * 60);
/// Most sessions at once.
const SESSIONS_MAX: usize = 1_000_000;

/// The sessions of the server.
pub(crate) struct Sessions {
    /// The time of the last use of each.
    last_uses: Mutex<HashMap<Uuid, Duration>>,
    clock: Arc<dyn Clock>,
}

impl Sessions {
    /// No sessions.
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Self {
        Self { last_uses: Mutex::default(), clock }
    }

    /// Notes a use; the first one begins the session.
    pub(crate) fn refresh(&self, session: Uuid) -> Result<()> {
        let now = self.clock.monotonic();
        let mut last_uses = self.last_uses.lock();
        if last_uses.len() >= SESSIONS_MAX && !last_uses.contains_key(&session) {
            last_uses.retain(|_, last_use| now.saturating_sub(*last_use) <= TIMEOUT);
            if last_uses.len() >= SESSIONS_MAX {
                return Err(too_many_sessions());
            }
        }
        last_uses.insert(session, now);
        Ok(())
    }

    /// Ends a session and closes its cursors. It need not be known.
    pub(crate) fn end(&self, session: Uuid, cursors: &ClientCursors) {
        self.last_uses.lock().remove(&session);
        cursors.close_of_session(session);
    }

    /// Ends the sessions that have not been used for too long; called now and then.
    pub(crate) fn end_expired(&self, cursors: &ClientCursors) {
        let now = self.clock.monotonic();
        let expired = |last_use: &Duration| now.saturating_sub(*last_use) > TIMEOUT;
        let ended: Vec<Uuid> =
            self.last_uses.lock().extract_if(|_, last_use| expired(last_use)).map(|(session, _)| session).collect();
        ended.into_iter().for_each(|session| cursors.close_of_session(session));
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.last_uses.lock().len()
    }
}

fn too_many_sessions() -> CommandError {
    let message = "Unable to add session into the cache: the number of active sessions is too high";
    CommandError::named("TooManyLogicalSessions", message)
}

/// The sessions that a command of the form `{<command>: [{id: <UUID>}, ...]}` names.
fn session_list(arguments: &mut Arguments<'_>) -> Result<Vec<Uuid>> {
    let target = arguments.target().ok_or_else(|| CommandError::bad_value("an empty command"))?;
    let sessions = target.documents()?.into_iter().map(session_id).collect::<Result<_>>()?;
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
    use platform::SimulatedClock;

    use super::*;

    #[test]
    fn sessions_end_by_command_or_by_time() {
        let clock = Arc::new(SimulatedClock::new(0));
        let sessions = Sessions::new(clock.clone());
        let cursors = ClientCursors::new(clock.clone(), 1, platform::MemoryBudget::unlimited());
        let (one, two, three) = (Uuid::from_bytes([1; 16]), Uuid::from_bytes([2; 16]), Uuid::from_bytes([3; 16]));
        for session in [one, two, three] {
            sessions.refresh(session).unwrap();
        }
        sessions.end(one, &cursors);
        assert_eq!(sessions.count(), 2);
        clock.advance(Duration::from_secs(20 * 60));
        sessions.refresh(two).unwrap();
        clock.advance(Duration::from_secs(20 * 60));
        sessions.end_expired(&cursors);
        assert_eq!(sessions.count(), 1);
        assert!(sessions.last_uses.lock().contains_key(&two));
    }

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
