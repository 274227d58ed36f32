//! Encryption of connections and the socket in the file system, settled. Called by `configuration`.

use std::path::PathBuf;

use super::{ConfigurationError, Settings};
use crate::tls::{Passphrase, TlsMode, TlsSettings, TlsVersion};

const MODE: &str = "tls-mode";
const DISABLED_PROTOCOLS: &str = "tls-disabled-protocols";
const UNIX_SOCKET: &str = "unix-socket";
/// For the server's user alone.
const PERMISSIONS: u32 = 0o700;

/// A socket in the file system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnixSocketSettings {
    /// Its file.
    pub path: PathBuf,
    /// Who may connect: the file's mode.
    pub permissions: u32,
}

/// How connections are encrypted; `None`: not.
pub(super) fn tls(settings: &Settings) -> Result<Option<TlsSettings>, ConfigurationError> {
    let mode = settings.tls_mode.unwrap_or(TlsMode::Disabled);
    if mode == TlsMode::Disabled {
        return match needless(settings) {
            Some(name) => Err(ConfigurationError::bad_value(name, "means nothing without --tls-mode")),
            None => Ok(None),
        };
    }
    let Some(certificate_key_file) = settings.tls_certificate_key_file.clone() else {
        let reason = "needs --tls-certificate-key-file, the server's certificate and private key";
        return Err(ConfigurationError::bad_value(MODE, reason));
    };
    if settings.tls_crl_file.is_some() && settings.tls_ca_file.is_none() {
        let reason = "without --tls-ca-file clients are not asked for certificates, so none can be revoked";
        return Err(ConfigurationError::bad_value("tls-crl-file", reason));
    }
    let from_file = settings.tls_certificate_key_password_file.clone().map(Passphrase::File);
    Ok(Some(TlsSettings {
        mode,
        certificate_key_file,
        passphrase: settings.tls_certificate_key_password.clone().or(from_file),
        authority_file: settings.tls_ca_file.clone(),
        revocation_file: settings.tls_crl_file.clone(),
        allows_without_certificate: settings.tls_allow_connections_without_certificates.unwrap_or(false),
        versions: versions(settings.tls_disabled_protocols.as_deref().unwrap_or_default())?,
    }))
}

/// What is told although nothing is encrypted.
fn needless(settings: &Settings) -> Option<&'static str> {
    let given = [
        (settings.tls_certificate_key_file.is_some(), "tls-certificate-key-file"),
        (settings.tls_certificate_key_password_file.is_some(), "tls-certificate-key-password-file"),
        (settings.tls_certificate_key_password.is_some(), "tlsCertificateKeyFilePassword"),
        (settings.tls_ca_file.is_some(), "tls-ca-file"),
        (settings.tls_crl_file.is_some(), "tls-crl-file"),
        (
            settings.tls_allow_connections_without_certificates == Some(true),
            "tls-allow-connections-without-certificates",
        ),
        (settings.tls_disabled_protocols.is_some(), DISABLED_PROTOCOLS),
    ];
    given.iter().find(|(is_given, _)| *is_given).map(|(_, name)| *name)
}

fn versions(disabled: &[String]) -> Result<Vec<TlsVersion>, ConfigurationError> {
    let mut versions = vec![TlsVersion::V1_2, TlsVersion::V1_3];
    for name in disabled {
        match name.trim() {
            // These are never spoken.
            "TLS1_0" | "TLS1_1" => {}
            "TLS1_2" => versions.retain(|version| *version != TlsVersion::V1_2),
            "TLS1_3" => versions.retain(|version| *version != TlsVersion::V1_3),
            "none" => {
                let reason = "'none' would enable TLS 1.0 and 1.1, which are never spoken";
                return Err(ConfigurationError::bad_value(DISABLED_PROTOCOLS, reason));
            }
            other => {
                let reason = format!("'{other}' is none of TLS1_0, TLS1_1, TLS1_2, TLS1_3");
                return Err(ConfigurationError::bad_value(DISABLED_PROTOCOLS, reason));
            }
        }
    }
    if versions.is_empty() {
        return Err(ConfigurationError::bad_value(DISABLED_PROTOCOLS, "nothing is left that could be spoken"));
    }
    Ok(versions)
}

pub(super) fn unix_socket(settings: &Settings) -> Result<Option<UnixSocketSettings>, ConfigurationError> {
    let Some(path) = settings.unix_socket.clone() else {
        return match settings.unix_socket_permissions {
            Some(_) => Err(ConfigurationError::bad_value(UNIX_SOCKET, "its permissions mean nothing without it")),
            None => Ok(None),
        };
    };
    let permissions = match &settings.unix_socket_permissions {
        None => PERMISSIONS,
        Some(text) => {
            let mode = u32::from_str_radix(text, 8).ok().filter(|mode| *mode <= 0o777);
            let reason = || format!("'{text}' is no mode of a file, as 0700");
            mode.ok_or_else(|| ConfigurationError::bad_value("unix-socket-permissions", reason()))?
        }
    };
    Ok(Some(UnixSocketSettings { path, permissions }))
}
