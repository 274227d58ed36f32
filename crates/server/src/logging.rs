//! The diagnostic log: lines on standard error, standard output or in a file, and the most recent of them in memory for `getLog`. Every crate writes
//! to it through `tracing`; `main` installs it.
//!
//! A line's *component* is its event's target up to the first `::`, so a crate's name, or what the event names.
//! Formatting happens on the thread that logs; writing happens on a thread of its own behind a bounded queue, so a
//! a reader that does not read delays no command. Lines that find the queue full are counted and reported later.

mod line;
mod recent;
mod writer;

use std::sync::Arc;

use parking_lot::Mutex;
use platform::{Clock, SystemClock};
use tracing::{Event, Subscriber};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;

use line::Line;
use recent::RecentLines;
use writer::LineWriter;
pub use writer::LogDestination;

/// Component of events that are also kept as start-up warnings: `tracing::warn!(target: STARTUP_WARNINGS, ...)`.
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
    writer: LineWriter,
    global: Mutex<RecentLines>,
    startup_warnings: Mutex<RecentLines>,
}

impl DiagnosticLog {
    /// Makes the log and takes every event of the process that `filter` lets through. At most once in a process.
    ///
    /// # Errors
    /// When the process has a subscriber already, the file cannot be opened, or the machine refuses a thread.
    pub fn install(format: LogFormat, filter: Targets, destination: LogDestination) -> std::io::Result<Self> {
        let log = Self::to(format, destination)?;
        tracing_subscriber::registry()
            .with(log.clone().with_filter(filter))
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
            writer: LineWriter::start(destination)?,
            global: Mutex::default(),
            startup_warnings: Mutex::default(),
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
        let line = Line::of_event(event, self.inner.clock.wall_millis());
        let json = line.to_json();
        match self.inner.format {
            LogFormat::Text => self.inner.writer.write(line.to_text()),
            LogFormat::Json => self.inner.writer.write(json.clone()),
        }
        if line.component() == STARTUP_WARNINGS {
            self.inner.startup_warnings.lock().push(json.clone());
        }
        self.inner.global.lock().push(json);
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
