//! Where `$out` writes: a new collection beside the one that it will replace.
//!
//! Made by `pipeline_host` once a pipeline is pulled. What is written is seen by nobody until the pipeline has ended.

use std::sync::Arc;

use aggregation::OutputWriter;
use bson::{RawDocument, RawDocumentBuf};
use collection::{Collection, CollectionOptions, IndexSpecification, Namespace, Validation};
use document::EmptyTimestamps;
use transaction::{CommitInfo, DefinitionScope, InsertOrder, RenameTarget};

use super::query_arguments::{OwnedInterrupt, host_error};
use crate::handlers::schema::check_may_create;
use crate::handlers::time_series;
use crate::handlers::views;
use crate::request::error::{CommandError, Result};
use crate::state::context::ServerContext;

/// Bytes of documents that `$out` collects before it inserts them.
const OUTPUT_BYTES: usize = 256 * 1024;

/// See the module's head.
pub(super) struct ReplacingOutput {
    server: Arc<ServerContext>,
    target: Namespace,
    temporary: Namespace,
    interrupt: OwnedInterrupt,
    collection: Arc<Collection>,
    validation: Validation,
    documents: Vec<RawDocumentBuf>,
    bytes: usize,
    is_finished: bool,
}

impl ReplacingOutput {
    /// Makes the new collection, with the options and indexes of the one that it will replace.
    ///
    /// # Errors
    /// The target is the server's own, or a view; those of making a collection.
    pub(super) fn begin(
        server: &Arc<ServerContext>,
        target: Namespace,
        validation: Validation,
        interrupt: OwnedInterrupt,
    ) -> Result<Self> {
        check_may_replace(&target)?;
        views::refuse(server.queries(), &target)?;
        time_series::refuse(server.queries(), &target, "$out")?;
        let store = &server.store;
        let existing = store.catalog().lookup(target.as_str());
        let options = match &existing {
            Some(collection) => collection.definition().options.clone(),
            None => CollectionOptions::default(),
        };
        let unique = server.new_object_id().to_hex();
        let temporary = Namespace::new(target.database(), &format!("tmp.agg_out.{unique}"))?;
        let (collection, _) = store.create_collection(&temporary, options)?;
        let output = Self {
            server: server.clone(),
            target,
            temporary,
            interrupt,
            collection,
            validation,
            documents: Vec::new(),
            bytes: 0,
            is_finished: false,
        };
        if let Some(existing) = existing {
            let indexes = existing.indexes();
            let copied: Vec<IndexSpecification> = indexes
                .complete()
                .filter(|index| index.is_readable())
                .map(|index| index.specification())
                .filter(|specification| !specification.is_id_index())
                .cloned()
                .collect();
            if !copied.is_empty() {
                store.create_indexes(&output.collection, copied)?;
            }
        }
        Ok(output)
    }

    fn insert_collected(&mut self) -> Result<()> {
        let documents: Vec<&RawDocument> = self.documents.iter().map(AsRef::as_ref).collect();
        let outcome = self.server.with_write_context(|write| {
            let (store, collection) = (&self.server.store, &self.collection);
            store.insert_documents(write, collection, &documents, InsertOrder::Ordered, self.validation)
        });
        self.documents.clear();
        self.bytes = 0;
        match outcome.errors.into_iter().next() {
            Some((_, error)) => Err(error.into()),
            None => Ok(()),
        }
    }

    fn add(&mut self, document: &RawDocument) -> Result<()> {
        let document = as_stored(&self.server, document)?;
        self.bytes += document.as_bytes().len();
        self.documents.push(document);
        if self.bytes >= OUTPUT_BYTES { self.insert_collected() } else { Ok(()) }
    }

    /// Once no open transaction uses it.
    fn replace_target(&self) -> Result<CommitInfo> {
        let store = &self.server.store;
        let scope = DefinitionScope::Collections(vec![self.target.clone()]);
        let _excluded = store
            .exclude_transactions(&scope, &|| self.interrupt.check_command().is_err())
            .map_err(|error| self.interrupt.check_command().err().unwrap_or_else(|| error.into()))?;
        Ok(store.rename_collection(&self.temporary, &self.target, RenameTarget::Drop)?)
    }
}

/// Refuses collections and databases of the server's own.
fn check_may_replace(target: &Namespace) -> Result<()> {
    if target.collection().starts_with("system.") {
        return Err(CommandError::numbered(
            17385,
            format!("Can't $out to special collection: {}", target.collection()),
        ));
    }
    if ["admin", "config", "local"].contains(&target.database()) {
        return Err(CommandError::numbered(31321, format!("Can't $out to internal database: {}", target.database())));
    }
    check_may_create(target)
}

impl OutputWriter for ReplacingOutput {
    fn write(&mut self, document: &RawDocument) -> aggregation::Result<()> {
        self.add(document).map_err(host_error)
    }

    fn finish(mut self: Box<Self>) -> aggregation::Result<()> {
        let renamed = self.insert_collected().and_then(|()| self.replace_target());
        self.is_finished = renamed.is_ok();
        renamed.map(|_| ()).map_err(host_error)
    }
}

impl Drop for ReplacingOutput {
    fn drop(&mut self) {
        if !self.is_finished {
            // The error that ended the pipeline is the one to be told about.
            let _ = self.server.store.drop_collection(&self.temporary);
        }
    }
}

/// A document as it is stored: with an `_id`, which is first, and without zero timestamps.
pub(super) fn as_stored(server: &ServerContext, document: &RawDocument) -> Result<RawDocumentBuf> {
    let clock = server.clock.wall_millis();
    let now = || server.timestamps.next(clock);
    let mut stored = Vec::new();
    let new_id = || server.new_object_id();
    let is_changed = document::prepare_for_storage(document, EmptyTimestamps::Replace, new_id, now, &mut stored)?;
    Ok(if is_changed { RawDocumentBuf::from_bytes(stored)? } else { document.to_owned() })
}
