//! The roles that every server has, and what they allow, by the tables of MongoDB's manual ("Built-In Roles").
//!
//! Called by `commands` when a user's roles are resolved, and by `rolesInfo`. The roles of a database exist in each; those
//! of the deployment in `admin` only. `builtin_roles/manual.txt` has the tables, and where these differ from them.

#[cfg(test)]
mod manual;

use crate::action::Action::{self, *};
use crate::action::ActionSet;
use crate::privilege_set::{PrivilegeSet, Resource};

/// Of every database.
const OF_DATABASES: &[&str] = &["dbAdmin", "dbOwner", "enableSharding", "read", "readWrite", "userAdmin"];
/// Of `admin` beside those.
const OF_ADMIN: &[&str] = &[
    "__system",
    "backup",
    "clusterAdmin",
    "clusterManager",
    "clusterMonitor",
    "dbAdminAnyDatabase",
    "directShardOperations",
    "hostManager",
    "readAnyDatabase",
    "readWriteAnyDatabase",
    "restore",
    "root",
    "searchCoordinator",
    "userAdminAnyDatabase",
];

const READ: &[Action] = &[
    ChangeStream,
    CollStats,
    DbHash,
    DbStats,
    Find,
    KillCursors,
    ListCollections,
    ListIndexes,
    ListSearchIndexes,
    PlanCacheRead,
];
const READ_SYSTEM: &[Action] =
    &[CollStats, DbHash, DbStats, Find, KillCursors, ListCollections, ListIndexes, ListSearchIndexes, PlanCacheRead];
const WRITE: &[Action] = &[
    ConvertToCapped,
    CreateCollection,
    CreateIndex,
    CreateSearchIndexes,
    DropCollection,
    DropIndex,
    DropSearchIndex,
    Insert,
    Remove,
    RenameCollectionSameDb,
    Update,
    UpdateSearchIndex,
];
const DB_ADMIN: &[Action] = &[
    BypassDocumentValidation,
    CollMod,
    CollStats,
    Compact,
    ConvertToCapped,
    CreateCollection,
    CreateIndex,
    CreateSearchIndexes,
    DbHash,
    DbStats,
    DropCollection,
    DropDatabase,
    DropIndex,
    DropSearchIndex,
    EnableProfiler,
    IndexStats,
    ListCollections,
    ListIndexes,
    ListSearchIndexes,
    PlanCacheIndexFilter,
    PlanCacheRead,
    PlanCacheWrite,
    QuerySettings,
    ReIndex,
    RenameCollectionSameDb,
    StorageDetails,
    UpdateSearchIndex,
    Validate,
];
const DB_ADMIN_PROFILE: &[Action] = &[ConvertToCapped, CreateCollection, DropCollection];
const USER_ADMIN: &[Action] = &[
    ChangeCustomData,
    ChangePassword,
    CreateRole,
    CreateUser,
    DropRole,
    DropUser,
    GrantRole,
    RevokeRole,
    SetAuthenticationRestriction,
    ViewRole,
    ViewUser,
];
const SHARDING: &[Action] =
    &[AnalyzeShardKey, EnableSharding, MoveCollection, RefineCollectionShardKey, ReshardCollection, UnshardCollection];
const CLUSTER_MANAGER: &[Action] = &[
    AddShard,
    AppendOplogNote,
    ApplicationMessage,
    CheckMetadataConsistency,
    CleanupOrphaned,
    FlushRouterConfig,
    GetClusterParameter,
    GetDefaultRwConcern,
    ListSessions,
    ListShards,
    MoveCollection,
    QuerySettings,
    RemoveShard,
    ReplSetConfigure,
    ReplSetGetConfig,
    ReplSetGetStatus,
    ReplSetResizeOplog,
    ReplSetStateChange,
    Resync,
    SetClusterParameter,
    SetDefaultRwConcern,
    SetFeatureCompatibilityVersion,
    SetFreeMonitoring,
    TransitionFromDedicatedConfigServer,
    TransitionToDedicatedConfigServer,
    UnshardCollection,
];
const CLUSTER_MANAGER_DATABASES: &[Action] = &[ClearJumboFlag, MoveChunk, SplitChunk, SplitVector];
const CLUSTER_MANAGER_CONFIG: &[Action] = &[Insert, Remove, Update];
const CLUSTER_MONITOR: &[Action] = &[
    AllCollectionStats,
    CheckFreeMonitoringStatus,
    ConnPoolStats,
    GetClusterParameter,
    GetCmdLineOpts,
    GetDefaultRwConcern,
    GetLog,
    GetParameter,
    GetShardMap,
    HostInfo,
    Inprog,
    ListDatabases,
    ListSampledQueries,
    ListSessions,
    ListShards,
    Netstat,
    QueryStatsRead,
    QueryStatsReadTransformed,
    ReplSetGetConfig,
    ReplSetGetStatus,
    ServerStatus,
    SetFreeMonitoring,
    ShardedDataDistribution,
    ShardingState,
    Top,
];
const CLUSTER_MONITOR_DATABASES: &[Action] = &[CollStats, DbStats, GetShardVersion, IndexStats, UseUuid];
const HOST_MANAGER: &[Action] = &[
    ApplicationMessage,
    AuditConfigure,
    CloseAllDatabases,
    Compact,
    ConnPoolSync,
    CpuProfiler,
    DropConnections,
    FlushRouterConfig,
    Fsync,
    GetClusterParameter,
    InvalidateUserCache,
    KillAnyCursor,
    KillAnySession,
    Killop,
    LogRotate,
    OidReset,
    Resync,
    RotateCertificates,
    SetClusterParameter,
    SetParameter,
    SetUserWriteBlockMode,
    Shutdown,
    Touch,
    Unlock,
];
const BACKUP_ANY: &[Action] = &[ListCollections, ListDatabases, ListIndexes, ListSearchIndexes];
const BACKUP: &[Action] = &[
    AppendOplogNote,
    GetClusterParameter,
    GetParameter,
    ListDatabases,
    PlimsollBackup,
    ServerStatus,
    SetUserWriteBlockMode,
];
const RESTORE: &[Action] = &[
    BypassDocumentValidation,
    ChangeCustomData,
    ChangePassword,
    CollMod,
    ConvertToCapped,
    CreateCollection,
    CreateIndex,
    CreateRole,
    CreateSearchIndexes,
    CreateUser,
    DropCollection,
    DropRole,
    DropUser,
    GrantRole,
    Insert,
    RevokeRole,
    UpdateSearchIndex,
    ViewRole,
    ViewUser,
];
const RESTORE_CLUSTER: &[Action] =
    &[BypassWriteBlockingMode, ForceUuid, GetParameter, SetClusterParameter, SetUserWriteBlockMode, UseUuid];
const RESTORE_SYSTEM: &[Action] = &[
    BypassDocumentValidation,
    CollMod,
    CreateCollection,
    CreateIndex,
    DropCollection,
    Find,
    Insert,
    Remove,
    Update,
    UpdateSearchIndex,
];
/// Where users, roles and their versions are.
const OF_USERS: &[&str] = &["system.new_users", "system.roles", "system.users", "system.version"];

/// Whether there is such a role in a database.
pub fn is_builtin(database: &str, role: &str) -> bool {
    OF_DATABASES.contains(&role) || (database == "admin" && OF_ADMIN.contains(&role))
}

/// The built-in roles of a database, sorted.
pub fn builtin_role_names(database: &str) -> Vec<&'static str> {
    let of_admin = OF_ADMIN.iter().filter(|_| database == "admin");
    let mut names: Vec<&str> = OF_DATABASES.iter().chain(of_admin).copied().collect();
    names.sort_unstable();
    names
}

/// What a built-in role of a database allows; `None`: there is no such role.
pub fn builtin_privileges(database: &str, role: &str) -> Option<PrivilegeSet> {
    if !is_builtin(database, role) {
        return None;
    }
    let mut builder = Builder(PrivilegeSet::default());
    builder.role(database, role);
    Some(builder.0)
}

/// A database by a name that no database has: all but the server's own.
const ANY: &str = "";

struct Builder(PrivilegeSet);

impl Builder {
    fn named(&mut self, database: &str, collection: &str, actions: &[Action]) {
        let resource = Resource::Named { database: database.to_owned(), collection: collection.to_owned() };
        self.0.add(&resource, &ActionSet::of(actions));
    }

    fn cluster(&mut self, actions: &[Action]) {
        self.0.add(&Resource::Cluster, &ActionSet::of(actions));
    }

    fn any(&mut self, actions: &[Action]) {
        self.0.add(&Resource::Any, &ActionSet::of(actions));
    }

    fn role(&mut self, database: &str, role: &str) {
        match role {
            "read" => self.read(database),
            "readWrite" => self.read_write(database),
            "dbAdmin" => self.db_admin(database),
            "userAdmin" => self.named(database, "", USER_ADMIN),
            "enableSharding" => self.named(ANY, "", SHARDING),
            "dbOwner" => {
                self.read_write(database);
                self.db_admin(database);
                self.named(database, "", USER_ADMIN);
            }
            "readAnyDatabase" => {
                self.read(ANY);
                self.cluster(&[ListDatabases]);
            }
            "readWriteAnyDatabase" => {
                self.read_write(ANY);
                self.cluster(&[ListDatabases]);
            }
            "dbAdminAnyDatabase" => {
                self.db_admin(ANY);
                self.cluster(&[ApplicationMessage, ListDatabases]);
            }
            "userAdminAnyDatabase" => self.user_admin_any_database(),
            "clusterManager" => self.cluster_manager(),
            "clusterMonitor" => self.cluster_monitor(),
            "hostManager" => {
                self.cluster(HOST_MANAGER);
                self.named(ANY, "", &[KillCursors]);
            }
            "clusterAdmin" => self.cluster_admin(),
            "backup" => self.backup(),
            "restore" => self.restore(),
            "root" => self.root(),
            "directShardOperations" => self.cluster(&[IssueDirectShardOperations]),
            "searchCoordinator" => {
                self.read(ANY);
                self.cluster(&[ListDatabases]);
                self.read_write("__mdb_internal_search");
            }
            "__system" => self.any(&[Any]),
            _ => {}
        }
    }

    fn read(&mut self, database: &str) {
        self.named(database, "", READ);
        self.named(database, "system.js", READ);
    }

    fn read_write(&mut self, database: &str) {
        self.read(database);
        self.named(database, "", WRITE);
        self.named(database, "system.js", WRITE);
    }

    fn db_admin(&mut self, database: &str) {
        self.named(database, "", DB_ADMIN);
        self.named(database, "system.profile", READ_SYSTEM);
        self.named(database, "system.profile", &[ChangeStream]);
        self.named(database, "system.profile", DB_ADMIN_PROFILE);
    }

    fn user_admin_any_database(&mut self) {
        self.named(ANY, "", USER_ADMIN);
        self.named("local", "", USER_ADMIN);
        self.named("config", "", USER_ADMIN);
        self.cluster(&[AuthSchemaUpgrade, InvalidateUserCache, ListDatabases]);
        for (database, collection) in [("admin", "system.users"), ("admin", "system.roles"), (ANY, "system.users")] {
            self.named(database, collection, READ_SYSTEM);
            self.named(database, collection, &[CreateIndex, CreateSearchIndexes, DropIndex, DropSearchIndex]);
        }
    }

    fn cluster_manager(&mut self) {
        self.cluster(CLUSTER_MANAGER);
        self.named(ANY, "", SHARDING);
        self.named(ANY, "", CLUSTER_MANAGER_DATABASES);
        for own in ["config", "local"] {
            self.named(own, "", SHARDING);
            self.named(own, "", CLUSTER_MANAGER_DATABASES);
            self.named(own, "", CLUSTER_MANAGER_CONFIG);
        }
        for (database, collection) in [("config", ""), ("config", "system.js"), ("local", "system.replset")] {
            self.named(database, collection, READ_SYSTEM);
        }
    }

    fn cluster_monitor(&mut self) {
        self.cluster(CLUSTER_MONITOR);
        self.named(ANY, "", CLUSTER_MONITOR_DATABASES);
        self.named(ANY, "system.profile", &[Find]);
        for own in ["config", "local"] {
            self.named(own, "", READ_SYSTEM);
            self.named(own, "", CLUSTER_MONITOR_DATABASES);
            self.named(own, "system.js", READ_SYSTEM);
        }
        self.named("local", "system.replset", &[Find]);
        self.named("local", "system.profile", &[Find]);
    }

    fn cluster_admin(&mut self) {
        self.cluster_manager();
        self.cluster_monitor();
        self.cluster(HOST_MANAGER);
        self.named(ANY, "", &[KillCursors, DropDatabase]);
    }

    fn backup(&mut self) {
        self.any(BACKUP_ANY);
        self.cluster(BACKUP);
        for database in [ANY, "config", "local"] {
            self.named(database, "", &[CollStats, Find]);
        }
        for collection in ["system.js", "system.profile", "system.users", "system.views"] {
            self.named(ANY, collection, &[Find]);
        }
        OF_USERS.iter().chain(&["system.backup_users"]).for_each(|own| self.named("admin", own, &[Find]));
        self.named("config", "settings", &[Insert, Update, Find]);
    }

    fn restore(&mut self) {
        self.any(&[ListCollections]);
        self.cluster(RESTORE_CLUSTER);
        for database in [ANY, "config", "local"] {
            self.named(database, "", RESTORE);
        }
        self.named("local", "", &[EnableProfiler]);
        self.named(ANY, "system.js", RESTORE);
        self.named(ANY, "system.views", RESTORE_SYSTEM);
        self.named(ANY, "system.users", RESTORE_SYSTEM);
        OF_USERS.iter().for_each(|own| self.named("admin", own, RESTORE_SYSTEM));
        self.named("admin", "tempusers", &[Find]);
        self.named("admin", "temproles", &[Find]);
    }

    fn root(&mut self) {
        for role in ["userAdminAnyDatabase", "clusterAdmin", "backup", "restore"] {
            self.role("admin", role);
        }
        self.read_write(ANY);
        self.db_admin(ANY);
        self.cluster(&[ApplicationMessage, ListDatabases]);
        self.any(&[Validate]);
        self.named("config", "system.preimages", &[Find, Remove]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::privilege_set::Target;

    fn allows(database: &str, role: &str, target: Target<'_>, action: Action) -> bool {
        builtin_privileges(database, role).unwrap().allows(target, action)
    }

    #[test]
    fn roles_are_where_the_manual_has_them() {
        assert!(is_builtin("shop", "readWrite") && !is_builtin("shop", "root") && is_builtin("admin", "root"));
        assert!(builtin_privileges("shop", "readAnyDatabase").is_none());
        for database in ["admin", "shop"] {
            for role in builtin_role_names(database) {
                assert!(!builtin_privileges(database, role).unwrap().privileges().is_empty(), "{role}");
            }
        }
    }

    #[test]
    fn reading_writing_and_ruling_are_told_apart() {
        let orders = Target::Collection("shop", "orders");
        let users = Target::Collection("admin", "system.users");
        let may = |role: &str, target, action| {
            let database = if OF_DATABASES.contains(&role) { "shop" } else { "admin" };
            allows(database, role, target, action)
        };
        assert!(may("read", orders, Find) && !may("read", orders, Insert));
        assert!(!may("read", Target::Collection("other", "orders"), Find));
        assert!(may("readWrite", orders, CreateIndex) && !may("readWrite", orders, CollMod));
        assert!(may("dbAdmin", orders, CollMod) && !may("dbAdmin", orders, Find) && !may("dbAdmin", orders, Insert));
        assert!(may("dbAdmin", Target::Collection("shop", "system.profile"), Find));
        assert!(may("dbOwner", Target::Database("shop"), CreateUser) && may("dbOwner", orders, Insert));
        assert!(!may("readAnyDatabase", Target::Collection("local", "oplog.rs"), Find));
        assert!(may("clusterMonitor", Target::Collection("local", "oplog.rs"), Find));
        assert!(may("backup", users, Find) && !may("backup", users, Insert) && may("restore", users, Insert));
        assert!(may("userAdminAnyDatabase", users, Find) && !may("userAdminAnyDatabase", users, Insert));
        assert!(!may("userAdminAnyDatabase", orders, Find) && !may("readWriteAnyDatabase", users, Find));
        assert!(
            may("clusterMonitor", Target::Cluster, ServerStatus) && !may("clusterMonitor", Target::Cluster, Shutdown)
        );
        assert!(may("hostManager", Target::Cluster, Shutdown) && may("root", Target::Cluster, Shutdown));
        assert!(
            may("root", orders, Find) && !may("root", Target::Anything, Any) && may("__system", Target::Anything, Any)
        );
    }
}
