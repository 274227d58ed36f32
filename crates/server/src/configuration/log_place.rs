//! Where the shared log of a replica set is: `dir:///DIRECTORY`, `kafka://BROKERS/TOPIC`, or a part of an object store, `s3://BUCKET/PREFIX` and its like.
//!
//! Parsed by `configuration` for `--log`, and for the commands about logs. What a build cannot reach is refused here, before anything is opened.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use backup::{CLOUD_SCHEMES, CloudPlace};
use kafka_log::{ClientMemory, KafkaPlace};

/// Of the server's memory, one part in so many for the queues of Kafka's client, as far as they need it.
const CLIENT_SHARE: u64 = 16;

/// Where a shared log is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LogPlace {
    /// In a directory.
    Directory(PathBuf),
    /// A topic of Kafka.
    Kafka(Box<KafkaPlace>),
    /// In an object store.
    Objects {
        /// Where in it.
        place: CloudPlace,
        /// A directory that all members see, for copies of their data for new members.
        copies: Option<PathBuf>,
    },
}

impl LogPlace {
    /// The server has so much memory.
    pub(super) fn share(&mut self, memory_bytes: u64) {
        if let LogPlace::Kafka(place) = self {
            place.memory = ClientMemory::about(memory_bytes / CLIENT_SHARE);
        }
    }

    /// Of that what the client of a log takes from the start.
    pub(crate) fn client_bytes(&self) -> u64 {
        match self {
            LogPlace::Kafka(place) => place.memory.bytes(),
            LogPlace::Directory(_) | LogPlace::Objects { .. } => 0,
        }
    }

    /// A directory that all members see, beside the log; `None`: nobody has named one.
    pub fn shared_directory(&self) -> Option<&Path> {
        match self {
            LogPlace::Directory(directory) => Some(directory),
            LogPlace::Kafka(place) => place.copies.as_deref(),
            LogPlace::Objects { copies, .. } => copies.as_deref(),
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
        if url.split_once("://").is_some_and(|(scheme, _)| CLOUD_SCHEMES.contains(&scheme)) {
            return in_objects(url);
        }
        let directory = url.strip_prefix("dir://").map(PathBuf::from).filter(|path| path.is_absolute());
        let wrong =
            || "needs dir:///DIRECTORY, with the whole path, kafka://BROKERS/TOPIC, or s3://BUCKET/PREFIX".to_owned();
        directory.map(LogPlace::Directory).ok_or_else(wrong)
    }
}

/// `s3://BUCKET/PREFIX?copies=DIRECTORY` and its like.
fn in_objects(url: &str) -> Result<LogPlace, String> {
    let (url, options) = url.split_once('?').map_or((url, None), |(url, options)| (url, Some(options)));
    let directory = |option: &str| {
        let directory = option.strip_prefix("copies=").map(PathBuf::from).filter(|path| path.is_absolute());
        directory.ok_or_else(|| format!("takes copies=/DIRECTORY, with the whole path, and not '{option}'"))
    };
    let copies = options.map(directory).transpose()?;
    match backup::Place::of_url(url).map_err(|error| error.to_string())? {
        backup::Place::Cloud(place) => Ok(LogPlace::Objects { place, copies }),
        backup::Place::Directory(_) => Err("needs a bucket".to_owned()),
    }
}
