//! Connections to object stores, by the client of `outgoing_http`.
//!
//! Called by the crate `object_store`, which makes the requests and tries them again; what may be tried again it learns from the kind
//! of an error. Without encryption only where it was asked for (`AWS_ALLOW_HTTP=true` and its like). Nothing here waits for ever.

use std::error::Error;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use http::HeaderValue;
use http::header::USER_AGENT;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use object_store::ClientOptions;
use object_store::client::{
    ClientConfigKey, HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpRequestBody, HttpResponse,
    HttpResponseBody, HttpService,
};
use tokio::time::{Instant, Sleep, timeout};

use crate::outgoing_http::{OutgoingClient, Unencrypted, outgoing_client};

/// From sending a request to the head of its answer: a part of an object is sent meanwhile.
const ANSWER_TIME: Duration = Duration::from_secs(60);
/// Between two pieces of an answer.
const SILENCE_MAX: Duration = Duration::from_secs(20);

/// Makes clients.
#[derive(Debug)]
pub(crate) struct Connector;

impl HttpConnector for Connector {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        let failed = |error| object_store::Error::Generic { store: "connection", source: error };
        let allows_plain = options.get_config_value(&ClientConfigKey::AllowHttp).is_some_and(|value| value == "true");
        let unencrypted = if allows_plain { Unencrypted::Allowed } else { Unencrypted::Refused };
        let client = outgoing_client(unencrypted).map_err(failed)?;
        Ok(HttpClient::new(Connections { client, allows_plain }))
    }
}

#[derive(Debug)]
struct Connections {
    client: OutgoingClient<HttpRequestBody>,
    allows_plain: bool,
}

#[async_trait]
impl HttpService for Connections {
    async fn call(&self, mut request: HttpRequest) -> Result<HttpResponse, HttpError> {
        if !self.allows_plain && request.uri().scheme_str() == Some("http") {
            return Err(HttpError::new(HttpErrorKind::Unknown, NotEncrypted));
        }
        let agent = HeaderValue::from_static(concat!("plimsoll/", env!("CARGO_PKG_VERSION")));
        request.headers_mut().insert(USER_AGENT, agent);
        let answer = timeout(ANSWER_TIME, self.client.request(request)).await;
        let answer = answer.map_err(|_| silent(ANSWER_TIME))?.map_err(|error| {
            let kind = if error.is_connect() { kind_of_refusal(&error) } else { kind_of(&error) };
            HttpError::new(kind, error)
        })?;
        let (head, body) = answer.into_parts();
        let body = WatchedBody { body, silence: Box::pin(tokio::time::sleep(SILENCE_MAX)) };
        Ok(HttpResponse::from_parts(head, HttpResponseBody::new(body)))
    }
}

#[derive(Debug, thiserror::Error)]
#[error("the address is not encrypted (http://): set AWS_ALLOW_HTTP=true, or GOOGLE_ or AZURE_ALLOW_HTTP, to allow it")]
struct NotEncrypted;

fn silent(after: Duration) -> HttpError {
    let error = io::Error::new(io::ErrorKind::TimedOut, format!("no answer for {} s", after.as_secs()));
    HttpError::new(HttpErrorKind::Timeout, error)
}

/// Of an error of a connection that was made.
fn kind_of(error: &(dyn Error + 'static)) -> HttpErrorKind {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(error) = error.downcast_ref::<hyper::Error>()
            && (error.is_closed() || error.is_incomplete_message() || error.is_body_write_aborted())
        {
            return HttpErrorKind::Request;
        }
        if let Some(error) = error.downcast_ref::<io::Error>() {
            return match error.kind() {
                io::ErrorKind::TimedOut => HttpErrorKind::Timeout,
                io::ErrorKind::ConnectionAborted
                | io::ErrorKind::ConnectionReset
                | io::ErrorKind::BrokenPipe
                | io::ErrorKind::UnexpectedEof => HttpErrorKind::Interrupted,
                _ => HttpErrorKind::Unknown,
            };
        }
        next = error.source();
    }
    HttpErrorKind::Unknown
}

/// Of a connection that could not be made: a certificate does not get better by trying again.
fn kind_of_refusal(error: &(dyn Error + 'static)) -> HttpErrorKind {
    let mut next = Some(error);
    while let Some(error) = next {
        let within = error.downcast_ref::<io::Error>().and_then(|error| error.get_ref());
        if error.is::<rustls::Error>() || within.is_some_and(|inner| inner.is::<rustls::Error>()) {
            return HttpErrorKind::Unknown;
        }
        next = error.source();
    }
    HttpErrorKind::Connect
}

/// An answer that ends with an error when nothing more comes of it.
struct WatchedBody {
    body: Incoming,
    silence: Pin<Box<Sleep>>,
}

impl Body for WatchedBody {
    type Data = Bytes;
    type Error = HttpError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, HttpError>>> {
        if let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(context) {
            self.silence.as_mut().reset(Instant::now() + SILENCE_MAX);
            let failed = |error: hyper::Error| HttpError::new(kind_of(&error), error);
            return Poll::Ready(frame.map(|frame| frame.map_err(failed)));
        }
        ready!(self.silence.as_mut().poll(context));
        Poll::Ready(Some(Err(silent(SILENCE_MAX))))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
