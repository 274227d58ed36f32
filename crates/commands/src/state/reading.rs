//! What a command reads from: collections, as its transaction or its snapshot sees them, and what it takes to run a query.
//!
//! Made by `Context` for handlers that read and need nothing else of the command or the server.

use std::sync::Arc;

use collection::{Collection, Namespace};
use platform::{Clock, Timestamp};
use transaction::{ReadView, Transaction};

use crate::request::error::CommandError;
use crate::state::context::Context;
use crate::state::queries::Queries;
use crate::state::query_settings::QuerySettings;

/// See the module's head.
#[derive(Clone, Copy)]
pub(crate) struct Reading<'a> {
    /// The database that the request names.
    pub(crate) database: &'a str,
    pub(crate) queries: Queries<'a>,
    pub(crate) clock: &'a Arc<dyn Clock>,
    /// What has been said of shapes of queries.
    pub(crate) settings: &'a QuerySettings,
    transaction: Option<&'a Arc<Transaction>>,
    /// What a read with the concern `snapshot` reads from.
    snapshot: Option<&'a ReadView>,
}

impl Context<'_> {
    /// What it reads from.
    pub(crate) fn reading(&self) -> Reading<'_> {
        Reading {
            database: self.request.database,
            queries: self.server.queries(),
            clock: &self.server.clock,
            settings: &self.server.query_settings,
            transaction: self.session.transaction(),
            snapshot: self.snapshot.as_ref(),
        }
    }
}

impl Reading<'_> {
    /// What readers see now, or what the transaction or snapshot sees.
    pub(crate) fn view(&self) -> ReadView {
        self.fixed_view().unwrap_or_else(|| self.queries.store.read_view())
    }

    /// What the command reads from in order to write: what is visible now, confirmed or not, or what its transaction sees.
    pub(crate) fn newest_view(&self) -> ReadView {
        self.fixed_view().unwrap_or_else(|| self.queries.store.newest_view())
    }

    /// What the command reads from if it is one point in time for all it reads: that of its transaction, or of a snapshot.
    pub(crate) fn fixed_view(&self) -> Option<ReadView> {
        match self.transaction {
            Some(transaction) => Some(transaction.read_view()),
            None => self.snapshot.cloned(),
        }
    }

    /// The transaction that the command is a part of.
    pub(crate) fn transaction(&self) -> Option<&Arc<Transaction>> {
        self.transaction
    }

    /// Whether the command is a part of a transaction.
    pub(crate) fn is_in_transaction(&self) -> bool {
        self.transaction.is_some()
    }

    /// The collection of a name, as the command's transaction or snapshot sees it.
    pub(crate) fn collection(&self, namespace: &Namespace) -> Result<Option<Arc<Collection>>, CommandError> {
        let store = self.queries.store;
        match self.snapshot {
            Some(view) => Ok(store.collection_at(namespace, view.timestamp())?),
            None => Ok(store.collection_seen_by(self.transaction, namespace)?),
        }
    }

    /// `atClusterTime` of the reply: when a snapshot is that it has read from.
    pub(crate) fn snapshot_time(&self) -> Option<Timestamp> {
        self.snapshot.map(ReadView::timestamp)
    }
}
