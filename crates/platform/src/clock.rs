//! Time: a monotonic clock for durations, the wall clock for dates, and sleeping.
//!
//! Called by whatever measures, stamps or waits. `SimulatedClock` moves only when told to, or when somebody sleeps on it.

use std::time::Duration;

use parking_lot::Mutex;
use rustix::time::ClockId;

/// One of so many parts of a time.
pub const fn part_of(time: Duration, parts: u64) -> Duration {
    Duration::from_nanos(time.as_nanos() as u64 / parts)
}

/// A source of time.
pub trait Clock: Send + Sync {
    /// Time since an arbitrary start; never goes backwards. For measuring durations.
    fn monotonic(&self) -> Duration;

    /// Milliseconds since the Unix epoch. May jump either way when the machine's clock is set.
    fn wall_millis(&self) -> i64;

    /// Waits for `duration`.
    fn sleep(&self, duration: Duration);
}

/// The machine's clocks.
pub struct SystemClock {
    start: std::time::Instant,
}

impl SystemClock {
    /// A clock whose monotonic time starts at zero now.
    #[allow(clippy::disallowed_methods, reason = "this is the replacement that the ban names")]
    pub fn new() -> SystemClock {
        SystemClock { start: std::time::Instant::now() }
    }
}

impl Default for SystemClock {
    fn default() -> SystemClock {
        SystemClock::new()
    }
}

impl Clock for SystemClock {
    #[allow(clippy::disallowed_methods, reason = "this is the replacement that the ban names")]
    fn monotonic(&self) -> Duration {
        self.start.elapsed()
    }

    #[allow(clippy::disallowed_methods, reason = "this is the replacement that the ban names")]
    fn wall_millis(&self) -> i64 {
        match std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH) {
            Ok(since) => since.as_millis() as i64,
            Err(before) => -(before.duration().as_millis() as i64),
        }
    }

    #[allow(clippy::disallowed_methods, reason = "this is the replacement that the ban names")]
    fn sleep(&self, duration: Duration) {
        std::thread::sleep(duration);
    }
}

/// The time that processors have spent on this process so far.
pub fn processor_time() -> Duration {
    spent(ClockId::ProcessCPUTime)
}

/// The time that processors have spent on the calling thread so far.
pub fn thread_processor_time() -> Duration {
    spent(ClockId::ThreadCPUTime)
}

fn spent(clock: ClockId) -> Duration {
    let spent = rustix::time::clock_gettime(clock);
    Duration::new(spent.tv_sec.try_into().unwrap_or_default(), spent.tv_nsec.try_into().unwrap_or_default())
}

/// A clock that is moved by hand; sleeping on it advances it at once.
pub struct SimulatedClock {
    times: Mutex<SimulatedTimes>,
}

struct SimulatedTimes {
    monotonic: Duration,
    /// Wall time at monotonic zero, in milliseconds since the Unix epoch.
    wall_origin_millis: i64,
}

impl SimulatedClock {
    /// A clock at monotonic zero whose wall time is `wall_millis` since the Unix epoch.
    pub fn new(wall_millis: i64) -> SimulatedClock {
        SimulatedClock {
            times: Mutex::new(SimulatedTimes { monotonic: Duration::ZERO, wall_origin_millis: wall_millis }),
        }
    }

    /// Moves both clocks forward.
    pub fn advance(&self, duration: Duration) {
        self.times.lock().monotonic += duration;
    }

    /// Sets the wall clock, as an operator or a time service may, forwards or backwards. Monotonic time is untouched.
    pub fn set_wall_millis(&self, wall_millis: i64) {
        let mut times = self.times.lock();
        times.wall_origin_millis = wall_millis - times.monotonic.as_millis() as i64;
    }
}

impl Clock for SimulatedClock {
    fn monotonic(&self) -> Duration {
        self.times.lock().monotonic
    }

    fn wall_millis(&self) -> i64 {
        let times = self.times.lock();
        times.wall_origin_millis + times.monotonic.as_millis() as i64
    }

    fn sleep(&self, duration: Duration) {
        self.advance(duration);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn simulated_sleep_advances_both_clocks() {
        let clock = SimulatedClock::new(1_000);
        clock.sleep(Duration::from_millis(250));
        assert_eq!((clock.monotonic(), clock.wall_millis()), (Duration::from_millis(250), 1_250));
    }

    #[test]
    fn setting_the_wall_clock_leaves_monotonic_time_alone() {
        let clock = SimulatedClock::new(1_000);
        clock.advance(Duration::from_secs(5));
        clock.set_wall_millis(10);
        assert_eq!((clock.monotonic(), clock.wall_millis()), (Duration::from_secs(5), 10));
    }

    #[test]
    fn system_clock_moves_forward() {
        let clock = SystemClock::new();
        let before = clock.monotonic();
        clock.sleep(Duration::from_millis(1));
        assert!(clock.monotonic() > before);
        assert!(clock.wall_millis() > 1_600_000_000_000);
    }
}
