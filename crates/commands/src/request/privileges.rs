//! What a user must be allowed to do for a command, by the names of MongoDB's manual.
//!
//! Declared by each command ([`crate::request::declaration`]), asked for by `dispatcher`, shown by the compatibility page.
//! What depends on a command's fields (the stages of a pipeline, the target of a rename) is told by a function
//! ([`crate::request::requirements`]).

pub(crate) use authentication::Action;

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
