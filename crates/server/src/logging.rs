//! The diagnostic log: lines on standard error, standard output or in a file, and the most recent of them in memory for `getLog`. Every crate writes
//! to it through `tracing`; `main` installs it.
//!
//! A line's *component* is its event's target up to the first `::`, so a crate's name, or what the event names.
//! Formatting happens on the thread that logs; writing happens on a thread of its own behind a bounded queue, so a
//! a reader that does not read delays no command. Lines that find the queue full are counted and reported later.

mod line;
mod recent;
mod writer;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use platform::{Clock, SystemClock};
use tracing::{Event, Subscriber};
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Registry, reload};

use line::Line;
use recent::RecentLines;
use writer::LineWriter;
pub use writer::LogDestination;

/// Component of warnings of the start that no other component gives: `tracing::warn!(target: STARTUP_WARNINGS, ...)`.
pub const STARTUP_WARNINGS: &str = "startup_warnings";

/// What a line looks like.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line, its fields named as MongoDB names them.
    Json,
}

/// Which of the recent lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecentLog {
    /// All.
    Global,
    /// Warnings given while starting.
    StartupWarnings,
}

/// The diagnostic log.
#[derive(Clone)]
pub struct DiagnosticLog {
    inner: Arc<Inner>,
}

struct Inner {
    clock: SystemClock,
    format: LogFormat,
    /// What takes events from the process, if it is installed.
    filter: OnceLock<Filter>,
    writer: LineWriter,
    global: Mutex<RecentLines>,
    startup_warnings: Mutex<RecentLines>,
    /// Every warning until then, of whatever component, is one of the start.
    is_started: AtomicBool,
    redacts: AtomicBool,
}

/// Which events are taken.
struct Filter {
    configured: Targets,
    handle: reload::Handle<Targets, Registry>,
}

impl DiagnosticLog {
    /// Takes more events or fewer than configured from now on: `level` from 0, as configured, to 5, everything; parts of the program with levels of
    /// their own; and whether connections that come and go are left out.
    ///
    /// # Errors
    /// When it is not installed.
    pub fn set_verbosity(&self, level: i32, parts: &[(&'static str, i32)], is_quiet: bool) -> Result<(), String> {
        let Some(filter) = self.inner.filter.get() else { return Err("the log takes no events".to_owned()) };
        let mut targets = filter.configured.clone();
        if level > 0 {
            targets = targets.with_default(level_filter(level));
        }
        if is_quiet {
            targets = targets.with_target("network", LevelFilter::WARN);
        }
        for (part, level) in parts {
            targets = targets.with_target(*part, level_filter(*level));
        }
        filter.handle.reload(targets).map_err(|error| error.to_string())
    }

    /// Makes the log and takes every event of the process that `filter` lets through. At most once in a process.
    ///
    /// # Errors
    /// When the process has a subscriber already, the file cannot be opened, or the machine refuses a thread.
    pub fn install(format: LogFormat, filter: Targets, destination: LogDestination) -> std::io::Result<Self> {
        let log = Self::to(format, destination)?;
        let (current, handle) = reload::Layer::new(filter.clone());
        // A new log has no filter yet.
        let _ = log.inner.filter.set(Filter { configured: filter, handle });
        tracing_subscriber::registry()
            .with(log.clone().with_filter(current))
            .try_init()
            .map_err(std::io::Error::other)?;
        std::panic::set_hook(Box::new(|panic| {
            tracing::error!(target: "control", location = panic.location().map(tracing::field::display), panic = %panic_message(panic), "a thread panicked");
        }));
        Ok(log)
    }

    /// A log that takes no events by itself.
    ///
    /// # Errors
    /// When the machine refuses a thread.
    pub fn new(format: LogFormat) -> std::io::Result<Self> {
        Self::to(format, LogDestination::StandardError)
    }

    fn to(format: LogFormat, destination: LogDestination) -> std::io::Result<Self> {
        let inner = Inner {
            clock: SystemClock::new(),
            format,
            filter: OnceLock::new(),
            writer: LineWriter::start(destination)?,
            global: Mutex::default(),
            startup_warnings: Mutex::default(),
            is_started: AtomicBool::new(false),
            redacts: AtomicBool::new(false),
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// The recent lines as JSON, oldest first, and how many there have been since the start.
    pub fn recent(&self, which: RecentLog) -> (u64, Vec<String>) {
        let lines = match which {
            RecentLog::Global => &self.inner.global,
            RecentLog::StartupWarnings => &self.inner.startup_warnings,
        };
        lines.lock().snapshot()
    }

    /// A warning that holds since a moment, as a line among those of the start. It is not logged.
    pub fn line_of_standing_warning(since_millis: i64, message: String, pattern: &'static str) -> String {
        Line::standing_warning(since_millis, message, pattern).to_json()
    }

    /// Whether values of documents are left out from now on.
    pub fn set_redaction(&self, redacts: bool) {
        self.inner.redacts.store(redacts, Ordering::Relaxed);
    }

    /// Warnings from now on are not of the start.
    pub fn start_is_over(&self) {
        self.inner.is_started.store(true, Ordering::Release);
    }

    /// Renames the log's file and begins a new one.
    ///
    /// # Errors
    /// When it goes to no file, or the file cannot be renamed or opened.
    pub fn rotate(&self) -> Result<(), String> {
        self.inner.writer.rotate()
    }

    /// Waits (a second at most) until what has been logged is written.
    pub fn flush(&self) {
        self.inner.writer.flush();
    }
}

impl<S: Subscriber> Layer<S> for DiagnosticLog {
    fn on_event(&self, event: &Event<'_>, _context: Context<'_, S>) {
        let mut line = Line::of_event(event, self.inner.clock.wall_millis());
        if !self.inner.is_started.load(Ordering::Acquire) {
            line.comes_at_start();
        }
        if self.inner.redacts.load(Ordering::Relaxed) {
            line.redact();
        }
        let json = line.to_json();
        match self.inner.format {
            LogFormat::Text => self.inner.writer.write(line.to_text()),
            LogFormat::Json => self.inner.writer.write(json.clone()),
        }
        if line.is_of_start() {
            self.inner.startup_warnings.lock().push(json.clone());
        }
        self.inner.global.lock().push(json);
    }
}

/// MongoDB's levels 0 to 5 as ours.
fn level_filter(level: i32) -> LevelFilter {
    match level {
        ..=0 => LevelFilter::INFO,
        1 | 2 => LevelFilter::DEBUG,
        3.. => LevelFilter::TRACE,
    }
}

fn panic_message<'a>(panic: &'a std::panic::PanicHookInfo<'_>) -> &'a str {
    let payload = panic.payload();
    payload
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| payload.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no message")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_warning_of_the_start_is_kept_as_one() {
        let log = DiagnosticLog::new(LogFormat::Json).unwrap();
        tracing::subscriber::with_default(Registry::default().with(log.clone()), || {
            tracing::warn!(target: "storage", "of the start");
            tracing::info!(target: "storage", "no warning");
            tracing::error!("an error");
            log.start_is_over();
            tracing::warn!(target: "storage", "of later");
            tracing::warn!(target: STARTUP_WARNINGS, "named so");
        });
        let (count, lines) = log.recent(RecentLog::StartupWarnings);
        assert_eq!(count, 3, "{lines:?}");
        for (line, text) in lines.iter().zip(["of the start", "an error", "named so"]) {
            assert!(line.contains(text), "{line}");
        }
        assert_eq!(log.recent(RecentLog::Global).0, 5);
    }
}
