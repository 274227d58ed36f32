//! Documents per second of a phase, from what is known of it: the server's own counter sampled several times a second where
//! it moves while a command runs, otherwise each command's documents spread evenly over the command's time.
//!
//! An `updateMany` of 10,000 documents can take seconds and is acknowledged once, so acknowledgements alone would draw
//! spikes. MongoDB's `metrics.document.updated` itself moves only when a command ends, which [`choose_source`] notices;
//! its count of storage transactions moves with every document.

use serde::{Deserialize, Serialize};

/// One command: when it was sent and acknowledged, in seconds since the phase began, and how many documents it changed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct CommandSpan {
    pub(crate) start: f64,
    pub(crate) end: f64,
    pub(crate) documents: u64,
}

/// A value of a counter of the server, at a time in seconds since the phase began.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct CounterSample {
    pub(crate) at: f64,
    pub(crate) value: u64,
}

/// Where a per-second series comes from.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ThroughputSource {
    /// `serverStatus` `metrics.document`, sampled.
    ServerDocumentCounter,
    /// `serverStatus` `wiredTiger.transaction["transactions committed"]`, sampled and scaled to the documents changed.
    ServerTransactionCounter,
    /// Acknowledged commands, each spread evenly over its own time.
    SpreadOverCommands,
    /// Acknowledged operations of one document each, counted as they came.
    #[default]
    Acknowledgements,
}

impl ThroughputSource {
    /// In words, for the reader of a report or chart.
    pub(crate) fn explanation(self) -> &'static str {
        match self {
            Self::ServerDocumentCounter => "the server's own metrics.document counter, sampled 4 times a second",
            Self::ServerTransactionCounter => {
                "the server's count of storage transactions, sampled 4 times a second, scaled to the documents"
            }
            Self::SpreadOverCommands => "each acknowledged command's documents, spread evenly over the command's time",
            Self::Acknowledgements => "acknowledged operations, counted as their replies came",
        }
    }
}

/// One bar of the series. The last one of a phase is shorter or longer than a second.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Second {
    /// Start, in seconds since the phase began.
    pub second: u32,
    /// 1, but for the last.
    pub length_seconds: f64,
    /// Documents or operations in it.
    pub count: f64,
    /// For a whole second.
    pub per_second: f64,
}

/// A time in which nothing was seen to move.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Gap {
    /// Start, in seconds since the phase began.
    pub start: f64,
    /// How long.
    pub seconds: f64,
}

/// A remainder shorter than this joins the second before it: its rate would be noise.
const REMAINDER_SECONDS_MIN: f64 = 0.25;

/// Spreads each command's documents evenly over its time.
pub(crate) fn spread_over_commands(spans: &[CommandSpan], duration: f64) -> Vec<Second> {
    let mut bins = vec![0.0; bin_count(duration)];
    for span in spans {
        add_evenly(&mut bins, span.start, span.end, span.documents as f64);
    }
    with_rates(&bins, duration)
}

/// Interpolates a counter between its samples; `documents` is what its whole rise stands for.
pub(crate) fn from_counter(samples: &[CounterSample], documents: u64, duration: f64) -> Vec<Second> {
    let mut bins = vec![0.0; bin_count(duration)];
    let scale = documents as f64 / (rise(samples).max(1) as f64);
    for (before, after) in samples.iter().zip(samples.iter().skip(1)) {
        let documents = after.value.saturating_sub(before.value) as f64 * scale;
        add_evenly(&mut bins, before.at.min(duration), after.at.min(duration), documents);
    }
    with_rates(&bins, duration)
}

/// From the counts of each 0.1 s.
pub(crate) fn from_tenths(tenths: &[u64], duration: f64) -> Vec<Second> {
    let mut bins = vec![0.0; bin_count(duration)];
    let last = bins.len().saturating_sub(1);
    for (position, &count) in tenths.iter().enumerate() {
        if let Some(bin) = bins.get_mut((position / 10).min(last)) {
            *bin += count as f64;
        }
    }
    with_rates(&bins, duration)
}

/// Whether a counter shows progress inside commands: at least a tenth of its rise happened between samples with no command
/// acknowledged from shortly before the one to the other, and its whole rise is at least the documents changed.
pub(crate) fn moves_within_commands(samples: &[CounterSample], spans: &[CommandSpan], documents: u64) -> bool {
    /// A server counts a command before its client hears of it.
    const ACKNOWLEDGEMENT_DELAY_SECONDS: f64 = 0.02;
    let total = rise(samples);
    if documents == 0 || total < documents / 10 * 9 {
        return false;
    }
    let mut within = 0;
    for (before, after) in samples.iter().zip(samples.iter().skip(1)) {
        let window = before.at..after.at + ACKNOWLEDGEMENT_DELAY_SECONDS;
        if !spans.iter().any(|span| window.contains(&span.end)) {
            within += after.value.saturating_sub(before.value);
        }
    }
    within >= total / 10
}

/// The best source there is: the document counter, else the transaction counter, else the commands.
pub(crate) fn choose_source(
    documents_counter: &[CounterSample],
    transactions_counter: &[CounterSample],
    spans: &[CommandSpan],
    documents: u64,
) -> ThroughputSource {
    if moves_within_commands(documents_counter, spans, documents) {
        ThroughputSource::ServerDocumentCounter
    } else if moves_within_commands(transactions_counter, spans, documents) {
        ThroughputSource::ServerTransactionCounter
    } else {
        ThroughputSource::SpreadOverCommands
    }
}

/// The longest time between two samples that saw the counter rise. No finer than the time between samples.
pub(crate) fn longest_gap_of_counter(samples: &[CounterSample], duration: f64) -> Gap {
    let rises = samples.iter().zip(samples.iter().skip(1)).filter(|(before, after)| after.value > before.value);
    longest_gap(rises.map(|(_, after)| after.at), duration)
}

/// Between the moments, from the start to the end of the phase: a server that hung until the run was given up counts.
fn longest_gap(moments: impl Iterator<Item = f64>, duration: f64) -> Gap {
    let (mut longest, mut previous) = (Gap::default(), 0.0);
    for moment in moments.chain([duration]) {
        if moment - previous > longest.seconds {
            longest = Gap { start: previous, seconds: moment - previous };
        }
        previous = moment;
    }
    longest
}

fn rise(samples: &[CounterSample]) -> u64 {
    match (samples.first(), samples.last()) {
        (Some(first), Some(last)) => last.value.saturating_sub(first.value),
        _ => 0,
    }
}

fn bin_count(duration: f64) -> usize {
    let whole = duration.floor();
    let bins = if duration - whole >= REMAINDER_SECONDS_MIN { whole + 1.0 } else { whole };
    (bins as usize).max(1)
}

/// Adds an amount to the bins that a span of time covers, by overlap; what lies past the last bin goes into it.
fn add_evenly(bins: &mut [f64], start: f64, end: f64, amount: f64) {
    let last = bins.len().saturating_sub(1);
    let bin_of = |moment: f64| (moment.max(0.0) as usize).min(last);
    if end - start < 1e-9 {
        if let Some(bin) = bins.get_mut(bin_of(end)) {
            *bin += amount;
        }
        return;
    }
    let (first, until) = (bin_of(start), bin_of(end));
    for (position, bin) in bins.iter_mut().enumerate().take(until + 1).skip(first) {
        let bin_start = if position == first { start } else { position as f64 };
        let bin_end = if position == until { end } else { (position + 1) as f64 };
        *bin += amount * (bin_end - bin_start).max(0.0) / (end - start);
    }
}

fn with_rates(bins: &[f64], duration: f64) -> Vec<Second> {
    let last = bins.len().saturating_sub(1);
    bins.iter()
        .enumerate()
        .map(|(position, &documents)| {
            let length_seconds = if position == last { (duration - position as f64).max(1e-3) } else { 1.0 };
            Second {
                second: u32::try_from(position).unwrap_or(u32::MAX),
                length_seconds,
                count: documents,
                per_second: documents / length_seconds,
            }
        })
        .collect()
}

#[cfg(test)]
mod tests;
