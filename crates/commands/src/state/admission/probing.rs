//! How many commands of a kind should run at once: tried out, from what throughput does.
//!
//! Called by a gate a few times a second. More at once helps while commands wait for the disk or for each other; beyond that it
//! only adds switching and makes each slower. So the limit climbs while throughput climbs with it, and comes down while
//! throughput does not mind:
//!
//! ```text
//!                   ┌── throughput rose by a twentieth: back, to see ──▶ Again ── it fell by that: keep ──┐
//!   Stable ── up ──▶ Above ── otherwise: back ──────────────────────────────┴──── otherwise: stay ────────┤
//!     ▲  └─ down ──▶ Below ── it stayed: keep; fell: back ────────────────────────────────────────────────┤
//!     └───────────────────────────────────────────────────────────────────────────────────────────────────┘
//! ```
//!
//! Throughput also rises by itself: as clients come, or because the machine stood still in the window before. So a higher limit must be better than
//! what was before it and than what comes after it. A lower one that is kept by mistake is soon made up for.
//!
//! Nothing is tried while nobody has to wait for a place: the limit does not matter then.

use std::time::Duration;

use super::bounds::{AS_GOOD, FINISHED_MIN, LIMIT_MAX, LIMIT_MIN, STEP_DOWN, STEP_UP, WINDOW, WINDOW_MAX, WORTH_MORE};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Phase {
    #[default]
    Stable,
    Above,
    /// Where it was before a higher limit that seemed to be worth it.
    Again,
    Below,
}

/// One gate's search.
#[derive(Debug, Default)]
pub(super) struct Probing {
    phase: Phase,
    /// The limit to go back to, and its throughput.
    stable_limit: usize,
    stable_rate: f64,
    /// The higher limit that seemed to be worth it, and its throughput.
    higher_limit: usize,
    higher_rate: f64,
    /// Whether the next try is downwards.
    is_downwards: bool,
    window_began: Duration,
    finished_before: u64,
    queued_before: u64,
}

impl Probing {
    /// The limit from now on. `finished` and `queued` count commands since the start.
    pub(super) fn next_limit(&mut self, now: Duration, finished: u64, queued: u64, limit: usize) -> usize {
        let elapsed = now.saturating_sub(self.window_began);
        let in_window = finished.saturating_sub(self.finished_before);
        let says_something = in_window >= FINISHED_MIN;
        if elapsed < WINDOW || !says_something && elapsed < WINDOW_MAX {
            return limit;
        }
        let had_to_wait = queued != self.queued_before;
        let rate = in_window as f64 / elapsed.as_secs_f64();
        (self.window_began, self.finished_before, self.queued_before) = (now, finished, queued);
        let next = match self.phase {
            Phase::Stable if !had_to_wait || !says_something => limit,
            Phase::Stable => self.try_another(limit, rate),
            _ if !says_something => self.judge(limit, false),
            Phase::Above if rate >= self.stable_rate * WORTH_MORE => self.look_again(limit, rate),
            Phase::Above => self.judge(limit, false),
            Phase::Again => self.judge(self.higher_limit, self.higher_rate >= rate * WORTH_MORE),
            Phase::Below => self.judge(limit, rate >= self.stable_rate * AS_GOOD),
        };
        next.clamp(LIMIT_MIN, LIMIT_MAX)
    }

    fn try_another(&mut self, limit: usize, rate: f64) -> usize {
        (self.stable_limit, self.stable_rate) = (limit, rate);
        let downwards = self.is_downwards && limit > LIMIT_MIN || limit >= LIMIT_MAX;
        self.phase = if downwards { Phase::Below } else { Phase::Above };
        if downwards { limit - (limit / STEP_DOWN).max(1) } else { limit + (limit / STEP_UP).max(1) }
    }

    fn look_again(&mut self, limit: usize, rate: f64) -> usize {
        (self.higher_limit, self.higher_rate) = (limit, rate);
        self.phase = Phase::Again;
        self.stable_limit
    }

    /// Keeps what was tried, to go on in that direction, or goes back, to try the other.
    fn judge(&mut self, limit: usize, is_kept: bool) -> usize {
        self.is_downwards = (self.phase == Phase::Below) == is_kept;
        self.phase = Phase::Stable;
        if is_kept { limit } else { self.stable_limit }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT_START: usize = 64;

    /// Runs the search against a server whose throughput with so many at once is given; returns the limits.
    fn search(windows: usize, throughput: impl Fn(usize) -> f64) -> Vec<usize> {
        let mut probing = Probing::default();
        let (mut limit, mut finished) = (LIMIT_START, 0.0);
        (1..=windows)
            .map(|window| {
                finished += throughput(limit) * WINDOW.as_secs_f64();
                limit = probing.next_limit(WINDOW * window as u32, finished as u64, window as u64, limit);
                limit
            })
            .collect()
    }

    /// Numbers from 0 to 1, by chance.
    fn random(seed: u64) -> impl FnMut() -> f64 {
        let mut bits = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        move || {
            bits ^= bits << 13;
            bits ^= bits >> 7;
            bits ^= bits << 17;
            (bits >> 11) as f64 / (1_u64 << 53) as f64
        }
    }

    fn settled(limits: &[usize]) -> std::ops::RangeInclusive<usize> {
        let last = &limits[limits.len() - 20..];
        *last.iter().min().unwrap()..=*last.iter().max().unwrap()
    }

    #[test]
    fn comes_down_when_processors_are_the_limit() {
        let limits = search(60, |_| 50_000.0);
        assert!(settled(&limits).start() == &LIMIT_MIN, "{limits:?}");
    }

    #[test]
    fn goes_up_when_each_only_waits() {
        let limits = search(60, |limit| 100.0 * limit as f64);
        assert!(*settled(&limits).end() == LIMIT_MAX, "{limits:?}");
    }

    #[test]
    fn finds_the_knee_from_both_sides() {
        for knee in [20, 300] {
            let limits = search(100, |limit| 100.0 * limit.min(knee) as f64 - limit as f64);
            let settled = settled(&limits);
            assert!(*settled.start() * 2 > knee && *settled.end() < knee * 2, "knee {knee}: {limits:?}");
        }
    }

    #[test]
    fn a_throughput_that_varies_by_itself_does_not_raise_the_limit() {
        for seed in 1..=20_u64 {
            let random = std::cell::RefCell::new(random(seed));
            let limits = search(600, |_| 10_000.0 * (0.8 + 0.4 * random.borrow_mut()()));
            let mean = limits.iter().skip(200).sum::<usize>() / 400;
            assert!(mean < LIMIT_START, "seed {seed}: {mean}");
        }
    }

    /// Clients come during the first two seconds, the machine stands still for a part of each fifth window, and fewer at once are a little better.
    #[test]
    fn a_throughput_that_rises_as_clients_come_and_after_stalls_does_not_raise_the_limit() {
        let mut ends = Vec::new();
        for seed in 1..=100_u64 {
            let (random, window) = (std::cell::RefCell::new(random(seed)), std::cell::Cell::new(0));
            let limits = search(90, |limit| {
                let mut random = random.borrow_mut();
                window.set(window.get() + 1);
                let come = (f64::from(window.get()) / 10.0).min(1.0);
                let stall = if random() < 0.2 { 0.3 + 0.5 * random() } else { 1.0 };
                10_000.0 * come * stall * (0.8 + 0.4 * random()) * (limit as f64).powf(-0.15)
            });
            ends.push(limits[60..].iter().sum::<usize>() / 30);
        }
        ends.sort_unstable();
        assert!(ends[50] <= 2 * LIMIT_MIN && ends[95] < LIMIT_START / 2, "{ends:?}");
    }

    /// The same where each command waits for a disk that takes all of them at once.
    #[test]
    fn stalls_do_not_keep_the_limit_low_where_each_only_waits() {
        let mut ends = Vec::new();
        for seed in 1..=100_u64 {
            let random = std::cell::RefCell::new(random(seed));
            let limits = search(90, |limit| {
                let mut random = random.borrow_mut();
                let stall = if random() < 0.2 { 0.3 + 0.5 * random() } else { 1.0 };
                100.0 * stall * (0.8 + 0.4 * random()) * limit as f64
            });
            ends.push(limits[60..].iter().sum::<usize>() / 30);
        }
        ends.sort_unstable();
        assert!(ends[5] > LIMIT_MAX / 2, "{ends:?}");
    }

    #[test]
    fn nothing_is_tried_while_nobody_waits() {
        let mut probing = Probing::default();
        for window in 1..50 {
            assert_eq!(probing.next_limit(WINDOW * window, u64::from(window) * 1000, 0, 64), 64);
        }
    }

    #[test]
    fn a_few_long_commands_say_nothing() {
        let mut probing = Probing::default();
        for window in 1..500 {
            let finished = u64::from(window) / 10;
            assert_eq!(probing.next_limit(WINDOW * window, finished, u64::from(window), LIMIT_START), LIMIT_START);
        }
    }
}
