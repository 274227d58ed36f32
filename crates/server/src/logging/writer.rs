//! Writes lines to standard error, standard output or a file, from a thread of its own, behind a bounded queue.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

use crate::rotated_file::put_aside;

const QUEUE_LINES: usize = 4096;
const FLUSH_WAIT: Duration = Duration::from_secs(1);

/// Where lines go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LogDestination {
    /// Standard error.
    StandardError,
    /// Standard output.
    StandardOutput,
    /// A file.
    File {
        /// Its path.
        path: PathBuf,
        /// Whether lines are added to a file that is there; otherwise that one is renamed, with the time behind its name.
        appends: bool,
    },
}

enum Job {
    Line(String),
    Flush(SyncSender<()>),
    Rotate(SyncSender<Result<(), String>>),
}

/// The queue's sending end.
pub(crate) struct LineWriter {
    queue: SyncSender<Job>,
    dropped: Arc<AtomicU64>,
}

impl LineWriter {
    pub(crate) fn start(destination: LogDestination) -> io::Result<Self> {
        let (queue, jobs) = sync_channel(QUEUE_LINES);
        let dropped = Arc::new(AtomicU64::new(0));
        let counter = Arc::clone(&dropped);
        let sink = Sink::open(destination)?;
        platform::spawn_named("log-writer", move || write_lines(sink, &jobs, &counter))?;
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

    /// Renames the file and begins a new one.
    pub(crate) fn rotate(&self) -> Result<(), String> {
        let busy = || "the log is too busy".to_owned();
        let (done, finished) = sync_channel(1);
        self.queue.try_send(Job::Rotate(done)).map_err(|_| busy())?;
        finished.recv_timeout(FLUSH_WAIT).map_err(|_| busy())?
    }
}

/// Where lines go, opened.
enum Sink {
    Stream(Box<dyn Write + Send>),
    File { path: PathBuf, file: File },
}

impl Sink {
    fn open(destination: LogDestination) -> io::Result<Self> {
        match destination {
            LogDestination::StandardError => Ok(Sink::Stream(Box::new(io::stderr()))),
            LogDestination::StandardOutput => Ok(Sink::Stream(Box::new(io::stdout()))),
            LogDestination::File { path, appends } => {
                if !appends {
                    put_aside(&path)?;
                }
                let file = open_file(&path)?;
                Ok(Sink::File { path, file })
            }
        }
    }

    fn write(&mut self, lines: &str) -> io::Result<()> {
        match self {
            Sink::Stream(stream) => stream.write_all(lines.as_bytes()).and_then(|()| stream.flush()),
            Sink::File { file, .. } => file.write_all(lines.as_bytes()),
        }
    }

    fn rotate(&mut self) -> Result<(), String> {
        let Sink::File { path, file } = self else {
            return Err("the diagnostics log goes to no file that could be rotated".to_owned());
        };
        let failed = |error: io::Error| format!("cannot rotate {}: {error}", path.display());
        put_aside(path).map_err(failed)?;
        *file = open_file(path).map_err(failed)?;
        Ok(())
    }
}

#[allow(
    clippy::disallowed_methods,
    reason = "the log is beside the data, and written while there is no disk to go through"
)]
fn open_file(path: &Path) -> io::Result<File> {
    File::options().append(true).create(true).open(path)
}

fn write_lines(mut sink: Sink, jobs: &Receiver<Job>, dropped: &AtomicU64) {
    let mut batch = String::new();
    while let Ok(first) = jobs.recv() {
        batch.clear();
        let (mut flushes, mut rotations) = (Vec::new(), Vec::new());
        for job in std::iter::once(first).chain(jobs.try_iter()) {
            match job {
                Job::Line(line) => {
                    batch.push_str(&line);
                    batch.push('\n');
                }
                Job::Flush(done) => flushes.push(done),
                Job::Rotate(done) => rotations.push(done),
            }
        }
        let lost = dropped.swap(0, Ordering::Relaxed);
        if lost > 0 {
            batch.push_str(&format!(
                "{{\"s\":\"W\",\"c\":\"CONTROL\",\"msg\":\"{lost} log lines were dropped: the log was too slow\"}}\n"
            ));
        }
        // Where the log is closed there is nowhere to complain.
        let _ = sink.write(&batch);
        for done in flushes {
            let _ = done.send(());
        }
        for done in rotations {
            let _ = done.send(sink.rotate());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[allow(clippy::disallowed_methods, reason = "a test")]
    fn lines_of(path: &Path) -> String {
        std::fs::read_to_string(path).unwrap()
    }

    #[test]
    #[allow(clippy::disallowed_methods, reason = "a test")]
    fn a_file_is_added_to_set_aside_and_rotated() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("server.log");
        let write = |line: &str, appends| {
            let writer = LineWriter::start(LogDestination::File { path: path.clone(), appends }).unwrap();
            writer.write(line.to_owned());
            writer.flush();
            writer
        };
        write("one", true);
        write("two", true);
        assert_eq!(lines_of(&path), "one\ntwo\n");
        let writer = write("three", false);
        assert_eq!(lines_of(&path), "three\n");
        std::fs::remove_file(&path).unwrap();
        writer.rotate().unwrap();
        writer.write("four".to_owned());
        writer.flush();
        assert_eq!(lines_of(&path), "four\n");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2);
        // Within a second: no file takes the place of another.
        for line in ["five", "six"] {
            writer.rotate().unwrap();
            writer.write(line.to_owned());
            writer.flush();
        }
        let files = std::fs::read_dir(folder.path()).unwrap().map(|file| lines_of(&file.unwrap().path()));
        let mut lines: Vec<String> = files.collect();
        lines.sort_unstable();
        assert_eq!(lines, ["five\n", "four\n", "one\ntwo\n", "six\n"]);
        let standard = LineWriter::start(LogDestination::StandardError).unwrap();
        assert!(standard.rotate().is_err());
    }
}
