//! The page, its style and its scripts, which are in the binary: the folder `console` of this crate.

use axum::http::{StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};

const HTML: &str = "text/html; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const PICTURE: &str = "image/svg+xml";

macro_rules! files {
    ($(($path:literal, $name:literal, $kind:expr)),* $(,)?) => {
        /// Path, type, content.
        const FILES: &[(&str, &str, &str)] = &[$(($path, $kind, include_str!(concat!("../../console/", $name)))),*];
    };
}

files![
    ("/", "index.html", HTML),
    ("/console.css", "console.css", STYLE),
    ("/icon.svg", "icon.svg", PICTURE),
    ("/main.js", "main.js", SCRIPT),
    ("/api.js", "api.js", SCRIPT),
    ("/charts.js", "charts.js", SCRIPT),
    ("/collections.js", "collections.js", SCRIPT),
    ("/documents.js", "documents.js", SCRIPT),
    ("/elements.js", "elements.js", SCRIPT),
    ("/explain.js", "explain.js", SCRIPT),
    ("/extended_json.js", "extended_json.js", SCRIPT),
    ("/flame.js", "flame.js", SCRIPT),
    ("/login.js", "login.js", SCRIPT),
    ("/members.js", "members.js", SCRIPT),
    ("/operations.js", "operations.js", SCRIPT),
    ("/overview.js", "overview.js", SCRIPT),
    ("/backups.js", "backups.js", SCRIPT),
    ("/query.js", "query.js", SCRIPT),
    ("/rings.js", "rings.js", SCRIPT),
    ("/slow.js", "slow.js", SCRIPT),
    ("/users.js", "users.js", SCRIPT),
];

pub(super) async fn file(uri: Uri) -> Response {
    match FILES.iter().find(|(path, ..)| *path == uri.path()) {
        Some((_, kind, content)) => ([(header::CONTENT_TYPE, *kind)], *content).into_response(),
        None => (StatusCode::NOT_FOUND, "there is no such file; the console is at /\n").into_response(),
    }
}
