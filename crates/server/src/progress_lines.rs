//! Lines on standard error that tell how far a backup, its copy or its restoring is.
//!
//! Called by the commands of the binary, and by a new member of a replica set that gets another one's data.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use backup::Progress;
use platform::{Clock, SystemClock};

/// Between two lines.
const LINES_APART: Duration = Duration::from_secs(2);
/// Between two looks at whether it is done.
const LOOK: Duration = Duration::from_millis(50);
const MIB: f64 = 1_048_576.0;

/// Does something while another thread prints how far it is.
pub fn with_progress_lines<T>(what: &str, act: impl FnOnce(&Progress) -> T) -> T {
    let (progress, is_done) = (Arc::new(Progress::default()), Arc::new(AtomicBool::new(false)));
    let (shown, ends, name) = (Arc::clone(&progress), Arc::clone(&is_done), what.to_owned());
    let printer = platform::spawn_named("progress", move || print_lines(&name, &shown, &ends));
    let result = act(&progress);
    is_done.store(true, Ordering::Release);
    if let Ok(printer) = printer {
        // It only prints.
        let _ = printer.join();
    }
    result
}

fn print_lines(what: &str, progress: &Progress, is_done: &AtomicBool) {
    let clock = SystemClock::new();
    let began = clock.monotonic();
    let mut next = began + LINES_APART;
    loop {
        let ends = is_done.load(Ordering::Acquire);
        let now = clock.monotonic();
        if ends || now >= next {
            let (phase, done, total) = progress.look();
            let seconds = (now - began).as_secs_f64().max(0.001);
            let (done, total) = (done as f64 / MIB, total as f64 / MIB);
            eprintln!("{what}: {}: {done:.0} of {total:.0} MiB, {:.0} MiB/s", phase.name(), done / seconds);
            next = now + LINES_APART;
        }
        if ends {
            return;
        }
        clock.sleep(LOOK);
    }
}
