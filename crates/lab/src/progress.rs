//! Live progress on standard error: a bar in a terminal, otherwise a plain line every few seconds.

use std::io::{IsTerminal, stderr};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use crate::chart::grouped;

const PLAIN_LINE_INTERVAL: Duration = Duration::from_secs(5);

/// The progress of one phase.
pub(crate) struct Progress {
    name: String,
    extent: Extent,
    started: Instant,
    display: Display,
}

/// How much there is to do.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Extent {
    /// Documents or operations.
    Count(u64),
    /// It ends with time.
    Seconds(f64),
    Unknown,
}

enum Display {
    Bar(ProgressBar),
    Lines { last: Instant },
}

impl Progress {
    pub(crate) fn new(name: &str, extent: Extent) -> Self {
        let started = Instant::now();
        let display =
            if stderr().is_terminal() { Display::Bar(bar(name, extent)) } else { Display::Lines { last: started } };
        Self { name: name.to_owned(), extent, started, display }
    }

    /// Shows how far it is, the rate of late, and what else is known (memory).
    pub(crate) fn show(&mut self, done: u64, rate: f64, detail: &str) {
        let elapsed = self.started.elapsed();
        match &mut self.display {
            Display::Bar(bar) => {
                match self.extent {
                    Extent::Seconds(_) => bar.set_position(elapsed.as_secs()),
                    _ => bar.set_position(done),
                }
                bar.set_message(format!("{}/s {detail}", grouped(rate)));
            }
            Display::Lines { last } if last.elapsed() >= PLAIN_LINE_INTERVAL => {
                *last = Instant::now();
                let of = match self.extent {
                    Extent::Count(total) => format!(" of {}", grouped(total as f64)),
                    Extent::Seconds(_) | Extent::Unknown => String::new(),
                };
                let (seconds, done) = (elapsed.as_secs(), grouped(done as f64));
                eprintln!("{}: {seconds} s, {done}{of}, {}/s {detail}", self.name, grouped(rate));
            }
            Display::Lines { .. } => {}
        }
    }

    /// Removes the bar and leaves a line that says how it ended.
    pub(crate) fn finish(self, outcome: &str) {
        if let Display::Bar(bar) = &self.display {
            bar.finish_and_clear();
        }
        eprintln!("{}: {outcome}", self.name);
    }
}

fn bar(name: &str, extent: Extent) -> ProgressBar {
    let (bar, template) = match extent {
        Extent::Count(total) => (
            ProgressBar::new(total),
            "{prefix:>8} {wide_bar} {human_pos}/{human_len} {elapsed_precise} (left {eta}) {msg}",
        ),
        Extent::Seconds(seconds) => {
            (ProgressBar::new(seconds.ceil() as u64), "{prefix:>8} {wide_bar} {pos}/{len} s {msg}")
        }
        Extent::Unknown => (ProgressBar::new_spinner(), "{prefix:>8} {spinner} {human_pos} {elapsed_precise} {msg}"),
    };
    let bar = bar.with_prefix(name.to_owned());
    ProgressStyle::with_template(template).map(|style| bar.set_style(style)).ok();
    bar
}
