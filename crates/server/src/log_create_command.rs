//! `plimsoll log create`: makes the shared log that the members of a replica set are to follow.
//!
//! Called by `log_command`. A log in a directory is also made by the first member; one in Kafka by this alone, with the settings that its promises rest on.

use clap::Args;
use platform::{RealDisk, SystemRandom};
use server::configuration::LogPlace;
use server::log_objects;
use shared_log::{DirectoryLog, LogIdentity};

/// Which log.
#[derive(Debug, Args)]
pub(crate) struct LogCreateArguments {
    /// kafka://HOST:PORT,HOST:PORT/TOPIC, s3://BUCKET/PREFIX or dir:///DIRECTORY, as --log is told
    #[arg(value_name = "URL")]
    url: String,
}

/// Runs the command.
pub(crate) fn run(arguments: &LogCreateArguments) -> Result<(), String> {
    let url = &arguments.url;
    let place: LogPlace = url.parse().map_err(|why: String| format!("{url}: {why}"))?;
    let made = match &place {
        LogPlace::Directory(directory) => RealDisk::new(directory)
            .map_err(|error| format!("{}: {error}", directory.display()))
            .and_then(|disk| DirectoryLog::create(&disk, &SystemRandom).map_err(|error| error.to_string())),
        LogPlace::Kafka(place) => create_in_kafka(place),
        LogPlace::Objects { place, .. } => log_objects::create(place).map_err(|error| error.to_string()),
    };
    println!("made the log {}", made?);
    Ok(())
}

#[cfg(feature = "kafka")]
fn create_in_kafka(place: &kafka_log::KafkaPlace) -> Result<LogIdentity, String> {
    kafka_log::KafkaLog::create(place, &platform::SystemClock::new()).map_err(|error| error.to_string())
}

#[cfg(not(feature = "kafka"))]
fn create_in_kafka(place: &kafka_log::KafkaPlace) -> Result<LogIdentity, String> {
    Err(kafka_log::missing_for(place).unwrap_or("this build has no Kafka client").to_owned())
}
