//! The actions of MongoDB's manual, and sets of them.
//!
//! Used by `privilege_set`, by `builtin_roles`, and by each command's declaration. An action that no command of ours asks
//! for can be granted all the same, so that roles come over from a MongoDB.

macro_rules! actions {
    ($($variant:ident $name:literal,)*) => {
        /// What is done.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Action {
            $(#[doc = $name] $variant,)*
        }

        impl Action {
            /// All, sorted by name.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// As MongoDB calls it.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }
        }
    };
}

actions! {
    AddShard "addShard",
    AllCollectionStats "allCollectionStats",
    AnalyzeShardKey "analyzeShardKey",
    Any "anyAction",
    AppendOplogNote "appendOplogNote",
    ApplicationMessage "applicationMessage",
    ApplyOps "applyOps",
    AuditConfigure "auditConfigure",
    AuthSchemaUpgrade "authSchemaUpgrade",
    BypassDocumentValidation "bypassDocumentValidation",
    BypassWriteBlockingMode "bypassWriteBlockingMode",
    ChangeCustomData "changeCustomData",
    ChangeOwnCustomData "changeOwnCustomData",
    ChangeOwnPassword "changeOwnPassword",
    ChangePassword "changePassword",
    ChangeStream "changeStream",
    CheckFreeMonitoringStatus "checkFreeMonitoringStatus",
    CheckMetadataConsistency "checkMetadataConsistency",
    CleanupOrphaned "cleanupOrphaned",
    ClearJumboFlag "clearJumboFlag",
    CloseAllDatabases "closeAllDatabases",
    CollMod "collMod",
    CollStats "collStats",
    Compact "compact",
    CompactStructuredEncryptionData "compactStructuredEncryptionData",
    ConnPoolStats "connPoolStats",
    ConnPoolSync "connPoolSync",
    ConvertToCapped "convertToCapped",
    CpuProfiler "cpuProfiler",
    CreateCollection "createCollection",
    CreateIndex "createIndex",
    CreateRole "createRole",
    CreateSearchIndexes "createSearchIndexes",
    CreateUser "createUser",
    CursorInfo "cursorInfo",
    DbHash "dbHash",
    DbStats "dbStats",
    DropCollection "dropCollection",
    DropConnections "dropConnections",
    DropDatabase "dropDatabase",
    DropIndex "dropIndex",
    DropRole "dropRole",
    DropSearchIndex "dropSearchIndex",
    DropUser "dropUser",
    EnableProfiler "enableProfiler",
    EnableSharding "enableSharding",
    Find "find",
    FlushRouterConfig "flushRouterConfig",
    ForceUuid "forceUUID",
    Fsync "fsync",
    GetClusterParameter "getClusterParameter",
    GetCmdLineOpts "getCmdLineOpts",
    GetDefaultRwConcern "getDefaultRWConcern",
    GetLog "getLog",
    GetParameter "getParameter",
    GetShardMap "getShardMap",
    GetShardVersion "getShardVersion",
    GrantRole "grantRole",
    HostInfo "hostInfo",
    Impersonate "impersonate",
    IndexStats "indexStats",
    Inprog "inprog",
    Insert "insert",
    Internal "internal",
    InvalidateUserCache "invalidateUserCache",
    IssueDirectShardOperations "issueDirectShardOperations",
    KillAnyCursor "killAnyCursor",
    KillAnySession "killAnySession",
    KillCursors "killCursors",
    Killop "killop",
    ListCollections "listCollections",
    ListDatabases "listDatabases",
    ListIndexes "listIndexes",
    ListSampledQueries "listSampledQueries",
    ListSearchIndexes "listSearchIndexes",
    ListSessions "listSessions",
    ListShards "listShards",
    LogRotate "logRotate",
    MoveChunk "moveChunk",
    MoveCollection "moveCollection",
    Netstat "netstat",
    OidReset "oidReset",
    PlanCacheIndexFilter "planCacheIndexFilter",
    PlanCacheRead "planCacheRead",
    PlanCacheWrite "planCacheWrite",
    PlimsollBackup "plimsollBackup",
    QuerySettings "querySettings",
    QueryStatsRead "queryStatsRead",
    QueryStatsReadTransformed "queryStatsReadTransformed",
    ReIndex "reIndex",
    RefineCollectionShardKey "refineCollectionShardKey",
    Remove "remove",
    RemoveShard "removeShard",
    RenameCollectionSameDb "renameCollectionSameDB",
    ReplSetConfigure "replSetConfigure",
    ReplSetGetConfig "replSetGetConfig",
    ReplSetGetStatus "replSetGetStatus",
    ReplSetHeartbeat "replSetHeartbeat",
    ReplSetResizeOplog "replSetResizeOplog",
    ReplSetStateChange "replSetStateChange",
    ReshardCollection "reshardCollection",
    Resync "resync",
    RevokeRole "revokeRole",
    RotateCertificates "rotateCertificates",
    ServerStatus "serverStatus",
    SetAuthenticationRestriction "setAuthenticationRestriction",
    SetClusterParameter "setClusterParameter",
    SetDefaultRwConcern "setDefaultRWConcern",
    SetFeatureCompatibilityVersion "setFeatureCompatibilityVersion",
    SetFreeMonitoring "setFreeMonitoring",
    SetParameter "setParameter",
    SetUserWriteBlockMode "setUserWriteBlockMode",
    ShardedDataDistribution "shardedDataDistribution",
    ShardingState "shardingState",
    Shutdown "shutdown",
    SplitChunk "splitChunk",
    SplitVector "splitVector",
    StorageDetails "storageDetails",
    Top "top",
    Touch "touch",
    TransitionFromDedicatedConfigServer "transitionFromDedicatedConfigServer",
    TransitionToDedicatedConfigServer "transitionToDedicatedConfigServer",
    Unlock "unlock",
    UnshardCollection "unshardCollection",
    Update "update",
    UpdateSearchIndex "updateSearchIndex",
    UseUuid "useUUID",
    Validate "validate",
    ViewRole "viewRole",
    ViewUser "viewUser",
}

impl Action {
    /// The action of a name.
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.binary_search_by(|action| action.name().cmp(name)).ok().and_then(|at| Self::ALL.get(at)).copied()
    }
}

/// Words of a set.
const WORDS: usize = 3;
const _: () = assert!(Action::ALL.len() <= WORDS * 64);

/// Some actions. One with [`Action::Any`] has all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ActionSet([u64; WORDS]);

impl ActionSet {
    /// Those of a list.
    pub fn of(actions: &[Action]) -> Self {
        let mut set = Self::default();
        actions.iter().for_each(|action| set.insert(*action));
        set
    }

    /// Adds one.
    pub fn insert(&mut self, action: Action) {
        let at = action as usize;
        if let Some(word) = self.0.get_mut(at / 64) {
            *word |= 1 << (at % 64);
        }
    }

    /// Adds all of another.
    pub fn add(&mut self, other: &Self) {
        self.0.iter_mut().zip(other.0).for_each(|(word, more)| *word |= more);
    }

    /// Takes away all of another.
    pub fn remove(&mut self, other: &Self) {
        self.0.iter_mut().zip(other.0).for_each(|(word, less)| *word &= !less);
    }

    /// Whether it has the action, or any.
    #[inline]
    pub fn contains(&self, action: Action) -> bool {
        self.has(action) || self.has(Action::Any)
    }

    fn has(&self, action: Action) -> bool {
        let at = action as usize;
        self.0.get(at / 64).is_some_and(|word| word & (1 << (at % 64)) != 0)
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0 == [0; WORDS]
    }

    /// Those in it, by name.
    pub fn iter(&self) -> impl Iterator<Item = Action> + '_ {
        Action::ALL.iter().copied().filter(|action| self.has(*action))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn actions_are_sorted_by_name_and_found_by_it() {
        assert!(Action::ALL.is_sorted_by(|a, b| a.name() < b.name()));
        assert!(Action::ALL.iter().all(|action| Action::of_name(action.name()) == Some(*action)));
        assert_eq!(Action::of_name("findd"), None);
    }

    #[test]
    fn a_set_has_what_was_added_and_any_has_all() {
        let mut set = ActionSet::of(&[Action::Find, Action::ViewUser]);
        assert!(set.contains(Action::Find) && set.contains(Action::ViewUser) && !set.contains(Action::Insert));
        set.remove(&ActionSet::of(&[Action::Find]));
        assert_eq!(set.iter().collect::<Vec<_>>(), [Action::ViewUser]);
        set.add(&ActionSet::of(&[Action::Any]));
        assert!(set.contains(Action::Insert));
    }
}
