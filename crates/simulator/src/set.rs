//! Several stores over one faulty log: a whole replica set on one thread, driven by a seed.
//!
//! Called by `run_set_seed`. Three members with disks and clocks of their own follow one log in memory by the product's own code (`replication`), while
//! clients write, retry and read. The log loses, repeats, delays and overtakes; members are stopped, cut off, killed, lose their power at any operation, step down
//! and take over; the log's beginning is trimmed.
//!
//! ```text
//! step ─ clients (client, writes) ──┬─ stores ── at_moment ── other members' turns, deliveries, readers
//!      ├ turns (machine) ─ members ─┤
//!      ├ troubles                   └─ connection ── the log
//!      └ readers ─ truth: what was told, what was seen         ending: all members together
//! ```
//!
//! What was told to a client or seen by a reader is never undone, a retried write is done once, a reader sees one moment, and in the end all members have the same.
//! `mistakes` has what is done wrongly on purpose, to show that seeds notice it.

mod client;
mod connection;
mod ending;
mod equality;
mod machine;
mod mistakes;
mod readers;
mod troubles;
mod truth;
mod world;
mod writes;

pub use mistakes::Mistake;
pub(crate) use world::World;
