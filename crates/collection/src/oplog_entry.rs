//! What is written to the oplog for a change, and reading it back.
//!
//! Entries have the shape of MongoDB's `local.oplog.rs`, so that they can be served as that collection:
//!
//! ```text
//! {op: "i", ns, ui: UUID, rid: int64, sz: int32, o: <document>,                      wall: date, v: 2}
//! {op: "u", ns, ui: UUID, rid: int64, sz: int32, o: <document or {$v: 2, diff}>, o2: {_id}, wall: date, v: 2}
//! {op: "d", ns, ui: UUID, rid: int64, sz: int32, o: {_id},                           wall: date, v: 2}
//! {op: "c", ns: "db.$cmd", ui: UUID, o: <command>, o2: ...,                          wall: date, v: 2}
//! {op: "n", ns: "", o: {msg: ...},                                                   wall: date, v: 2}
//! ```
//!
//! `ts` is the entry's timestamp in the oplog's own framing and is added when an entry is served. Two fields are ours
//! and are left out then: `rid`, the record id, because replay finds records by it; `sz`, by how many bytes the size
//! of the collection's documents changes, because counts must not depend on what replay finds stored (an entry may be
//! replayed onto a newer record).
//!
//! The insertion of a document into a capped collection also has what it overtakes: `rh`, below which record id everything is gone, `rs` and `rd`, how many slots
//! and documents those are. `rid` is its place in the ring, so replay puts it where it was.
//!
//! An entry of a statement that can be retried has `lsid: {id: UUID}`, `txnNumber: int64` and `stmtId: int32` behind that, and, for the
//! reply to a retry, one of two more fields of ours: `im`, the document that `findAndModify` has returned, or `up: true`, which says
//! that the inserted document is one of an upsert.
//!
//! Of a collection with `changeStreamPreAndPostImages` an update or deletion also has `pre`, the document as it was.
//!
//! Everything in an entry is a final value, so replaying a run of entries onto any state from within that run gives
//! the state at its end. Formats are in `docs/file-format.md`.

mod decode;
mod delta;
mod encode;
mod served;
mod transaction_entry;

pub use decode::{DocumentEntry, DocumentOperation, Entry, EntryOrigin, RingMove};
pub(crate) use delta::apply_delta;
pub use encode::{EntryEncoder, LoggedEntry, StatementDetails, StatementOrigin, UpdateStyle, encode_note};
pub(crate) use encode::{EntryPrefix, EntryStyle, encode_command};
pub use served::{append, bson_timestamp, entry_subject, entry_wall, is_local, post_image, served_entry};
pub use transaction_entry::{
    Telling, TransactionCommit, TransactionEncoder, TransactionEntry, TransactionStep, is_told,
};
