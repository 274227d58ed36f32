//! The settings of a replica set. Checked by `configuration`.

use super::{ConfigurationError, LogPlace, LogWindow, PORT, Settings};

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
    /// The shared log that confirms commits.
    pub log: Option<LogPlace>,
    /// How much of that is kept for members that are away.
    pub log_window: LogWindow,
    /// Names and values by which clients choose members.
    pub tags: Vec<(String, String)>,
}

/// Longest name or value of a tag, in bytes.
const TAG_BYTES_MAX: usize = 255;
/// Most tags of a member.
const TAGS_MAX: usize = 50;

impl ReplicaSet {
    pub(super) fn resolve(settings: &Settings, memory_bytes: u64) -> Result<Option<Self>, ConfigurationError> {
        let Some(name) = settings.replica_set.clone() else {
            let needless = settings.replica_set_initiation.map(|_| "replica-set-initiation");
            let needless = needless.or(settings.advertise.as_ref().map(|_| "advertise"));
            let needless = needless.or(settings.log.as_ref().map(|_| "log"));
            let needless = needless.or(settings.log_window.as_ref().map(|_| "log-window"));
            let needless = needless.or(settings.tags.as_ref().map(|_| "tags"));
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
        let mut log = settings.log.as_deref().map(|url| log(settings, url)).transpose()?;
        if let Some(log) = &mut log {
            log.share(memory_bytes);
        }
        let log_window = log_window(settings.log_window.as_deref(), log.is_some())?;
        let tags = tags(settings.tags.as_deref().unwrap_or_default(), log.is_some())?;
        Ok(Some(Self { name, initiation, advertised, log, log_window, tags }))
    }
}

fn log_window(given: Option<&str>, has_log: bool) -> Result<LogWindow, ConfigurationError> {
    let refused = |why: String| ConfigurationError::bad_value("log-window", why);
    match given {
        Some(_) if !has_log => Err(refused("means nothing without --log".to_owned())),
        Some(text) => text.parse().map_err(refused),
        None => Ok(LogWindow::default()),
    }
}

/// `NAME=VALUE`, each name once.
fn tags(given: &[String], has_log: bool) -> Result<Vec<(String, String)>, ConfigurationError> {
    let refused = |why: String| Err(ConfigurationError::bad_value("tags", why));
    if !has_log && !given.is_empty() {
        return refused("means nothing without --log: the tags of a set of one are set by replSetReconfig".to_owned());
    }
    if given.len() > TAGS_MAX {
        return refused(format!("{TAGS_MAX} are the most"));
    }
    let mut tags: Vec<(String, String)> = Vec::new();
    for tag in given {
        let is_short = |text: &str| (1..=TAG_BYTES_MAX).contains(&text.len()) && !text.contains('\0');
        match tag.split_once('=') {
            Some((name, value)) if is_short(name) && is_short(value) => {
                if tags.iter().any(|(known, _)| known == name) {
                    return refused(format!("'{name}' is there twice"));
                }
                tags.push((name.to_owned(), value.to_owned()));
            }
            _ => return refused(format!("'{tag}' is not NAME=VALUE of at most {TAG_BYTES_MAX} bytes each")),
        }
    }
    Ok(tags)
}

/// What the URL of a shared log names.
fn log(settings: &Settings, url: &str) -> Result<LogPlace, ConfigurationError> {
    let refused = |why: &str| Err(ConfigurationError::bad_value("log", why));
    let place = url.parse().map_err(|why: String| ConfigurationError::bad_value("log", why))?;
    if settings.ephemeral == Some(true) {
        return refused("does not go with --ephemeral, which keeps nothing that could go on with a log");
    }
    Ok(place)
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
