//! An operation repeated beside a run, with its latencies: health commands, definitions, checkpoints, diagnostics.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::error::LabError;
use crate::latency::{Latencies, LatencySummary};

/// A running probe.
pub(super) struct Probe {
    stop: watch::Sender<bool>,
    task: JoinHandle<ProbeRecord>,
}

/// What a probe has seen.
#[derive(Debug, Clone, Default)]
pub(super) struct ProbeRecord {
    /// Of the operations that succeeded.
    pub(super) latency: LatencySummary,
    /// Of those that failed, by code.
    pub(super) failures: BTreeMap<String, u64>,
    /// Of the last that failed.
    pub(super) last_failure: Option<String>,
}

impl Probe {
    /// Repeats `operation`, which is told its number, with a pause after each.
    pub(super) fn start<O, F>(pause: Duration, mut operation: O) -> Self
    where
        O: FnMut(u64) -> F + Send + 'static,
        F: Future<Output = Result<(), LabError>> + Send,
    {
        let (stop, stopped) = watch::channel(false);
        let task = tokio::spawn(async move {
            let mut latencies = Latencies::new();
            let mut record = ProbeRecord::default();
            let mut number = 0;
            while !*stopped.borrow() {
                let sent = Instant::now();
                match operation(number).await {
                    Ok(()) => latencies.record(sent.elapsed()),
                    Err(error) => {
                        *record.failures.entry(error.short_name()).or_default() += 1;
                        record.last_failure = Some(error.to_string());
                    }
                }
                number += 1;
                tokio::time::sleep(pause).await;
            }
            record.latency = latencies.summary();
            record
        });
        Self { stop, task }
    }

    /// Ends it after the operation it is at.
    pub(super) async fn finish(self) -> Result<ProbeRecord, LabError> {
        self.stop.send_replace(true);
        self.task.await.map_err(|error| LabError::Worker(error.to_string()))
    }
}

impl ProbeRecord {
    pub(super) fn failed(&self) -> u64 {
        self.failures.values().sum()
    }
}
