//! Who may ask, and what every answer says to the browser: nothing of another page, no other host, nothing to be framed or guessed.
//!
//! Called for each request before anything of it is read. A page of somebody else can have a browser send requests here, also by a name of its own that
//! it makes lead to this address (DNS rebinding). So the request must name this server by an address, by `localhost` or by the name that the operator
//! gave; what changes anything must come from our own page, as JSON, with a header that no form can send.

use std::net::IpAddr;
use std::sync::Arc;

use axum::extract::Request;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::{ConsoleOptions, Refused};

/// What only a script of our own page sends.
const OWN_HEADER: &str = "x-plimsoll-console";

const HEADERS: &[(&str, &str)] = &[
    (
        "content-security-policy",
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; \
         frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'",
    ),
    ("x-content-type-options", "nosniff"),
    ("x-frame-options", "DENY"),
    ("referrer-policy", "no-referrer"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
    ("cross-origin-embedder-policy", "require-corp"),
    ("permissions-policy", "camera=(), geolocation=(), microphone=(), payment=(), usb=()"),
];

/// See the module's head.
pub(super) struct Guard {
    /// The name that the operator gave the address by.
    name: Option<String>,
    scheme: &'static str,
}

impl Guard {
    pub(super) fn new(options: &ConsoleOptions) -> Self {
        let scheme = if options.is_encrypted { "https" } else { "http" };
        Self { name: host_of(&options.listen).map(str::to_ascii_lowercase), scheme }
    }

    pub(super) async fn let_in(self: Arc<Self>, request: Request, next: Next) -> Response {
        let is_of_api = request.uri().path().starts_with("/api/");
        let mut response = match self.check(request.method(), request.headers()) {
            Ok(()) => next.run(request).await,
            Err(refused) => refused.into_response(),
        };
        let headers = response.headers_mut();
        for (name, value) in HEADERS {
            headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        headers
            .insert(header::CACHE_CONTROL, HeaderValue::from_static(if is_of_api { "no-store" } else { "no-cache" }));
        response
    }

    fn check(&self, method: &Method, headers: &HeaderMap) -> Result<(), Refused> {
        let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
        if !self.is_ours(host) {
            let reason = "ask by the address, by localhost, or by the name that --console has";
            return Err(Refused::new(StatusCode::MISDIRECTED_REQUEST, reason));
        }
        if method == Method::GET || method == Method::HEAD {
            return Ok(());
        }
        let forbidden = |reason: &str| Err(Refused::new(StatusCode::FORBIDDEN, reason));
        let text = |name: HeaderName| headers.get(name).map(|value| value.to_str().unwrap_or_default());
        let own_origin = format!("{}://{host}", self.scheme);
        if text(header::ORIGIN).is_some_and(|origin| !origin.eq_ignore_ascii_case(&own_origin)) {
            return forbidden("this comes from another page");
        }
        if text(HeaderName::from_static("sec-fetch-site")).is_some_and(|site| site != "same-origin") {
            return forbidden("this comes from another site");
        }
        if text(HeaderName::from_static(OWN_HEADER)) != Some("1") {
            return forbidden("the header X-Plimsoll-Console: 1 is missing");
        }
        let kind = text(header::CONTENT_TYPE).unwrap_or_default();
        if kind.split(';').next().map(str::trim) != Some("application/json") {
            return Err(Refused::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "Content-Type must be application/json"));
        }
        Ok(())
    }

    /// Whether a request's `Host` is one of this server for certain.
    fn is_ours(&self, host: &str) -> bool {
        let Some(name) = host_of(host) else { return false };
        let bare = name.trim_start_matches('[').trim_end_matches(']');
        let is_known = self.name.as_deref().is_some_and(|known| name.eq_ignore_ascii_case(known));
        bare.parse::<IpAddr>().is_ok() || name.eq_ignore_ascii_case("localhost") || is_known
    }
}

/// Without the port.
fn host_of(authority: &str) -> Option<&str> {
    let host = match authority.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => host,
        _ => authority,
    };
    Some(host).filter(|host| !host.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guard() -> Guard {
        Guard { name: Some("db.example.com".to_owned()), scheme: "http" }
    }

    #[test]
    fn only_names_that_nobody_else_can_make_lead_here() {
        for host in ["127.0.0.1:8080", "localhost", "LOCALHOST:80", "[::1]:8080", "10.0.0.7:1", "DB.example.com:8080"] {
            assert!(guard().is_ours(host), "{host}");
        }
        for host in ["", ":80", "evil.example", "localhost.evil.example:8080", "127.0.0.1.evil.example", "127.0.0.1:x"]
        {
            assert!(!guard().is_ours(host), "{host}");
        }
    }

    #[test]
    fn what_changes_anything_must_come_from_our_own_page() {
        let status = |changed: &[(&str, &str)]| {
            let mut headers = HeaderMap::new();
            let own = [("host", "localhost:1"), (OWN_HEADER, "1"), ("content-type", "application/json; charset=utf-8")];
            for (name, value) in own.iter().chain(changed) {
                headers.insert(HeaderName::try_from(*name).unwrap(), HeaderValue::from_str(value).unwrap());
            }
            guard().check(&Method::POST, &headers).map_err(|refused| refused.0.as_u16())
        };
        assert_eq!(status(&[]), Ok(()));
        assert_eq!(status(&[("origin", "http://localhost:1"), ("sec-fetch-site", "same-origin")]), Ok(()));
        assert_eq!(status(&[("host", "evil.example")]), Err(421));
        for origin in ["http://localhost:2", "https://localhost:1", "http://evil.example", "null"] {
            assert_eq!(status(&[("origin", origin)]), Err(403), "{origin}");
        }
        assert_eq!(status(&[("sec-fetch-site", "cross-site")]), Err(403));
        assert_eq!(status(&[("sec-fetch-site", "same-site")]), Err(403));
        assert_eq!(status(&[(OWN_HEADER, "0")]), Err(403));
        assert_eq!(status(&[("content-type", "text/plain")]), Err(415));
    }
}
