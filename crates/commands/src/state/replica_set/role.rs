//! Which commands a server answers in which role.
//!
//! Asked by `dispatcher` before a command runs. A server of its own and a primary answer all of them. A member of a set that is not initiated answers what is about
//! the server itself, and everything in `local`; the rest it refuses with the errors by which drivers look for a primary. A secondary reads for who asks for that.

use bson::{RawBsonRef, RawDocument};
use document::get_field;

use crate::request::declaration::{CursorUse, Declaration, Needs};
use crate::request::error::{CommandError, Result};

/// Refuses what a member that is not initiated cannot do.
///
/// # Errors
/// NotWritablePrimary, NotPrimaryNoSecondaryOk, NotPrimaryOrSecondary.
pub(crate) fn check_uninitiated(command: &Declaration, database: &str, body: &RawDocument) -> Result<()> {
    match command.needs {
        _ if database == "local" => Ok(()),
        Needs::Nothing => Ok(()),
        Needs::Primary => Err(CommandError::named("NotWritablePrimary", "not primary")),
        Needs::Data if get_field(body, "startTransaction").is_some() => {
            Err(CommandError::named("NotWritablePrimary", "not primary"))
        }
        Needs::Data if takes_secondary(body) => {
            Err(CommandError::named("NotPrimaryOrSecondary", "node is not in primary or recovering state"))
        }
        Needs::Data => Err(CommandError::named("NotPrimaryNoSecondaryOk", "not primary and secondaryOk=false")),
    }
}

/// Refuses what a secondary cannot do, or does for nobody who wants to read from the primary. What is in `local` is the set's, too: it is all in one oplog.
///
/// # Errors
/// NotWritablePrimary, NotPrimaryNoSecondaryOk.
pub(crate) fn check_secondary(command: &Declaration, database: &str, body: &RawDocument) -> Result<()> {
    match command.needs {
        Needs::Nothing => Ok(()),
        Needs::Primary => Err(CommandError::named("NotWritablePrimary", "not primary")),
        // Its snapshot would have to be confirmed by a primary when it commits.
        Needs::Data if get_field(body, "startTransaction").is_some() => {
            Err(CommandError::named("NotWritablePrimary", "not primary"))
        }
        // Whoever has a cursor was let in.
        Needs::Data if command.cursor == CursorUse::GoesOn || database == "local" || takes_secondary(body) => Ok(()),
        Needs::Data => Err(CommandError::named("NotPrimaryNoSecondaryOk", "not primary and secondaryOk=false")),
    }
}

/// Whether the client also takes what a member has that is no primary.
fn takes_secondary(body: &RawDocument) -> bool {
    let Some(RawBsonRef::Document(preference)) = get_field(body, "$readPreference") else { return false };
    get_field(preference, "mode").and_then(|mode| mode.as_str()).is_some_and(|mode| mode != "primary")
}

#[cfg(test)]
mod tests {
    use bson::rawdoc;

    use super::*;
    const FIND: Declaration = Declaration::new("find", "", Needs::Data, &[]);
    const INSERT: Declaration = Declaration::new("insert", "", Needs::Primary, &[]);

    #[test]
    fn refusals_are_those_by_which_drivers_look_for_a_primary() {
        let code = |body: bson::RawDocumentBuf| check_uninitiated(&FIND, "test", &body).unwrap_err().code;
        assert_eq!(code(rawdoc! {"find": "c"}), 13435);
        assert_eq!(code(rawdoc! {"find": "c", "$readPreference": {"mode": "primary"}}), 13435);
        assert_eq!(code(rawdoc! {"find": "c", "$readPreference": {"mode": "nearest"}}), 13436);
        assert_eq!(code(rawdoc! {"find": "c", "startTransaction": true}), 10107);
        assert!(check_uninitiated(&FIND, "local", &rawdoc! {"find": "c"}).is_ok());
        assert_eq!(check_uninitiated(&INSERT, "test", &rawdoc! {"insert": "c"}).unwrap_err().code, 10107);
    }

    #[test]
    fn a_secondary_reads_for_who_asks_for_that() {
        let code = |command: &Declaration, body: bson::RawDocumentBuf| {
            check_secondary(command, "test", &body).map_or_else(|error| error.code, |()| 0)
        };
        assert_eq!(code(&FIND, rawdoc! {"find": "c"}), 13435);
        assert_eq!(code(&FIND, rawdoc! {"find": "c", "$readPreference": {"mode": "primary"}}), 13435);
        for mode in ["primaryPreferred", "secondary", "secondaryPreferred", "nearest"] {
            assert_eq!(code(&FIND, rawdoc! {"find": "c", "$readPreference": {"mode": mode}}), 0);
        }
        let begins = rawdoc! {"find": "c", "$readPreference": {"mode": "nearest"}, "startTransaction": true};
        assert_eq!(code(&FIND, begins), 10107);
        assert_eq!(code(&INSERT, rawdoc! {"insert": "c", "$readPreference": {"mode": "nearest"}}), 10107);
        let more = Declaration { cursor: CursorUse::GoesOn, ..FIND };
        assert_eq!(code(&more, rawdoc! {"getMore": 5_i64}), 0);
        assert!(check_secondary(&FIND, "local", &rawdoc! {"find": "c"}).is_ok());
        assert!(check_secondary(&INSERT, "local", &rawdoc! {"insert": "c"}).is_err());
    }
}
