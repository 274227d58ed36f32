//! What can go wrong with a copy. Everything that was copied stays, and the same command goes on where it ended.

use std::path::PathBuf;

use mongodb::error::{Error as DriverError, ErrorKind};

/// Why a copy ended early.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CopyError {
    /// A connection string is malformed, or a server does not answer.
    #[error("cannot use {which}: {}", reason(.source))]
    Unreachable {
        /// `SOURCE` or `TARGET`.
        which: &'static str,
        /// As the driver says it.
        source: Box<DriverError>,
    },
    /// A command failed.
    #[error("{what}: {}", reason(.source))]
    Command {
        /// What it was for.
        what: String,
        /// As the driver says it.
        source: Box<DriverError>,
    },
    /// A document was refused.
    #[error("{namespace}: the target refused a document: {reason}")]
    Refused {
        /// The collection.
        namespace: String,
        /// As the target says it.
        reason: String,
    },
    /// The file that says how far the copy is cannot be used.
    #[error("{path}: {reason}")]
    State {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// Nothing was done: what was asked for cannot be.
    #[error("{0}")]
    Refusal(String),
}

impl CopyError {
    /// Of a command for `what`.
    pub(crate) fn command(what: impl Into<String>) -> impl FnOnce(DriverError) -> CopyError {
        let what = what.into();
        move |source| CopyError::Command { what, source: Box::new(source) }
    }
}

/// The server's own words where there are some.
pub(crate) fn reason(error: &DriverError) -> String {
    match error.kind.as_ref() {
        ErrorKind::Command(refusal) => format!("{} ({}, {})", refusal.message, refusal.code, refusal.code_name),
        _ => error.to_string(),
    }
}
