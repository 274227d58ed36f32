#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]
//! The server around the commands: configuration, listening, connections, threads, the diagnostic log, stopping.
//!
//! Called by the binary `plimsoll` (`main.rs`) and by tests that bring a service of their own. Asynchronous code lives
//! in this crate only, and only to watch idle connections; commands run on blocking threads (see `connection`).
//!
//! Must not know: documents' content, storage. It reads a command's name and database and hands the rest to a
//! [`CommandService`].
//!
//! ```text
//! main ─ configuration ─ Listeners::bind ─ open the service ─ serve
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

mod before_login;
mod channel;
pub mod configuration;
mod connection;
mod connection_memory;
pub mod console;
mod crowd;
mod exchange;
mod flight_recording;
mod handle;
mod http;
mod listener;
mod logging;
pub mod metrics;
mod peer;
mod read_buffer;
mod readiness;
mod refusal;
mod reply_writing;
pub mod rotated_file;
mod serve;
mod service;
mod tls;
mod unix_socket;

pub use crowd::command_waits;
pub use flight_recording::{FlightRecording, Warnings, read_figures, recorded_figures};
pub use handle::{ConnectionCounts, ConnectionLimits, NetworkCounts, ServerHandle};
pub use http::HttpEndpoint;
pub use listener::{ListenError, Listeners};
pub use logging::{DiagnosticLog, LogDestination, LogFormat, RecentLog, STARTUP_WARNINGS};
pub use peer::Peer;
pub use serve::{ServeError, ServeOptions, serve};
pub use service::{
    Attempt, CommandService, Completion, ConnectionInfo, Next, Protocol, ReplyWanted, Request, Standing,
};
pub use tls::{Passphrase, ServerCertificate, Tls, TlsError, TlsMode, TlsSettings, TlsVersion, subject_of_certificate};
