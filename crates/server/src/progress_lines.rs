//! Lines on standard error that tell how far a backup, its copy or its restoring is.
//!
//! Called by the commands of the binary, and by a new member of a replica set that gets another one's data.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use backup::Progress;
use platform::{Clock, SystemClock};

/// Between two lines.
const LINES_APART: Duration = Duration::from_secs(2);
const MIB: f64 = 1_048_576.0;

/// Does something while another thread prints how far it is.
pub fn with_progress_lines<T>(what: &str, act: impl FnOnce(&Progress) -> T) -> T {
    let progress = Arc::new(Progress::default());
    let (is_done, ends) = channel::<()>();
    let (shown, name) = (Arc::clone(&progress), what.to_owned());
    let printer = platform::spawn_named("progress", move || print_lines(&name, &shown, &ends));
    let result = act(&progress);
    drop(is_done);
    if let Ok(printer) = printer {
        // It only prints.
        let _ = printer.join();
    }
    result
}

/// Until nobody is there any more who could end it.
fn print_lines(what: &str, progress: &Progress, ends: &Receiver<()>) {
    let clock = SystemClock::new();
    let began = clock.monotonic();
    loop {
        let goes_on = ends.recv_timeout(LINES_APART) == Err(RecvTimeoutError::Timeout);
        let (phase, done, total) = progress.look();
        let seconds = (clock.monotonic() - began).as_secs_f64().max(0.001);
        let (done, total) = (done as f64 / MIB, total as f64 / MIB);
        eprintln!("{what}: {}: {done:.0} of {total:.0} MiB, {:.0} MiB/s", phase.name(), done / seconds);
        if !goes_on {
            return;
        }
    }
}
