//! Commands of MongoDB that we do not have, and the error for a name that is none of ours.
//!
//! Used by `registry` and, through it, by `dispatcher` and the compatibility page.

use crate::request::error::CommandError;

/// Commands of MongoDB that we do not have yet: refused by name, so that nobody takes them for a misspelling.
pub(super) static KNOWN_ELSEWHERE: &[&str] = &[
    "autoCompact",
    "cleanupStructuredEncryptionData",
    "compactStructuredEncryptionData",
    "createSearchIndexes",
    "dropConnections",
    "dropSearchIndex",
    "getAuditConfig",
    "getClusterParameter",
    "getDiagnosticData",
    "getnonce",
    "listSearchIndexes",
    "logApplicationMessage",
    "replSetAbortPrimaryCatchUp",
    "replSetGetRBID",
    "replSetHeartbeat",
    "replSetMaintenance",
    "replSetRequestVotes",
    "replSetStepUp",
    "replSetTest",
    "replSetUpdatePosition",
    "setAuditConfig",
    "setClusterParameter",
    "setIndexCommitQuorum",
    "setUserWriteBlockMode",
    "updateSearchIndex",
];

/// Commands of a sharded cluster, which Plimsoll is not.
pub(super) static OF_SHARDED_CLUSTERS: &[&str] = &[
    "abortMoveCollection",
    "abortReshardCollection",
    "abortUnshardCollection",
    "addShard",
    "addShardToZone",
    "analyzeShardKey",
    "balancerCollectionStatus",
    "balancerStart",
    "balancerStatus",
    "balancerStop",
    "checkMetadataConsistency",
    "cleanupOrphaned",
    "cleanupReshardCollection",
    "clearJumboFlag",
    "commitReshardCollection",
    "configureQueryAnalyzer",
    "enableSharding",
    "flushRouterConfig",
    "getShardMap",
    "getShardVersion",
    "listShards",
    "medianKey",
    "mergeChunks",
    "moveChunk",
    "moveCollection",
    "movePrimary",
    "moveRange",
    "refineCollectionShardKey",
    "removeShard",
    "removeShardFromZone",
    "reshardCollection",
    "setAllowMigrations",
    "setShardVersion",
    "shardCollection",
    "shardConnPoolStats",
    "shardingState",
    "split",
    "splitVector",
    "transitionFromDedicatedConfigServer",
    "transitionToDedicatedConfigServer",
    "unsetSharding",
    "unshardCollection",
    "updateZoneKeyRange",
];

/// The error for a name that [`super::find`] does not find.
pub(crate) fn refusal(name: &str) -> CommandError {
    let note = if KNOWN_ELSEWHERE.binary_search(&name).is_ok() {
        " (MongoDB has it; Plimsoll does not implement it yet)"
    } else if OF_SHARDED_CLUSTERS.binary_search(&name).is_ok() {
        " (it is for sharded clusters, and this is a single server)"
    } else {
        ""
    };
    CommandError::named("CommandNotFound", format!("no such command: '{name}'{note}"))
}
