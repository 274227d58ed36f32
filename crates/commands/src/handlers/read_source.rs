//! What a query reads from: the one place where a name becomes something that has documents.
//!
//! Used by every command and stage that reads by name: `find`, `count`, `distinct`, `aggregate`, `explain`,
//! `collStats`, `$lookup`. Whoever matches on [`ReadSource`] is told by the compiler when there is another kind.

use std::sync::Arc;

use collection::{Collection, Namespace};
use executor::Target;

use super::views::{self, View};
use crate::request::error::{CommandError, Result};
use crate::state::queries::Queries;
use crate::state::reading::Reading;

/// The oplog's name as a collection.
pub(crate) const OPLOG: &str = "local.oplog.rs";

/// See the module's head.
pub(crate) enum ReadSource {
    /// What the executor reads.
    Stored(Stored),
    /// The oplog, which is read from its segments (`oplog_entries`).
    Oplog,
    /// What a pipeline makes of another source (`views`).
    View(View),
}

/// Documents in files of their own.
pub(crate) enum Stored {
    /// In a tree, with indexes.
    Collection(Arc<Collection>),
    /// In a ring: a capped collection.
    Ring(Arc<Collection>),
    /// There is no such collection, which reads as an empty one.
    Missing(Namespace),
}

impl ReadSource {
    /// What a name stands for, as the command's transaction or snapshot sees it.
    pub(crate) fn of(reading: Reading<'_>, namespace: Namespace) -> Result<Self> {
        Self::found_by(reading.queries, namespace, |namespace| reading.collection(namespace))
    }

    /// What a name stands for now.
    pub(crate) fn now(queries: Queries<'_>, namespace: Namespace) -> Result<Self> {
        Self::found_by(queries, namespace, |namespace| Ok(queries.store.catalog().lookup(namespace.as_str())))
    }

    /// What a name stands for, for who has his own way to look up a collection.
    pub(crate) fn found_by(
        queries: Queries<'_>,
        namespace: Namespace,
        look_up: impl FnOnce(&Namespace) -> Result<Option<Arc<Collection>>>,
    ) -> Result<Self> {
        if is_oplog(&namespace) {
            return Ok(Self::Oplog);
        }
        Ok(Self::Stored(match look_up(&namespace)? {
            None => match views::resolve(queries, &namespace)? {
                Some(view) => return Ok(Self::View(view)),
                None => Stored::Missing(namespace),
            },
            Some(collection) if collection.ring().is_some() => Stored::Ring(collection),
            Some(collection) => Stored::Collection(collection),
        }))
    }

    /// What the executor reads, for what cannot be done with anything else.
    ///
    /// # Errors
    /// NotImplemented, with what it was.
    pub(crate) fn target_for(self, purpose: &str) -> Result<Target> {
        match self {
            Self::Stored(stored) => Ok(stored.target()),
            Self::Oplog => Err(CommandError::not_implemented(format!("{purpose} on {OPLOG}"))),
            Self::View(view) => Err(views::not_on_view(&view.namespace)),
        }
    }
}

impl Stored {
    /// For the executor.
    pub(crate) fn target(self) -> Target {
        match self {
            Self::Collection(collection) | Self::Ring(collection) => Target::of(&collection),
            Self::Missing(namespace) => Target::missing(namespace),
        }
    }

    /// The collection, if there is one.
    pub(crate) fn collection(&self) -> Option<&Arc<Collection>> {
        match self {
            Self::Collection(collection) | Self::Ring(collection) => Some(collection),
            Self::Missing(_) => None,
        }
    }
}

/// Whether a namespace is that of the oplog.
pub(crate) fn is_oplog(namespace: &Namespace) -> bool {
    namespace.as_str() == OPLOG
}

#[cfg(test)]
mod tests {
    use bson::{Document, doc};

    use crate::test_server::TestServer;

    fn first_batch(reply: &Document) -> usize {
        reply.get_document("cursor").unwrap().get_array("firstBatch").unwrap().len()
    }

    #[test]
    fn whoever_reads_by_name_reads_the_oplog_too() {
        let mut server = TestServer::new();
        server.run("test", doc! {"insert": "c", "documents": [{"_id": 1}, {"_id": 2}]});
        server.run("local", doc! {"insert": "one", "documents": [{"_id": 1}]});
        let inserts = doc! {"ns": "test.c", "op": "i"};
        let found = server.run("local", doc! {"find": "oplog.rs", "filter": inserts.clone()});
        assert_eq!(first_batch(&found), 2);
        assert_eq!(server.run("local", doc! {"count": "oplog.rs", "query": inserts.clone()}).get_i32("n").unwrap(), 2);
        let stages =
            bson::bson!([{"$limit": 1}, {"$unionWith": {"coll": "oplog.rs", "pipeline": [{"$match": inserts}]}}]);
        let united = server.run("local", doc! {"aggregate": "one", "pipeline": stages, "cursor": {}});
        assert_eq!(first_batch(&united), 3);
        for explained in
            [doc! {"explain": {"count": "oplog.rs"}}, doc! {"aggregate": "oplog.rs", "pipeline": [], "explain": true}]
        {
            assert_eq!(server.fail("local", explained).0, 238);
        }
    }
}
