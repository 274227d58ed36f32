//! Golden scripts of this crate: every folder of `testscripts/` has a module here that says what its sections mean.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod accumulator;
mod expression;
mod filter;
mod projection;

use query_language::{ErrorKind, QueryError};

/// Where a folder of scripts is.
fn folder(name: &str) -> String {
    format!("{}/testscripts/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// An error as the scripts write it: `error BadValue: message`.
fn error_line(error: &QueryError) -> String {
    match error.kind {
        ErrorKind::Location(number) => format!("error Location{number}: {}", error.message),
        kind => format!("error {kind:?}: {}", error.message),
    }
}
