//! Opens the shared log that `--log` names, whatever kind it is, and looks whether it keeps its promises.
//!
//! Called by `following` at a start. A log in a directory is made if need be. One in Kafka or in an object store is made by `plimsoll log create`: a name that was mistyped must not
//! become a set of its own.

use std::path::Path;
use std::sync::Arc;

use platform::{Disk, RealDisk, SystemClock, SystemRandom};
use shared_log::{DirectoryLog, SealedLog, SharedLog, SharedLogError};

use super::log_objects::open_in_objects;
use crate::configuration::{KeySource, LogPlace};

/// Opens the log at `place`, which may have to be made. In a directory, with the key of an encrypted data directory it is encrypted, too.
pub(super) fn open_log(
    place: &LogPlace,
    may_be_made: bool,
    key: Option<&KeySource>,
) -> Result<Arc<dyn SharedLog>, SharedLogError> {
    match place {
        LogPlace::Directory(directory) => open_directory(directory, may_be_made, key),
        LogPlace::Kafka(place) => {
            let log = open_kafka(place)?;
            check(&*log).map(|()| log)
        }
        LogPlace::Objects { place, .. } => {
            let log = open_in_objects(place)?;
            check(&*log).map(|()| log)
        }
    }
}

fn check(log: &dyn SharedLog) -> Result<(), SharedLogError> {
    let complaints = log.check()?;
    if complaints.is_empty() { Ok(()) } else { Err(SharedLogError::Unreachable { cause: complaints.join("; ") }) }
}

fn open_directory(
    directory: &Path,
    may_be_made: bool,
    key: Option<&KeySource>,
) -> Result<Arc<dyn SharedLog>, SharedLogError> {
    let outer = key.map(KeySource::read).transpose().map_err(|cause| SharedLogError::Key { cause })?;
    let cannot = |cause: std::io::Error| SharedLogError::Unreachable { cause: cause.to_string() };
    let disk: Arc<dyn Disk> = Arc::new(RealDisk::new(directory).map_err(cannot)?);
    let open = || DirectoryLog::open(disk.clone(), Arc::new(SystemClock::new()), Arc::new(SystemRandom));
    let log = match open() {
        Err(SharedLogError::Absent) if may_be_made => {
            match DirectoryLog::create(&*disk, &SystemRandom) {
                Ok(identity) => {
                    tracing::info!(target: "replication", directory = %directory.display(), %identity, "made a shared log");
                }
                // Another member was faster.
                Err(SharedLogError::Exists) => {}
                Err(error) => return Err(error),
            }
            open()?
        }
        opened => opened?,
    };
    check(&log)?;
    match log.key(outer.as_ref())? {
        Some(key) => Ok(Arc::new(SealedLog::new(Box::new(log), key, Arc::new(SystemRandom))?)),
        None => Ok(Arc::new(log)),
    }
}

/// Brokers that start at the same time are waited for.
#[cfg(feature = "kafka")]
pub(super) fn open_kafka(place: &kafka_log::KafkaPlace) -> Result<Arc<dyn SharedLog>, SharedLogError> {
    use platform::Clock;
    use std::time::Duration;

    const PATIENCE: Duration = Duration::from_secs(60);
    const PAUSE: Duration = Duration::from_secs(1);
    let clock = SystemClock::new();
    loop {
        match kafka_log::KafkaLog::open(place, Arc::new(SystemClock::new()), &SystemRandom) {
            Ok(log) => return Ok(Arc::new(log)),
            Err(error) if error.is_passing() && clock.monotonic() < PATIENCE => {
                tracing::warn!(target: "replication", log = %place, %error, "waits for the shared log");
                clock.sleep(PAUSE);
            }
            Err(error) => return Err(error),
        }
    }
}

#[cfg(not(feature = "kafka"))]
pub(super) fn open_kafka(place: &kafka_log::KafkaPlace) -> Result<Arc<dyn SharedLog>, SharedLogError> {
    let missing = kafka_log::missing_for(place).unwrap_or("this build has no Kafka client");
    Err(SharedLogError::Unreachable { cause: missing.to_owned() })
}
