//! Clients at a low rate beside something large, and what they feel of it. For the tests whose bound is "p99 <= 1.5 x".

use std::time::{Duration, Instant};

use tokio::task::JoinHandle;

use super::rig::{FOREGROUND, Rig, only_phase};
use crate::error::LabError;
use crate::result::PhaseResult;

/// Of the sustainable rate.
pub(super) const LOAD: f64 = 0.2;

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
    only_phase(rig.run(FOREGROUND, &changes).await?)
}

/// Runs the clients for as long as `work` takes, at most for `patience`; what is not over by then is given up.
pub(super) async fn beside<T: Send + 'static>(
    rig: &mut Rig,
    rate: f64,
    patience: Duration,
    work: impl Future<Output = T> + Send + 'static,
) -> Result<Option<Storm<T>>, LabError> {
    let started = Instant::now();
    let working: JoinHandle<(T, f64)> = tokio::spawn(async move {
        let outcome = work.await;
        (outcome, started.elapsed().as_secs_f64())
    });
    let mut beside = Vec::new();
    while beside.is_empty() || !working.is_finished() {
        if started.elapsed() > patience {
            working.abort();
            return Ok(None);
        }
        beside.push(foreground(rig, rate).await?);
    }
    let (outcome, seconds) = working.await.map_err(|error| LabError::Worker(error.to_string()))?;
    Ok(Some(Storm { outcome, seconds, beside }))
}

impl<T> Storm<T> {
    /// The p99 of the clients while it went on, in microseconds: of the worst second, since it may be over long before a
    /// phase is.
    pub(super) fn p99(&self) -> f64 {
        let mut left = self.seconds;
        let mut worst: f64 = 0.0;
        for phase in &self.beside {
            // Part of a second of a later phase says nothing by itself.
            if left > 2.0 || worst == 0.0 {
                worst = worst.max(worst_second_p99(phase, left));
            }
            left = (left - phase.duration_seconds).max(0.0);
        }
        worst
    }
}

/// The highest p99 of a second, in microseconds, of the seconds up to `until`. The first, in which the clients begin, is
/// left out, and at least the second one is looked at.
pub(super) fn worst_second_p99(phase: &PhaseResult, until: f64) -> f64 {
    let seconds = phase.second_latencies.p99.iter().enumerate().skip(1);
    let seconds: Vec<f64> =
        seconds.filter(|(second, _)| (*second as f64) < until.max(2.0)).map(|(_, p99)| *p99).collect();
    // Nothing answered proves nothing.
    if seconds.is_empty() { f64::INFINITY } else { seconds.into_iter().fold(0.0, f64::max) }
}
