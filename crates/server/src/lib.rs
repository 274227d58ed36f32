#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]
//! The server around the commands: configuration, listening, connections, threads, the diagnostic log, stopping.
//!
//! Called by the binary `plimsoll` (`main.rs`) and by tests that bring a service of their own. Asynchronous code lives
//! in this crate only, and only to watch idle connections; commands run on blocking threads (see `connection`).
//!
//! What is on the network must not know documents' content or storage: it reads a command's name and database and hands the rest to a
//! [`CommandService`]. [`Database`] puts both together, for the binary and for programs that have databases of their own (the crate `plimsoll`).
//! What belongs to a process stays in the binary.
//!
//! ```text
//! main ─ configuration ─ Listeners::bind ─ Database::open ─ serve
//!                                                              ├─ listener   accepts
//!                                                              ├─ tls        handshakes, certificates
//!                                                              ├─ connection idle / active / waiting
//!                                                              │    ├─ read_buffer   frames
//!                                                              │    └─ exchange      one request, one reply
//!                                                              ├─ http       metrics, for those who watch; the console
//!                                                              ├─ flight_recording  figures of each second
//!                                                              ├─ crowd      many busy connections, few threads
//!                                                              └─ stop on a signal or ServerHandle::request_stop
//! ```

mod archiving;
mod audit_log;
mod before_login;
mod channel;
pub mod configuration;
mod connection;
mod connection_memory;
mod connection_threads;
pub mod console;
mod crowd;
pub mod data_disk;
mod database;
mod database_service;
mod decoy_secret;
mod exchange;
mod flight_recording;
mod following;
mod handle;
mod http;
pub mod left_user;
mod listener;
mod logging;
mod memory_plan;
mod memory_watch;
pub mod metrics;
mod movable_clock;
mod otlp;
mod peer;
pub mod progress_lines;
mod read_buffer;
mod readiness;
mod refusal;
mod remote_access;
mod reply_writing;
pub mod restored_directory;
mod rotated_file;
mod serve;
mod service;
mod small_disk;
mod tls;
mod unix_socket;

pub use crowd::command_waits;
pub use database::{Caller, Database, DirectClient, EndError, IsClosed, OpenError, ProfileSampler, Surroundings};
pub use flight_recording::{FlightRecording, Warnings, read_figures, recorded_figures};
pub use following::{log_care, log_objects, log_restoring};
pub use handle::{ConnectionCounts, ConnectionLimits, NetworkCounts, ServerHandle};
pub use http::HttpEndpoint;
pub use listener::{ListenError, Listeners};
pub use logging::{DiagnosticLog, LogDestination, LogFormat, RecentLog, STARTUP_WARNINGS};
pub use peer::Peer;
pub use serve::{ServeError, ServeOptions, Signals, serve};
pub use service::{
    Attempt, CommandService, Completion, ConnectionInfo, Next, Protocol, ReplyWanted, Request, Standing,
};
pub use tls::{Passphrase, ServerCertificate, Tls, TlsError, TlsMode, TlsSettings, TlsVersion, subject_of_certificate};
