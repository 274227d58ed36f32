//! What the engine can be told when it is opened.

use std::sync::Arc;

use platform::MemoryBudget;

use crate::frame_arena::PAGE_BYTES;
use crate::page_store::{Compression, PageStoreOptions};

/// Options of an engine.
#[derive(Debug, Clone)]
pub struct EngineOptions {
    /// Bytes of page frames. At least 4 MiB are used.
    pub cache_bytes: usize,
    /// How page images are compressed on disk.
    pub compression: Compression,
    /// Bytes of version history kept in memory before it is spilled.
    pub history_memory_bytes: usize,
    /// Bytes of version history in all, beyond which the oldest snapshot is given up.
    pub history_quota_bytes: u64,
    /// Bytes of rings in memory that are not in their files yet, above which inserts wait.
    pub ring_buffer_bytes: u64,
    /// Where the page tables, which grow with the data, are counted. Frames and history are reserved by whoever chose their
    /// sizes.
    pub memory: Arc<MemoryBudget>,
    /// Random bytes that name a new database.
    pub database_uuid: [u8; 16],
    /// Bytes of an extent of a new page file, a multiple of 4 KiB.
    pub extent_bytes: u32,
    /// Bytes by which the page file may exceed its share of live blocks before it is cleaned.
    pub space_slack_bytes: u64,
    /// Pages that there may be.
    pub pages_max: u64,
}

impl Default for EngineOptions {
    fn default() -> Self {
        Self {
            cache_bytes: 256 << 20,
            compression: Compression::Lz4,
            history_memory_bytes: 16 << 20,
            history_quota_bytes: 16 << 30,
            ring_buffer_bytes: 32 << 20,
            memory: MemoryBudget::unlimited(),
            database_uuid: [0; 16],
            extent_bytes: PageStoreOptions::default().extent_bytes,
            space_slack_bytes: PageStoreOptions::default().space_slack_bytes,
            pages_max: PageStoreOptions::default().page_ids_max,
        }
    }
}

impl EngineOptions {
    /// Smallest cache in bytes: below it a split could wait for frames that are all latched.
    const CACHE_BYTES_MIN: usize = 4 << 20;

    pub(crate) fn frames(&self) -> usize {
        self.cache_bytes.max(Self::CACHE_BYTES_MIN) / PAGE_BYTES
    }

    pub(crate) fn page_store(&self) -> PageStoreOptions {
        PageStoreOptions {
            compression: self.compression,
            uuid: self.database_uuid,
            extent_bytes: self.extent_bytes,
            space_slack_bytes: self.space_slack_bytes,
            page_ids_max: self.pages_max,
            ..PageStoreOptions::default()
        }
    }
}
