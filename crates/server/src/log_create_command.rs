//! `plimsoll log create`: makes the shared log that the members of a replica set are to follow.
//!
//! Called by `log_command`. A log in a directory is also made by the first member; one in Kafka by this alone, with the settings that its promises rest on, and with its key.

use std::path::Path;
use std::sync::Arc;

use clap::Args;
use platform::{Disk, OuterKey, RealDisk, SystemClock, SystemRandom};
use server::configuration::LogPlace;
use server::data_disk::KeyArguments;
use server::log_objects;
use shared_log::{DirectoryLog, LogIdentity, SharedLogError};

/// Which log.
#[derive(Debug, Args)]
pub(crate) struct LogCreateArguments {
    /// kafka://HOST:PORT,HOST:PORT/TOPIC, s3://BUCKET/PREFIX or dir:///DIRECTORY, as --log is told
    #[arg(value_name = "URL")]
    url: String,
    #[command(flatten)]
    key: KeyArguments,
}

/// Runs the command.
pub(crate) fn run(arguments: &LogCreateArguments) -> Result<(), String> {
    let url = &arguments.url;
    let place: LogPlace = url.parse().map_err(|why: String| format!("{url}: {why}"))?;
    let key = arguments.key.source()?.map(|source| source.read()).transpose()?;
    let made = match &place {
        LogPlace::Directory(directory) => create_in(directory, key.as_ref()),
        LogPlace::Kafka(place) => create_in_kafka(place, key.as_ref()),
        LogPlace::Objects { place, .. } => log_objects::create(place, key.as_ref()).map_err(|error| error.to_string()),
    };
    println!("made the log {}", made?);
    Ok(())
}

fn create_in(directory: &Path, key: Option<&OuterKey>) -> Result<LogIdentity, String> {
    let disk = RealDisk::new(directory).map_err(|error| format!("{}: {error}", directory.display()))?;
    let disk: Arc<dyn Disk> = Arc::new(disk);
    let make = || {
        let identity = DirectoryLog::create(&*disk, &SystemRandom)?;
        DirectoryLog::open(disk.clone(), Arc::new(SystemClock::new()), Arc::new(SystemRandom))?.key(key)?;
        Ok(identity)
    };
    make().map_err(|error: SharedLogError| error.to_string())
}

#[cfg(feature = "kafka")]
fn create_in_kafka(place: &kafka_log::KafkaPlace, key: Option<&OuterKey>) -> Result<LogIdentity, String> {
    let clock = Arc::new(SystemClock::new());
    let make = || {
        let identity = kafka_log::KafkaLog::create(place, &*clock)?;
        if let Some(key) = key {
            let log = kafka_log::KafkaLog::open(place, clock.clone(), &SystemRandom)?;
            shared_log::KeyAmongNotices::new(&log, &*clock).make(key, &SystemRandom)?;
        }
        Ok(identity)
    };
    make().map_err(|error: SharedLogError| error.to_string())
}

#[cfg(not(feature = "kafka"))]
fn create_in_kafka(place: &kafka_log::KafkaPlace, _: Option<&OuterKey>) -> Result<LogIdentity, String> {
    Err(kafka_log::missing_for(place).unwrap_or("this build has no Kafka client").to_owned())
}
