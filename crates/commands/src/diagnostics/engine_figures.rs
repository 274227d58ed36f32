//! The section `plimsoll` of `serverStatus`: everything that the storage engine and the oplog count.

use oplog::{Oplog, OplogStatistics};
use storage_engine::page_store::PageStoreStatistics;
use storage_engine::{EngineStatistics, Pressure, Timestamp};
use transaction::Store;

use crate::DocumentWriter;
use crate::error::Result;

/// Writes the section's fields.
pub(super) fn write(store: &Store, section: &mut DocumentWriter<'_>) -> Result<()> {
    let engine = store.engine().statistics()?;
    section.document("cache", |cache| {
        cache.size("bytes", engine.cache_bytes);
        cache.size("usedBytes", engine.cache_used_bytes);
        cache.size("dirtyBytes", engine.cache_dirty_bytes);
        cache.size("pagesRead", engine.pages_read);
        cache.size("pagesWritten", engine.pages_written);
    });
    section.document("heldBack", |held_back| write_pressure(&engine.pressure, store, held_back));
    write_snapshots(&engine, section);
    section.size("keysMaterialisedWritingPages", engine.keys_materialised_writing_pages);
    section.size("clientPageWrites", engine.client_page_writes);
    section.size("checkpoints", engine.checkpoints);
    section.size("sparseLeaves", engine.sparse_leaves as u64);
    section.document("pageStore", |figures| write_page_store(&engine.store, figures));
    section.document("oplog", |figures| write_oplog(&store.oplog().statistics(), figures));
    Ok(())
}

/// How long a write waits before it begins, and why.
fn write_pressure(pressure: &Pressure, store: &Store, section: &mut DocumentWriter<'_>) {
    let causes = [
        ("dirtyPages", pressure.dirty),
        ("lackOfFreeFrames", pressure.frames),
        ("checkpointCopies", pressure.checkpoint_copies),
        ("history", pressure.history),
    ];
    let strongest =
        causes.iter().max_by(|left, right| left.1.total_cmp(&right.1)).filter(|(_, pressure)| *pressure > 0.0);
    section.string("what", if strongest.is_some() { "writes" } else { "nothing" });
    match strongest {
        Some((cause, _)) => section.string("why", cause),
        None => section.null("why"),
    }
    section.size("delayMicros", store.engine().pace().as_micros() as u64);
    section.document("pressure", |list| causes.iter().for_each(|(cause, pressure)| list.double(cause, *pressure)));
}

fn write_snapshots(engine: &EngineStatistics, section: &mut DocumentWriter<'_>) {
    section.document("snapshots", |snapshots| {
        snapshots.size("open", engine.snapshots as u64);
        snapshots.timestamp("visible", bson_timestamp(engine.visible));
        if let Some(oldest) = engine.oldest_snapshot {
            snapshots.timestamp("oldest", bson_timestamp(oldest));
        }
    });
    section.document("history", |history| {
        history.size("memoryBytes", engine.history.memory_bytes);
        history.size("spilledBytes", engine.history.spilled_bytes);
    });
}

fn bson_timestamp(timestamp: Timestamp) -> bson::Timestamp {
    bson::Timestamp { time: timestamp.seconds(), increment: timestamp.increment() }
}

fn write_page_store(store: &PageStoreStatistics, section: &mut DocumentWriter<'_>) {
    let figures = [
        ("fileBytes", store.file_bytes),
        ("backedBytes", store.backed_bytes),
        ("liveBytes", store.live_bytes),
        ("supersededBytes", store.superseded_bytes),
        ("extentBytes", store.extent_bytes),
        ("extents", store.extents),
        ("freeExtents", store.free_extents),
        ("reservedExtents", store.reserved_extents),
        ("memoryBytes", store.memory_bytes),
        ("pages", store.pages),
        ("checkpoint", store.checkpoint),
        ("checkpoints", store.checkpoints),
        ("blocksRead", store.blocks_read),
        ("bytesRead", store.bytes_read),
        ("blocksWritten", store.blocks_written),
        ("bytesWritten", store.bytes_written),
        ("bytesRelocated", store.bytes_relocated),
        ("tableBytesWritten", store.table_bytes_written),
    ];
    figures.iter().for_each(|(name, value)| section.size(name, *value));
    section.double("compressionRatio", store.compression_ratio);
}

fn write_oplog(oplog: &OplogStatistics, section: &mut DocumentWriter<'_>) {
    let figures = [
        ("appendedEntries", oplog.appended_entries),
        ("appendedBytes", oplog.appended_bytes),
        ("appendWaits", oplog.append_waits),
        ("bufferedBytes", oplog.buffered_bytes),
        ("flushes", oplog.flushes),
        ("flushMicros", oplog.flush_time.as_micros() as u64),
        ("flushMicrosMax", oplog.flush_time_max.as_micros() as u64),
        ("segments", oplog.segments),
        ("firstPosition", oplog.first_position.0),
        ("durablePosition", oplog.durable_position.0),
        ("endPosition", oplog.end_position.0),
    ];
    figures.iter().for_each(|(name, value)| section.size(name, *value));
    section.boolean("diskFull", oplog.disk_full);
}
