//! The section `plimsoll` of `serverStatus`: everything that the storage engine and the oplog count.

use oplog::{Oplog, OplogStatistics};
use storage_engine::page_store::PageStoreStatistics;
use storage_engine::{EngineStatistics, Pressure, Timestamp};
use transaction::Store;

use crate::DocumentWriter;
use crate::request::error::Result;
use crate::state::admission::Admission;

/// Writes the section's fields.
pub(super) fn write(store: &Store, admission: &Admission, section: &mut DocumentWriter<'_>) -> Result<()> {
    let engine = store.engine().statistics()?;
    section.document("cache", |cache| {
        cache.size("bytes", engine.cache_bytes);
        cache.size("usedBytes", engine.cache_used_bytes);
        cache.size("dirtyBytes", engine.cache_dirty_bytes);
        cache.size("pagesRead", engine.pages_read);
        cache.size("pagesWritten", engine.pages_written);
    });
    let mut explanations = admission.explain();
    explanations.extend(explain_pressure(&engine, store));
    let listeners_held_back = store.listeners_held_back();
    if listeners_held_back > 0 {
        explanations.push(format!(
            "change streams and tailable cursors are {} KiB of the oplog behind, as all processors are busy with what goes first",
            listeners_held_back.div_ceil(1024)
        ));
    }
    section.document("heldBack", |held_back| write_pressure(&engine.pressure, store, &explanations, held_back));
    section.document("admission", |figures| admission.write_figures(figures));
    write_snapshots(&engine, section);
    section.size("keysMaterialisedWritingPages", engine.keys_materialised_writing_pages);
    section.size("clientPageWrites", engine.client_page_writes);
    section.size("checkpoints", engine.checkpoints);
    section.size("sparseLeaves", engine.sparse_leaves as u64);
    section.document("pageStore", |figures| write_page_store(&engine.store, figures));
    section.document("oplog", |figures| {
        write_oplog(&store.oplog().statistics(), figures);
        let (bytes, time) = store.oplog_retention();
        figures.size("promisedBytes", bytes);
        figures.double("promisedHours", time.as_secs_f64() / 3600.0);
        figures.size("listenersHeldBackBytes", listeners_held_back);
    });
    Ok(())
}

/// How long a write waits before it begins, and why.
fn write_pressure(pressure: &Pressure, store: &Store, explanations: &[String], section: &mut DocumentWriter<'_>) {
    let causes = [
        ("dirtyPages", pressure.dirty),
        ("lackOfFreeFrames", pressure.frames),
        ("checkpointCopies", pressure.checkpoint_copies),
        ("bufferedChanges", pressure.buffered_changes),
        ("history", pressure.history),
        ("sparseLeaves", pressure.sparse_leaves),
    ];
    let strongest =
        causes.iter().max_by(|left, right| left.1.total_cmp(&right.1)).filter(|(_, pressure)| *pressure > 0.0);
    section.string("what", if strongest.is_some() { "writes" } else { "nothing" });
    match strongest {
        Some((cause, _)) => section.string("why", cause),
        None => section.null("why"),
    }
    section.size("delayMicros", store.engine().pace().as_micros() as u64);
    section.array("explanations", |list| explanations.iter().for_each(|text| list.push_string(text)));
    section.document("pressure", |list| causes.iter().for_each(|(cause, pressure)| list.double(cause, *pressure)));
}

/// What makes writes wait, in plain words.
fn explain_pressure(engine: &EngineStatistics, store: &Store) -> Vec<String> {
    let share = |part: u64, whole: u64| part * 100 / whole.max(1);
    let delay = store.engine().pace().as_micros();
    let pressure = &engine.pressure;
    let cache = engine.cache_bytes;
    let causes = [
        (
            pressure.dirty,
            format!(
                "{} % of the cache is dirty, as the disk takes pages slower than they change",
                share(engine.cache_dirty_bytes, cache)
            ),
        ),
        (
            pressure.frames,
            format!(
                "{} % of the cache is in use, and pages leave it slower than others are needed",
                share(engine.cache_used_bytes, cache)
            ),
        ),
        (pressure.checkpoint_copies, "pages are changed faster than the checkpoint writes their copies".to_owned()),
        (
            pressure.buffered_changes,
            format!("{} MiB of index changes wait to be merged into their pages", engine.buffered_change_bytes >> 20),
        ),
        (
            pressure.history,
            format!("{} MiB of older versions are in memory for open snapshots", engine.history.memory_bytes >> 20),
        ),
        (pressure.sparse_leaves, format!("{} leaves emptied by deletions wait to be merged", engine.sparse_leaves)),
    ];
    let strong = causes.into_iter().filter(|(pressure, _)| *pressure > 0.0);
    strong.map(|(_, why)| format!("each write is delayed by up to {delay} us: {why}")).collect()
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
