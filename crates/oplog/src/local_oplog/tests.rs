//! Tests of the local log against the simulated disk: behaviour, crashes, damage, failures; and of threads on a real one.

mod behaviour;
mod canonical;
mod concurrency;
mod copying;
mod crash;
mod damage;
mod failure;
mod format;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use platform::{Clock, Disk, SimulatedClock, SimulatedDisk, Timestamp};

use super::{LocalOplog, OplogOptions};
use crate::{Appended, Oplog, OplogPosition, Result};

/// An entry as the tests keep it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Written {
    position: OplogPosition,
    timestamp: Timestamp,
    payload: Vec<u8>,
}

/// A simulated machine on which the log is opened again and again.
struct Machine {
    disk: SimulatedDisk,
    clock: Arc<SimulatedClock>,
    options: OplogOptions,
}

impl Machine {
    fn new(seed: u64, segment_bytes: u64) -> Machine {
        let options = OplogOptions {
            segment_bytes,
            buffer_bytes_max: 8 << 10,
            flush_interval: Duration::from_millis(5),
            ..Default::default()
        };
        Machine { disk: SimulatedDisk::new(seed), clock: Arc::new(SimulatedClock::new(1_700_000_000_000)), options }
    }

    fn try_open(&self) -> Result<LocalOplog> {
        let disk: Arc<dyn Disk> = Arc::new(self.disk.clone());
        LocalOplog::open(disk, Arc::clone(&self.clock) as Arc<dyn Clock>, self.options.clone())
    }

    fn open(&self) -> LocalOplog {
        self.try_open().unwrap()
    }

    fn segment_names(&self) -> Vec<String> {
        self.disk.list(Path::new("oplog")).unwrap()
    }

    fn segment_path(&self, start: u64) -> PathBuf {
        Path::new("oplog").join(super::segment::segment_name(start))
    }
}

fn append(oplog: &LocalOplog, payload: &[u8]) -> Result<Appended> {
    oplog.append(&mut |_, bytes| bytes.extend_from_slice(payload), &mut |_, _| {})
}

fn append_durable(oplog: &LocalOplog, payload: &[u8]) -> Result<Appended> {
    let appended = append(oplog, payload)?;
    oplog.wait_durable(appended.end)?;
    Ok(appended)
}

fn read_all(oplog: &LocalOplog) -> Result<Vec<Written>> {
    read_from(oplog, oplog.first_position())
}

fn read_from(oplog: &LocalOplog, position: OplogPosition) -> Result<Vec<Written>> {
    let mut reader = oplog.read_from(position)?;
    let mut entries = Vec::new();
    while let Some(entry) = reader.next_entry()? {
        entries.push(Written { position: entry.position, timestamp: entry.timestamp, payload: entry.payload.to_vec() });
    }
    assert_eq!(reader.position(), oplog.end_position());
    Ok(entries)
}

/// A payload that tells which entry it is and how long it should be.
fn payload(number: usize, length: usize) -> Vec<u8> {
    (0..length).map(|at| (number * 31 + at * 7) as u8).collect()
}
