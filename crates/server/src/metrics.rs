//! What `--metrics ADDR` answers: figures for Prometheus, whether the server lives, and whether it is ready.
//!
//! `main` makes the router and gives it to an [`crate::HttpEndpoint`]. The figures are those of `serverStatus`: `families` says which metric is
//! which of them, `exposition` writes the text. Nobody logs in here, and no figure has anything of a document in it.

mod exposition;
mod families;

use std::sync::Arc;

use axum::Router;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use bson::RawDocumentBuf;
use tokio::sync::Semaphore;

const TEXT_FORMAT: &str = "text/plain; version=0.0.4; charset=utf-8";
const PATHS: &str = "there are /metrics, /healthz and /readyz\n";
/// Callers whose figures are collected at once; others wait.
const CALLS_MAX: usize = 2;

/// Where figures come from.
pub trait StatusSource: Send + Sync + 'static {
    /// The reply of `serverStatus`, with histograms.
    ///
    /// # Errors
    /// Why there is none.
    fn status(&self) -> Result<RawDocumentBuf, String>;

    /// Whether commands that read or write run, or have ended since so many had. `before` becomes how many have.
    fn is_used_since(&self, before: &mut u64) -> bool;
}

struct Source {
    source: Arc<dyn StatusSource>,
    calls: Semaphore,
}

impl Source {
    async fn status(self: Arc<Self>) -> Result<RawDocumentBuf, String> {
        let _call = self.calls.acquire().await.map_err(|error| error.to_string())?;
        let source = Arc::clone(&self.source);
        tokio::task::spawn_blocking(move || source.status()).await.map_err(|error| error.to_string())?
    }
}

/// The three paths.
pub fn router(source: Arc<dyn StatusSource>) -> Router {
    let source = Arc::new(Source { source, calls: Semaphore::new(CALLS_MAX) });
    let (of_metrics, of_readiness) = (Arc::clone(&source), source);
    Router::new()
        .route("/metrics", get(move || metrics(Arc::clone(&of_metrics))))
        .route("/healthz", get(async || "ok\n"))
        .route("/readyz", get(move || readiness(Arc::clone(&of_readiness))))
        .fallback(async || (StatusCode::NOT_FOUND, PATHS))
}

async fn metrics(source: Arc<Source>) -> Response {
    match source.status().await {
        Ok(status) => ([(header::CONTENT_TYPE, TEXT_FORMAT)], exposition::text(&status)).into_response(),
        Err(reason) => (StatusCode::SERVICE_UNAVAILABLE, reason + "\n").into_response(),
    }
}

/// Ready is who takes writes.
async fn readiness(source: Arc<Source>) -> Response {
    let refused = |reason: &str| (StatusCode::SERVICE_UNAVAILABLE, format!("{reason}\n")).into_response();
    let status = match source.status().await {
        Ok(status) => status,
        Err(reason) => return refused(&reason),
    };
    let writes = status.get_document("plimsoll").and_then(|section| section.get_document("writes"));
    match writes {
        Ok(writes) if writes.get_bool("areAccepted").unwrap_or(false) => "ready\n".into_response(),
        Ok(writes) => {
            let texts = [writes.get_str("stoppedBecause"), writes.get_str("advice")];
            refused(&texts.into_iter().flatten().collect::<Vec<_>>().join(". "))
        }
        Err(_) => refused("the server does not say whether it takes writes"),
    }
}
