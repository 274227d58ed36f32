//! Where the shared log of a replica set is: `dir:///DIRECTORY` or `kafka://BROKERS/TOPIC`.
//!
//! Parsed by `configuration` for `--log`, and for the commands about logs. What a build cannot reach is refused here, before anything is opened.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use kafka_log::KafkaPlace;

/// Where a shared log is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LogPlace {
    /// In a directory.
    Directory(PathBuf),
    /// A topic of Kafka.
    Kafka(Box<KafkaPlace>),
}

impl LogPlace {
    /// A directory that all members see, beside the log; `None`: nobody has named one.
    pub fn shared_directory(&self) -> Option<&Path> {
        match self {
            LogPlace::Directory(directory) => Some(directory),
            LogPlace::Kafka(place) => place.copies.as_deref(),
        }
    }
}

impl FromStr for LogPlace {
    type Err = String;

    fn from_str(url: &str) -> Result<LogPlace, String> {
        if KafkaPlace::is_named_by(url) {
            let place: KafkaPlace = url.parse()?;
            return match kafka_log::missing_for(&place) {
                Some(missing) => Err(missing.to_owned()),
                None => Ok(LogPlace::Kafka(Box::new(place))),
            };
        }
        let directory = url.strip_prefix("dir://").map(PathBuf::from).filter(|path| path.is_absolute());
        let wrong = || "needs dir:///DIRECTORY, with the whole path, or kafka://BROKERS/TOPIC".to_owned();
        directory.map(LogPlace::Directory).ok_or_else(wrong)
    }
}
