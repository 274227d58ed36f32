//! How the memory budget is divided when the server starts.
//!
//! Called by `database`. What has a size of its own from the start is reserved here, once; what is left is for connections,
//! cursors, sorts and groups, which reserve and give back as they go. The queues of Kafka's client, which a member of a set may have, count as the log's.

use std::sync::Arc;

use crate::STARTUP_WARNINGS;
use crate::configuration::Configuration;
use platform::{MemoryBudget, MemoryReservation, MemoryUse};

/// Of the budget, one part in so many for the version history in memory, and the same for rings.
const BUFFER_SHARE: u64 = 16;
/// And for what is logged and not durable. There are two such buffers, each a quarter larger.
const LOG_SHARE: u64 = 32;
const LOG_BUFFERS_PERCENT: u64 = 250;
const BUFFER_BYTES: std::ops::RangeInclusive<u64> = (1 << 20)..=(16 << 20);
/// Code, threads, tables that do not grow with the data.
const FIXED_BYTES: u64 = 16 << 20;

/// With less for commands a few large documents or many clients have others refused.
const FOR_COMMANDS_BYTES: u64 = 32 << 20;

/// The budget, and what of it is taken from the start.
pub(crate) struct MemoryPlan {
    pub(crate) budget: Arc<MemoryBudget>,
    /// Bytes of the version history in memory.
    pub(crate) history_bytes: usize,
    /// Bytes of the oplog that are not durable yet.
    pub(crate) log_bytes: usize,
    /// Bytes of capped collections that are not in their files yet.
    pub(crate) ring_bytes: u64,
    /// Held for as long as the server runs.
    pub(crate) reserved: Vec<MemoryReservation>,
}

impl MemoryPlan {
    pub(crate) fn new(configuration: &Configuration) -> MemoryPlan {
        let budget = MemoryBudget::new(configuration.memory_bytes);
        let buffer = (configuration.memory_bytes / BUFFER_SHARE).clamp(*BUFFER_BYTES.start(), *BUFFER_BYTES.end());
        let log = (configuration.memory_bytes / LOG_SHARE).clamp(*BUFFER_BYTES.start(), *BUFFER_BYTES.end());
        let set_log = configuration.replica_set.as_ref().and_then(|set| set.log.as_ref());
        let client = set_log.map_or(0, |log| log.client_bytes());
        let reserved = [
            (MemoryUse::Frames, configuration.cache_bytes),
            (MemoryUse::Files, configuration.ephemeral_bytes.unwrap_or(0)),
            (MemoryUse::History, buffer),
            (MemoryUse::Log, log * LOG_BUFFERS_PERCENT / 100 + client),
            (MemoryUse::Rings, buffer),
            (MemoryUse::Fixed, FIXED_BYTES),
        ];
        let reserved = reserved.map(|(purpose, bytes)| budget.reserve_fixed(purpose, bytes)).into();
        MemoryPlan { budget, history_bytes: buffer as usize, log_bytes: log as usize, ring_bytes: buffer, reserved }
    }

    /// Tells the operator when little is left for commands.
    pub(crate) fn warn_if_tight(&self) {
        let bytes = self.budget.free();
        if bytes < FOR_COMMANDS_BYTES {
            tracing::warn!(
                target: STARTUP_WARNINGS,
                bytes,
                "little of the memory budget is left for commands: a larger --memory or a smaller --cache gives them more"
            );
        }
    }
}
