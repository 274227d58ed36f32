//! The audit log, settled. Called by `configuration`.

use std::path::PathBuf;

use super::{ConfigurationError, Settings, Size};

/// The shortest file that a new one is begun after.
const FILE_BYTES_MIN: u64 = 64 << 10;
/// The name that is no file's.
const DIAGNOSTICS: &str = "log";

/// What becomes of an event that cannot be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AuditMode {
    /// It is counted and told, and the server goes on
    Relaxed,
    /// What it is about is refused; each is written before the reply
    Strict,
}

/// Where events go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AuditDestination {
    /// To the diagnostics log.
    Diagnostics,
    /// To a file.
    File(PathBuf),
}

/// The audit log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditConfiguration {
    /// Where events go.
    pub destination: AuditDestination,
    /// What becomes of one that cannot be written.
    pub mode: AuditMode,
    /// How long a file becomes before the next one is begun; `None`: as long as it will.
    pub file_bytes: Option<u64>,
    /// Which are written: a query over them, in JSON.
    pub filter: Option<String>,
    /// Whether also what is allowed is told.
    pub tells_success: bool,
}

/// `None`: there is none.
pub(super) fn audit(settings: &Settings) -> Result<Option<AuditConfiguration>, ConfigurationError> {
    let Some(destination) = settings.audit.as_deref() else {
        let given = [
            (settings.audit_mode.is_some(), "audit-mode"),
            (settings.audit_file_size.is_some(), "audit-file-size"),
            (settings.audit_filter.is_some(), "audit-filter"),
            (settings.audit_authorization_success == Some(true), "audit-authorization-success"),
        ];
        return match given.iter().find(|(is_given, _)| *is_given) {
            Some((_, name)) => Err(ConfigurationError::bad_value(name, "means nothing without --audit")),
            None => Ok(None),
        };
    };
    let mode = settings.audit_mode.unwrap_or(AuditMode::Relaxed);
    let destination = match destination {
        "" => return Err(ConfigurationError::bad_value("audit", "a file is needed, or 'log'")),
        DIAGNOSTICS if mode == AuditMode::Strict => {
            let reason = "'strict' needs a file: the diagnostics log drops lines when it is too slow";
            return Err(ConfigurationError::bad_value("audit-mode", reason));
        }
        DIAGNOSTICS => AuditDestination::Diagnostics,
        path => AuditDestination::File(PathBuf::from(path)),
    };
    let file_bytes = file_bytes(settings.audit_file_size, &destination)?;
    Ok(Some(AuditConfiguration {
        destination,
        mode,
        file_bytes,
        filter: settings.audit_filter.clone(),
        tells_success: settings.audit_authorization_success.unwrap_or(false),
    }))
}

fn file_bytes(size: Option<Size>, destination: &AuditDestination) -> Result<Option<u64>, ConfigurationError> {
    let refused = |reason: &str| Err(ConfigurationError::bad_value("audit-file-size", reason));
    match (size, destination) {
        (None, _) => Ok(None),
        (Some(_), AuditDestination::Diagnostics) => refused("'--audit log' has no file of its own"),
        (Some(Size::Percent(_)), _) => refused("must be a size, not a share"),
        (Some(Size::Bytes(bytes)), _) if bytes < FILE_BYTES_MIN => refused("must be 64KiB at least"),
        (Some(Size::Bytes(bytes)), _) => Ok(Some(bytes)),
    }
}
