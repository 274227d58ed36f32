//! `local.startup_log`: one document for each start of the server, with how it was started and what it is.
//!
//! Written by the program once, before clients are served. It is for people and tools who look back; a start that cannot be noted is a start all the same.

use bson::{DateTime, RawDocumentBuf};
use collection::{CappedOptions, CollectionOptions, Namespace, Validation};

use crate::handlers::diagnostics::build_info;
use crate::request::document_writer::document_of;
use crate::request::error::{CommandError, Result};
use crate::state::context::ServerFacts;
use crate::state::writing::Writing;

const NAMESPACE: &str = "local.startup_log";
/// Bytes that are kept: some hundreds of starts.
const BYTES: i64 = 1 << 20;

/// Notes that the server starts.
pub(crate) fn note(writing: &Writing, facts: &ServerFacts) -> Result<()> {
    let namespace = Namespace::parse(NAMESPACE)?;
    if writing.store.catalog().lookup(NAMESPACE).is_none() {
        let options =
            CollectionOptions { capped: Some(CappedOptions::new(BYTES, None)?), ..CollectionOptions::default() };
        writing.store.create_collection(&namespace, options)?;
    }
    let collection = writing.store.collection_or_create(&namespace)?;
    let document = start(facts, writing.clock.wall_millis())?;
    writing.with_context(|write| {
        writing.store.insert_document(write, &collection, &document, Validation::Bypass).map_err(CommandError::from)
    })?;
    Ok(())
}

fn start(facts: &ServerFacts, millis: i64) -> Result<RawDocumentBuf> {
    document_of(|document| {
        document.string("_id", &format!("{}-{millis}", facts.host_name));
        document.string("hostname", &facts.host_name);
        document.date("startTime", DateTime::from_millis(millis));
        document.embed("cmdLine", &facts.configuration);
        document.int64("pid", i64::from(std::process::id()));
        document.document("buildinfo", |build| build_info::write(&facts.build, build));
    })
}

#[cfg(test)]
mod tests {
    use bson::doc;

    use crate::test_server::TestServer;

    #[test]
    fn each_start_is_noted_and_is_no_business_of_others() {
        let mut server = TestServer::new();
        server.dispatcher.server().note_start();
        server.clock.advance(std::time::Duration::from_secs(5));
        server.dispatcher.server().note_start();
        let found = server.run("local", doc! {"find": "startup_log"});
        let found = found.get_document("cursor").unwrap().get_array("firstBatch").unwrap().clone();
        assert_eq!(found.len(), 2);
        let first = found[0].as_document().unwrap();
        assert_eq!(first.get_str("hostname").unwrap(), "machine");
        assert!(first.get_document("buildinfo").unwrap().contains_key("version"));
        assert_eq!(server.run("local", doc! {"count": "oplog.rs"}).get_i32("n").unwrap(), 0);
    }
}
