//! Golden scripts over a whole server without a network: which plan a query gets and why; what transactions see of each other.
//!
//! `SCRIPT_TEST_RECORD=1 cargo test -p commands --test scripts` writes the outcomes anew; review the diff.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod plans;
#[path = "../generated/small_server.rs"]
#[allow(dead_code, reason = "the other tests use the rest")]
mod small_server;
mod transactions;

use bson::{Bson, Document, RawBson};

/// A value of a script as a value of a command.
fn bson(value: RawBson) -> Bson {
    Bson::try_from(value).unwrap()
}

/// The documents or values of a line.
fn values(text: &str) -> Vec<Bson> {
    script_test::literal::parse_values(text)
        .unwrap_or_else(|problem| panic!("{text}: {problem:?}"))
        .into_iter()
        .map(bson)
        .collect()
}

/// A document as scripts write it.
fn printed(document: &Document) -> String {
    script_test::print_document(&bson::RawDocumentBuf::try_from(document).unwrap())
}

/// Whether a reply says that the command succeeded.
fn is_ok(reply: &Document) -> bool {
    reply.get_f64("ok").is_ok_and(|ok| ok == 1.0)
}
