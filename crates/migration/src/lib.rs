//! `plimsoll copy`: databases from one MongoDB-compatible server to another, while the first one is in use; and
//! `plimsoll check`, which says before what would be refused.
//!
//! Called by the `plimsoll-lab` binary, which has the driver. It knows servers only by a connection string, and no other crate of this workspace.
//!
//! ```text
//! catalog   what the source has: collections, options, indexes, views
//! selection which of it
//! renaming  and what it is called on the target
//! ranges    each collection in parts by _id, so that several are read at once
//! transfer  one part: read, insert, remember how far (state)
//! definitions  collections before, indexes and views after
//! follow    what changed meanwhile, from the source's change stream
//! verify    both sides read side by side
//! report    what was carried over, and what could not be and why
//! check     what the source has and does, tried on an empty Plimsoll
//! ```
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "works between other programs with the machine's own clock and files; the simulator never runs it"
)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

mod catalog;
mod check;
mod copy;
mod definitions;
mod error;
mod follow;
mod ranges;
mod renaming;
mod report;
mod selection;
mod state;
mod transfer;
mod users;
mod verify;

pub use check::{CheckArguments, run as check};
pub use copy::{CopyArguments, run as copy};
pub use error::CopyError;
