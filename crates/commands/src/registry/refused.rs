//! Commands of MongoDB that we do not have, and the error for a name that is none of ours.
//!
//! Used by `registry` and, through it, by `dispatcher` and the compatibility page.

use crate::error::CommandError;

/// Commands of MongoDB that we do not have yet: refused by name, so that nobody takes them for a misspelling.
pub(super) static KNOWN_ELSEWHERE: &[&str] = &[
    "authenticate",
    "autoCompact",
    "balancerStart",
    "bulkWrite",
    "createRole",
    "createSearchIndexes",
    "createUser",
    "dropAllRolesFromDatabase",
    "dropAllUsersFromDatabase",
    "dropConnections",
    "dropRole",
    "dropUser",
    "getAuditConfig",
    "getClusterParameter",
    "getDiagnosticData",
    "getnonce",
    "grantPrivilegesToRole",
    "grantRolesToRole",
    "grantRolesToUser",
    "invalidateUserCache",
    "listSearchIndexes",
    "logout",
    "mapReduce",
    "planCacheClearFilters",
    "planCacheListFilters",
    "planCacheSetFilter",
    "reIndex",
    "replSetAbortPrimaryCatchUp",
    "replSetGetRBID",
    "replSetHeartbeat",
    "replSetMaintenance",
    "replSetRequestVotes",
    "replSetStepUp",
    "replSetTest",
    "replSetUpdatePosition",
    "revokePrivilegesFromRole",
    "revokeRolesFromRole",
    "revokeRolesFromUser",
    "rolesInfo",
    "rotateCertificates",
    "saslContinue",
    "saslStart",
    "setClusterParameter",
    "setIndexCommitQuorum",
    "shardCollection",
    "updateRole",
    "updateUser",
    "usersInfo",
];

/// The error for a name that [`super::find`] does not find.
pub(crate) fn refusal(name: &str) -> CommandError {
    let note =
        if KNOWN_ELSEWHERE.contains(&name) { " (MongoDB has it; Plimsoll does not implement it yet)" } else { "" };
    CommandError::named("CommandNotFound", format!("no such command: '{name}'{note}"))
}
