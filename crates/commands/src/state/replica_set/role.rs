//! Which commands a server answers in which role.
//!
//! Asked by `dispatcher` before a command runs. A server of its own and a primary answer all of them. A member of a set that is not initiated answers what is about
//! the server itself, and everything in `local`; the rest it refuses with the errors by which drivers look for a primary.

use bson::{RawBsonRef, RawDocument};
use document::get_field;

use crate::registry::Command;
use crate::request::error::{CommandError, Result};
use crate::state::admission::Class;

/// What a command needs the server to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Need {
    Nothing,
    /// It has data that can be read; on a member that is no primary only for who asks for that.
    Data,
    Primary,
}

/// Commands about the server itself, its sessions and its replica set.
const ABOUT_THE_SERVER: &[&str] = &[
    "buildInfo",
    "configureFailPoint",
    "connPoolStats",
    "connectionStatus",
    "currentOp",
    "endSessions",
    "features",
    "fsync",
    "fsyncUnlock",
    "getCmdLineOpts",
    "getDefaultRWConcern",
    "getLog",
    "getParameter",
    "hello",
    "hostInfo",
    "isMaster",
    "killAllSessions",
    "killAllSessionsByPattern",
    "killCursors",
    "killOp",
    "killSessions",
    "listCommands",
    "lockInfo",
    "logRotate",
    "logout",
    "ping",
    "plimsollProfile",
    "profile",
    "refreshSessions",
    "replSetFreeze",
    "replSetGetConfig",
    "replSetGetRBID",
    "replSetGetStatus",
    "replSetInitiate",
    "replSetMaintenance",
    "replSetReconfig",
    "replSetResizeOplog",
    "replSetStepDown",
    "replSetStepUp",
    "replSetSyncFrom",
    "saslContinue",
    "saslStart",
    "serverStatus",
    "setParameter",
    "shutdown",
    "startSession",
    "top",
    "waitForFailPoint",
    "whatsmyuri",
];

/// Commands that read, beside those that are admitted as reads.
const READING: &[&str] = &[
    "collStats",
    "dataSize",
    "dbHash",
    "dbStats",
    "explain",
    "listCollections",
    "listDatabases",
    "listIndexes",
    "validate",
];

fn need(command: &Command) -> Need {
    if ABOUT_THE_SERVER.contains(&command.name) {
        return Need::Nothing;
    }
    if command.class == Class::Read || READING.contains(&command.name) { Need::Data } else { Need::Primary }
}

/// Refuses what a member that is not initiated cannot do.
///
/// # Errors
/// NotWritablePrimary, NotPrimaryNoSecondaryOk, NotPrimaryOrSecondary.
pub(crate) fn check_uninitiated(command: &Command, database: &str, body: &RawDocument) -> Result<()> {
    match need(command) {
        _ if database == "local" => Ok(()),
        Need::Nothing => Ok(()),
        Need::Primary => Err(CommandError::named("NotWritablePrimary", "not primary")),
        Need::Data if get_field(body, "startTransaction").is_some() => {
            Err(CommandError::named("NotWritablePrimary", "not primary"))
        }
        Need::Data if takes_secondary(body) => {
            Err(CommandError::named("NotPrimaryOrSecondary", "node is not in primary or recovering state"))
        }
        Need::Data => Err(CommandError::named("NotPrimaryNoSecondaryOk", "not primary and secondaryOk=false")),
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
    use crate::registry;

    #[test]
    fn the_tables_are_sorted_and_every_command_has_its_need() {
        assert!(ABOUT_THE_SERVER.is_sorted() && READING.is_sorted());
        let of = |name: &str| need(registry::find(name).unwrap());
        assert_eq!(of("hello"), Need::Nothing);
        assert_eq!(of("find"), Need::Data);
        assert_eq!(of("listDatabases"), Need::Data);
        for writing in ["insert", "create", "dropDatabase", "commitTransaction", "findAndModify"] {
            assert_eq!(of(writing), Need::Primary, "{writing}");
        }
    }

    #[test]
    fn refusals_are_those_by_which_drivers_look_for_a_primary() {
        let find = registry::find("find").unwrap();
        let code = |body: bson::RawDocumentBuf| check_uninitiated(find, "test", &body).unwrap_err().code;
        assert_eq!(code(rawdoc! {"find": "c"}), 13435);
        assert_eq!(code(rawdoc! {"find": "c", "$readPreference": {"mode": "primary"}}), 13435);
        assert_eq!(code(rawdoc! {"find": "c", "$readPreference": {"mode": "nearest"}}), 13436);
        assert_eq!(code(rawdoc! {"find": "c", "startTransaction": true}), 10107);
        assert!(check_uninitiated(find, "local", &rawdoc! {"find": "c"}).is_ok());
        let insert = registry::find("insert").unwrap();
        assert_eq!(check_uninitiated(insert, "test", &rawdoc! {"insert": "c"}).unwrap_err().code, 10107);
    }
}
