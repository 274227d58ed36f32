//! A document database inside a Rust program: a directory is opened, and MongoDB's drivers or direct calls use it.
//!
//! Called by programs that want no server beside them. Built on `server`, whose `Database` the binary `plimsoll` serves, too, so that both are the
//! same: log, recovery, memory budget, commands. A directory of one can be opened by the other, by one at a time.
//!
//! ```
//! use plimsoll::bson::{rawdoc, RawDocumentBuf};
//! use plimsoll::{Database, Options};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // Options::new("shop-data") keeps it in a directory.
//! let database: Database = Options::in_memory().open()?;
//!
//! // Any driver of this program or of another one on this machine:
//! let address = database.address().ok_or("it was not to listen")?;
//! assert!(address.starts_with("mongodb://127.0.0.1:"));
//!
//! // Or commands without a socket between, each a document in and a document out:
//! let mut connection = database.connect()?;
//! connection.run("shop", &rawdoc! { "insert": "orders", "documents": [{ "_id": 1, "items": 3 }] })?;
//! let found = connection.run("shop", &rawdoc! { "find": "orders", "filter": { "items": { "$gt": 2 } } })?;
//! assert_eq!(found.get_document("cursor")?.get_array("firstBatch")?.into_iter().count(), 1);
//!
//! // What fails says why in MongoDB's codes.
//! let again = connection.run("shop", &rawdoc! { "createIndexes": "orders", "indexes": [] });
//! assert!(matches!(again, Err(plimsoll::CommandError::Failed { code: 2, .. })));
//!
//! database.close()?; // or dropped
//! # Ok(())
//! # }
//! ```
//!
//! What belongs to the process is the program's: its signals, its allocator, its limit on open files (a few hundred are enough), and where
//! `tracing` events go, by which the database tells what happens. Several databases may be open at once. A command runs on the thread that calls,
//! which wants 1.5 MiB of stack; asynchronous programs call from `spawn_blocking`, or use a driver.
//!
//! Must not know: commands, storage.

mod database;
mod errors;
mod options;

pub use bson;

/// The programs of the guide, as tests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/guide/in-a-program.md")]
pub struct Guide;

pub use database::{Connection, Database};
pub use errors::{CloseError, CommandError, OpenError};
pub use options::Options;
