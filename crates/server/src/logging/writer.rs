//! Writes lines to standard error from a thread of its own, behind a bounded queue.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

const QUEUE_LINES: usize = 4096;
const FLUSH_WAIT: Duration = Duration::from_secs(1);

enum Job {
    Line(String),
    Flush(SyncSender<()>),
}

/// The queue's sending end.
pub(crate) struct LineWriter {
    queue: SyncSender<Job>,
    dropped: Arc<AtomicU64>,
}

impl LineWriter {
    pub(crate) fn start() -> io::Result<Self> {
        let (queue, jobs) = sync_channel(QUEUE_LINES);
        let dropped = Arc::new(AtomicU64::new(0));
        let counter = Arc::clone(&dropped);
        platform::spawn_named("log-writer", move || write_lines(&jobs, &counter))?;
        Ok(Self { queue, dropped })
    }

    /// Queues a line; drops it when the queue is full.
    pub(crate) fn write(&self, line: String) {
        if self.queue.try_send(Job::Line(line)).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Waits until the lines queued before are written, but not for long.
    pub(crate) fn flush(&self) {
        let (done, finished) = sync_channel(1);
        if self.queue.try_send(Job::Flush(done)).is_ok() {
            // A standard error that takes nothing is not waited for.
            let _ = finished.recv_timeout(FLUSH_WAIT);
        }
    }
}

fn write_lines(jobs: &Receiver<Job>, dropped: &AtomicU64) {
    let mut stderr = io::stderr();
    let mut batch = String::new();
    while let Ok(first) = jobs.recv() {
        batch.clear();
        let mut flushes = Vec::new();
        for job in std::iter::once(first).chain(jobs.try_iter()) {
            match job {
                Job::Line(line) => {
                    batch.push_str(&line);
                    batch.push('\n');
                }
                Job::Flush(done) => flushes.push(done),
            }
        }
        let lost = dropped.swap(0, Ordering::Relaxed);
        if lost > 0 {
            batch.push_str(&format!("{{\"s\":\"W\",\"c\":\"CONTROL\",\"msg\":\"{lost} log lines were dropped: standard error was too slow\"}}\n"));
        }
        // Where standard error is closed there is nowhere to complain.
        let _ = stderr.write_all(batch.as_bytes());
        for done in flushes {
            let _ = done.send(());
        }
    }
}
