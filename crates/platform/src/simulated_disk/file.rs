//! An open file of the simulated disk.
//!
//! Handed out by `SimulatedDisk::open`. Dead once the process or the machine that opened it has gone down.

use std::io;
use std::sync::Arc;

use super::Shared;
use super::faults::Operation;
use super::state::{Change, InodeId, State};
use crate::{File, Random};

/// What is torn nowhere.
const SECTOR_BYTES: u64 = 512;

/// Whether a file was opened for writing.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    Read,
    ReadWrite,
}

pub(super) struct SimulatedFile {
    pub(super) shared: Arc<Shared>,
    pub(super) inode: InodeId,
    pub(super) generation: u64,
    pub(super) access: Access,
}

impl SimulatedFile {
    fn check_alive(&self, state: &State) -> io::Result<()> {
        match state.generation == self.generation {
            true => Ok(()),
            false => Err(io::Error::other("the file was opened before the simulated crash")),
        }
    }

    fn check_writable(&self) -> io::Result<()> {
        match self.access {
            Access::ReadWrite => Ok(()),
            Access::Read => Err(io::ErrorKind::PermissionDenied.into()),
        }
    }

    /// Makes a change that takes no new space.
    fn change(&self, operation: Operation, change: Change) -> io::Result<()> {
        self.check_writable()?;
        self.shared.check(operation)?;
        let mut state = self.shared.state.lock();
        self.check_alive(&state)?;
        state.inode(self.inode)?.change(change);
        Ok(())
    }

    /// How many bytes of a range can be written before the disk is full.
    fn bytes_that_fit(&self, state: &mut State, offset: u64, length: u64) -> io::Result<u64> {
        match state.free_blocks() {
            None => Ok(length),
            Some(free) => Ok(state.inode(self.inode)?.seen.bytes_that_fit(offset, length, free)),
        }
    }

    fn write(&self, state: &mut State, bytes: &[u8], offset: u64) -> io::Result<()> {
        if !bytes.is_empty() {
            state.faults.counts.written_bytes += bytes.len() as u64;
            state.inode(self.inode)?.change(Change::Write { offset, bytes: bytes.to_vec() });
        }
        Ok(())
    }
}

impl File for SimulatedFile {
    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
        self.shared.check(Operation::Read)?;
        let mut state = self.shared.state.lock();
        self.check_alive(&state)?;
        let count = state.inode(self.inode)?.seen.read(bytes, offset);
        state.faults.counts.read_bytes += count as u64;
        Ok(count)
    }

    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.check_writable()?;
        let fault = self.shared.check(Operation::Write);
        let mut state = self.shared.state.lock();
        self.check_alive(&state)?;
        let fitting = self.bytes_that_fit(&mut state, offset, bytes.len() as u64)?;
        let (count, result) = match fault {
            // A failing write may have written a part.
            Err(error) => {
                let count = self.shared.random.below(fitting + 1);
                let cut = if state.fails_between_sectors { (offset + count) % SECTOR_BYTES } else { 0 };
                (count.saturating_sub(cut), Err(error))
            }
            Ok(()) if fitting < bytes.len() as u64 => (fitting, Err(io::ErrorKind::StorageFull.into())),
            Ok(()) => (fitting, Ok(())),
        };
        self.write(&mut state, &bytes[..count as usize], offset)?;
        result
    }

    fn sync_data(&self) -> io::Result<()> {
        let fault = self.shared.check(Operation::Sync);
        let mut state = self.shared.state.lock();
        self.check_alive(&state)?;
        let inode = state.inode(self.inode)?;
        match &fault {
            Ok(()) => inode.sync(),
            Err(_) => inode.sync_failing(&self.shared.random),
        }
        fault
    }

    fn length(&self) -> io::Result<u64> {
        let mut state = self.shared.state.lock();
        self.check_alive(&state)?;
        Ok(state.inode(self.inode)?.seen.length())
    }

    fn set_length(&self, length: u64) -> io::Result<()> {
        self.change(Operation::SetLength, Change::SetLength(length))
    }

    fn punch_hole(&self, offset: u64, length: u64) -> io::Result<()> {
        self.change(Operation::PunchHole, Change::PunchHole { offset, length })
    }

    fn allocate(&self, offset: u64, length: u64) -> io::Result<()> {
        self.check_writable()?;
        self.shared.check(Operation::Allocate)?;
        let mut state = self.shared.state.lock();
        self.check_alive(&state)?;
        if self.bytes_that_fit(&mut state, offset, length)? < length {
            return Err(io::ErrorKind::StorageFull.into());
        }
        state.inode(self.inode)?.change(Change::Allocate { offset, length });
        Ok(())
    }
}

impl Drop for SimulatedFile {
    fn drop(&mut self) {
        let mut state = self.shared.state.lock();
        if self.check_alive(&state).is_ok() {
            state.closed(self.inode);
        }
    }
}
