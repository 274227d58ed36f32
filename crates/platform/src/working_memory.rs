//! What a blocking operation works in: its share of the memory budget, and temporary files for the rest.
//!
//! Made by the server once, handed to the stages of `executor` and `aggregation`.

use std::path::Path;
use std::sync::Arc;

use crate::command_memory::{CommandMemory, MemoryWait, Patience, begin_command, command_memory_limit};
use crate::{MemoryBudget, MemoryReservation, MemoryUse, SimulatedDisk, TemporaryStore};

/// Bytes that one operation may hold when the budget is large: MongoDB's limit.
const OPERATION_BYTES_MAX: u64 = 100 << 20;
/// Bytes that every operation gets whatever else is going on, as it could not go on without.
const OPERATION_BYTES_MIN: u64 = 512 << 10;
/// Operations that fit into what is free when the server starts, each with a full share.
const OPERATIONS_AT_ONCE: u64 = 4;

/// See the module's head.
#[derive(Clone)]
pub struct WorkingMemory {
    budget: Arc<MemoryBudget>,
    temporary: Arc<TemporaryStore>,
    share: u64,
    command_limit: u64,
}

/// The memory of one stage of an operation; given back when dropped.
#[derive(Debug)]
pub struct OperationMemory {
    reservation: MemoryReservation,
    share: u64,
}

impl WorkingMemory {
    /// Working memory within a budget, of which everything fixed is reserved already.
    pub fn new(budget: Arc<MemoryBudget>, temporary: Arc<TemporaryStore>) -> WorkingMemory {
        let share = (budget.free() / OPERATIONS_AT_ONCE).clamp(OPERATION_BYTES_MIN, OPERATION_BYTES_MAX);
        let command_limit = command_memory_limit(&budget);
        WorkingMemory { budget, temporary, share, command_limit }
    }

    /// Working memory without a budget, its temporary files in memory, `share` bytes for each operation: for tests and tools.
    ///
    /// # Errors
    /// None in practice: the disk is a simulated one.
    pub fn simulated(share: u64) -> std::io::Result<WorkingMemory> {
        let temporary = TemporaryStore::open(Arc::new(SimulatedDisk::new(0)), Path::new("temporary"))?;
        Ok(WorkingMemory { budget: MemoryBudget::unlimited(), temporary, share, command_limit: u64::MAX })
    }

    /// Bytes that one stage may hold.
    pub fn share(&self) -> u64 {
        self.share
    }

    /// The budget.
    pub fn budget(&self) -> &Arc<MemoryBudget> {
        &self.budget
    }

    /// Where runs go.
    pub fn temporary(&self) -> &Arc<TemporaryStore> {
        &self.temporary
    }

    /// Counts what the calling thread holds for a command, until this is dropped.
    pub fn begin_command(&self, patience: Patience, wait: Arc<dyn MemoryWait>) -> CommandMemory {
        begin_command(&self.budget, self.command_limit, patience, wait)
    }

    /// Memory for a stage, empty at first.
    pub fn begin(&self) -> OperationMemory {
        OperationMemory { reservation: self.budget.reservation(MemoryUse::Operations), share: self.share }
    }
}

impl OperationMemory {
    /// Whether the stage may hold so many bytes. `false`: it has to spill or fail.
    pub fn holds(&mut self, bytes: u64) -> bool {
        if bytes > self.share {
            return false;
        }
        if bytes <= self.reservation.bytes() {
            return true;
        }
        if self.reservation.cover(bytes).is_ok() {
            return true;
        }
        let is_little = bytes <= OPERATION_BYTES_MIN;
        if is_little {
            self.reservation.grow_unchecked(bytes - self.reservation.bytes());
        }
        is_little
    }

    /// Bytes that the stage may hold at most.
    pub fn share(&self) -> u64 {
        self.share
    }

    /// Gives back what is beyond `bytes`.
    pub fn shrink(&mut self, bytes: u64) {
        self.reservation.shrink(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stage_gets_its_share_and_a_little_even_when_there_is_none() {
        let memory = WorkingMemory::simulated(1 << 20).unwrap();
        let mut stage = memory.begin();
        assert!(stage.holds(1 << 20) && !stage.holds((1 << 20) + 1));
        let budget = MemoryBudget::new(8 << 20);
        let _cache = budget.reserve_fixed(MemoryUse::Frames, 8 << 20);
        let memory = WorkingMemory::new(budget.clone(), memory.temporary().clone());
        let mut stage = memory.begin();
        assert!(stage.holds(1000) && stage.holds(OPERATION_BYTES_MIN) && !stage.holds(OPERATION_BYTES_MIN + 1));
        drop(stage);
        assert_eq!(budget.used_for(MemoryUse::Operations), 0);
    }

    #[test]
    fn shares_grow_with_the_budget_up_to_a_limit() {
        let temporary = WorkingMemory::simulated(0).unwrap().temporary;
        let share = |bytes| WorkingMemory::new(MemoryBudget::new(bytes), temporary.clone()).share();
        assert_eq!([share(0), share(64 << 20), share(64 << 30)], [OPERATION_BYTES_MIN, 16 << 20, OPERATION_BYTES_MAX]);
    }
}
