//! When the next operation is to be sent: arrivals of an open loop, and a timer that is exact to some ten microseconds.
//!
//! Arrivals are drawn once and taken by whichever client is free. When none is, they wait with the time at which they were
//! meant, and their latency counts from there: a server that stalls cannot slow the questions down.

use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};
use tokio::io::unix::AsyncFd;

use super::plan::Arrival;
use crate::random::Random;

/// The arrivals of a lane's share of a group.
#[derive(Debug)]
pub(crate) struct Arrivals {
    next: Instant,
    mean_gap: Duration,
    arrival: Arrival,
    random: Random,
}

impl Arrivals {
    /// From `start` on, `rate` a second.
    pub(crate) fn new(start: Instant, rate: f64, arrival: Arrival, mut random: Random) -> Self {
        let mean_gap = Duration::from_secs_f64((1.0 / rate.max(1e-6)).min(1e6));
        // Lanes that began at the same moment would send in pairs.
        let first = start + mean_gap.mul_f64(random.fraction());
        Self { next: first, mean_gap, arrival, random }
    }

    /// Takes the next arrival.
    pub(crate) fn take(&mut self) -> Instant {
        let taken = self.next;
        let gap = match self.arrival {
            Arrival::Even => self.mean_gap,
            Arrival::Poisson => self.mean_gap.mul_f64(self.random.exponential()),
        };
        self.next += gap;
        taken
    }
}

/// Waits for moments. Tokio's own timer is exact to a millisecond only.
pub(crate) struct PreciseTimer {
    /// None where the system has no such timer left: Tokio's serves then.
    descriptor: Option<AsyncFd<OwnedFd>>,
}

impl PreciseTimer {
    /// Must be called inside the runtime that waits.
    pub(crate) fn new() -> Self {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let descriptor = timerfd_create(TimerfdClockId::Monotonic, flags).ok();
        #[allow(
            deprecated,
            reason = "its successor is unsafe for types that may change their descriptor, which OwnedFd cannot"
        )]
        let descriptor = descriptor.and_then(|descriptor| AsyncFd::new(descriptor).ok());
        Self { descriptor }
    }

    /// Returns at `moment`, or at once when it has passed.
    pub(crate) async fn wait_until(&self, moment: Instant) {
        let Some(remaining) = moment.checked_duration_since(Instant::now()).filter(|left| !left.is_zero()) else {
            return;
        };
        match &self.descriptor {
            Some(descriptor) if set(descriptor, remaining) => {
                if let Ok(mut ready) = descriptor.readable().await {
                    let mut expirations = [0; 8];
                    // Reading rearms it; what it reads, how often it went off, is 1.
                    let _ = rustix::io::read(descriptor.get_ref(), &mut expirations);
                    ready.clear_ready();
                }
            }
            _ => tokio::time::sleep(remaining).await,
        }
    }
}

fn set(descriptor: &AsyncFd<OwnedFd>, remaining: Duration) -> bool {
    let value = Timespec { tv_sec: remaining.as_secs() as i64, tv_nsec: i64::from(remaining.subsec_nanos()) };
    let once = Itimerspec { it_interval: Timespec { tv_sec: 0, tv_nsec: 0 }, it_value: value };
    timerfd_settime(descriptor.get_ref(), TimerfdTimerFlags::empty(), &once).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrivals_keep_their_rate() {
        let start = Instant::now();
        for arrival in [Arrival::Even, Arrival::Poisson] {
            let mut arrivals = Arrivals::new(start, 1000.0, arrival, Random::new(5));
            let last = (0..10_000).map(|_| arrivals.take()).last().unwrap();
            let seconds = last.duration_since(start).as_secs_f64();
            assert!((9.7..10.3).contains(&seconds), "{arrival:?}: {seconds}");
        }
    }

    #[tokio::test]
    async fn the_timer_is_never_early() {
        let timer = PreciseTimer::new();
        for microseconds in [0, 300, 5_000] {
            let moment = Instant::now() + Duration::from_micros(microseconds);
            timer.wait_until(moment).await;
            assert!(Instant::now() >= moment);
        }
        timer.wait_until(Instant::now() - Duration::from_secs(1)).await;
    }
}
