//! Better, worse or noise, for each figure of each phase.
//!
//! All figures of a comparison are judged together: each must be so sure that with no difference at all, fewer than one
//! comparison in twenty would have any verdict but noise (Bonferroni).

use serde::{Deserialize, Serialize};

use super::figures::{Better, KINDS, Kind};
use super::statistics::{LogRatio, Sample, log_ratio};
use crate::result::RunResult;

/// Chance of any false verdict in a comparison.
const FALSE_VERDICT: f64 = 0.05;
/// Of the interval that is shown.
const CONFIDENCE: f64 = 0.95;

/// What a difference is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Verdict {
    Worse,
    Better,
    Noise,
}

impl Verdict {
    /// In one word.
    pub(crate) fn in_words(self) -> &'static str {
        match self {
            Self::Worse => "worse",
            Self::Better => "better",
            Self::Noise => "noise",
        }
    }
}

/// A figure of both sides.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Judged {
    pub(crate) phase: String,
    pub(crate) figure: String,
    pub(crate) unit: String,
    pub(crate) a: f64,
    pub(crate) b: f64,
    /// B against A, minus 1.
    pub(crate) change: f64,
    /// Interval of `change`, 95 %.
    pub(crate) low: f64,
    pub(crate) high: f64,
    pub(crate) better: Better,
    pub(crate) verdict: Verdict,
}

impl Judged {
    /// Whether functions can be behind it: bytes and failures have other reasons than where time is spent.
    pub(crate) fn is_about_time(&self) -> bool {
        !matches!(self.figure.as_str(), "memory" | "storage" | "failed operations")
    }

    /// The interval of the change, for readers: beyond ten times the number itself says nothing.
    pub(crate) fn interval_in_words(&self) -> String {
        let high = if self.high < 10.0 { format!("{:+.1} %", self.high * 100.0) } else { "over +1000 %".to_owned() };
        format!("{:+.1} to {high}", self.low * 100.0)
    }
}

/// Judges all figures that both sides have.
pub(crate) fn judge(a: &[RunResult], b: &[RunResult], seed: u64) -> Vec<Judged> {
    let mut found: Vec<(String, Kind, Vec<Sample>, Vec<Sample>)> = Vec::new();
    let others = others(a).max(others(b));
    let first_runs_phases = a.first().map(|run| &run.phases[..]).unwrap_or_default();
    for phase in first_runs_phases.iter().filter(|phase| !phase.preparation) {
        for kind in KINDS {
            if let (Some(a), Some(b)) = (kind.samples(a, &phase.name), kind.samples(b, &phase.name)) {
                found.push((phase.name.clone(), Kind { run_noise: kind.noise_beside(others), ..*kind }, a, b));
            }
        }
    }
    if let (Some(samples_a), Some(samples_b)) = (instructions(a), instructions(b)) {
        let kind = Kind::instructions(first_runs_phases.iter().any(|phase| phase.clients != 1));
        found.push(("all phases".to_owned(), kind, samples_a, samples_b));
    }
    let level = 1.0 - FALSE_VERDICT / found.len().max(1) as f64;
    found.iter().filter_map(|(phase, kind, a, b)| judge_one(phase, kind, a, b, level, seed)).collect()
}

/// The largest part of the machine that other work took during a phase of the runs.
pub(crate) fn others(runs: &[RunResult]) -> f64 {
    let measured = runs.iter().flat_map(|run| &run.phases).filter(|phase| !phase.preparation);
    measured.map(|phase| phase.overhead.others_share_of_machine).fold(0.0, f64::max)
}

fn instructions(runs: &[RunResult]) -> Option<Vec<Sample>> {
    let of = |run: &RunResult| {
        let count = run.instructions.as_ref()?;
        Some(Sample { value: count.instructions as f64 / count.operations.max(1) as f64, series: Vec::new() })
    };
    runs.iter().map(of).collect()
}

fn judge_one(phase: &str, kind: &Kind, a: &[Sample], b: &[Sample], level: f64, seed: u64) -> Option<Judged> {
    let ratio = log_ratio(a, b, kind.offset, kind.run_noise, seed)?;
    let (low, high) = ratio.interval(CONFIDENCE);
    let mean = |samples: &[Sample]| samples.iter().map(|sample| sample.value).sum::<f64>() / samples.len() as f64;
    Some(Judged {
        phase: phase.to_owned(),
        figure: kind.name.to_owned(),
        unit: kind.unit.to_owned(),
        a: mean(a),
        b: mean(b),
        change: ratio.centre.exp_m1(),
        low: low.exp_m1(),
        high: high.exp_m1(),
        better: kind.better,
        verdict: verdict(kind, &ratio, level),
    })
}

fn verdict(kind: &Kind, ratio: &LogRatio, level: f64) -> Verdict {
    let (low, high) = ratio.interval(level);
    let is_sure = low > 0.0 || high < 0.0;
    if !is_sure || ratio.centre.abs() < kind.relevant.ln_1p() {
        return Verdict::Noise;
    }
    match (kind.better, ratio.centre > 0.0) {
        (Better::Higher, true) | (Better::Lower, false) => Verdict::Better,
        _ => Verdict::Worse,
    }
}
