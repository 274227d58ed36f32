//! The end of the log in memory: where appends go, and what waits to be flushed.
//!
//! Called by `append` under the log's short lock, by the flusher when it takes the buffer, and by readers that have
//! caught up with the disk. No file is touched here.
//!
//! Bytes move `buffer` → `in_flight` → segment file:
//!
//! ```text
//!   first                 durable        buffer_start            end
//!     | segment files …      | in_flight …   | buffer             |
//! ```
//!
//! `spare` says whether the next segment file is ready. An entry that does not fit into the current segment begins the next
//! one; without a ready spare it is not accepted, so no accepted entry can be in want of space.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use platform::{Timestamp, is_disk_full};

use crate::entry::{self, ENTRY_HEADER_BYTES, PAYLOAD_BYTES_MAX};
use crate::{Appended, OplogError, OplogPosition, Result};

/// Whether the log accepts appends.
pub(super) enum Standing {
    Open,
    /// The last write found no space; what it wanted to write is kept and tried again.
    DiskFull,
    /// A write or sync failed. Final.
    Poisoned(Arc<io::Error>),
}

/// The life of the next segment file: `Wanted` → `Ready` → `Wanted` when an entry is promised it; `Wanted` → `Failed` →
/// `Ready` when tried again. It is made only after the promised one has become a segment.
pub(super) enum Spare {
    /// Allocated, with room for this many bytes of entries.
    Ready { entry_bytes: u64 },
    /// To be made by the flusher.
    Wanted { entry_bytes: u64 },
    /// The last try failed; the flusher tries again.
    Failed { entry_bytes: u64, cause: Arc<io::Error> },
}

/// The place in a batch where a new segment begins.
#[derive(Clone, Copy, Debug)]
pub(super) struct Switch {
    pub(super) position: u64,
    /// Timestamp of the last entry before it.
    pub(super) previous_timestamp: Timestamp,
}

/// Whole entries taken from the buffer, to be written by one flush.
pub(super) struct Batch {
    pub(super) start: u64,
    pub(super) bytes: Vec<u8>,
    pub(super) switch: Option<Switch>,
}

/// A batch between the buffer and the disk.
pub(super) struct InFlight {
    pub(super) start: u64,
    pub(super) end: u64,
    /// `None` while its checksums are computed; only ever the last one.
    pub(super) batch: Option<Arc<Batch>>,
}

pub(super) struct Tail {
    pub(super) buffer: Vec<u8>,
    pub(super) buffer_start: u64,
    /// Bytes of `buffer` that are whole entries; more is there only while one is built.
    committed: usize,
    switch: Option<Switch>,
    /// Batches between the buffer and durability, the oldest first.
    pub(super) in_flight: VecDeque<InFlight>,
    /// Position at which the segment that the next entry goes to has no more room.
    segment_end: u64,
    pub(super) spare: Spare,
    pub(super) standing: Standing,
    pub(super) last_timestamp: Timestamp,
    /// An empty buffer with memory, for the next batch.
    recycled: Vec<u8>,
    /// The flusher waits for an append, not for its interval.
    flusher_rests: bool,
    /// Somebody else waits for an append.
    pub(super) is_followed: bool,
    segment_entry_bytes: u64,
    buffer_bytes_max: usize,
    pub(super) appended_entries: u64,
    pub(super) appended_bytes: u64,
    pub(super) append_waits: u64,
}

/// What became of an attempt to append.
pub(super) enum Attempt {
    Done {
        appended: Appended,
        /// Enough is buffered for the flusher to start early.
        flush: bool,
        /// The flusher rests.
        ends_rest: bool,
    },
    /// The flusher must do something first.
    Wait,
}

impl Tail {
    /// A tail that continues a log at `end`, in a segment with room up to `segment_end`.
    pub(super) fn new(
        end: u64,
        segment_end: u64,
        last_timestamp: Timestamp,
        segment_entry_bytes: u64,
        buffer_bytes_max: usize,
    ) -> Tail {
        Tail {
            buffer: empty_buffer(buffer_bytes_max),
            buffer_start: end,
            committed: 0,
            switch: None,
            in_flight: VecDeque::new(),
            segment_end,
            spare: Spare::Wanted { entry_bytes: segment_entry_bytes },
            standing: Standing::Open,
            last_timestamp,
            recycled: empty_buffer(buffer_bytes_max),
            flusher_rests: false,
            is_followed: false,
            segment_entry_bytes,
            buffer_bytes_max,
            appended_entries: 0,
            appended_bytes: 0,
            append_waits: 0,
        }
    }

    pub(super) fn end(&self) -> u64 {
        self.buffer_start + self.committed as u64
    }

    /// Bytes in memory that are not durable.
    pub(super) fn unwritten_bytes(&self) -> usize {
        self.committed + self.in_flight.iter().map(|batch| (batch.end - batch.start) as usize).sum::<usize>()
    }

    /// The committed part of the buffer.
    pub(super) fn buffered(&self) -> &[u8] {
        &self.buffer[..self.committed]
    }

    pub(super) fn try_append(
        &mut self,
        wall_seconds: u32,
        build: &mut dyn FnMut(Timestamp, &mut Vec<u8>),
        on_assigned: &mut dyn FnMut(Timestamp, OplogPosition),
    ) -> Result<Attempt> {
        self.try_append_at(next_timestamp(self.last_timestamp, wall_seconds), build, on_assigned)
    }

    /// As `try_append`, with a timestamp that is later than the last one.
    pub(super) fn try_append_at(
        &mut self,
        timestamp: Timestamp,
        build: &mut dyn FnMut(Timestamp, &mut Vec<u8>),
        on_assigned: &mut dyn FnMut(Timestamp, OplogPosition),
    ) -> Result<Attempt> {
        self.check_accepting()?;
        let unwritten = self.unwritten_bytes();
        if unwritten >= self.buffer_bytes_max {
            return Ok(Attempt::Wait);
        }
        let entry_bytes = self.build_entry(timestamp, build)?;
        let position = self.end();
        if position + entry_bytes as u64 > self.segment_end
            && let Err(refusal) = self.begin_segment(entry_bytes as u64)
        {
            self.buffer.truncate(self.committed);
            return refusal.map_or(Ok(Attempt::Wait), Err);
        }
        self.committed += entry_bytes;
        self.last_timestamp = timestamp;
        self.appended_entries += 1;
        self.appended_bytes += entry_bytes as u64;
        on_assigned(timestamp, OplogPosition(position));
        let flush_from = self.buffer_bytes_max / 4;
        Ok(Attempt::Done {
            appended: Appended { timestamp, position: OplogPosition(position), end: OplogPosition(self.end()) },
            flush: unwritten < flush_from && unwritten + entry_bytes >= flush_from,
            ends_rest: std::mem::take(&mut self.flusher_rests),
        })
    }

    /// Whether the flusher has nothing to do until the next append, which then says that it ends the rest.
    pub(super) fn let_flusher_rest(&mut self) -> bool {
        let has_spare = matches!(self.spare, Spare::Ready { .. });
        self.flusher_rests = self.unwritten_bytes() == 0 && has_spare && matches!(self.standing, Standing::Open);
        self.flusher_rests
    }

    /// Lets `build` write the payload behind the committed bytes and puts the header before it; returns the entry's size.
    fn build_entry(&mut self, timestamp: Timestamp, build: &mut dyn FnMut(Timestamp, &mut Vec<u8>)) -> Result<usize> {
        // A `build` that panicked may have left something behind.
        self.buffer.truncate(self.committed);
        self.buffer.extend_from_slice(&[0; ENTRY_HEADER_BYTES]);
        build(timestamp, &mut self.buffer);
        let entry_bytes = self.buffer.len().saturating_sub(self.committed);
        assert!(entry_bytes >= ENTRY_HEADER_BYTES, "build must only append to the buffer of the oplog");
        let payload_bytes = entry_bytes - ENTRY_HEADER_BYTES;
        if payload_bytes > PAYLOAD_BYTES_MAX {
            self.buffer.truncate(self.committed);
            self.buffer.shrink_to(self.buffer_bytes_max);
            return Err(OplogError::EntryTooLarge { bytes: payload_bytes as u64, bytes_max: PAYLOAD_BYTES_MAX as u64 });
        }
        let position = self.end();
        entry::begin(&mut self.buffer[self.committed..], entry_bytes, position, timestamp);
        Ok(entry_bytes)
    }

    /// Makes the entry that was just built the first of the next segment. Otherwise says why not: an error, or that the
    /// flusher has been asked for a segment (`None`).
    fn begin_segment(&mut self, entry_bytes: u64) -> std::result::Result<(), Option<OplogError>> {
        let wanted = self.segment_entry_bytes.max(entry_bytes);
        match &self.spare {
            Spare::Ready { entry_bytes: room } if *room >= entry_bytes => {
                let position = self.end();
                self.segment_end = position + room;
                self.switch = Some(Switch { position, previous_timestamp: self.last_timestamp });
                self.spare = Spare::Wanted { entry_bytes: self.segment_entry_bytes };
                return Ok(());
            }
            Spare::Failed { entry_bytes: failed, cause } if wanted >= *failed => {
                return Err(Some(spare_error(cause)));
            }
            Spare::Wanted { entry_bytes: asked } if *asked >= wanted => {}
            // Not made yet or too small, or a larger one could not be made.
            _ => self.spare = Spare::Wanted { entry_bytes: wanted },
        }
        Err(None)
    }

    /// The room that the next segment file should have, if one is to be made now.
    pub(super) fn wanted_spare(&self) -> Option<u64> {
        match self.spare {
            // The file at hand is promised to an entry that waits in the buffer.
            _ if self.switch.is_some() => None,
            Spare::Ready { .. } => None,
            Spare::Wanted { entry_bytes } | Spare::Failed { entry_bytes, .. } => Some(entry_bytes),
        }
    }

    fn check_accepting(&self) -> Result<()> {
        match &self.standing {
            Standing::Open => Ok(()),
            Standing::DiskFull => Err(OplogError::DiskFull),
            Standing::Poisoned(cause) => Err(OplogError::Poisoned { cause: Arc::clone(cause) }),
        }
    }

    /// Moves the buffer's entries into a batch in flight; `None` if there are none.
    pub(super) fn take_batch(&mut self) -> Option<Batch> {
        if self.committed == 0 {
            return None;
        }
        let bytes = match std::mem::take(&mut self.recycled) {
            // A batch before this is still being synced, or read: another buffer of full size would be a third.
            none if none.capacity() == 0 => {
                let bytes = self.buffered().to_vec();
                self.buffer.clear();
                bytes
            }
            recycled => {
                let mut bytes = std::mem::replace(&mut self.buffer, recycled);
                bytes.truncate(self.committed);
                bytes
            }
        };
        let batch = Batch { start: self.buffer_start, bytes, switch: self.switch.take() };
        self.buffer_start = batch.end();
        self.committed = 0;
        self.in_flight.push_back(InFlight { start: batch.start, end: batch.end(), batch: None });
        Some(batch)
    }

    /// A batch found no space; it is kept.
    pub(super) fn disk_is_full(&mut self) {
        if matches!(self.standing, Standing::Open) {
            self.standing = Standing::DiskFull;
        }
    }

    /// The batch that was taken last can be read.
    pub(super) fn batch_is_sealed(&mut self, sealed: Arc<Batch>) {
        if let Some(last) = self.in_flight.back_mut() {
            last.batch = Some(sealed);
        }
    }

    /// Takes the oldest batch out if it is on disk. With the last one, there was space for all.
    pub(super) fn take_durable_batch(&mut self, durable: u64) -> Option<Arc<Batch>> {
        self.in_flight.front().filter(|flight| flight.end <= durable)?;
        let batch = self.in_flight.pop_front()?.batch;
        if self.in_flight.is_empty() && matches!(self.standing, Standing::DiskFull) {
            self.standing = Standing::Open;
        }
        batch
    }

    /// Whether the buffer reaches into the next segment.
    pub(super) fn has_switch(&self) -> bool {
        self.switch.is_some()
    }

    /// Keeps the memory of a written batch, unless an unusually large entry made it so: then one of the usual size takes its place.
    pub(super) fn recycle(&mut self, mut bytes: Vec<u8>) {
        let usual = usual_capacity(self.buffer_bytes_max);
        if bytes.capacity() > usual {
            bytes = if self.recycled.capacity() < usual { empty_buffer(self.buffer_bytes_max) } else { Vec::new() };
        }
        if bytes.capacity() > self.recycled.capacity() {
            bytes.clear();
            self.recycled = bytes;
        }
    }
}

impl Batch {
    pub(super) fn end(&self) -> u64 {
        self.start + self.bytes.len() as u64
    }

    /// Where the part ends that goes into the segment in use.
    pub(super) fn split(&self) -> u64 {
        self.switch.map_or(self.end(), |switch| switch.position)
    }

    /// Completes the entries' headers, with everything before `durable` durable. Each of the two parts is a flush of its own,
    /// as the second is written only when the first is durable.
    pub(super) fn seal(&mut self, durable: u64) {
        let (batch_start, split) = (self.start, self.split());
        let mut offset = 0;
        while let Some((entry_bytes, _)) = entry::unsealed(&self.bytes[offset..], batch_start + offset as u64) {
            let position = batch_start + offset as u64;
            let flush_start = if position < split { durable } else { split };
            entry::seal(&mut self.bytes[offset..offset + entry_bytes], position, flush_start);
            offset += entry_bytes;
        }
        debug_assert_eq!(offset, self.bytes.len(), "the buffer holds whole entries");
    }
}

/// A buffer that normally never grows, so that no append copies it under the lock. Memory is taken when it is touched.
fn empty_buffer(buffer_bytes_max: usize) -> Vec<u8> {
    Vec::with_capacity(usual_capacity(buffer_bytes_max))
}

/// With room for the entry that exceeds the most that is buffered, if it is of usual size.
fn usual_capacity(buffer_bytes_max: usize) -> usize {
    buffer_bytes_max + buffer_bytes_max / 4
}

/// The error that an append gets when the next segment could not be made.
fn spare_error(cause: &Arc<io::Error>) -> OplogError {
    match is_disk_full(cause) {
        true => OplogError::DiskFull,
        false => OplogError::SegmentUnavailable { cause: Arc::clone(cause) },
    }
}

/// The wall clock's second with the first free increment; the next after the last one when the clock is not ahead of it.
fn next_timestamp(last: Timestamp, wall_seconds: u32) -> Timestamp {
    Timestamp(last.max(Timestamp::new(wall_seconds, 0)).0 + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamps_follow_the_clock_and_never_go_back() {
        let first = next_timestamp(Timestamp::MIN, 100);
        assert_eq!(first, Timestamp::new(100, 1));
        assert_eq!(next_timestamp(first, 100), Timestamp::new(100, 2));
        assert_eq!(next_timestamp(first, 101), Timestamp::new(101, 1));
        assert_eq!(next_timestamp(first, 50), Timestamp::new(100, 2));
        assert_eq!(next_timestamp(Timestamp::new(100, u32::MAX), 100), Timestamp::new(101, 0));
    }

    #[test]
    fn a_build_that_panics_leaves_nothing_behind() {
        let mut tail = Tail::new(0, 1 << 20, Timestamp::MIN, 1 << 20, 1 << 20);
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let mut build = |_: Timestamp, bytes: &mut Vec<u8>| {
                bytes.push(1);
                panic!("build failed");
            };
            let _ = tail.try_append(1, &mut build, &mut |_, _| {});
        }));
        assert!(result.is_err());
        assert_eq!(tail.end(), 0);
        assert!(matches!(
            tail.try_append(1, &mut |_, bytes| bytes.extend(b"ab"), &mut |_, _| {}),
            Ok(Attempt::Done { .. })
        ));
        assert_eq!(tail.buffer.len(), ENTRY_HEADER_BYTES + 2);
    }

    #[test]
    fn an_entry_above_the_limit_is_refused_and_forgotten() {
        let mut tail = Tail::new(0, 1 << 40, Timestamp::MIN, 1 << 20, 1 << 20);
        let mut build = |_: Timestamp, bytes: &mut Vec<u8>| bytes.resize(bytes.len() + PAYLOAD_BYTES_MAX + 1, 0);
        let result = tail.try_append(1, &mut build, &mut |_, _| panic!("must not be assigned"));
        assert!(matches!(result, Err(OplogError::EntryTooLarge { .. })));
        assert_eq!((tail.end(), tail.last_timestamp), (0, Timestamp::MIN));
    }
}
