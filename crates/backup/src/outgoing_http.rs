//! A client for HTTP/1.1 to other machines: by `hyper`, encrypted by `rustls` with the authorities that the machine trusts.
//!
//! Used for object stores (`cloud_connection`) and, by `server`, for collectors of traces, so that the program has one of its kind. It belongs to
//! the runtime that it is used in; who uses it limits the time of an answer.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use hyper::body::Body;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use rustls::{ClientConfig, RootCertStore};

/// For a connection.
const CONNECT_TIME: Duration = Duration::from_secs(5);
/// A connection that nobody uses is kept for so long; others close theirs a little later.
const IDLE_MAX: Duration = Duration::from_secs(15);

/// Makes requests, each with such a body.
pub type OutgoingClient<B> = Client<HttpsConnector<HttpConnector>, B>;

/// Whether an address may be one without encryption.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unencrypted {
    /// It may.
    Allowed,
    /// It is refused.
    Refused,
}

/// A client without connections.
///
/// # Errors
/// The encryption cannot be set up.
pub fn outgoing_client<B>(unencrypted: Unencrypted) -> Result<OutgoingClient<B>, Box<dyn Error + Send + Sync>>
where
    B: Body + Send,
    B::Data: Send,
{
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    tcp.set_connect_timeout(Some(CONNECT_TIME));
    let builder = HttpsConnectorBuilder::new().with_tls_config(encryption()?);
    let connector = match unencrypted {
        Unencrypted::Allowed => builder.https_or_http(),
        Unencrypted::Refused => builder.https_only(),
    };
    Ok(Client::builder(TokioExecutor::new())
        .pool_timer(TokioTimer::new())
        .pool_idle_timeout(IDLE_MAX)
        .build(connector.enable_http1().wrap_connector(tcp)))
}

fn encryption() -> Result<ClientConfig, Box<dyn Error + Send + Sync>> {
    let mut roots = RootCertStore::empty();
    // None that can be read: a connection says that the other's certificate is of nobody whom the machine knows.
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    Ok(config.with_root_certificates(roots).with_no_client_auth())
}
