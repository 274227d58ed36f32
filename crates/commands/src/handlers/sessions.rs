//! Commands about logical sessions. What they work with is in [`crate::state::session_control`].

use std::collections::HashSet;

use bson::{RawBsonRef, RawDocument, Uuid};
use transaction::Owner;

use crate::request::arguments::{Arguments, Field};
use crate::request::error::{CommandError, Result};
use crate::state::access_control::names::UserName;
use crate::state::session_control::SessionControl;

pub(crate) mod end_sessions;
pub(crate) mod kill_all_sessions;
pub(crate) mod kill_all_sessions_by_pattern;
pub(crate) mod kill_sessions;
pub(crate) mod listed;
pub(crate) mod refresh_sessions;
pub(crate) mod start_session;

impl SessionControl<'_> {
    /// The sessions that a command of the form `{<command>: [{id: <UUID>}, ...]}` names.
    fn named(&self, arguments: &mut Arguments<'_>) -> Result<HashSet<Uuid>> {
        let target = arguments.target().ok_or_else(|| CommandError::bad_value("an empty command"))?;
        let mut sessions = HashSet::new();
        for session in target.documents()?.into_iter().flatten() {
            self.operation.check_interrupt()?;
            sessions.insert(session_id(session)?);
        }
        for field in arguments.fields() {
            arguments.generic(field)?;
        }
        Ok(sessions)
    }
}

/// Whose a session is; `None`: nobody's who has logged in.
pub(crate) fn owner(owner: Option<&Owner>) -> Option<&UserName> {
    owner?.downcast_ref()
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
            // The digest of a user's name: who names a session in this way means somebody else's.
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
