//! The log that the members of a replica set follow: what it must give, what its records say, and which of them count.
//!
//! `SharedLog` is what Kafka, an object store or a directory must be able to do. A record of it carries bytes of the primary's oplog, or claims the lead.
//! Every member reads the records in order and decides by one rule (`Reading`) which count; `Writer` is the primary's side of it. Both are state machines
//! without threads, clocks and input, so that a property test can run them a hundred thousand times (`simulation`). The reasons:
//! `docs/decisions/0022-one-rule-for-a-shared-log.md`.
//!
//! Called by: nobody yet; `transaction` is to ship and apply through it. Built on: `platform` (disk, clock, randomness).
//! Must not know: BSON, the oplog's entries, trees, sockets. The oplog's bytes are bytes, with the places where entries end.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

mod candidacy;
mod directory_log;
mod error;
mod examination;
mod log;
mod log_key;
mod memory_log;
mod notice;
mod object_log;
mod reading;
mod record;
mod restless_log;
mod sealed_log;
#[cfg(test)]
mod simulation;
mod standing;
mod window;
mod writer;

pub use candidacy::{CHANCE, Candidacy, SILENCE};
pub use directory_log::DirectoryLog;
pub use error::{Refused, Result, SharedLogError};
pub use examination::{Examined, examine};
pub use log::{ARRIVES_WITHIN, AppendOutcome, Bounds, LogIdentity, Offset, Sending, SharedLog, StoredRecord, Ticket};
pub use log_key::KeyAmongNotices;
pub use memory_log::{Connection, Faults, MemoryLog};
pub use notice::Notice;
pub use object_log::{ObjectLog, Objects};
pub use reading::{Effect, Ignored, Place, Reading, Rule};
pub use record::{Leader, RANGE_BYTES_MAX, RECORD_BYTES_MAX, Record, RecordKind, STORED_BYTES_MAX};
pub use restless_log::RestlessLog;
pub use sealed_log::SealedLog;
pub use standing::Standing;
pub use window::{Peek, Window, WindowBegin, window_begins};
pub use writer::{Role, Writer};
