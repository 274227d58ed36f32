//! `POST /api/command`: one command, run as a client's, and its reply.
//!
//! ```text
//! {"db": "shop", "command": {"find": "orders"}, "format": "canonical"} ─▶ the reply in Extended JSON, whatever it says
//! ```
//!
//! `format` says which: `relaxed`, unless it says `canonical`, which says of each number what it is. What is wrong with the request itself is told by
//! HTTP's status. A browser that goes away ends its command as any client does.

use std::sync::Arc;

use axum::Extension;
use axum::body::Body;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bson::{RawBsonRef, RawDocument, RawDocumentBuf, rawdoc};
use platform::{MemoryUse, WorkClass};

use super::extended_json::{self, Format};
use super::sessions::Session;
use super::{Console, ConsoleService, Refused, body};
use crate::handle::{CallOfBrowser, ServerHandle};
use crate::http::Ends;
use crate::service::{CommandService, Standing, run_on};

/// A document of the largest size, in Extended JSON, with the command around it.
pub(super) const COMMAND_BYTES_MAX: usize = 32 * 1024 * 1024;
/// The same from somebody who has not logged in.
pub(super) const STRANGER_BYTES_MAX: usize = 16 * 1024;
/// What is counted for each byte of a request: its text, its BSON, and what is copied while that is put together.
const COUNTED_PER_BYTE: u64 = 4;
/// The longest that a byte of BSON becomes in Extended JSON.
const TEXT_PER_BYTE: u64 = 8;

/// What a browser asks for.
struct Asked {
    database: String,
    command: RawDocumentBuf,
    format: Format,
}

pub(super) async fn run<S: ConsoleService>(
    Extension(console): Extension<Arc<Console<S>>>,
    Extension(ends): Extension<Ends>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Refused> {
    let session = console.session(&headers);
    let bytes_max = if session.is_some() { COMMAND_BYTES_MAX } else { STRANGER_BYTES_MAX };
    let body = body::read(&headers, body, bytes_max, COUNTED_PER_BYTE, &console.memory).await?;
    let asked = read(&body.bytes).map_err(|reason| Refused::new(StatusCode::BAD_REQUEST, reason))?;
    let calls = session.as_ref().map_or(&console.strangers, |session| &session.calls);
    let internal = |error: &dyn ToString| Refused::new(StatusCode::INTERNAL_SERVER_ERROR, error.to_string());
    let _place = calls.acquire().await.map_err(|error| internal(&error))?;
    if console.handle.is_stopping() {
        return Err(Refused::is_stopping());
    }
    let (connection, client) = match &session {
        Some(session) => session.take(|known| {
            let connection = console.handle.number_connection();
            (connection, console.service.connected_again(known, connection))
        }),
        None => {
            let info = console.connection(ends);
            (info.id, console.service.connected(&info))
        }
    };
    let running = console.handle.begin_call_of_browser(connection);
    let mut awaited = Awaited { handle: console.handle.clone(), connection, is_over: false };
    let ran = tokio::task::spawn_blocking({
        let console = Arc::clone(&console);
        let session = session.clone();
        move || {
            let _body = body;
            console.answer(&asked, session.as_deref(), connection, client, &running)
        }
    });
    let answer = ran.await.map_err(|error| internal(&error))?;
    awaited.is_over = true;
    let (answer, is_known) = answer?;
    if session.is_some() && !is_known {
        console.sessions.end(&headers);
        return Err(Refused::new(StatusCode::UNAUTHORIZED, "the user is gone: log in again"));
    }
    Ok(answer)
}

impl<S: ConsoleService> Console<S> {
    /// Runs a command and writes its reply. Says whether the client is still known.
    fn answer(
        &self,
        asked: &Asked,
        session: Option<&Session<S::Client>>,
        connection: u64,
        mut client: S::Client,
        call: &CallOfBrowser,
    ) -> Result<(Response, bool), Refused> {
        WorkClass::Interactive.set_for_thread();
        let _running = self.handle.command_begins();
        let reply = run_on(&*self.service, &mut client, &asked.database, &asked.command);
        let is_known = self.service.standing(&client) == Standing::Known;
        match session {
            Some(session) if !call.is_gone() && is_known => session.give_back(connection, client),
            _ => self.service.disconnected(client),
        }
        let reply = reply.ok_or_else(|| {
            Refused::new(StatusCode::BAD_GATEWAY, "the command closed the connection in place of a reply")
        })?;
        let mut memory = self.memory.reservation(MemoryUse::Connections);
        let bytes = reply.finished().len() as u64;
        memory.resize_leaving_some(bytes * (TEXT_PER_BYTE + 1)).map_err(|error| Refused::no_memory(&error))?;
        let document = reply.finished().get(reply.document_start()..).unwrap_or_default();
        let text = RawDocument::from_bytes(document)
            .map_err(|error| error.to_string())
            .and_then(|document| extended_json::write(document, asked.format));
        let text = text.map_err(|reason| Refused::new(StatusCode::INTERNAL_SERVER_ERROR, reason))?;
        let answer = ([(header::CONTENT_TYPE, "application/json")], body::counted(text, memory)).into_response();
        Ok((answer, is_known))
    }
}

/// A command that a browser waits for. When it goes away its request is dropped here, and the service is told as of any client.
struct Awaited {
    handle: ServerHandle,
    connection: u64,
    is_over: bool,
}

impl Drop for Awaited {
    fn drop(&mut self) {
        if !self.is_over {
            self.handle.browser_departed(self.connection);
        }
    }
}

fn read(text: &[u8]) -> Result<Asked, String> {
    let text = std::str::from_utf8(text).map_err(|error| error.to_string())?;
    let asked = extended_json::read(text)?;
    let (mut database, mut command, mut format) = (None, None, Format::Relaxed);
    for field in asked.iter() {
        let (name, value) = field.map_err(|error| error.to_string())?;
        match (name.as_str(), value) {
            ("db", RawBsonRef::String(value)) => database = Some(value.to_owned()),
            ("command", RawBsonRef::Document(value)) => command = Some(value.to_owned()),
            ("format", RawBsonRef::String("canonical")) => format = Format::Canonical,
            ("format", RawBsonRef::String("relaxed")) => format = Format::Relaxed,
            (name, _) => return Err(format!("\"{name}\" is not known, or of another type")),
        }
    }
    let database = database.ok_or("\"db\" is missing")?;
    Ok(Asked { database, command: command.ok_or("\"command\" is missing")?, format })
}

/// Says who it is, as drivers do, so that `currentOp` and the log can tell.
pub(super) fn greet<S: CommandService>(service: &S, client: &mut S::Client) {
    let version = env!("CARGO_PKG_VERSION");
    let hello = rawdoc! {
        "hello": 1,
        "client": {
            "application": { "name": "Plimsoll console" },
            "driver": { "name": "plimsoll-console", "version": version },
            "os": { "type": "browser" },
        },
    };
    run_on(service, client, "admin", &hello);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_a_database_and_a_command() {
        let asked =
            read(br#"{"db": "shop", "format": "canonical", "command": {"find": "orders", "limit": 1}}"#).unwrap();
        assert_eq!((asked.database.as_str(), asked.format), ("shop", Format::Canonical));
        assert_eq!(asked.command, rawdoc! { "find": "orders", "limit": 1 });
        for (bad, told) in [
            ("", "end"),
            ("[]", "object"),
            (r#"{"db": "a"}"#, "command"),
            (r#"{"command": {}}"#, "db"),
            (r#"{"db": 1, "command": {}}"#, "db"),
            (r#"{"db": "a", "command": {}, "more": 1}"#, "more"),
            (r#"{"db": "a", "command": {}, "format": "other"}"#, "format"),
            (r#"{"db": "a", "command": {}} x"#, "behind"),
        ] {
            let refused = read(bad.as_bytes()).err().unwrap();
            assert!(refused.contains(told), "{bad}: {refused}");
        }
    }
}
