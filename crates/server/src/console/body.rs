//! What a request carries, within a size and the memory budget, and what an answer carries until it is sent.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, StatusCode, header};
use platform::{MemoryBudget, MemoryReservation, MemoryUse};

use super::Refused;

/// For how long a request's body may come.
const BODY_WAIT: Duration = Duration::from_secs(30);

/// A request's text, counted until it is dropped.
pub(super) struct CountedBody {
    pub(super) bytes: Bytes,
    _memory: MemoryReservation,
}

/// A text that is sent, counted until it is.
struct CountedText {
    text: String,
    _memory: MemoryReservation,
}

impl AsRef<[u8]> for CountedText {
    fn as_ref(&self) -> &[u8] {
        self.text.as_bytes()
    }
}

/// Reads a body of a length that is said before. `per_byte`: what is counted for each of its bytes.
pub(super) async fn read(
    headers: &HeaderMap,
    body: Body,
    bytes_max: usize,
    per_byte: u64,
    memory: &Arc<MemoryBudget>,
) -> Result<CountedBody, Refused> {
    let length = headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok());
    let Some(length) = length.and_then(|length| length.parse::<usize>().ok()) else {
        return Err(Refused::new(StatusCode::LENGTH_REQUIRED, "Content-Length is missing"));
    };
    if length > bytes_max {
        let reason = format!("the request has {length} bytes; at most {bytes_max} are taken");
        return Err(Refused::new(StatusCode::PAYLOAD_TOO_LARGE, reason));
    }
    let mut counted = memory.reservation(MemoryUse::Connections);
    counted.resize_leaving_some(length as u64 * per_byte).map_err(|error| Refused::no_memory(&error))?;
    match tokio::time::timeout(BODY_WAIT, axum::body::to_bytes(body, length)).await {
        Ok(Ok(bytes)) => Ok(CountedBody { bytes, _memory: counted }),
        Ok(Err(error)) => Err(Refused::new(StatusCode::BAD_REQUEST, error.to_string())),
        Err(_) => Err(Refused::new(StatusCode::REQUEST_TIMEOUT, "the request did not come in time")),
    }
}

/// A text whose memory is given back once it is sent.
pub(super) fn counted(text: String, mut memory: MemoryReservation) -> Body {
    memory.shrink(text.len() as u64);
    Body::from(Bytes::from_owner(CountedText { text, _memory: memory }))
}
