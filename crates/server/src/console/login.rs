//! Who is at the browser: `whoami`, `login`, `logout`.

use std::sync::Arc;

use axum::Extension;
use axum::body::Body;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use platform::MemoryUse;
use serde::Deserialize;

use super::command::greet;
use super::sessions::SESSION_BYTES;
use super::{Console, ConsoleService, Refused, body, json};
use crate::http::Ends;
use crate::service::{Standing, run_on};

/// A name, a password, a database.
pub(super) const LOGIN_BYTES_MAX: usize = 4 * 1024;

type Answer = Result<Response, Refused>;

/// Whether somebody has to log in. Where nobody has to, a session begins.
pub(super) async fn whoami<S: ConsoleService>(
    Extension(console): Extension<Arc<Console<S>>>,
    Extension(ends): Extension<Ends>,
    headers: HeaderMap,
) -> Answer {
    let answer = |needs_login: bool| json(&serde_json::json!({ "needsLogin": needs_login }));
    if console.session(&headers).is_some() {
        return Ok(answer(false));
    }
    let info = console.connection(ends);
    let client = console.service.connected(&info);
    if console.service.standing(&client) != Standing::Known {
        return Ok(answer(true));
    }
    let cookie = begin(&console, client).await?;
    Ok(([(header::SET_COOKIE, cookie)], answer(false)).into_response())
}

/// Greets the server in the client's name, and begins a session.
async fn begin<S: ConsoleService>(console: &Arc<Console<S>>, mut client: S::Client) -> Result<String, Refused> {
    let mut memory = console.memory.reservation(MemoryUse::Connections);
    memory.resize_leaving_some(SESSION_BYTES).map_err(|error| Refused::no_memory(&error))?;
    let service = Arc::clone(&console.service);
    let greeted = tokio::task::spawn_blocking(move || {
        greet(&*service, &mut client);
        client
    });
    let client = greeted.await.map_err(|error| Refused::new(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()))?;
    Ok(console.sessions.begin(client, memory))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LoginFields {
    user: String,
    password: String,
    #[serde(default = "admin")]
    database: String,
}

fn admin() -> String {
    "admin".to_owned()
}

/// Logs in, and begins a session in place of the one that there was.
pub(super) async fn log_in<S: ConsoleService>(
    Extension(console): Extension<Arc<Console<S>>>,
    Extension(ends): Extension<Ends>,
    headers: HeaderMap,
    body: Body,
) -> Answer {
    let body = body::read(&headers, body, LOGIN_BYTES_MAX, 2, &console.memory).await?;
    let fields: LoginFields = serde_json::from_slice(&body.bytes)
        .map_err(|_| Refused::new(StatusCode::BAD_REQUEST, "user, password and perhaps database are wanted"))?;
    let failed = |error: &dyn ToString| Refused::new(StatusCode::INTERNAL_SERVER_ERROR, error.to_string());
    let _place = console.logins.acquire().await.map_err(|error| failed(&error))?;
    if console.handle.is_stopping() {
        return Err(Refused::is_stopping());
    }
    let info = console.connection(ends);
    let service = Arc::clone(&console.service);
    let logged_in = tokio::task::spawn_blocking(move || {
        let mut client = service.connected(&info);
        let refused = service.log_in(&mut client, &fields.user, &fields.database, &fields.password);
        refused.map(|()| client)
    });
    let client = logged_in.await.map_err(|error| failed(&error))?;
    let client = client.map_err(|reason| Refused::new(StatusCode::UNAUTHORIZED, reason))?;
    console.sessions.end(&headers);
    let cookie = begin(&console, client).await?;
    Ok(([(header::SET_COOKIE, cookie)], json(&serde_json::json!({}))).into_response())
}

/// Ends the session.
pub(super) async fn log_out<S: ConsoleService>(
    Extension(console): Extension<Arc<Console<S>>>,
    headers: HeaderMap,
) -> Answer {
    let (cookie, ended) = console.sessions.end(&headers);
    if let Some(session) = ended {
        let console = Arc::clone(&console);
        // So that the audit log has it.
        let said = tokio::task::spawn_blocking(move || {
            let (_, mut client) = session.take(|known| {
                let connection = console.handle.number_connection();
                (connection, console.service.connected_again(known, connection))
            });
            run_on(&*console.service, &mut client, "admin", &bson::rawdoc! { "logout": 1 })
        });
        drop(said.await);
    }
    Ok(([(header::SET_COOKIE, cookie)], json(&serde_json::json!({}))).into_response())
}
