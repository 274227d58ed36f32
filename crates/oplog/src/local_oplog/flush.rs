//! From memory to disk: the flusher's work.
//!
//! Called by the flusher thread (`run_flusher`), the write-ahead thread, the simulator (`flush_step`) and, where no flusher
//! runs, by whoever waits.
//!
//! One flush takes all that is buffered, writes it and syncs; meanwhile the next batch gathers. A sync can take long on a
//! busy disk, and what only lies in memory does not survive a kill: so batches that gather meanwhile are written behind the
//! sync's back (`write_ahead_step`) and made durable by the next flush. Their entries say from where on nothing was known
//! to be durable when they were written (`entry::seal`), so a scan after a power loss does not take them for a proof that
//! what is before them had been synced.
//!
//! When a batch reaches into the next segment, all before is made durable first, then the new segment's header and name,
//! then the part in it: what survives a crash is always a prefix. Such a batch is left to the flush.
//!
//! Failures: no space on a write → the batch is kept and tried again (`Standing::DiskFull`). Any other failed write, and any
//! failed sync whatever its error, is final (`Standing::Poisoned`). A spare segment that cannot be made is no failure of the
//! flush: appends are refused when they need it.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::MutexGuard;
use platform::{WaitKind, is_disk_full, waiting};

use super::Shared;
use super::cached::LetGo;
use super::segment::{SegmentFile, file_offset};
use super::segment_store::SpareFile;
use super::tail::{Batch, Spare, Standing, Switch};
use crate::{Flushed, OplogError, OplogPosition, Result};

/// What only a flush touches; whoever holds it is the one that flushes.
pub(super) struct Flushing {
    pub(super) spare: Option<SpareFile>,
    pub(super) let_go: LetGo,
}

/// The file that is written to. Not held during a sync, except where a segment ends.
pub(super) struct Writer {
    pub(super) current: SegmentFile,
    /// Everything before this is in the files, durable or not.
    pub(super) written: u64,
    /// A batch that did not fit on the disk.
    pub(super) retained: Option<Arc<Batch>>,
}

/// How a flush can fail.
enum Failure {
    /// No space; nothing is lost.
    Full,
    /// Nobody knows what is on the disk.
    Fatal(io::Error),
}

/// For writes, which may be tried again when the disk was full.
fn write_failure(error: io::Error) -> Failure {
    match is_disk_full(&error) {
        true => Failure::Full,
        false => Failure::Fatal(error),
    }
}

/// The flusher's longest wait for an append, which ends it.
const LONGEST_REST: Duration = Duration::from_secs(5);

impl Shared {
    pub(super) fn flush_step(&self) -> Result<Flushed> {
        let mut flushing = self.flushing.lock();
        self.check_not_poisoned()?;
        let _closes = ClosesOnPanic(self);
        let durable_before = self.durable.load(Ordering::Acquire);
        let began = self.clock.monotonic();
        let flushed = self.flush(&mut flushing);
        let durable = self.durable.load(Ordering::Acquire);
        if durable > durable_before {
            self.count_flush(self.clock.monotonic().saturating_sub(began));
        }
        flushed?;
        self.prepare_spare(&mut flushing);
        Ok(Flushed { bytes: durable - durable_before, durable: OplogPosition(durable) })
    }

    /// Writes what is buffered, and syncs that and what was written ahead.
    fn flush(&self, flushing: &mut Flushing) -> Result<()> {
        let mut writer = self.writer.lock();
        let batch = match writer.retained.take() {
            Some(batch) => Some(batch),
            None => self.take_batch(),
        };
        if let Some(batch) = batch
            && let Err(failure) = self.write_batch(flushing, &mut writer, &batch)
        {
            return Err(self.fail(&mut writer, batch, failure));
        }
        let (file, written) = (Arc::clone(&writer.current.file), writer.written);
        drop(writer);
        if self.durable.load(Ordering::Acquire) < written {
            file.sync_data().map_err(|error| self.poison(error))?;
            self.publish_durable(written);
        }
        self.finish(written);
        self.let_go_of_cached(&mut flushing.let_go, written);
        Ok(())
    }

    /// Writes what is buffered while a flush is at its sync, so that a kill does not lose it; true if something was written.
    pub(super) fn write_ahead_step(&self) -> Result<bool> {
        if self.flushing.try_lock().is_some() {
            return Ok(false);
        }
        let Some(mut writer) = self.writer.try_lock() else { return Ok(false) };
        self.check_not_poisoned()?;
        if writer.retained.is_some() || self.tail.lock().has_switch() {
            return Ok(false);
        }
        let _closes = ClosesOnPanic(self);
        let Some(batch) = self.take_batch() else { return Ok(false) };
        match self.write_part(&mut writer, &batch, batch.end()) {
            Ok(()) => Ok(true),
            Err(failure) => Err(self.fail(&mut writer, batch, failure)),
        }
    }

    /// Flushes until `stop`: when asked to, and otherwise at the interval, counted from the start of the flush before. While nothing is
    /// appended it rests, and the next append wakes it.
    pub(super) fn run_flusher(&self, stop: &AtomicBool) {
        let _running = RunningFlusher::register(self);
        let mut began = self.clock.monotonic();
        loop {
            if self.tail.lock().let_flusher_rest() {
                self.signal.rest(LONGEST_REST);
            }
            let since = self.clock.monotonic().saturating_sub(began);
            self.signal.wait(self.flush_interval.saturating_sub(since));
            began = self.clock.monotonic();
            // Read before the flush, so that the last flush comes after everything appended before the stop.
            let stopping = stop.load(Ordering::Acquire);
            // Whoever waits gets the error; a full disk is tried again at the next interval.
            let _ = self.flush_step();
            if stopping {
                return;
            }
        }
    }

    /// Takes the buffer, completes its entries' headers outside the log's lock, and shows the batch to readers. The caller
    /// holds `writer`.
    fn take_batch(&self) -> Option<Arc<Batch>> {
        let mut batch = self.tail.lock().take_batch()?;
        batch.seal(self.durable.load(Ordering::Acquire));
        let batch = Arc::new(batch);
        self.tail.lock().batch_is_sealed(Arc::clone(&batch));
        self.tail_changed.notify_all();
        Some(batch)
    }

    fn write_batch(
        &self,
        flushing: &mut Flushing,
        writer: &mut Writer,
        batch: &Batch,
    ) -> std::result::Result<(), Failure> {
        self.write_part(writer, batch, batch.split())?;
        if let Some(switch) = batch.switch {
            writer.current.file.sync_data().map_err(Failure::Fatal)?;
            self.publish_durable(writer.written);
            self.switch_segment(flushing, writer, switch)?;
            self.write_part(writer, batch, batch.end())?;
        }
        Ok(())
    }

    /// Writes the batch up to `end`, which lies in the current segment.
    fn write_part(&self, writer: &mut Writer, batch: &Batch, end: u64) -> std::result::Result<(), Failure> {
        // A batch that is tried again may have been written in part.
        let from = writer.written;
        if from >= end {
            return Ok(());
        }
        let bytes = &batch.bytes[(from - batch.start) as usize..(end - batch.start) as usize];
        let segment = &writer.current;
        segment.file.write_all_at(bytes, file_offset(segment.start, from)).map_err(write_failure)?;
        writer.written = end;
        Ok(())
    }

    /// Ends the current segment and begins the next one in the spare file. Can be repeated after `Failure::Full`.
    fn switch_segment(
        &self,
        flushing: &mut Flushing,
        writer: &mut Writer,
        switch: Switch,
    ) -> std::result::Result<(), Failure> {
        if writer.current.start != switch.position {
            self.end_segment(&writer.current, switch.position)?;
            let Some(spare) = flushing.spare.take() else {
                return Err(Failure::Fatal(io::Error::other("the next segment is not there")));
            };
            match self.store.adopt_spare(&spare, switch.position) {
                Ok(segment) => writer.current = segment,
                Err(error) => {
                    flushing.spare = Some(spare);
                    return Err(write_failure(error));
                }
            }
        }
        if !writer.current.ready {
            self.store.write_header(&writer.current, switch.previous_timestamp).map_err(write_failure)?;
            writer.current.file.sync_data().map_err(Failure::Fatal)?;
            self.store.sync_directory().map_err(Failure::Fatal)?;
            writer.current.ready = true;
            self.segments.lock().insert(switch.position);
        }
        Ok(())
    }

    /// Gives the room behind the last entry back. It need not be durable: a longer file is as good.
    fn end_segment(&self, segment: &SegmentFile, end: u64) -> std::result::Result<(), Failure> {
        segment.file.set_length(file_offset(segment.start, end)).map_err(write_failure)
    }

    /// Lets go of the batches that are durable now.
    fn finish(&self, durable: u64) {
        let mut tail = self.tail.lock();
        while let Some(batch) = tail.take_durable_batch(durable) {
            // A reader may still hold the batch.
            if let Some(batch) = Arc::into_inner(batch) {
                tail.recycle(batch.bytes);
            }
        }
        drop(tail);
        self.tail_changed.notify_all();
    }

    fn fail(&self, writer: &mut Writer, batch: Arc<Batch>, failure: Failure) -> OplogError {
        match failure {
            Failure::Fatal(cause) => self.poison(cause),
            Failure::Full => {
                writer.retained = Some(batch);
                self.tail.lock().disk_is_full();
                self.tail_changed.notify_all();
                let mut durability = self.durability.lock();
                durability.disk_full = true;
                durability.full_attempts += 1;
                drop(durability);
                self.durability_changed.notify_all();
                OplogError::DiskFull
            }
        }
    }

    /// Closes the log for writing, for good; returns the error that everybody gets from now on.
    pub(super) fn poison(&self, cause: io::Error) -> OplogError {
        // The first cause stays.
        let cause = Arc::clone(self.durability.lock().poisoned.get_or_insert_with(|| Arc::new(cause)));
        self.closed.store(true, Ordering::Release);
        self.tail.lock().standing = Standing::Poisoned(Arc::clone(&cause));
        self.tail_changed.notify_all();
        self.durability_changed.notify_all();
        OplogError::Poisoned { cause }
    }

    pub(super) fn check_not_poisoned(&self) -> Result<()> {
        match &self.durability.lock().poisoned {
            Some(cause) => Err(OplogError::Poisoned { cause: Arc::clone(cause) }),
            None => Ok(()),
        }
    }

    fn publish_durable(&self, position: u64) {
        self.durable.store(position, Ordering::Release);
        let mut durability = self.durability.lock();
        durability.durable = position;
        durability.disk_full = false;
        drop(durability);
        self.durability_changed.notify_all();
    }

    /// Makes the next segment file if it is wanted, and says how that went.
    pub(super) fn prepare_spare(&self, flushing: &mut Flushing) {
        let Some(entry_bytes) = self.tail.lock().wanted_spare() else { return };
        let made = self.make_spare(flushing, entry_bytes);
        let mut tail = self.tail.lock();
        tail.spare = match made {
            Ok(entry_bytes) => Spare::Ready { entry_bytes },
            Err(error) => Spare::Failed { entry_bytes, cause: Arc::new(error) },
        };
        drop(tail);
        self.tail_changed.notify_all();
    }

    fn make_spare(&self, flushing: &mut Flushing, entry_bytes: u64) -> io::Result<u64> {
        match &flushing.spare {
            Some(spare) if spare.entry_bytes >= entry_bytes => Ok(spare.entry_bytes),
            _ => {
                // Closed first, so that its space is free again.
                flushing.spare = None;
                let spare = flushing.spare.insert(self.store.create_spare(entry_bytes)?);
                Ok(spare.entry_bytes)
            }
        }
    }

    fn count_flush(&self, time: Duration) {
        let mut counts = self.flush_counts.lock();
        counts.flushes += 1;
        counts.time += time;
        counts.time_max = counts.time_max.max(time);
    }

    /// Waits, as an appender, until the flusher has changed something; does the flusher's work where none runs.
    pub(super) fn wait_for_flusher(&self, mut tail: MutexGuard<'_, super::tail::Tail>) -> Result<()> {
        tail.append_waits += 1;
        if self.flushers.load(Ordering::Acquire) == 0 {
            drop(tail);
            return self.flush_step().map(|_| ());
        }
        self.signal.request();
        waiting(WaitKind::Log, || self.tail_changed.wait(&mut tail));
        Ok(())
    }
}

/// Closes the log when a flush panics: the batch that it had taken is lost, so nothing may be written behind it.
struct ClosesOnPanic<'a>(&'a Shared);

impl Drop for ClosesOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.poison(io::Error::other("the flusher of the oplog panicked"));
        }
    }
}

/// Counts a flusher thread in while it lives, however it ends, and wakes those who relied on it.
struct RunningFlusher<'a>(&'a Shared);

impl RunningFlusher<'_> {
    fn register(shared: &Shared) -> RunningFlusher<'_> {
        shared.flushers.fetch_add(1, Ordering::AcqRel);
        RunningFlusher(shared)
    }
}

impl Drop for RunningFlusher<'_> {
    fn drop(&mut self) {
        self.0.flushers.fetch_sub(1, Ordering::AcqRel);
        // Under their locks, so that nobody has looked at the count before and waits after.
        drop(self.0.tail.lock());
        self.0.tail_changed.notify_all();
        drop(self.0.durability.lock());
        self.0.durability_changed.notify_all();
    }
}
