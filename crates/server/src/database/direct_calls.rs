//! Commands of the program that a database runs in: by the same dispatcher as those of clients, without a socket between.
//!
//! A command runs on the thread that calls. Whoever runs the database may do everything with its files, so nobody logs in here.
//!
//! ```text
//! Caller ── connect ──▶ DirectClient ── run ──▶ the service, if it is there: a reply
//!    └ a weak reference                └ after the end: IsClosed
//! ```

use std::sync::{Arc, Weak};

use bson::{RawDocument, RawDocumentBuf};
use commands::ClientContext;

use crate::database_service::DatabaseService;
use crate::service::run_on;

/// The database is closed, or is being closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the database is closed")]
pub struct IsClosed;

/// Makes clients. Keeps no database open.
#[derive(Clone)]
pub struct Caller {
    service: Weak<DatabaseService>,
}

/// What a connection is to others: one command after the other. Cursors and sessions outlast it, as they outlast connections.
pub struct DirectClient {
    service: Weak<DatabaseService>,
    client: ClientContext,
}

impl Caller {
    pub(super) fn new(service: &Arc<DatabaseService>) -> Self {
        Self { service: Arc::downgrade(service) }
    }

    /// A new client; `name` says in `currentOp` whose it is.
    ///
    /// # Errors
    /// [`IsClosed`].
    pub fn connect(&self, name: &str) -> Result<DirectClient, IsClosed> {
        let service = self.service.upgrade().ok_or(IsClosed)?;
        Ok(DirectClient { service: self.service.clone(), client: service.connect_owner(name) })
    }
}

impl DirectClient {
    /// Runs one command in the database of this name. The reply is the command's, also when it says that it failed; `None`: there is none, as the
    /// connection would be closed in its place.
    ///
    /// # Errors
    /// [`IsClosed`].
    pub fn run(&mut self, database: &str, command: &RawDocument) -> Result<Option<RawDocumentBuf>, IsClosed> {
        let service = self.service.upgrade().ok_or(IsClosed)?;
        let _open = service.keep_open().ok_or(IsClosed)?;
        let reply = run_on(&*service, &mut self.client, database, command);
        let document = reply.and_then(|reply| {
            let bytes = reply.finished().get(reply.document_start()..)?;
            RawDocument::from_bytes(bytes).ok().map(ToOwned::to_owned)
        });
        Ok(document)
    }
}
