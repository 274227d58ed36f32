//! A server whose commits a shared log confirms (`--log`): opens the log, has the store join it, and runs the thread that ships.
//!
//! Called by `main`. When the lead is lost, or the log cannot be followed, the server stops and says so: what it has not confirmed may vanish, and a start finds out.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::ServerHandle;
use crate::configuration::Configuration;
use oplog::Oplog;
use parking_lot::Mutex;
use platform::{Clock, Disk, Random, RealDisk, SystemClock, SystemRandom};
use replication::{Joined, ReplicationError, Shipper, StandingFile, join};
use shared_log::{DirectoryLog, Leader, SharedLog, SharedLogError};
use transaction::{Store, StoreOptions, TransactionError};

/// How long a start waits until the log has all that the oplog has.
const PATIENCE: Duration = Duration::from_secs(30);
/// Pause after an error of this machine's disk.
const ERROR_PAUSE: Duration = Duration::from_secs(1);

/// The thread that ships.
pub(crate) struct Following {
    stop: Arc<AtomicBool>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Following {
    /// Ends it. The store has been closed.
    pub(crate) fn stop(&self) {
        self.stop.store(true, Ordering::Release);
        if let Some(thread) = self.thread.lock().take() {
            // It panicked: that is in the log.
            let _ = thread.join();
        }
    }
}

/// Opens the store: alone, or as a member that leads and has everything confirmed.
///
/// # Errors
/// As `Store::open`; `SharedLog`.
pub(crate) fn open_store(
    configuration: &Configuration,
    disk: Arc<dyn Disk>,
    clock: Arc<dyn Clock>,
    options: StoreOptions,
    handle: &ServerHandle,
) -> Result<(Arc<Store>, Option<Following>), TransactionError> {
    let random = Arc::new(SystemRandom);
    let set = configuration.replica_set.as_ref();
    let Some((set, directory)) = set.and_then(|set| Some((set, set.log.as_deref()?))) else {
        return Ok((Store::open(disk, clock, random, options)?, None));
    };
    let failed = |error: ReplicationError| TransactionError::SharedLog(Box::new(error));
    let standing = StandingFile::open(disk.clone()).map_err(failed)?;
    // A log that was followed and is not there is a file system that is not mounted, and must not be begun anew.
    let may_be_made = standing.stored().is_none();
    let log = open_log(directory, may_be_made).map_err(|error| failed(error.into()))?;
    let address = set.advertised.clone().unwrap_or_else(|| configuration.listen.first().cloned().unwrap_or_default());
    // Until a set has members with numbers of their own there is one.
    let me = Leader { node: 0, incarnation: random.next_u64(), address };
    let mut joined: Option<Joined> = None;
    let store = Store::open_caught_up(disk, clock.clone(), random, options, |oplog| {
        joined = Some(join(&*log, oplog, standing, me, &clock)?);
        Ok::<_, ReplicationError>(())
    })?;
    let Some(joined) = joined else { return Ok((store, None)) };
    tracing::info!(target: "replication", term = joined.term(), confirmed = joined.confirmed(), "leads the replica set");
    let shipper = Shipper::begin(log, clock, joined, &store);
    let following = begin(shipper, store.clone(), handle.clone())?;
    let began = SystemClock::new();
    let is_over = || began.monotonic() >= PATIENCE;
    match store.wait_confirmed(store.oplog().end_position(), &is_over) {
        Ok(true) => Ok((store, Some(following))),
        outcome => {
            following.stop();
            outcome?;
            Err(failed(ReplicationError::NoAnswer { seconds: PATIENCE.as_secs() }))
        }
    }
}

fn begin(mut shipper: Shipper, store: Arc<Store>, handle: ServerHandle) -> Result<Following, TransactionError> {
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = stop.clone();
    let thread = platform::spawn_named("log-shipper", move || {
        let (clock, mut told) = (SystemClock::new(), String::new());
        while !stopped.load(Ordering::Acquire) {
            match shipper.step(&store) {
                Ok(_) if !shipper.leads() => return handle.request_stop(),
                Ok(true) => {}
                Ok(false) => shipper.rest(&store),
                Err(error @ ReplicationError::Log(_)) => {
                    tracing::error!(target: "replication", %error, "the shared log cannot be followed: the server stops");
                    return handle.request_stop();
                }
                Err(error) => {
                    let message = error.to_string();
                    if message != told {
                        tracing::error!(target: "replication", %error, "the oplog could not be shipped");
                        told = message;
                    }
                    clock.sleep(ERROR_PAUSE);
                }
            }
        }
    });
    Ok(Following { stop, thread: Mutex::new(Some(thread.map_err(TransactionError::Thread)?)) })
}

/// The log in a directory, which may have to be made.
fn open_log(directory: &std::path::Path, may_be_made: bool) -> Result<Arc<dyn SharedLog>, SharedLogError> {
    let cannot = |cause: std::io::Error| SharedLogError::Unreachable { cause: cause.to_string() };
    let disk: Arc<dyn Disk> = Arc::new(RealDisk::new(directory).map_err(cannot)?);
    let open = || DirectoryLog::open(disk.clone(), Arc::new(SystemClock::new()), Arc::new(SystemRandom));
    let log = match open() {
        Err(SharedLogError::Absent) if may_be_made => {
            let identity = DirectoryLog::create(&*disk, &SystemRandom)?;
            tracing::info!(target: "replication", directory = %directory.display(), %identity, "made a shared log");
            open()?
        }
        opened => opened?,
    };
    match log.check()?.first() {
        Some(complaint) => Err(SharedLogError::Unreachable { cause: complaint.clone() }),
        None => Ok(Arc::new(log)),
    }
}
