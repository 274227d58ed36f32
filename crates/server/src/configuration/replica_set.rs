//! The settings of a replica set. Checked by `configuration`.

use std::path::PathBuf;

use super::{ConfigurationError, PORT, Settings};

/// When a replica set begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReplicaSetInitiation {
    /// By itself, at the first start.
    Automatic,
    /// When a client sends `replSetInitiate`.
    OnCommand,
}

/// The replica set that the server is a member of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplicaSet {
    /// Its name.
    pub name: String,
    /// When it begins.
    pub initiation: ReplicaSetInitiation,
    /// The address that clients are told, `HOST:PORT`.
    pub advertised: Option<String>,
    /// The directory of the shared log that confirms commits.
    pub log: Option<PathBuf>,
}

impl ReplicaSet {
    pub(super) fn resolve(settings: &Settings) -> Result<Option<Self>, ConfigurationError> {
        let Some(name) = settings.replica_set.clone() else {
            let needless = settings.replica_set_initiation.map(|_| "replica-set-initiation");
            let needless = needless.or(settings.advertise.as_ref().map(|_| "advertise"));
            let needless = needless.or(settings.log.as_ref().map(|_| "log"));
            return match needless {
                Some(setting) => Err(ConfigurationError::bad_value(setting, "means nothing without --replica-set")),
                None => Ok(None),
            };
        };
        if name.is_empty() || name.contains(char::is_whitespace) {
            return Err(ConfigurationError::bad_value("replica-set", "needs a name without spaces"));
        }
        let initiation = settings.replica_set_initiation.unwrap_or(ReplicaSetInitiation::Automatic);
        let advertised = settings.advertise.as_deref().map(address).transpose()?;
        let log = settings.log.as_deref().map(|url| log(settings, url)).transpose()?;
        Ok(Some(Self { name, initiation, advertised, log }))
    }
}

/// The directory that the URL of a shared log names.
fn log(settings: &Settings, url: &str) -> Result<PathBuf, ConfigurationError> {
    let refused = |why: &str| Err(ConfigurationError::bad_value("log", why));
    let Some(path) = url.strip_prefix("dir://").map(PathBuf::from).filter(|path| path.is_absolute()) else {
        return refused("needs dir:///DIRECTORY, with the whole path");
    };
    if settings.encryption_key_file.is_some()
        || settings.encryption_key_env.is_some()
        || settings.encryption_key_command.is_some()
    {
        return refused("does not go with an encrypted data directory: what is logged would be there for all to read");
    }
    if settings.ephemeral == Some(true) {
        return refused("does not go with --ephemeral, which keeps nothing that could go on with a log");
    }
    Ok(path)
}

/// Adds the port where there is none.
fn address(text: &str) -> Result<String, ConfigurationError> {
    let with_port = match text.rsplit_once(':') {
        Some((host, port)) if !host.is_empty() && (!host.contains(':') || host.ends_with(']')) => {
            port.parse::<u16>().is_ok_and(|port| port > 0).then(|| text.to_owned())
        }
        None if !text.is_empty() => Some(format!("{text}:{PORT}")),
        _ if text.ends_with(']') => Some(format!("{text}:{PORT}")),
        _ => None,
    };
    let wrong =
        || ConfigurationError::bad_value("advertise", format!("'{text}' is not HOST:PORT, HOST or [IPV6]:PORT"));
    with_port.ok_or_else(wrong)
}
