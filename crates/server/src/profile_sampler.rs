//! The sampler inside the server: a timer of processor time interrupts whichever thread computes, and its stack is written
//! down. For `plimsollProfile`; nothing of it runs otherwise.
//!
//! It relies on an unwinder that takes no lock, as glibc has had since 2.35. Stacks that begin in the unwinder or the
//! dynamic linker themselves are not taken, since these hold what unwinding may need.

use std::collections::BTreeMap;
use std::time::Duration;

use platform::{Clock, SystemClock};
use pprof::{Frames, ProfilerGuardBuilder};

/// Libraries whose functions are not interrupted for a stack.
const NOT_UNWOUND: [&str; 3] = ["libgcc", "ld-linux", "vdso"];

/// Samples for a while and gives the stacks, folded. Returns when the time is over.
pub(crate) fn sample(length: Duration, hertz: u32) -> Result<String, String> {
    let hertz = i32::try_from(hertz).map_err(|_| "hertz is out of range".to_owned())?;
    // It refuses to run twice at once.
    let sampler = ProfilerGuardBuilder::default().frequency(hertz).blocklist(&NOT_UNWOUND).build();
    let sampler = sampler.map_err(|error| format!("the sampler cannot be started: {error}"))?;
    SystemClock::new().sleep(length);
    let report = sampler.report().build().map_err(|error| format!("the samples cannot be read: {error}"))?;
    let mut stacks: BTreeMap<String, isize> = BTreeMap::new();
    for (frames, count) in &report.data {
        *stacks.entry(folded(frames)).or_default() += count;
    }
    Ok(stacks.iter().map(|(stack, count)| format!("{stack} {count}\n")).collect())
}

/// The thread, then the functions from the outermost on.
fn folded(frames: &Frames) -> String {
    let plain = |name: String| name.replace([';', '\n'], ":");
    // Of what was inlined only the function that holds it: the debug information of the rest has short names only.
    let functions = frames.frames.iter().rev().filter_map(|inlined| inlined.last()).map(|symbol| plain(symbol.name()));
    std::iter::once(plain(frames.thread_name_or_id())).chain(functions).collect::<Vec<_>>().join(";")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    #[inline(never)]
    fn a_function_that_computes(stop: &AtomicBool) -> u64 {
        let mut sum: u64 = 1;
        while !stop.load(Ordering::Relaxed) {
            for number in 1..1000_u64 {
                sum = std::hint::black_box(sum.wrapping_mul(31).wrapping_add(number));
            }
        }
        sum
    }

    #[test]
    fn names_the_function_that_computes_and_its_thread() {
        let stop = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&stop);
        let busy = platform::spawn_named("busy", move || {
            std::hint::black_box(a_function_that_computes(&seen));
        })
        .unwrap();
        let sampled = sample(Duration::from_secs(1), 200).unwrap();
        stop.store(true, Ordering::Relaxed);
        busy.join().unwrap();
        let line = sampled.lines().find(|line| line.contains("a_function_that_computes"));
        let line = line.unwrap_or_else(|| panic!("{sampled}"));
        assert!(line.starts_with("busy;"), "{line}");
    }
}
