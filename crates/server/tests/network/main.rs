#![allow(clippy::unwrap_used, clippy::expect_used, clippy::disallowed_methods)]
//! The server over real sockets, with a service of a few commands.

mod binary;
mod client;
mod connections;
mod crowd;
mod protocol;
mod pymongo;
mod stopping;
mod test_service;
mod waiting;
