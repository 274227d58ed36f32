//! What a command changes definitions with: collections, their options and indexes, views, databases.
//!
//! Made by `Context` for the commands in `schema` that change something. Beside what changes documents, in which views are kept, it has what is
//! known of collections by their names, and what waits until a change is safe.

use collection::Namespace;
use transaction::{DefinitionScope, Exclusion};

use crate::request::error::Result;
use crate::state::acknowledgement::Acknowledging;
use crate::state::changing::Changing;
use crate::state::context::Context;
use crate::state::namespace_usage::NamespaceUsage;
use crate::state::operations::Operation;
use crate::state::profiler::{DatabaseProfile, Profiler};
use crate::state::queries::Queries;
use crate::state::reading::Reading;

/// See the module's head.
pub(crate) struct Defining<'a> {
    pub(crate) changing: Changing<'a>,
    pub(crate) acknowledging: Acknowledging<'a>,
    /// Whose records are kept in collections, which must not go meanwhile.
    pub(crate) profiler: &'a Profiler,
    usage: &'a NamespaceUsage,
}

impl Context<'_> {
    /// What it changes definitions with.
    pub(crate) fn defining(&self) -> Defining<'_> {
        Defining {
            changing: self.changing(),
            acknowledging: self.acknowledging(),
            profiler: &self.server.profiler,
            usage: &self.server.usage,
        }
    }
}

impl<'a> Defining<'a> {
    /// The database that the request names.
    pub(crate) fn database(&self) -> &'a str {
        self.reading().database
    }

    /// What it sees of collections and documents.
    pub(crate) fn reading(&self) -> Reading<'a> {
        self.changing.reading
    }

    /// What finds collections, views and time series as they are now.
    pub(crate) fn queries(&self) -> Queries<'a> {
        self.reading().queries
    }

    /// Itself, as it runs.
    pub(crate) fn operation(&self) -> &'a Operation<'a> {
        self.changing.operation
    }

    /// Keeps transactions out of collections whose definitions are to change, once none that is open uses them.
    pub(crate) fn exclude_transactions(&self, scope: &DefinitionScope) -> Result<Exclusion<'a>> {
        let operation = self.operation();
        let excluded = self.queries().store.exclude_transactions(scope, &|| operation.check_interrupt().is_err());
        excluded.map_err(|error| operation.name_interruption(error.into()))
    }

    /// A collection of this name is no more: what was known by the name is forgotten.
    pub(crate) fn forget(&self, namespace: &Namespace) {
        self.usage.forget(namespace.as_str());
    }

    /// The same of a database.
    pub(crate) fn forget_database(&self, database: &str) {
        self.usage.forget_database(database);
        self.profiler.set_database(database, DatabaseProfile::default());
    }
}
