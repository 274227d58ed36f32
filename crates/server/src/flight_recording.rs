//! The flight recorder: the server's figures, once a second, kept in the data directory for weeks, and judged while they come. While
//! nobody uses the server they are taken less often, as they would be most of what it does.
//!
//! Begun by `main` when the service is open, and stopped after it. One thread asks for the figures and judges them, another writes: while
//! the disk says nothing, figures are still taken. The files are those of the crate `flight_recorder`; `plimsoll diagnose` reads them.

mod files;
mod log_warnings;

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use flight_recorder::patterns::{self, Finding};
use flight_recorder::{ChunkWriter, Recording, encode_block, encode_brief_block};
use parking_lot::{Condvar, Mutex};
use platform::{Clock, Disk};

use crate::metrics::StatusSource;
use files::{FigureFiles, Written};
pub use files::{read_figures, recorded_figures};

const INTERVAL: Duration = Duration::from_secs(1);
/// Time from one moment to the next while nobody uses the server.
const INTERVAL_IDLE: Duration = JUDGED_EACH;
/// A server that takes more than one part in so many of a processor is used, also if no command runs.
const USED_ONE_IN: u32 = 100;
/// Moments of a chunk.
const CHUNK_MOMENTS: usize = 300;
/// After so long the chunk that is being filled is written as it is: what a crash loses.
const WRITTEN_EACH: Duration = Duration::from_secs(10);
/// After so long the last minutes are judged.
const JUDGED_EACH: Duration = Duration::from_secs(5);
/// What is judged.
const JUDGED_MILLIS: i64 = 330_000;
/// Chunks that wait for a disk that says nothing. What is beyond is lost.
const WAITING_MAX: usize = 12;

/// Warnings that hold now, for whoever asks.
pub type Warnings = Arc<Mutex<Vec<Finding>>>;

/// The recorder at work.
pub struct FlightRecording {
    stop: Arc<Stop>,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Default)]
struct Stop {
    is_asked: Mutex<bool>,
    told: Condvar,
}

impl Stop {
    /// Waits so long; whether to stop.
    fn waited(&self, duration: Duration) -> bool {
        let mut is_asked = self.is_asked.lock();
        if !*is_asked {
            self.told.wait_for(&mut is_asked, duration);
        }
        *is_asked
    }
}

impl FlightRecording {
    /// Begins. `kept` says on which disk, and how many bytes at most; without it nothing is kept, and warnings are found
    /// all the same.
    ///
    /// # Errors
    /// The machine refuses a thread.
    pub fn begin(
        source: Arc<dyn StatusSource>,
        clock: Arc<dyn Clock>,
        kept: Option<(Arc<dyn Disk>, u64)>,
        warnings: Warnings,
    ) -> std::io::Result<Self> {
        let stop = Arc::new(Stop::default());
        let (mut writes, mut threads) = (None, Vec::new());
        if let Some((disk, bytes_max)) = kept {
            let (sender, taken) = sync_channel(2);
            writes = Some(sender);
            threads.push(platform::spawn_named("figure-writer", move || {
                write_all(&taken, FigureFiles::new(disk, bytes_max))
            })?);
        }
        let recorder = Recorder::new(source, clock, writes, warnings);
        let told = Arc::clone(&stop);
        threads.insert(0, platform::spawn_named("flight-recorder", move || recorder.run(&told))?);
        Ok(Self { stop, threads })
    }

    /// Writes what there is, and ends.
    pub fn stop(self) {
        *self.stop.is_asked.lock() = true;
        self.stop.told.notify_all();
        for thread in self.threads {
            // One that panicked has been told by the log.
            let _ = thread.join();
        }
    }
}

fn write_all(taken: &Receiver<Written>, mut files: FigureFiles) {
    let mut has_failed = false;
    // What fails here fails, and is told, when there is something to write.
    let _ = files.prepare();
    for written in taken {
        match files.write(&written) {
            Ok(()) => has_failed = false,
            Err(error) if !has_failed => {
                has_failed = true;
                tracing::warn!(target: "control", %error, "figures could not be written to the data directory");
            }
            Err(_) => {}
        }
    }
}

/// What was so when it was looked last whether a moment is due.
#[derive(Default)]
struct Looked {
    at: Duration,
    processor_time: Duration,
    commands: u64,
    /// When the last moment was.
    taken_at: Option<Duration>,
}

impl Looked {
    /// Whether a moment is due: the server is used, or has not been for long.
    fn is_due(&mut self, now: Duration, processor_time: Duration, source: &dyn StatusSource) -> bool {
        let worked = processor_time.saturating_sub(self.processor_time);
        let works = worked * USED_ONE_IN > now.saturating_sub(self.at);
        let is_used = source.is_used_since(&mut self.commands) || works;
        (self.at, self.processor_time) = (now, processor_time);
        let is_due = is_used || self.taken_at.is_none_or(|taken| now.saturating_sub(taken) >= INTERVAL_IDLE);
        if is_due {
            self.taken_at = Some(now);
        }
        is_due
    }
}

struct Recorder {
    source: Arc<dyn StatusSource>,
    clock: Arc<dyn Clock>,
    writes: Option<SyncSender<Written>>,
    warnings: Warnings,
    chunk: ChunkWriter,
    began: i64,
    waiting: Vec<Written>,
    last_minutes: Recording,
    looked: Looked,
    judged_at: Duration,
    written_at: Duration,
    told: HashSet<&'static str>,
    /// What is said of the shared log.
    of_log: Vec<Finding>,
}

impl Recorder {
    fn new(
        source: Arc<dyn StatusSource>,
        clock: Arc<dyn Clock>,
        writes: Option<SyncSender<Written>>,
        warnings: Warnings,
    ) -> Self {
        Self {
            source,
            clock,
            writes,
            warnings,
            chunk: ChunkWriter::default(),
            began: 0,
            waiting: Vec::new(),
            last_minutes: Recording::default(),
            looked: Looked::default(),
            judged_at: Duration::ZERO,
            written_at: Duration::ZERO,
            told: HashSet::new(),
            of_log: Vec::new(),
        }
    }

    fn run(mut self, stop: &Stop) {
        loop {
            let began = self.clock.monotonic();
            if self.looked.is_due(began, platform::processor_time(), &*self.source) {
                self.take();
            }
            let took = self.clock.monotonic().saturating_sub(began);
            if stop.waited(INTERVAL.saturating_sub(took)) {
                break;
            }
        }
        self.finish();
    }

    /// One moment.
    fn take(&mut self) {
        let Ok(status) = self.source.status() else { return };
        let (now, elapsed) = (self.clock.wall_millis(), self.clock.monotonic());
        self.of_log = log_warnings::findings(&status, now, &self.of_log);
        self.last_minutes.observe(now, &status, patterns::PATHS, now - JUDGED_MILLIS);
        if elapsed.saturating_sub(self.judged_at) >= JUDGED_EACH {
            self.judged_at = elapsed;
            self.judge();
        }
        if self.writes.is_none() {
            return;
        }
        if self.chunk.is_empty() {
            self.began = now;
        }
        self.chunk.push(now, &status);
        if self.chunk.len() >= CHUNK_MOMENTS {
            self.close_chunk();
            self.written_at = elapsed;
        } else if elapsed.saturating_sub(self.written_at) >= WRITTEN_EACH && self.waiting.is_empty() {
            self.written_at = elapsed;
            let current = Written::Current(encode_brief_block(&self.chunk.encode()));
            // While the disk is busy with an earlier one this is left out: the next has it, too.
            let _ = self.writes.as_ref().map(|writes| writes.try_send(current));
        }
        self.send_waiting();
    }

    fn close_chunk(&mut self) {
        let chunk = std::mem::take(&mut self.chunk);
        if self.waiting.len() < WAITING_MAX {
            self.waiting.push(Written::Kept { began: self.began, block: encode_block(&chunk.encode()) });
        }
    }

    fn send_waiting(&mut self) {
        let Some(writes) = &self.writes else { return };
        while !self.waiting.is_empty() {
            match writes.try_send(self.waiting.remove(0)) {
                Ok(()) => {}
                Err(TrySendError::Full(written) | TrySendError::Disconnected(written)) => {
                    self.waiting.insert(0, written);
                    return;
                }
            }
        }
    }

    /// The last chunk goes to its file, whatever that takes.
    fn finish(mut self) {
        if !self.chunk.is_empty() {
            self.close_chunk();
        }
        if let Some(writes) = self.writes {
            self.waiting.into_iter().for_each(|written| drop(writes.send(written)));
        }
    }

    /// Looks for trouble in the last minutes. What begins is logged once.
    fn judge(&mut self) {
        let mut present = patterns::present_findings(&self.last_minutes);
        present.extend(self.of_log.iter().cloned());
        for finding in &present {
            if self.told.insert(finding.pattern) {
                tracing::warn!(target: "control", pattern = finding.pattern, advice = finding.advice, "{}", finding.what);
            }
        }
        self.told.retain(|pattern| present.iter().any(|finding| finding.pattern == *pattern));
        *self.warnings.lock() = present;
    }
}

#[cfg(test)]
mod tests;
