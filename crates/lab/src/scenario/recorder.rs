//! What the clients of a lane write down: latencies, the series of 0.1 s, errors. One lock a lane, taken by one thread, so
//! never waited for; records of lanes are merged when a phase has ended.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::stolen_time::{SEEN_AFTER, StolenTime};
use crate::error::LabError;
use crate::latency::Latencies;
use crate::throughput::{CommandSpan, Gap};

/// Answers later than this after the intended start are no goodput.
const GOODPUT_BOUND: Duration = Duration::from_secs(1);
/// Commands of several documents that are remembered one by one.
const SPANS_MAX: usize = 200_000;

/// Counts of a running phase that everybody sees.
#[derive(Debug, Default)]
pub(crate) struct Live {
    pub(crate) operations: AtomicU64,
    pub(crate) documents: AtomicU64,
    pub(crate) errors: AtomicU64,
    /// Nanoseconds from the start of the series to the last success.
    last_success: AtomicU64,
    pub(crate) stolen: Arc<StolenTime>,
}

/// One 0.1 s.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Tenth {
    pub(crate) operations: u64,
    pub(crate) documents: u64,
    pub(crate) errors: u64,
    pub(crate) latency_maximum: u64,
}

/// One kind of operation.
#[derive(Debug, Clone)]
pub(crate) struct StepRecord {
    pub(crate) operations: u64,
    pub(crate) documents: u64,
    pub(crate) errors: u64,
    /// From the intended start.
    pub(crate) latencies: Latencies,
    /// From when it was sent.
    pub(crate) service: Latencies,
}

/// The record of a lane, or of all.
#[derive(Debug, Clone)]
pub(crate) struct Record {
    /// Start of the series: the end of the warm-up.
    start: Instant,
    /// Time from there to the end of the phase, when it is set.
    end: Option<Duration>,
    pub(crate) tenths: Vec<Tenth>,
    /// Latencies of each second.
    pub(crate) seconds: Vec<Latencies>,
    pub(crate) steps: Vec<StepRecord>,
    pub(crate) errors: BTreeMap<String, u64>,
    /// Labels that all failures of a name carried.
    pub(crate) error_labels: BTreeMap<String, BTreeSet<String>>,
    pub(crate) last_error: Option<String>,
    pub(crate) spans: Vec<CommandSpan>,
    /// Whether `spans` has all commands.
    pub(crate) spans_complete: bool,
    pub(crate) start_delays: Latencies,
    /// From the intended start with what is left out elsewhere, if anything is.
    pub(crate) with_own_waits: Latencies,
    /// From the intended start, of what the host of a virtual machine took no processor away from.
    pub(crate) undisturbed: Latencies,
    /// As `seconds`, of those.
    pub(crate) undisturbed_seconds: Vec<Latencies>,
    /// Intended start and end of what may belong there: what the host took is seen a little later.
    ended_lately: VecDeque<(Instant, Instant)>,
    pub(crate) good: u64,
    /// Answered within the same bound of being sent.
    pub(crate) answered_in_time: u64,
    pub(crate) unstarted: u64,
    pub(crate) unanswered: u64,
    pub(crate) longest_gap: Gap,
}

/// An operation that has ended.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ended {
    /// Which step of the phase.
    pub(crate) step: usize,
    pub(crate) intended: Instant,
    pub(crate) sent: Instant,
    pub(crate) ended: Instant,
    /// What the other times leave out of the load generator's own waits for a processor; none when nothing is to be left out.
    pub(crate) left_out: Option<Duration>,
}

impl Live {
    /// Notes a success and gives the moment of the one before it.
    fn success(&self, documents: u64, at: Duration) -> Duration {
        self.operations.fetch_add(1, Ordering::Relaxed);
        self.documents.fetch_add(documents, Ordering::Relaxed);
        let at = u64::try_from(at.as_nanos()).unwrap_or(u64::MAX);
        Duration::from_nanos(self.last_success.fetch_max(at, Ordering::Relaxed))
    }

    /// Time from the start of the series to the last success.
    pub(crate) fn last_success(&self) -> Duration {
        Duration::from_nanos(self.last_success.load(Ordering::Relaxed))
    }
}

impl Record {
    /// Of a phase whose series begins at `start`, and which ends at `end` when that is set.
    pub(crate) fn new(start: Instant, end: Option<Instant>, steps: usize) -> Self {
        let step = StepRecord {
            operations: 0,
            documents: 0,
            errors: 0,
            latencies: Latencies::new(),
            service: Latencies::new(),
        };
        Self {
            start,
            end: end.map(|end| end.saturating_duration_since(start)),
            tenths: Vec::new(),
            seconds: Vec::new(),
            steps: vec![step; steps],
            errors: BTreeMap::new(),
            error_labels: BTreeMap::new(),
            last_error: None,
            spans: Vec::new(),
            spans_complete: true,
            start_delays: Latencies::new(),
            with_own_waits: Latencies::new(),
            undisturbed: Latencies::new(),
            undisturbed_seconds: Vec::new(),
            ended_lately: VecDeque::new(),
            good: 0,
            answered_in_time: 0,
            unstarted: 0,
            unanswered: 0,
            longest_gap: Gap::default(),
        }
    }

    /// Notes an operation that succeeded. One that ended in the warm-up is not noted.
    pub(crate) fn success(&mut self, operation: Ended, documents: u64, live: &Live) {
        let Some(at) = operation.ended.checked_duration_since(self.start) else { return };
        let latency = operation.ended.saturating_duration_since(operation.intended);
        let gap_start = live.success(documents, at);
        // What is answered after the end of the phase closes no gap beyond it.
        let gap = self.end.map_or(at, |end| at.min(end)).saturating_sub(gap_start);
        if gap.as_secs_f64() > self.longest_gap.seconds {
            self.longest_gap = Gap { start: gap_start.as_secs_f64(), seconds: gap.as_secs_f64() };
        }
        self.good += u64::from(latency <= GOODPUT_BOUND);
        if let Some(left_out) = operation.left_out {
            self.with_own_waits.record(latency + left_out);
        }
        self.ended_lately.push_back((operation.intended, operation.ended));
        self.settle_undisturbed(operation.ended.checked_sub(SEEN_AFTER), live);
        let service = operation.ended.saturating_duration_since(operation.sent);
        self.answered_in_time += u64::from(service <= GOODPUT_BOUND);
        let tenth = self.tenth(at);
        tenth.operations += 1;
        tenth.documents += documents;
        tenth.latency_maximum = tenth.latency_maximum.max(u64::try_from(latency.as_micros()).unwrap_or(u64::MAX));
        of_second(&mut self.seconds, at).record(latency);
        if let Some(step) = self.steps.get_mut(operation.step) {
            step.operations += 1;
            step.documents += documents;
            step.latencies.record(latency);
            step.service.record(service);
        }
        if documents > 1 && self.spans.len() < SPANS_MAX {
            let start = operation.sent.saturating_duration_since(self.start).as_secs_f64();
            self.spans.push(CommandSpan { start, end: at.as_secs_f64(), documents });
        } else {
            self.spans_complete = false;
        }
    }

    /// Decides of the operations that ended until then whether the host disturbed them; of all when there is no such moment.
    pub(crate) fn settle_undisturbed(&mut self, until: Option<Instant>, live: &Live) {
        while let Some((intended, ended)) = self.ended_lately.front().copied() {
            if until.is_some_and(|until| ended > until) {
                return;
            }
            self.ended_lately.pop_front();
            if !live.stolen.overlaps(intended, ended) {
                let latency = ended.saturating_duration_since(intended);
                self.undisturbed.record(latency);
                of_second(&mut self.undisturbed_seconds, ended.saturating_duration_since(self.start)).record(latency);
            }
        }
    }

    /// Notes an operation that failed.
    pub(crate) fn failure(&mut self, operation: Ended, error: &LabError, live: &Live) {
        let Some(at) = operation.ended.checked_duration_since(self.start) else { return };
        live.errors.fetch_add(1, Ordering::Relaxed);
        self.tenth(at).errors += 1;
        let name = error.short_name();
        keep_common(&mut self.error_labels, name.clone(), error.labels());
        *self.errors.entry(name).or_default() += 1;
        self.last_error = Some(error.to_string());
        if let Some(step) = self.steps.get_mut(operation.step) {
            step.errors += 1;
        }
    }

    /// Notes an operation whose time had come but that was never sent: it waited from then to the end at least.
    pub(crate) fn unstarted(&mut self, intended: Instant, end: Instant) {
        if intended < self.start {
            return;
        }
        self.unstarted += 1;
        let (at, waited) = (end.saturating_duration_since(self.start), end.saturating_duration_since(intended));
        // Whatever the host took: what is never sent is not forgiven.
        for seconds in [&mut self.seconds, &mut self.undisturbed_seconds] {
            of_second(seconds, at).record(waited);
        }
    }

    /// Adds another lane's record of the same phase.
    pub(crate) fn merge(&mut self, other: Self) {
        let length = self.tenths.len().max(other.tenths.len());
        self.tenths.resize(length, Tenth::default());
        for (mine, theirs) in self.tenths.iter_mut().zip(&other.tenths) {
            mine.operations += theirs.operations;
            mine.documents += theirs.documents;
            mine.errors += theirs.errors;
            mine.latency_maximum = mine.latency_maximum.max(theirs.latency_maximum);
        }
        merge_seconds(&mut self.seconds, &other.seconds);
        merge_seconds(&mut self.undisturbed_seconds, &other.undisturbed_seconds);
        for (mine, theirs) in self.steps.iter_mut().zip(&other.steps) {
            mine.operations += theirs.operations;
            mine.documents += theirs.documents;
            mine.errors += theirs.errors;
            mine.latencies.merge(&theirs.latencies);
            mine.service.merge(&theirs.service);
        }
        for (name, count) in other.errors {
            *self.errors.entry(name).or_default() += count;
        }
        for (name, labels) in other.error_labels {
            keep_common(&mut self.error_labels, name, labels);
        }
        self.last_error = other.last_error.or(self.last_error.take());
        self.spans.extend(other.spans);
        self.spans_complete &= other.spans_complete;
        self.start_delays.merge(&other.start_delays);
        self.with_own_waits.merge(&other.with_own_waits);
        self.undisturbed.merge(&other.undisturbed);
        self.good += other.good;
        self.answered_in_time += other.answered_in_time;
        self.unstarted += other.unstarted;
        self.unanswered += other.unanswered;
        if other.longest_gap.seconds > self.longest_gap.seconds {
            self.longest_gap = other.longest_gap;
        }
    }

    fn tenth(&mut self, at: Duration) -> &mut Tenth {
        let position = (at.as_millis() / 100) as usize;
        if self.tenths.len() <= position {
            self.tenths.resize(position + 1, Tenth::default());
        }
        // Just made long enough.
        &mut self.tenths[position]
    }
}

fn of_second(seconds: &mut Vec<Latencies>, at: Duration) -> &mut Latencies {
    let position = at.as_secs() as usize;
    if seconds.len() <= position {
        seconds.resize_with(position + 1, Latencies::coarse);
    }
    &mut seconds[position]
}

fn merge_seconds(mine: &mut Vec<Latencies>, theirs: &[Latencies]) {
    mine.resize_with(mine.len().max(theirs.len()), Latencies::coarse);
    for (mine, theirs) in mine.iter_mut().zip(theirs) {
        mine.merge(theirs);
    }
}

/// Leaves the labels that this failure and all of its name before it carried.
fn keep_common(labels: &mut BTreeMap<String, BTreeSet<String>>, name: String, of_this: BTreeSet<String>) {
    match labels.get_mut(&name) {
        Some(common) => common.retain(|label| of_this.contains(label)),
        None => drop(labels.insert(name, of_this)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_host_took_disturbs_what_was_under_way() {
        let start = Instant::now();
        let at = |milliseconds| start + Duration::from_millis(milliseconds);
        let (mut record, live) = (Record::new(start, None, 1), Live::default());
        live.stolen.note(at(1_040), at(1_060));
        for (sent, ended) in [(900, 950), (1_000, 1_041), (1_070, 1_080), (2_000, 2_010)] {
            record.success(
                Ended { step: 0, intended: at(sent), sent: at(sent), ended: at(ended), left_out: None },
                1,
                &live,
            );
        }
        assert_eq!(record.undisturbed.summary().count, 2, "the last is not settled");
        record.settle_undisturbed(None, &live);
        let seconds: Vec<u64> = record.undisturbed_seconds.iter().map(|second| second.summary().count).collect();
        assert_eq!((record.undisturbed.summary().count, seconds), (3, vec![1, 1, 1]));
        record.unstarted(at(2_500), at(2_600));
        assert_eq!(record.undisturbed_seconds[2].summary().count, 2);
    }

    #[test]
    fn an_answer_after_the_end_closes_a_gap_at_the_end() {
        let start = Instant::now();
        let ended = |seconds: f64| Ended {
            step: 0,
            intended: start,
            sent: start,
            ended: start + Duration::from_secs_f64(seconds),
            left_out: None,
        };
        for (end, answers, expected) in
            [(Some(2), [0.1, 3.0], 1.9), (None, [0.1, 3.0], 2.9), (Some(2), [1.5, 3.0], 1.5)]
        {
            let mut record = Record::new(start, end.map(|end| start + Duration::from_secs(end)), 1);
            let live = Live::default();
            answers.into_iter().for_each(|at| record.success(ended(at), 1, &live));
            assert!((record.longest_gap.seconds - expected).abs() < 1e-6, "{:?}", record.longest_gap);
        }
    }
}
