//! The console: a page for a browser that `--console ADDR` serves, and the commands that it asks for.
//!
//! `main` makes the router and gives it to an [`crate::HttpEndpoint`]. There is no second way in: a browser's command is run by
//! [`CommandService`], as a client's of the wire protocol is, as the user who has logged in. The page and its scripts are in the folder
//! `console` of this crate, and in the binary ([0027](../../../docs/decisions/0027-the-console.md)).
//!
//! ```text
//! browser ─ guard (Host, Origin, headers) ─┬─ GET  /, /*.js, /*.css ─ files
//!                                          ├─ POST /api/whoami, /api/login, /api/logout ─ sessions
//!                                          └─ POST /api/command ─ extended_json ─ command ─ CommandService::run
//! ```

mod body;
mod command;
mod extended_json;
mod files;
mod guard;
mod login;
mod sessions;

use std::net::SocketAddr;
use std::sync::Arc;

use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Extension, Router};
use platform::{Clock, MemoryBudget};
use tokio::sync::Semaphore;

use self::guard::Guard;
use self::sessions::{Session, Sessions};
use crate::handle::ServerHandle;
use crate::http::Ends;
use crate::peer::Peer;
use crate::service::{CommandService, ConnectionInfo};

/// Commands at once of all who have not logged in, where that is asked for.
const CALLS_OF_STRANGERS: usize = 4;
/// Logins at once: each computes, and those that failed before wait.
const LOGINS: usize = 4;

/// Runs the console's commands.
pub trait ConsoleService: CommandService {
    /// Another connection of a client who has logged in, if he has to.
    fn connected_again(&self, known: &Self::Client, connection: u64) -> Self::Client;

    /// Logs a client in as every client logs in. May block.
    ///
    /// # Errors
    /// What the client is told.
    fn log_in(&self, client: &mut Self::Client, user: &str, database: &str, password: &str) -> Result<(), String>;
}

/// What the console is told.
pub struct ConsoleOptions {
    /// Where it listens, as the operator wrote it: a name in it is one that browsers may use.
    pub listen: String,
    /// The address that is.
    pub address: SocketAddr,
    /// Whether browsers come encrypted.
    pub is_encrypted: bool,
    /// What requests and answers are counted in.
    pub memory: Arc<MemoryBudget>,
    /// By which sessions end.
    pub clock: Arc<dyn Clock>,
}

/// What all requests share.
struct Console<S: ConsoleService> {
    service: Arc<S>,
    handle: ServerHandle,
    memory: Arc<MemoryBudget>,
    sessions: Sessions<S::Client>,
    strangers: Semaphore,
    logins: Semaphore,
}

/// All paths.
pub fn router<S: ConsoleService>(service: Arc<S>, handle: ServerHandle, options: ConsoleOptions) -> Router {
    let guard = Arc::new(Guard::new(&options));
    let sessions = Sessions::new(options.clock, options.address.port(), options.is_encrypted);
    let console = Arc::new(Console {
        service,
        handle,
        memory: options.memory,
        sessions,
        strangers: Semaphore::new(CALLS_OF_STRANGERS),
        logins: Semaphore::new(LOGINS),
    });
    Router::new()
        .route("/api/whoami", post(login::whoami::<S>))
        .route("/api/login", post(login::log_in::<S>))
        .route("/api/logout", post(login::log_out::<S>))
        .route("/api/command", post(command::run::<S>))
        .fallback(get(files::file))
        .layer(axum::middleware::from_fn(move |request, next| Arc::clone(&guard).let_in(request, next)))
        .layer(Extension(console))
}

impl<S: ConsoleService> Console<S> {
    /// A connection of a browser, as the service sees it.
    fn connection(&self, ends: Ends) -> ConnectionInfo {
        ConnectionInfo {
            id: self.handle.number_connection(),
            remote: Peer::Network(ends.remote),
            local: Peer::Network(ends.local),
            certificate_subject: None,
        }
    }

    /// The session of a request.
    fn session(&self, headers: &HeaderMap) -> Option<Arc<Session<S::Client>>> {
        self.sessions.find(headers)
    }
}

/// Why a request is not answered as it wishes.
#[derive(Debug)]
struct Refused(StatusCode, String);

impl Refused {
    fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Self(status, message.into())
    }

    fn is_stopping() -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "the server is stopping")
    }

    fn no_memory(error: &platform::OverBudget) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, format!("there is no memory for it: {error}"))
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        (self.0, json(&serde_json::json!({ "error": self.1 }))).into_response()
    }
}

fn json(value: &serde_json::Value) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], value.to_string()).into_response()
}
