//! A model of a machine with few or many processors: do long work and short operations get what they are promised?
//!
//! Time is simulated; each thread has its own. Whoever comes gets the processor that is free first and keeps it to the end of
//! its stretch. No kernel interrupts anybody for who wakes up, so it is worse than a real machine.

use std::sync::Arc;
use std::time::Duration;

use super::*;
use crate::{LongWork, Random, SeededRandom, SimulatedClock, WorkClass};

/// What a short operation computes.
const SHORT: Duration = Duration::from_micros(100);
/// What long work computes between two steps.
const PIECE: Duration = Duration::from_micros(25);
const RUN: Duration = Duration::from_millis(100);

struct Machine {
    /// When each processor is free.
    free_at: Vec<Duration>,
}

impl Machine {
    /// Computes for so long from `now` on, or as soon as a processor is free; when it began.
    fn compute(&mut self, now: Duration, length: Duration) -> Duration {
        let first = self.free_at.iter_mut().min().expect("there are processors");
        let began = now.max(*first);
        *first = began + length;
        began
    }
}

struct Worker {
    clock: SimulatedClock,
    budget: WorkBudget,
    computed: Duration,
}

impl Worker {
    /// Computes a stretch.
    fn turn(&mut self, machine: &mut Machine) {
        let now = self.clock.monotonic();
        let began = machine.compute(now, STRETCH);
        self.clock.advance(began - now);
        for _ in 0..STRETCH.as_micros() / PIECE.as_micros() {
            self.clock.advance(PIECE);
            self.computed += PIECE;
            self.budget.step(&self.clock, || Duration::ZERO);
        }
    }
}

struct Outcome {
    /// Of all processors, by long work together.
    long_share: f64,
    /// Of each long work.
    computed: Vec<Duration>,
    /// How long short operations waited for a processor, in order.
    waits: Vec<Duration>,
}

/// So many long works beside short operations that take such a part of the machine.
fn run(processors: usize, works: usize, short_load: f64) -> Outcome {
    let foreground = Arc::new(Foreground::new(processors));
    let random = SeededRandom::new(7);
    let mut machine = Machine { free_at: vec![Duration::ZERO; processors] };
    // Each thread counts itself once; these are all of the test's.
    let _counted: Vec<LongWork> = (0..works).map(|_| counted(&foreground)).collect();
    let mut workers: Vec<Worker> = (0..works)
        .map(|_| Worker {
            clock: SimulatedClock::new(0),
            budget: WorkBudget::new(foreground.clone()),
            computed: Duration::ZERO,
        })
        .collect();
    let between = SHORT.div_f64(short_load.max(1e-9) * processors as f64);
    let mut comes = between;
    let mut waits = Vec::new();
    loop {
        let next = workers.iter_mut().min_by_key(|worker| worker.clock.monotonic());
        match next {
            Some(worker) if worker.clock.monotonic() < comes.min(RUN) => worker.turn(&mut machine),
            _ if comes < RUN => {
                let wait = machine.compute(comes, SHORT) - comes;
                // All works begin at the same moment.
                waits.extend((comes > LATELY).then_some(wait));
                foreground.note_finished();
                let spread = f64::from(random.next_u64() as u32) / f64::from(u32::MAX);
                comes += between.mul_f64(2.0 * spread);
            }
            _ => break,
        }
    }
    waits.sort_unstable();
    let computed: Vec<Duration> = workers.iter().map(|worker| worker.computed).collect();
    let together: Duration = computed.iter().sum();
    Outcome { long_share: together.div_duration_f64(RUN) / processors as f64, computed, waits }
}

/// Counts as the work of another thread.
fn counted(foreground: &Arc<Foreground>) -> LongWork {
    let work = LongWork::begin(foreground);
    WorkClass::Background.set_for_thread();
    work
}

#[test]
fn beside_short_operations_long_work_has_its_share_and_not_more() {
    for processors in [2, 8, 64] {
        for works in [1, processors, 8 * processors] {
            let outcome = run(processors, works, 0.3);
            let promised = 0.25_f64.min(works as f64 / processors as f64);
            let share = outcome.long_share;
            // Less where they queue for processors: a stretch is counted by the clock.
            assert!((promised * 0.7..=promised * 1.05).contains(&share), "{processors}, {works}: {share}");
            let (least, most) = (outcome.computed.iter().min().unwrap(), outcome.computed.iter().max().unwrap());
            assert!(*most <= *least * 2 + STRETCH * 2, "{processors}, {works}: {least:?} to {most:?}");
            // Among a hundred one may find all processors taken by others like it and by long work.
            let late = outcome.waits[outcome.waits.len() * 99 / 100];
            assert!(late <= STRETCH + SHORT, "{processors}, {works}: {late:?}");
        }
    }
}

#[test]
fn alone_long_work_has_the_whole_machine() {
    for processors in [2, 8, 64] {
        let outcome = run(processors, processors, 0.0);
        assert!(outcome.long_share > 0.99, "{processors}: {}", outcome.long_share);
    }
}
