//! Opens the shared log that `--log` names, whatever kind it is, and looks whether it keeps its promises.
//!
//! Called by `following` at a start. A log in a directory is made if need be. One in Kafka or in an object store is made by `plimsoll log create`: a name that was mistyped must not
//! become a set of its own.

use std::path::Path;
use std::sync::Arc;

use platform::{Disk, OuterKey, RealDisk, SystemClock, SystemRandom};
use shared_log::{DirectoryLog, KeyAmongNotices, SealedLog, SharedLog, SharedLogError};

use super::log_objects::open_in_objects;
use crate::configuration::{KeySource, LogPlace};

/// Opens the log at `place`, which may have to be made. With the key of an encrypted data directory it is encrypted, too.
pub(super) fn open_log(
    place: &LogPlace,
    may_be_made: bool,
    key: Option<&KeySource>,
) -> Result<Arc<dyn SharedLog>, SharedLogError> {
    match place {
        LogPlace::Directory(directory) => open_directory(directory, may_be_made, key),
        LogPlace::Kafka(place) => {
            let log = open_kafka(place)?;
            check(&*log)?;
            with_key_among_notices(log, outer(key)?.as_ref())
        }
        LogPlace::Objects { place, .. } => {
            let log = open_in_objects(place)?;
            check(&log)?;
            let key = log.key(outer(key)?.as_ref())?;
            sealed(Box::new(log), key)
        }
    }
}

/// The key of the log's members.
pub(super) fn outer(key: Option<&KeySource>) -> Result<Option<OuterKey>, SharedLogError> {
    key.map(KeySource::read).transpose().map_err(|cause| SharedLogError::Key { cause })
}

/// A log as its members see it.
pub(super) fn sealed(log: Box<dyn SharedLog>, key: Option<OuterKey>) -> Result<Arc<dyn SharedLog>, SharedLogError> {
    match key {
        Some(key) => Ok(Arc::new(SealedLog::new(log, key, Arc::new(SystemRandom))?)),
        None => Ok(log.into()),
    }
}

/// The same of a log of which members see nothing else but notices.
pub(super) fn with_key_among_notices(
    log: Box<dyn SharedLog>,
    outer: Option<&OuterKey>,
) -> Result<Arc<dyn SharedLog>, SharedLogError> {
    let key = KeyAmongNotices::new(&*log, &SystemClock::new()).open(outer, &SystemRandom)?;
    sealed(log, key)
}

/// Another handle on a log that a member has open, for whoever reads it beside the member: a client of Kafka reads at one place only. Other logs have one handle for all.
#[cfg(feature = "kafka")]
pub(super) fn open_beside(
    place: &LogPlace,
    key: Option<&KeySource>,
    log: Arc<dyn SharedLog>,
) -> Result<Arc<dyn SharedLog>, SharedLogError> {
    match place {
        LogPlace::Kafka(place) => {
            let log = kafka_log::KafkaLog::open(place, Arc::new(SystemClock::new()), &SystemRandom)?;
            with_key_among_notices(Box::new(log), outer(key)?.as_ref())
        }
        _ => Ok(log),
    }
}

/// The same of a build that knows no Kafka.
#[cfg(not(feature = "kafka"))]
pub(super) fn open_beside(
    _: &LogPlace,
    _: Option<&KeySource>,
    log: Arc<dyn SharedLog>,
) -> Result<Arc<dyn SharedLog>, SharedLogError> {
    Ok(log)
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
    let outer = outer(key)?;
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
    let key = log.key(outer.as_ref())?;
    sealed(Box::new(log), key)
}

/// Brokers that start at the same time are waited for.
#[cfg(feature = "kafka")]
pub(super) fn open_kafka(place: &kafka_log::KafkaPlace) -> Result<Box<dyn SharedLog>, SharedLogError> {
    use platform::Clock;
    use std::time::Duration;

    const PATIENCE: Duration = Duration::from_secs(60);
    const PAUSE: Duration = Duration::from_secs(1);
    let clock = SystemClock::new();
    loop {
        match kafka_log::KafkaLog::open(place, Arc::new(SystemClock::new()), &SystemRandom) {
            Ok(log) => return Ok(Box::new(log)),
            Err(error) if error.is_passing() && clock.monotonic() < PATIENCE => {
                tracing::warn!(target: "replication", log = %place, %error, "waits for the shared log");
                clock.sleep(PAUSE);
            }
            Err(error) => return Err(error),
        }
    }
}

#[cfg(not(feature = "kafka"))]
pub(super) fn open_kafka(place: &kafka_log::KafkaPlace) -> Result<Box<dyn SharedLog>, SharedLogError> {
    let missing = kafka_log::missing_for(place).unwrap_or("this build has no Kafka client");
    Err(SharedLogError::Unreachable { cause: missing.to_owned() })
}
