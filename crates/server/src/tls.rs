//! Encryption of connections: what clients are offered, and what proves who this server is. Used by `listener`, `serve` and `main`.
//!
//! ```text
//! main ─ Tls::load ─ certificate_files ─▶ ServerConfig ◀─ Tls::rotate (SIGHUP, rotateCertificates)
//!                                             │
//! listener ─ opening: first bytes, handshake ─┴─▶ TlsSession, inside of a Channel
//! ```
//!
//! A handshake takes the configuration that is current; connections that are open go on with theirs. Sessions are not resumed: each handshake looks at
//! the client's certificate and at what is revoked.

mod certificate_fields;
mod certificate_files;
mod distinguished_name;
mod opening;
mod session;

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::ArcSwap;
use rustls::ServerConfig;
use tokio::sync::Semaphore;

pub use certificate_files::TlsError;
pub use distinguished_name::subject_of_certificate;
pub(crate) use opening::{HANDSHAKE_BEGINNING, OpeningError, open};
pub(crate) use session::TlsSession;

/// Which connections are encrypted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TlsMode {
    /// None
    Disabled,
    /// Those of clients that wish so; meant for the time of a change
    Allow,
    /// Those of clients that wish so
    Prefer,
    /// All
    Require,
}

/// A version of the protocol. Older ones are never spoken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TlsVersion {
    /// TLS 1.2.
    V1_2,
    /// TLS 1.3.
    V1_3,
}

/// What a private key is encrypted with.
#[derive(Clone, PartialEq, Eq)]
pub enum Passphrase {
    /// Itself. It is in the process's memory anyway, and must not be anywhere else.
    Text(String),
    /// The first line of a file, which is read again when certificates are rotated.
    File(PathBuf),
}

impl fmt::Debug for Passphrase {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Passphrase::Text(_) => formatter.write_str("Text(..)"),
            Passphrase::File(path) => formatter.debug_tuple("File").field(path).finish(),
        }
    }
}

/// How connections are encrypted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsSettings {
    /// Which are; not `Disabled`.
    pub mode: TlsMode,
    /// The server's certificate, those between it and the authority's, and its private key, in PEM.
    pub certificate_key_file: PathBuf,
    /// If the key is encrypted.
    pub passphrase: Option<Passphrase>,
    /// Certificates of the authorities that clients' certificates are verified against. Without any, clients are not asked for one.
    pub authority_file: Option<PathBuf>,
    /// What those have revoked.
    pub revocation_file: Option<PathBuf>,
    /// Whether clients may have no certificate.
    pub allows_without_certificate: bool,
    /// Versions that are spoken.
    pub versions: Vec<TlsVersion>,
}

/// What clients see of the server's certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerCertificate {
    /// Its subject, as RFC 2253 writes it.
    pub subject: String,
    /// When it expires, in seconds since 1970.
    pub not_after_seconds: u64,
}

/// See the module's head.
pub struct Tls {
    settings: TlsSettings,
    current: ArcSwap<ServerConfig>,
    certificate: ArcSwap<ServerCertificate>,
    /// Connections that were encrypted, by version.
    opened: [AtomicU64; 2],
    /// Threads that compute for handshakes.
    handshakes: Arc<Semaphore>,
}

impl Tls {
    /// Reads the files.
    ///
    /// # Errors
    /// One cannot be used.
    pub fn load(settings: TlsSettings) -> Result<Self, TlsError> {
        let (config, certificate) = certificate_files::server_config(&settings)?;
        // Half of the processors: the others serve those who are in already.
        let threads = platform::processors().div_ceil(2);
        Ok(Self {
            settings,
            current: ArcSwap::from_pointee(config),
            certificate: ArcSwap::from_pointee(certificate),
            opened: Default::default(),
            handshakes: Arc::new(Semaphore::new(threads)),
        })
    }

    /// Reads the files again, for connections that come from now on. When one cannot be used, all stays as it was.
    ///
    /// # Errors
    /// One cannot be used.
    pub fn rotate(&self) -> Result<(), TlsError> {
        let (config, certificate) = certificate_files::server_config(&self.settings)?;
        self.current.store(Arc::new(config));
        self.certificate.store(Arc::new(certificate));
        tracing::info!(target: "network", "certificates were read again, for connections that come from now on");
        Ok(())
    }

    /// The server's certificate, and whether clients' are verified against authorities.
    pub fn certificate(&self) -> (Arc<ServerCertificate>, bool) {
        (self.certificate.load_full(), self.settings.authority_file.is_some())
    }

    /// Connections of a version since the start.
    pub fn opened(&self, version: TlsVersion) -> u64 {
        self.opened[version as usize].load(Ordering::Relaxed)
    }

    pub(crate) fn count_opened(&self, version: TlsVersion) {
        self.opened[version as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// For a handshake that begins now.
    pub(crate) fn current(&self) -> Arc<ServerConfig> {
        self.current.load_full()
    }

    pub(crate) fn mode(&self) -> TlsMode {
        self.settings.mode
    }
}
