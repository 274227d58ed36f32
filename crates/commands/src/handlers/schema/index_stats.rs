//! The documents of the `$indexStats` stage: how often each index was used by queries.

use std::fmt::Display;
use std::sync::Arc;

use bson::{DateTime, RawDocumentBuf};
use collection::Index;
use transaction::Store;

use crate::handlers::diagnostics::host_and_port;
use crate::request::document_writer::document_of;
use crate::request::error::Result;
use crate::state::context::ServerFacts;

/// One document an index of `database.collection`; none when there is no such collection.
pub(crate) fn index_statistics(
    store: &Store,
    facts: &ServerFacts,
    namespace: impl Display,
) -> Result<Vec<RawDocumentBuf>> {
    let Some(collection) = store.catalog().lookup(&namespace.to_string()) else { return Ok(Vec::new()) };
    let host = host_and_port(facts);
    let indexes = collection.indexes();
    let describe = |index: &Arc<Index>| {
        let (accesses, since_millis) = index.accesses();
        document_of(|document| {
            document.string("name", index.name());
            document.embed("key", &index.specification().key);
            document.string("host", &host);
            document.document("accesses", |figures| {
                figures.size("ops", accesses);
                figures.date("since", DateTime::from_millis(since_millis));
            });
            document.embed("spec", &index.specification().to_document());
        })
    };
    indexes.complete().map(describe).collect()
}
