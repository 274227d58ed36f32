//! A disk in memory that fails on command: the storage half of the simulator.
//!
//! Used by the tests of everything that stores, and by the simulator. It keeps, for each file and for the directories, what
//! is seen now and what would survive; everything random about it comes from one seed, so a single-threaded run repeats
//! exactly.
//!
//! What `power_loss` may do to changes that were not synced: keep none, all, a prefix or any subset of them; tear a write
//! at 512-byte sectors; forget that a file was created, renamed or removed until its directory was synced, even if
//! the file itself was synced. What was synced stays. After a failed sync (injected), some of the unsynced changes are
//! durable and the others are lost although reads still show them, and the next sync succeeds, as on Linux. After a
//! failed sync of a directory its changes can still be synced.

mod faults;
mod file;
mod state;
#[cfg(test)]
mod tests;

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

pub use faults::{InjectedError, Operation, OperationCounts};
use file::{Access, SimulatedFile};
use state::{Node, State};

use crate::disk::check_relative;
use crate::file_image::BLOCK_BYTES;
use crate::{Clock, Disk, File, OpenMode, SeededRandom};

/// The simulated disk; clones are handles on the same disk.
#[derive(Clone)]
pub struct SimulatedDisk {
    shared: Arc<Shared>,
}

struct Shared {
    state: Mutex<State>,
    random: SeededRandom,
    clock: Option<Arc<dyn Clock>>,
}

impl Shared {
    /// Counts an operation, waits if it is slowed down, and fails it if the power is gone or a fault fires.
    fn check(&self, operation: Operation) -> io::Result<()> {
        let verdict = {
            let mut state = self.state.lock();
            state.check_power(&self.random)?;
            state.faults.check(operation, &self.random)
        };
        if let Some(clock) = self.clock.as_ref().filter(|_| !verdict.delay.is_zero()) {
            clock.sleep(verdict.delay);
        }
        verdict.error.map_or(Ok(()), Err)
    }
}

impl SimulatedDisk {
    /// An empty disk without limit; `seed` decides everything random about it.
    pub fn new(seed: u64) -> SimulatedDisk {
        SimulatedDisk::build(seed, None)
    }

    /// An empty disk whose delays (`set_delay`) pass on `clock`.
    pub fn with_clock(seed: u64, clock: Arc<dyn Clock>) -> SimulatedDisk {
        SimulatedDisk::build(seed, Some(clock))
    }

    fn build(seed: u64, clock: Option<Arc<dyn Clock>>) -> SimulatedDisk {
        let shared = Shared { state: Mutex::new(State::default()), random: SeededRandom::new(seed), clock };
        SimulatedDisk { shared: Arc::new(shared) }
    }

    /// The power fails: unsynced changes are lost or torn at random, open files are dead. The disk can be used again at once.
    pub fn power_loss(&self) {
        self.shared.state.lock().lose_power(&self.shared.random);
    }

    /// The power fails at the operation after `operations` more, of whatever kind: that one and all after it fail, of
    /// files and of the disk, until `power_on`.
    pub fn power_loss_after(&self, operations: u64) {
        self.shared.state.lock().power_fails_after = Some(operations);
    }

    /// Whether the power failed at an operation and has not come back.
    pub fn is_down(&self) -> bool {
        self.shared.state.lock().is_down
    }

    /// The power comes back, and a failure that was to come does not.
    pub fn power_on(&self) {
        let mut state = self.shared.state.lock();
        (state.is_down, state.power_fails_after) = (false, None);
    }

    /// The process dies: open files are dead, what was written stays in the operating system's memory, unsynced.
    pub fn process_crash(&self) {
        self.shared.state.lock().crash_process();
    }

    /// The next `operation` fails.
    pub fn fail_next(&self, operation: Operation, error: InjectedError) {
        self.fail_after(operation, 0, error);
    }

    /// The `operation` after `successes` more of its kind fails, once.
    pub fn fail_after(&self, operation: Operation, successes: u64, error: InjectedError) {
        self.shared.state.lock().faults.fail_after(operation, successes, error);
    }

    /// A write that fails ends between two sectors from now on, as those of the kernel do. Who encrypts relies on it.
    pub fn fail_writes_between_sectors(&self) {
        self.shared.state.lock().fails_between_sectors = true;
    }

    /// Every `operation` fails until `clear_faults`.
    pub fn fail_always(&self, operation: Operation, error: InjectedError) {
        self.shared.state.lock().faults.fail_always(operation, error);
    }

    /// Each `operation` fails with EIO with this probability (0 to 1).
    pub fn set_error_probability(&self, operation: Operation, probability: f64) {
        self.shared.state.lock().faults.set_probability(operation, probability);
    }

    /// Each `operation` takes this long on the clock given to `with_clock`.
    pub fn set_delay(&self, operation: Operation, delay: Duration) {
        self.shared.state.lock().faults.set_delay(operation, delay);
    }

    /// Takes all faults, probabilities and delays back.
    pub fn clear_faults(&self) {
        self.shared.state.lock().faults.clear();
    }

    /// Limits the space (counted in blocks of 4096 bytes); `None` is no limit.
    pub fn set_capacity_bytes(&self, capacity: Option<u64>) {
        self.shared.state.lock().capacity_bytes = capacity;
    }

    /// Space taken by files, in bytes of whole blocks.
    pub fn used_bytes(&self) -> u64 {
        self.shared.state.lock().used_bytes()
    }

    /// The medium rots: bit `bit` (0 to 7) of the byte at `offset` flips, for reads now and after a power loss.
    pub fn flip_bit(&self, path: &Path, offset: u64, bit: u8) -> io::Result<()> {
        let mut state = self.shared.state.lock();
        match state.node(path) {
            Some(Node::File(id)) => {
                state.inode(id)?.flip_bit(offset, bit);
                Ok(())
            }
            _ => Err(io::ErrorKind::NotFound.into()),
        }
    }

    /// Somebody takes the directory away under the files that are open: reads and writes go on, syncs fail.
    pub fn take_directory_away(&self) {
        self.shared.state.lock().is_taken_away = true;
        self.fail_always(Operation::Sync, InjectedError::InputOutput);
    }

    /// What was asked of the disk since the start or the last `reset_counts`.
    pub fn counts(&self) -> OperationCounts {
        self.shared.state.lock().faults.counts.clone()
    }

    /// Starts the counters again from zero.
    pub fn reset_counts(&self) {
        self.shared.state.lock().faults.counts = OperationCounts::default();
    }
}

impl Disk for SimulatedDisk {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn File>> {
        check_relative(path)?;
        self.shared.check(Operation::Open)?;
        let mut state = self.shared.state.lock();
        let inode = match (state.node(path), mode) {
            (Some(Node::Directory), _) => return Err(io::ErrorKind::IsADirectory.into()),
            (Some(Node::File(_)), OpenMode::CreateNew) => return Err(io::ErrorKind::AlreadyExists.into()),
            (Some(Node::File(id)), _) => id,
            (None, OpenMode::Create | OpenMode::CreateNew) => state.create_file(path)?,
            (None, OpenMode::Read | OpenMode::ReadWrite) => return Err(io::ErrorKind::NotFound.into()),
        };
        state.opened(inode)?;
        let access = if mode == OpenMode::Read { Access::Read } else { Access::ReadWrite };
        let generation = state.generation;
        Ok(Arc::new(SimulatedFile { shared: Arc::clone(&self.shared), inode, generation, access }))
    }

    fn create_directory(&self, path: &Path) -> io::Result<()> {
        check_relative(path)?;
        self.shared.check(Operation::CreateDirectory)?;
        self.shared.state.lock().create_directory(path)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        check_relative(path)?;
        self.shared.check(Operation::Remove)?;
        self.shared.state.lock().remove(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        check_relative(from)?;
        check_relative(to)?;
        self.shared.check(Operation::Rename)?;
        self.shared.state.lock().rename(from, to)
    }

    fn rename_new(&self, from: &Path, to: &Path) -> io::Result<()> {
        check_relative(from)?;
        check_relative(to)?;
        self.shared.check(Operation::Rename)?;
        let mut state = self.shared.state.lock();
        if state.node(to).is_some() {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        state.rename(from, to)
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<String>> {
        check_relative(directory)?;
        self.shared.check(Operation::List)?;
        self.shared.state.lock().list(directory)
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        check_relative(path)?;
        self.shared.check(Operation::List)?;
        Ok(self.shared.state.lock().node(path).is_some())
    }

    fn sync_directory(&self, directory: &Path) -> io::Result<()> {
        check_relative(directory)?;
        let fault = self.shared.check(Operation::SyncDirectory);
        let mut state = self.shared.state.lock();
        match &fault {
            Ok(()) => state.sync_directory(directory)?,
            Err(_) => state.sync_directory_failing(directory, &self.shared.random),
        }
        fault
    }

    fn available_bytes(&self) -> io::Result<u64> {
        Ok(self.shared.state.lock().free_blocks().map_or(u64::MAX, |blocks| blocks * BLOCK_BYTES))
    }

    fn total_bytes(&self) -> io::Result<u64> {
        Ok(self.shared.state.lock().capacity_bytes.unwrap_or(u64::MAX))
    }

    fn check_presence(&self) -> io::Result<()> {
        let is_taken_away = self.shared.state.lock().is_taken_away;
        if is_taken_away { Err(io::Error::other("the directory is not there any more")) } else { Ok(()) }
    }
}
