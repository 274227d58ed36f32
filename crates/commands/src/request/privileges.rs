//! What a user must be allowed to do for a command, by the names of MongoDB's manual.
//!
//! Declared by each command ([`crate::request::declaration`]); shown by the compatibility page. There are no users yet,
//! so nothing is refused for it. What depends on a command's fields (the stages of a pipeline, the target of a rename)
//! its handler has to add.

/// Some actions on something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Privilege {
    pub(crate) resource: Resource,
    pub(crate) action: Action,
}

/// On what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Resource {
    /// The server as a whole.
    Cluster,
    /// The database that the command is sent to.
    Database,
    /// The collection that the command names.
    Collection,
    /// Whatever there is.
    Anything,
}

macro_rules! actions {
    ($($variant:ident $name:literal,)*) => {
        /// What is done.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(crate) enum Action {
            $(#[doc = $name] $variant,)*
        }

        impl Action {
            /// As MongoDB calls it.
            pub(crate) const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }
        }
    };
}

actions! {
    Any "anyAction",
    AppendOplogNote "appendOplogNote",
    CollMod "collMod",
    CollStats "collStats",
    Compact "compact",
    ConnPoolStats "connPoolStats",
    ConvertToCapped "convertToCapped",
    CpuProfiler "cpuProfiler",
    CreateCollection "createCollection",
    CreateIndex "createIndex",
    DbHash "dbHash",
    DbStats "dbStats",
    DropCollection "dropCollection",
    DropDatabase "dropDatabase",
    DropIndex "dropIndex",
    EnableProfiler "enableProfiler",
    Find "find",
    Fsync "fsync",
    GetCmdLineOpts "getCmdLineOpts",
    GetDefaultRwConcern "getDefaultRWConcern",
    GetLog "getLog",
    GetParameter "getParameter",
    HostInfo "hostInfo",
    Inprog "inprog",
    Insert "insert",
    KillAnySession "killAnySession",
    Killop "killop",
    ListCollections "listCollections",
    ListDatabases "listDatabases",
    ListIndexes "listIndexes",
    LogRotate "logRotate",
    PlanCacheIndexFilter "planCacheIndexFilter",
    PlanCacheWrite "planCacheWrite",
    ReIndex "reIndex",
    Remove "remove",
    RenameCollectionSameDb "renameCollectionSameDB",
    ReplSetConfigure "replSetConfigure",
    ReplSetGetConfig "replSetGetConfig",
    ReplSetGetStatus "replSetGetStatus",
    ReplSetResizeOplog "replSetResizeOplog",
    ReplSetStateChange "replSetStateChange",
    RotateCertificates "rotateCertificates",
    ServerStatus "serverStatus",
    SetDefaultRwConcern "setDefaultRWConcern",
    SetFeatureCompatibilityVersion "setFeatureCompatibilityVersion",
    SetParameter "setParameter",
    Shutdown "shutdown",
    Top "top",
    Unlock "unlock",
    Update "update",
    Validate "validate",
}

impl Resource {
    /// For people.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Cluster => "the cluster",
            Self::Database => "the database",
            Self::Collection => "the collection",
            Self::Anything => "anything",
        }
    }
}

/// `action` on the server as a whole.
pub(crate) const fn on_cluster(action: Action) -> Privilege {
    Privilege { resource: Resource::Cluster, action }
}

/// `action` on the command's database.
pub(crate) const fn on_database(action: Action) -> Privilege {
    Privilege { resource: Resource::Database, action }
}

/// `action` on the collection that the command names.
pub(crate) const fn on_collection(action: Action) -> Privilege {
    Privilege { resource: Resource::Collection, action }
}

/// What is for those who may do everything.
pub(crate) const EVERYTHING: Privilege = Privilege { resource: Resource::Anything, action: Action::Any };
