//! Clients at a low rate beside something large, and what they feel of it. For the tests whose bound is "p99 <= 1.5 x".

use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use super::judgement::{Bound, Judgement};
use super::rig::{FOREGROUND, Rig, only_phase};
use crate::error::LabError;
use crate::latency::Latencies;
use crate::result::PhaseResult;
use crate::scenario::give_way;

/// Of the sustainable rate.
pub(super) const LOAD: f64 = 0.2;

/// The same for a set of members, which share the machine.
pub(super) const SET_LOAD: f64 = 0.5;

/// What went on beside the clients.
pub(super) struct Storm<T> {
    pub(super) outcome: T,
    /// How long it took.
    pub(super) seconds: f64,
    /// The clients, phase after phase until it was over; at least one.
    pub(super) beside: Vec<PhaseResult>,
}

/// Clients at a rate that the server takes easily.
pub(super) async fn foreground(rig: &mut Rig, rate: f64) -> Result<PhaseResult, LabError> {
    let changes =
        [("documents", rig.documents.to_string()), ("rate", rate.to_string()), ("seconds", rig.seconds.to_string())];
    only_phase(rig.run_watched(FOREGROUND, &changes).await?)
}

/// The same with nothing beside them. What comes before is an overload: how long the server has to do with what that left is not looked at, or the storm
/// would be compared with the calm after another.
pub(super) async fn alone(rig: &mut Rig, rate: f64) -> Result<PhaseResult, LabError> {
    foreground(rig, rate).await?;
    foreground(rig, rate).await
}

/// Runs the clients for as long as `work` takes, at most for `patience`; what is not over by then is given up. The client whose work it is stands for
/// another machine, so those who are measured do not wait for its processor.
pub(super) async fn beside<T: Send + 'static>(
    rig: &mut Rig,
    rate: f64,
    patience: Duration,
    work: impl Future<Output = T> + Send + 'static,
) -> Result<Option<Storm<T>>, LabError> {
    let started = Instant::now();
    let (done, mut working) = oneshot::channel();
    // Ends the work when it is dropped.
    let (_abandon, abandoned) = oneshot::channel::<()>();
    let worker = std::thread::Builder::new().name("storm".to_owned()).spawn(move || {
        give_way();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let outcome = runtime.map(|runtime| {
            runtime.block_on(async {
                tokio::select! {
                    outcome = work => Some(outcome),
                    _ = abandoned => None,
                }
            })
        });
        // The receiver is gone when it was given up.
        let _ = done.send((outcome, started.elapsed().as_secs_f64()));
    });
    worker.map_err(|error| LabError::Worker(format!("cannot start a thread: {error}")))?;
    let mut beside = Vec::new();
    loop {
        beside.push(foreground(rig, rate).await?);
        match working.try_recv() {
            Ok((outcome, seconds)) => {
                let outcome = outcome.map_err(|error| LabError::Worker(format!("cannot start a runtime: {error}")))?;
                return Ok(outcome.map(|outcome| Storm { outcome, seconds, beside }));
            }
            Err(oneshot::error::TryRecvError::Closed) => return Err(LabError::Worker("it panicked".to_owned())),
            Err(oneshot::error::TryRecvError::Empty) if started.elapsed() > patience => return Ok(None),
            Err(oneshot::error::TryRecvError::Empty) => {}
        }
    }
}

/// Says what others feel of a storm: their p99 while it lasts, against that of the same clients without it. The worst seconds are shown and not judged: of
/// two phases without any storm they differ by a factor of two and more, and the longer phase has the worse one.
pub(super) fn judge_others<T>(judgement: &mut Judgement, during: &str, alone: &PhaseResult, storm: &Storm<T>) {
    let usual = p99([(alone, f64::INFINITY)]);
    let (p99, worst) = (p99(storm.seconds_of_phases()), worst_second(storm.seconds_of_phases()));
    judgement
        .figure(&format!("others' p99 {during} / without"), p99 / usual.max(1.0), "x", Bound::AtMost(1.5))
        .figure(&format!("others' p99 {during}"), p99 / 1e3, "ms", Bound::Shown)
        .figure(&format!("others' p99 in the worst second {during}"), worst / 1e3, "ms", Bound::Shown)
        .figure("others' p99 without", usual / 1e3, "ms", Bound::Shown)
        .figure(
            "others' p99 in the worst second without",
            worst_second([(alone, f64::INFINITY)]) / 1e3,
            "ms",
            Bound::Shown,
        )
        .leaves_out_stolen_time(std::iter::once(alone).chain(&storm.beside));
}

/// Says what clients feel of something that goes on for phases, against a phase without it.
pub(super) fn judge_ratio(
    judgement: &mut Judgement,
    during: &str,
    alone: &PhaseResult,
    phases: &[PhaseResult],
    bound: f64,
) {
    let usual = p99([(alone, f64::INFINITY)]);
    let p99 = p99(phases.iter().map(|phase| (phase, f64::INFINITY)));
    judgement
        .figure(&format!("clients' p99 {during} / without"), p99 / usual.max(1.0), "x", Bound::AtMost(bound))
        .figure(&format!("clients' p99 {during}"), p99 / 1e3, "ms", Bound::Shown)
        .figure("clients' p99 without", usual / 1e3, "ms", Bound::Shown)
        .leaves_out_stolen_time(std::iter::once(alone).chain(phases));
}

/// How many seconds after a storm others are as before: from that second on the p99 of all that they did in the next `window` seconds is at most `times`
/// that without the storm. Infinite while there is no such second among those of the storm's phases and of those `after` it.
pub(super) fn back_after<T>(
    alone: &PhaseResult,
    storm: &Storm<T>,
    after: &[PhaseResult],
    window: f64,
    times: f64,
) -> f64 {
    let as_before = p99([(alone, f64::INFINITY)]) * times;
    let (mut begin, mut seconds) = (-storm.seconds, Vec::new());
    for phase in storm.beside.iter().chain(after) {
        let of_phase = seconds_until(measured(phase), f64::INFINITY);
        seconds.extend(of_phase.map(|(second, measured)| (begin + second as f64, measured)));
        begin += phase.duration_seconds;
    }
    let last = seconds.last().map_or(0.0, |(last, ..)| *last);
    let begins = seconds.iter().map(|(from, ..)| *from).filter(|from| *from >= 0.0 && from + window <= last + 1.0);
    let mut back = begins.filter(|from| {
        let in_window = seconds.iter().filter(|(second, _)| (*from..from + window).contains(second));
        p99_of(in_window.map(|(_, measured)| *measured)) <= as_before
    });
    back.next().unwrap_or(f64::INFINITY)
}

impl<T> Storm<T> {
    /// The phases of the clients, each with the time from its begin to the end of the storm. Part of a second of a later phase says nothing by itself.
    fn seconds_of_phases(&self) -> impl Iterator<Item = (&PhaseResult, f64)> {
        let mut left = self.seconds;
        self.beside.iter().enumerate().filter_map(move |(number, phase)| {
            let until = left;
            left = (left - phase.duration_seconds).max(0.0);
            (number == 0 || until > 2.0).then_some((phase, until))
        })
    }
}

/// Of all operations in phases up to a time in each, in microseconds; without those that the host of a virtual machine disturbed, where they are the fewer.
fn p99<'a>(phases: impl IntoIterator<Item = (&'a PhaseResult, f64)>) -> f64 {
    let seconds = phases.into_iter().flat_map(|(phase, until)| seconds_until(measured(phase), until));
    p99_of(seconds.map(|(_, measured)| measured))
}

/// Whole seconds of a phase up to `until`, by number. The first, in which the clients begin, is left out, and the second one is there in any case.
fn seconds_until<S>(of_phase: impl Iterator<Item = S>, until: f64) -> impl Iterator<Item = (usize, S)> {
    of_phase.enumerate().skip(1).take_while(move |(second, _)| (*second as f64) < until.max(2.0))
}

/// The operations of a second, and those of them that the host did not disturb.
type Measured<'a> = (&'a Latencies, Option<&'a Latencies>);

/// A phase, second by second.
fn measured(phase: &PhaseResult) -> impl Iterator<Item = Measured<'_>> {
    let undisturbed = &phase.second_latencies.undisturbed;
    phase.second_latencies.histograms.iter().enumerate().map(|(second, all)| (all, undisturbed.get(second)))
}

fn p99_of<'a>(seconds: impl Iterator<Item = Measured<'a>>) -> f64 {
    let (mut all, mut undisturbed) = (Latencies::coarse(), Latencies::coarse());
    for (of_second, undisturbed_of_second) in seconds {
        all.merge(of_second);
        undisturbed_of_second.into_iter().for_each(|of_second| undisturbed.merge(of_second));
    }
    let (all, undisturbed) = (all.summary(), undisturbed.summary());
    let summary = undisturbed.most_of(&all);
    // Nothing answered proves nothing.
    if summary.count == 0 { f64::INFINITY } else { summary.p99 }
}

/// The highest p99 of a second, in microseconds.
fn worst_second<'a>(phases: impl IntoIterator<Item = (&'a PhaseResult, f64)>) -> f64 {
    let seconds = phases.into_iter().flat_map(|(phase, until)| seconds_until(phase.second_latencies.p99.iter(), until));
    seconds.fold(0.0, |worst, (_, p99)| worst.max(*p99))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A phase with so many operations of so many microseconds in each second.
    fn phase(seconds: &[&[(u64, u64)]]) -> PhaseResult {
        let mut phase = PhaseResult { duration_seconds: seconds.len() as f64, ..PhaseResult::default() };
        for operations in seconds {
            let mut latencies = Latencies::coarse();
            for (count, microseconds) in *operations {
                (0..*count).for_each(|_| latencies.record(Duration::from_micros(*microseconds)));
            }
            phase.second_latencies.p99.push(latencies.summary().p99);
            phase.second_latencies.histograms.push(latencies);
        }
        phase
    }

    fn ratio(storm: &Storm<()>, alone: &PhaseResult) -> f64 {
        let mut judgement = Judgement::of("G16");
        judge_others(&mut judgement, "beside it", alone, storm);
        judgement.figures[0].value
    }

    #[test]
    fn what_clients_feel_is_that_of_the_time_of_the_storm() {
        let calm: &[(u64, u64)] = &[(1000, 1000)];
        let stormy: &[(u64, u64)] = &[(900, 1000), (100, 4000)];
        let alone = phase(&[stormy, calm, calm, calm]);
        // Over after two seconds: the rest of the phase does not dilute it.
        let short = Storm { outcome: (), seconds: 2.0, beside: vec![phase(&[calm, stormy, calm, calm, calm, calm])] };
        assert!((ratio(&short, &alone) - 4.0).abs() < 0.1);
        let over = Storm { outcome: (), seconds: 2.0, beside: vec![phase(&[calm, calm, stormy, stormy])] };
        assert!((ratio(&over, &alone) - 1.0).abs() < 0.1);
        // One that goes on into a second phase.
        let long =
            Storm { outcome: (), seconds: 6.5, beside: vec![phase(&[calm; 4]), phase(&[calm, stormy, stormy, calm])] };
        assert!((ratio(&long, &alone) - 4.0).abs() < 0.1);
        let silent = Storm { outcome: (), seconds: 2.0, beside: vec![phase(&[])] };
        assert!(ratio(&silent, &alone).is_infinite());
    }

    #[test]
    fn others_are_back_from_the_second_on_from_which_a_while_is_as_before() {
        let calm: &[(u64, u64)] = &[(1000, 1000)];
        let stormy: &[(u64, u64)] = &[(900, 1000), (100, 4000)];
        let alone = phase(&[calm; 6]);
        let back = |storm: &Storm<()>, after: &[PhaseResult]| back_after(&alone, storm, after, 3.0, 1.25);
        // Over before the phase is: what it leaves lasts two seconds more.
        let left = phase(&[calm, stormy, stormy, stormy, calm, calm, calm, calm]);
        let storm = Storm { outcome: (), seconds: 2.0, beside: vec![left] };
        assert_eq!(back(&storm, &[]), 2.0);
        // Too little is known until another phase shows that it stays so.
        let storm =
            Storm { outcome: (), seconds: 4.0, beside: vec![phase(&[calm, stormy, stormy, stormy, stormy, calm])] };
        assert!(back(&storm, &[]).is_infinite());
        assert_eq!(back(&storm, &[phase(&[stormy, calm, calm, calm, stormy])]), 1.0);
        assert!(back(&storm, &[phase(&[calm, stormy, calm, stormy, calm])]).is_infinite());
    }
}
