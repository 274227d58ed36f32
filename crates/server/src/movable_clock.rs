//! The machine's clock, whose wall time can be set apart from it: for tests of what happens when somebody sets the clock of a machine.
//!
//! Made by `database` with every server; moved by the fail point `wallClockIsAhead` alone, which needs `--enable-test-commands`.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use platform::{Clock, SystemClock};

/// See the module's head.
#[derive(Default)]
pub(crate) struct MovableClock {
    machine: SystemClock,
    ahead_millis: AtomicI64,
}

impl MovableClock {
    /// From now on wall time is so far ahead of the machine's, or behind it.
    pub(crate) fn set_ahead_millis(&self, ahead_millis: i64) {
        self.ahead_millis.store(ahead_millis, Ordering::Relaxed);
    }
}

impl Clock for MovableClock {
    fn monotonic(&self) -> Duration {
        self.machine.monotonic()
    }

    fn wall_millis(&self) -> i64 {
        self.machine.wall_millis().saturating_add(self.ahead_millis.load(Ordering::Relaxed))
    }

    fn sleep(&self, duration: Duration) {
        self.machine.sleep(duration);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_wall_time_moves() {
        let clock = MovableClock::default();
        let (monotonic, wall) = (clock.monotonic(), clock.wall_millis());
        clock.set_ahead_millis(3_600_000);
        assert!(clock.wall_millis() - wall >= 3_600_000 && clock.monotonic() - monotonic < Duration::from_secs(600));
        clock.set_ahead_millis(-3_600_000);
        assert!(clock.wall_millis() < wall);
    }
}
