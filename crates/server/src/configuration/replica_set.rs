//! The settings of a replica set. Checked by `configuration`.

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
}

impl ReplicaSet {
    pub(super) fn resolve(settings: &Settings) -> Result<Option<Self>, ConfigurationError> {
        let Some(name) = settings.replica_set.clone() else {
            let needless = settings.replica_set_initiation.map(|_| "replica-set-initiation");
            let needless = needless.or(settings.advertise.as_ref().map(|_| "advertise"));
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
        Ok(Some(Self { name, initiation, advertised }))
    }
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
