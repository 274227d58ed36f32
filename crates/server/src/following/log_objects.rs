//! A shared log in an object store: what `shared_log` asks of one, answered by the client that backups have.

use std::io;
use std::sync::Arc;

use backup::{CloudObjects, CloudPlace};
use platform::{OuterKey, SystemClock, SystemRandom};
use shared_log::{LogIdentity, ObjectLog, Objects, SharedLogError};

struct Stored(CloudObjects);

impl Objects for Stored {
    fn put_new(&self, name: &str, bytes: &[u8]) -> io::Result<bool> {
        self.0.put_new(name, bytes)
    }

    fn put(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        self.0.put(name, bytes)
    }

    fn get(&self, name: &str) -> io::Result<Option<Vec<u8>>> {
        self.0.get(name)
    }

    fn get_all(&self, names: &[String]) -> io::Result<Vec<Option<Vec<u8>>>> {
        self.0.get_all(names)
    }

    fn list_after(&self, folder: &str, after: &str, count_max: usize) -> io::Result<Vec<String>> {
        self.0.list_after(folder, after, count_max)
    }

    fn delete(&self, name: &str) -> io::Result<()> {
        self.0.delete(name)
    }
}

fn reached(place: &CloudPlace) -> Result<Stored, SharedLogError> {
    let cannot = |error: io::Error| SharedLogError::Unreachable { cause: error.to_string() };
    CloudObjects::open(place).map(Stored).map_err(cannot)
}

/// Opens the log, which has to be there, and is not decrypted.
///
/// # Errors
/// As `ObjectLog::open`.
pub(super) fn open_in_objects(place: &CloudPlace) -> Result<ObjectLog, SharedLogError> {
    ObjectLog::open(Arc::new(reached(place)?), Arc::new(SystemClock::new()), Arc::new(SystemRandom))
}

/// Makes it, for `plimsoll log create`; with a key it is an encrypted one.
///
/// # Errors
/// As `ObjectLog::create`, and `ObjectLog::key`.
pub fn create(place: &CloudPlace, key: Option<&OuterKey>) -> Result<LogIdentity, SharedLogError> {
    let identity = ObjectLog::create(&reached(place)?, &SystemRandom)?;
    open_in_objects(place)?.key(key)?;
    Ok(identity)
}
