//! How long the feed rests after it has handed something on: so that listeners take from writers almost nothing.
//!
//! Called by `feed`. While processors are idle, listeners get what comes at once, in pulses. While all are busy, listeners together get a twentieth of
//! them, and what comes meanwhile stays in the oplog: they fall behind, all alike, and catch up when there is time. Each batch is the larger for it, so
//! that a listener costs less for an event.

use std::time::Duration;

use platform::{ProcessorLoad, part_of};

use super::LISTENERS_WAIT;
use super::listener::INBOX_BYTES;

/// Bytes of entries handed on at once: an inbox takes several such steps.
pub(super) const STEP_BYTES: usize = INBOX_BYTES / 4;

/// Least time between two looks.
const PULSE: Duration = Duration::from_millis(2);
/// And so much more for each listener that was woken, so that waking does not take the processors.
const PULSE_FOR_EACH: Duration = part_of(PULSE, 8);
/// But no more than this.
const PULSE_MAX: Duration = PULSE.saturating_mul(15);
/// From this part on the processors are busy.
const BUSY_FROM: f64 = 0.9;
/// What listeners may take of busy processors.
const SHARE_OF_BUSY: f64 = 0.05;
/// Longest rest while they are busy.
const REST_MAX: Duration = part_of(LISTENERS_WAIT, 2);
/// What it costs to wake a listener and to answer its `getMore`, beside a byte of an entry (`docs/benchmarks.md`). Only their
/// proportion matters: what they are on this machine is measured (`listener_costs`).
const COST_OF_WAKING: Duration = COST_OF_BYTE.saturating_mul(30_000);
const COST_OF_BYTE: Duration = Duration::from_nanos(1);

/// What was handed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Delivered {
    /// Listeners that were woken.
    pub(super) woken: u32,
    /// What that costs all listeners.
    pub(super) foreseen: Duration,
}

/// What it will cost a listener that it was given so many bytes, with which it does what takes `work`.
pub(super) fn foreseen_cost(is_woken: bool, work: Duration, bytes: u64) -> Duration {
    let waking = if is_woken { COST_OF_WAKING } else { Duration::ZERO };
    waking + work + Duration::from_nanos(bytes * COST_OF_BYTE.as_nanos() as u64)
}

/// See the module's head.
#[derive(Default)]
pub(super) struct Pacing {
    load: ProcessorLoad,
}

impl Delivered {
    /// Where work costs so many times what is foreseen.
    pub(super) fn on_machine(self, scale: f64) -> Delivered {
        Delivered { foreseen: self.foreseen.mul_f64(scale), ..self }
    }
}

impl Pacing {
    /// How long to rest after `delivered`, and whether that is because the processors are busy. `is_behind`: there is more.
    pub(super) fn rest(&mut self, now: Duration, delivered: Delivered, is_behind: bool) -> (Duration, bool) {
        let is_busy = self.load.busy(now).is_some_and(|busy| busy >= BUSY_FROM);
        (rest(&delivered, is_behind, is_busy.then(|| self.load.processors())), is_busy)
    }
}

fn rest(delivered: &Delivered, is_behind: bool, busy_processors: Option<f64>) -> Duration {
    let at_least = match is_behind {
        true => PULSE,
        false => (PULSE + PULSE_FOR_EACH * delivered.woken).min(PULSE_MAX),
    };
    match busy_processors {
        Some(processors) => delivered.foreseen.div_f64(SHARE_OF_BUSY * processors).min(REST_MAX).max(at_least),
        None => at_least,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_listeners_are_woken_every_few_milliseconds_even_when_all_is_busy() {
        let delivered = Delivered { woken: 1, foreseen: foreseen_cost(true, Duration::from_micros(6), 6_000) };
        assert_eq!(rest(&delivered, false, None), Duration::from_micros(2_250));
        assert_eq!(rest(&delivered, true, None), PULSE);
        assert_eq!(rest(&delivered, false, Some(2.0)), Duration::from_micros(2_250));
    }

    #[test]
    fn a_hundred_listeners_get_a_twentieth_of_busy_processors() {
        let delivered =
            Delivered { woken: 100, foreseen: foreseen_cost(true, Duration::from_micros(60), 40_000) * 100 };
        assert_eq!(rest(&delivered, true, None), PULSE);
        let work = delivered.foreseen;
        assert_eq!(work, Duration::from_millis(13));
        assert_eq!(rest(&delivered, true, Some(2.0)), work * 10);
        assert_eq!(rest(&delivered.on_machine(3.0), true, Some(2.0)), work * 30, "a slow machine");
        let huge = Delivered { foreseen: foreseen_cost(true, Duration::ZERO, 1 << 40), ..delivered };
        assert_eq!(rest(&huge, true, Some(2.0)), REST_MAX);
    }
}
