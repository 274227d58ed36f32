//! How busy the processors are, for work that takes only what others leave.
//!
//! Called by `transaction`'s feed. Relies on Linux' `/proc/stat` and `/proc/self/stat`; where they cannot be read, nothing is known.

use std::time::Duration;

/// Least time between two readings: the kernel counts in ticks of 10 ms.
const INTERVAL: Duration = Duration::from_millis(100);

/// How many processors this process may use, by its affinity and its container's quota. One where nobody knows.
pub fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

/// What the processors did since a moment before.
pub struct ProcessorLoad {
    processors: f64,
    before: Option<(Duration, Ticks)>,
    busy: Option<f64>,
}

/// Ticks of the kernel's clock since the machine's start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Ticks {
    /// Of all processors, with nothing to do.
    idle: u64,
    /// Of all processors.
    all: u64,
    /// Of one processor.
    elapsed: u64,
    /// That this process computed.
    own: u64,
}

impl ProcessorLoad {
    /// Nothing is known yet.
    pub fn new() -> ProcessorLoad {
        let processors = processors() as f64;
        ProcessorLoad { processors, before: None, busy: None }
    }

    /// How many processors this process may use, by its affinity and its container's quota.
    pub fn processors(&self) -> f64 {
        self.processors
    }

    /// The part of the time, 0 to 1, for which the processors were busy in the last 100 ms or more before `now` (of a monotonic clock): those of
    /// the machine, or those that this process may use, whichever were busier. `None` before the second reading and where it cannot be known.
    pub fn busy(&mut self, now: Duration) -> Option<f64> {
        let since = self.before.map_or(Duration::MAX, |(then, _)| now.saturating_sub(then));
        if since >= INTERVAL {
            let ticks = Ticks::read();
            self.busy =
                self.before.zip(ticks).and_then(|((_, before), ticks)| ticks.busy_since(before, self.processors));
            self.before = ticks.map(|ticks| (now, ticks));
        }
        self.busy
    }
}

impl Default for ProcessorLoad {
    fn default() -> ProcessorLoad {
        ProcessorLoad::new()
    }
}

impl Ticks {
    #[allow(clippy::disallowed_methods, reason = "the kernel's figures, not a file of the database")]
    fn read() -> Option<Ticks> {
        let machine = std::fs::read_to_string("/proc/stat").ok()?;
        let process = std::fs::read_to_string("/proc/self/stat").ok()?;
        Ticks::parse(&machine, &process)
    }

    /// See proc(5): user, nice, system, idle, iowait, irq, softirq, steal; of the process the fields 14 and 15.
    fn parse(machine: &str, process: &str) -> Option<Ticks> {
        let of_all = machine.lines().next()?.strip_prefix("cpu ")?;
        let of_each = machine.lines().skip(1).take_while(|line| line.starts_with("cpu")).count() as u64;
        let of_all: Vec<u64> = of_all.split_ascii_whitespace().take(8).map_while(|field| field.parse().ok()).collect();
        let idle = of_all.get(3)? + of_all.get(4)?;
        // The name before may contain anything but ends at the last parenthesis.
        let (_, of_process) = process.rsplit_once(')')?;
        let mut times = of_process.split_ascii_whitespace().skip(11);
        let own = times.next()?.parse::<u64>().ok()? + times.next()?.parse::<u64>().ok()?;
        let all: u64 = of_all.iter().sum();
        Some(Ticks { idle, all, elapsed: all.checked_div(of_each)?, own })
    }

    fn busy_since(self, before: Ticks, processors: f64) -> Option<f64> {
        let all = self.all.checked_sub(before.all).filter(|all| *all > 0)? as f64;
        let elapsed = self.elapsed.checked_sub(before.elapsed).filter(|elapsed| *elapsed > 0)? as f64;
        let of_machine = 1.0 - self.idle.saturating_sub(before.idle) as f64 / all;
        let of_own = self.own.saturating_sub(before.own) as f64 / (elapsed * processors);
        Some(of_machine.max(of_own).clamp(0.0, 1.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MACHINE: &str =
        "cpu  100 0 50 800 50 0 0 0 0 0\ncpu0 50 0 25 400 25 0 0 0 0 0\ncpu1 50 0 25 400 25 0 0 0 0 0\nintr 5\n";

    fn process(user: u64, system: u64) -> String {
        format!("17 (a) name) S 1 17 17 0 -1 4194560 100 0 0 0 {user} {system} 0 0 20 0 4 0")
    }

    #[test]
    fn busy_is_what_is_not_idle_of_the_machine() {
        let before = Ticks::parse(MACHINE, &process(10, 5)).unwrap();
        assert_eq!(before, Ticks { idle: 850, all: 1000, elapsed: 500, own: 15 });
        let later = Ticks { idle: 870, all: 1200, elapsed: 600, own: 20 };
        assert_eq!(later.busy_since(before, 2.0), Some(0.9));
        assert_eq!(before.busy_since(before, 2.0), None);
    }

    #[test]
    fn a_quota_of_its_own_is_busy_on_an_idle_machine() {
        let before = Ticks { idle: 0, all: 0, elapsed: 0, own: 0 };
        let later = Ticks { idle: 1500, all: 1600, elapsed: 100, own: 95 };
        assert_eq!(later.busy_since(before, 1.0), Some(0.95));
    }

    #[test]
    fn it_is_read_at_most_every_100_ms() {
        let mut load = ProcessorLoad::new();
        assert_eq!(load.busy(Duration::ZERO), None);
        assert_eq!(load.busy(Duration::from_millis(50)), None);
        assert!(Ticks::parse("cpu", "").is_none());
    }
}
