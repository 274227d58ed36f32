//! Certificates, keys and lists of what is revoked, from PEM files to a configuration of `rustls`. Called by `tls`.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pkcs8::EncryptedPrivateKeyInfoRef;
use pkcs8::der::SecretDocument;
use platform::{Clock, SystemClock};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::{RootCertStore, ServerConfig, SupportedProtocolVersion};

use super::certificate_fields::CertificateFields;
use super::distinguished_name::to_rfc2253;
use super::{Passphrase, ServerCertificate, TlsSettings, TlsVersion};

/// A larger file is none of these.
const FILE_BYTES_MAX: u64 = 64 << 20;
const ENCRYPTED_KEY: &str = "ENCRYPTED PRIVATE KEY";

/// Why connections cannot be encrypted as the settings say.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read.
    #[error("cannot read {path}: {error}")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system says.
        error: io::Error,
    },
    /// A file has not what it should have.
    #[error("{path}: {reason}")]
    BadFile {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
}

impl TlsError {
    fn bad_file(path: &Path, reason: impl Into<String>) -> Self {
        Self::BadFile { path: path.to_owned(), reason: reason.into() }
    }
}

/// Reads everything that the settings name.
pub(super) fn server_config(settings: &TlsSettings) -> Result<(ServerConfig, ServerCertificate), TlsError> {
    let path = &settings.certificate_key_file;
    let pem = read(path)?;
    refuse_old_encryption(path, &pem)?;
    let chain = certificates(path, &pem)?;
    let certificate = own_certificate(path, &chain)?;
    let key = private_key(path, &pem, settings.passphrase.as_ref())?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let versions: Vec<&SupportedProtocolVersion> =
        settings.versions.iter().map(|version| supported(*version)).collect();
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&versions)
        .map_err(|error| TlsError::bad_file(path, error.to_string()))?
        .with_client_cert_verifier(client_verifier(settings)?)
        .with_single_cert(chain, key)
        .map_err(|error| TlsError::bad_file(path, format!("the certificate and its key cannot be used: {error}")))?;
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok((config, certificate))
}

fn supported(version: TlsVersion) -> &'static SupportedProtocolVersion {
    match version {
        TlsVersion::V1_2 => &rustls::version::TLS12,
        TlsVersion::V1_3 => &rustls::version::TLS13,
    }
}

#[allow(clippy::disallowed_methods, reason = "the operator's files; no part of the data")]
fn read(path: &Path) -> Result<Vec<u8>, TlsError> {
    let unreadable = |error| TlsError::Unreadable { path: path.to_owned(), error };
    let length = std::fs::metadata(path).map_err(unreadable)?.len();
    if length > FILE_BYTES_MAX {
        return Err(TlsError::bad_file(path, format!("{length} bytes are too many")));
    }
    std::fs::read(path).map_err(unreadable)
}

fn certificates(path: &Path, pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let found = found.map_err(|error| TlsError::bad_file(path, format!("it is no valid PEM: {error}")))?;
    if found.is_empty() {
        return Err(TlsError::bad_file(path, "there is no certificate in it (BEGIN CERTIFICATE)"));
    }
    Ok(found)
}

/// The server's own. Nobody would talk to a server whose certificate is not valid now.
fn own_certificate(path: &Path, chain: &[CertificateDer<'static>]) -> Result<ServerCertificate, TlsError> {
    let own = chain.first().ok_or_else(|| TlsError::bad_file(path, "there is no certificate in it"))?;
    let unreadable = |error| TlsError::bad_file(path, format!("its first certificate cannot be read: {error}"));
    let fields = CertificateFields::parse(own).map_err(unreadable)?;
    let now = u64::try_from(SystemClock::new().wall_millis() / 1000).unwrap_or(0);
    if now > fields.not_after_seconds {
        return Err(TlsError::bad_file(path, "the server's certificate has expired"));
    }
    if now < fields.not_before_seconds {
        return Err(TlsError::bad_file(path, "the server's certificate is not valid yet"));
    }
    let subject = to_rfc2253(fields.subject).map_err(unreadable)?;
    Ok(ServerCertificate { subject, not_after_seconds: fields.not_after_seconds })
}

fn refuse_old_encryption(path: &Path, pem: &[u8]) -> Result<(), TlsError> {
    if String::from_utf8_lossy(pem).contains("Proc-Type: 4,ENCRYPTED") {
        let reason = "the private key is encrypted in the way of old OpenSSL, which is weak: `openssl pkcs8 -topk8` makes a PKCS#8 key of it";
        return Err(TlsError::bad_file(path, reason));
    }
    Ok(())
}

fn private_key(path: &Path, pem: &[u8], passphrase: Option<&Passphrase>) -> Result<PrivateKeyDer<'static>, TlsError> {
    let text = String::from_utf8_lossy(pem);
    if let Some(block) = encrypted_block(&text) {
        let Some(passphrase) = passphrase else {
            return Err(TlsError::bad_file(path, "the private key is encrypted, and no passphrase is given"));
        };
        return decrypt(path, block, passphrase);
    }
    PrivateKeyDer::from_pem_slice(pem)
        .map_err(|error| TlsError::bad_file(path, format!("there is no private key in it: {error}")))
}

/// The text of an encrypted PKCS#8 key.
fn encrypted_block(text: &str) -> Option<&str> {
    let begin = text.find(&format!("-----BEGIN {ENCRYPTED_KEY}-----"))?;
    let end_line = format!("-----END {ENCRYPTED_KEY}-----");
    let rest = text.get(begin..)?;
    let end = rest.find(&end_line)? + end_line.len();
    rest.get(..end)
}

fn decrypt(path: &Path, block: &str, passphrase: &Passphrase) -> Result<PrivateKeyDer<'static>, TlsError> {
    let wrong = |error: &dyn std::fmt::Display| {
        TlsError::bad_file(path, format!("the private key cannot be decrypted with the passphrase given: {error}"))
    };
    let given = match passphrase {
        Passphrase::Text(text) => text.clone(),
        Passphrase::File(file) => {
            let bytes = read(file)?;
            let text = String::from_utf8(bytes).map_err(|_| TlsError::bad_file(file, "the passphrase is no text"))?;
            text.lines().next().unwrap_or_default().to_owned()
        }
    };
    let (_, document) = SecretDocument::from_pem(block).map_err(|error| wrong(&error))?;
    let encrypted = EncryptedPrivateKeyInfoRef::try_from(document.as_bytes()).map_err(|error| wrong(&error))?;
    let plain = encrypted.decrypt(given).map_err(|error| wrong(&error))?;
    Ok(PrivatePkcs8KeyDer::from(plain.as_bytes().to_vec()).into())
}

/// Who looks at clients' certificates: nobody without authorities. As OpenSSL does for MongoDB, what is revoked is asked for the client's certificate
/// alone, and a list that is missing or too old lets nobody in.
fn client_verifier(settings: &TlsSettings) -> Result<Arc<dyn ClientCertVerifier>, TlsError> {
    let Some(path) = &settings.authority_file else { return Ok(WebPkiClientVerifier::no_client_auth()) };
    let mut authorities = RootCertStore::empty();
    for certificate in certificates(path, &read(path)?)? {
        authorities
            .add(certificate)
            .map_err(|error| TlsError::bad_file(path, format!("an authority's certificate cannot be used: {error}")))?;
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut builder = WebPkiClientVerifier::builder_with_provider(Arc::new(authorities), provider);
    let mut named = path;
    if let Some(file) = &settings.revocation_file {
        named = file;
        builder = builder
            .with_crls(revocation_lists(file)?)
            .only_check_end_entity_revocation()
            .enforce_revocation_expiration();
    }
    if settings.allows_without_certificate {
        builder = builder.allow_unauthenticated();
    }
    builder.build().map_err(|error| TlsError::bad_file(named, error.to_string()))
}

fn revocation_lists(path: &Path) -> Result<Vec<CertificateRevocationListDer<'static>>, TlsError> {
    let pem = read(path)?;
    let found: Result<Vec<_>, _> = CertificateRevocationListDer::pem_slice_iter(&pem).collect();
    let found = found.map_err(|error| TlsError::bad_file(path, format!("it is no valid PEM: {error}")))?;
    if found.is_empty() {
        return Err(TlsError::bad_file(path, "there is no list of revoked certificates in it (BEGIN X509 CRL)"));
    }
    Ok(found)
}
