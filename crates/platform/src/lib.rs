//! The world outside the process, behind traits: time, randomness, disk and threads.
//!
//! Every other crate reaches the machine through this one, so that the simulator can run the same code against a
//! clock that it moves by hand, a seeded generator and a disk that fails on command. `clippy.toml` at the workspace
//! root bans the raw calls and names the replacement here.
//!
//! Called by: everything that stores, waits or draws a random number. Built on: `std`, `rustix` and `libc`.
//! Must not know: documents, pages, the oplog, the wire. `Timestamp` lives here only because the oplog and the
//! storage engine, which do not depend on each other, both speak of it.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

mod clock;
pub mod command_memory;
mod directory_lock;
mod disk;
mod encryption;
mod file_image;
mod foreground;
pub mod greediest;
mod idle_pause;
mod machine_memory;
mod memory_budget;
pub mod memory_check;
mod memory_disk;
mod process_memory;
mod process_usage;
mod processor_load;
mod random;
mod real_disk;
mod schedule;
mod simulated_disk;
mod sorted_runs;
mod spare_processor;
mod stop_signal;
mod temporary_store;
mod thread;
mod timestamp;
mod uncached;
mod waits;
mod weak_list;
mod work_budget;
mod work_class;
mod working_memory;
mod write_back;

pub use clock::{Clock, SimulatedClock, SystemClock, part_of, processor_time, thread_processor_time};
pub use directory_lock::{DirectoryLock, DirectoryLockError};
pub use disk::{Disk, File, OpenMode, is_disk_full, replace_file};
pub use encryption::{
    EncryptedDisk, EncryptionError, KEYS_FILE, OuterKey, SealedObject, is_encrypted, looks_encrypted, rotate_outer_key,
};
pub use foreground::{Foreground, LongWork};
pub use idle_pause::IdlePause;
pub use machine_memory::machine_memory_bytes;
pub use memory_budget::{MemoryBudget, MemoryReservation, MemoryUse, OverBudget, WaitingForMemory};
pub use memory_disk::MemoryDisk;
pub use process_memory::{ProcessMemory, process_memory};
pub use process_usage::{ProcessUsage, process_usage};
pub use processor_load::{ProcessorLoad, processors};
pub use random::{Random, SeededRandom, SystemRandom};
pub use real_disk::RealDisk;
pub use schedule::sleep_an_instant;
pub use simulated_disk::{InjectedError, Operation, OperationCounts, SimulatedDisk};
pub use sorted_runs::{RunFormat, RunMerge, SortedRuns};
pub use spare_processor::{SecondThread, SpareProcessor};
pub use stop_signal::StopSignal;
pub use temporary_store::{RunReader, RunWriter, TemporaryStore};
pub use thread::{spawn_named, spawn_scoped, spawn_sized};
pub use timestamp::Timestamp;
pub use waits::{WAIT_KINDS, WaitKind, Waits, waiting};
pub use weak_list::WeakList;
pub use work_budget::{LATELY, Step, WorkBudget};
pub use work_class::{WorkClass, WorkScope};
pub use working_memory::{OperationMemory, WorkingMemory};
