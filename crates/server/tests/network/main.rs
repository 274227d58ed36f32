#![allow(clippy::unwrap_used, clippy::expect_used, clippy::disallowed_methods)]
//! The server over real sockets, with a service of a few commands.

#[path = "../../examples/test_certificates/authority.rs"]
mod authority;
mod binary;
mod client;
mod connections;
mod console;
mod crowd;
mod protocol;
mod pymongo;
mod stopping;
mod test_service;
mod tls;
mod unix_socket;
mod waiting;
