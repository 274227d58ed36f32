//! `--check-memory`: says in the log when more is allocated than the memory budget accounts for.
//!
//! Called by `database`. The sum is kept by `platform::memory_check`; this file tells it what of the reservations that are made at the start is not
//! allocated (yet), and looks at it.

use std::sync::Arc;
use std::time::Duration;

use platform::{Clock, MemoryBudget, MemoryDisk, MemoryReservation, MemoryUse, SystemClock, memory_check};
use transaction::Store;

/// How often it is looked.
const LOOK_INTERVAL: Duration = Duration::from_millis(50);
/// Time between two lines in the log.
const TOLD_INTERVAL: Duration = Duration::from_secs(5);

/// Looks for as long as the store is open.
pub(crate) fn begin(
    store: &Arc<Store>,
    budget: &Arc<MemoryBudget>,
    reserved: &[MemoryReservation],
    disk_in_memory: Option<Arc<MemoryDisk>>,
) {
    memory_check::watch(budget.clone());
    let fixed = fixed_buffers(reserved);
    let (store, budget) = (Arc::downgrade(store), budget.clone());
    let thread = platform::spawn_named("memory-check", move || {
        let clock = SystemClock::new();
        let mut told = None;
        while let Some(store) = store.upgrade() {
            let filled = store.engine().buffer_bytes();
            drop(store);
            let free = disk_in_memory.as_ref().map_or(0, |disk| disk.free_bytes());
            if let Some(unaccounted_bytes) = memory_check::look((fixed + free) as i64 - filled as i64) {
                let now = clock.monotonic();
                if told.is_none_or(|told| now.saturating_sub(told) >= TOLD_INTERVAL) {
                    told = Some(now);
                    tell(unaccounted_bytes, &budget);
                }
            }
            clock.sleep(LOOK_INTERVAL);
        }
    });
    if let Err(error) = thread {
        tracing::error!(target: "control", %error, "what is allocated is not compared with the memory budget");
    }
}

/// What was reserved at the start for what is allocated only as it is used. What is fixed counts: writers of pages have their buffers from it.
fn fixed_buffers(reserved: &[MemoryReservation]) -> u64 {
    let is_filled_later = |purpose| matches!(purpose, MemoryUse::History | MemoryUse::Rings);
    reserved.iter().filter(|part| is_filled_later(part.purpose())).map(MemoryReservation::bytes).sum()
}

fn tell(unaccounted_bytes: i64, budget: &MemoryBudget) {
    let uses = MemoryUse::ALL.map(|purpose| format!("{}={}", purpose.name(), budget.used_for(purpose))).join(" ");
    tracing::error!(target: "control", unaccounted_bytes, %uses, "more is allocated than the memory budget accounts for");
}
