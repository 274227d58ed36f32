//! The bad moments of a run: when little or nothing was acknowledged.

use crate::result::PhaseResult;

/// A moment is bad when less than this part of the usual was done in it.
const SHARE: f64 = 0.2;
/// Shorter ones are noise.
const SHORTEST_SECONDS: f64 = 0.25;

/// Start and end of each bad time, in seconds of the phase's series.
pub(crate) fn windows(phase: &PhaseResult) -> Vec<(f64, f64)> {
    let (counts, step): (Vec<f64>, f64) = if phase.throughput_unit == "documents" {
        (phase.seconds.iter().map(|second| second.per_second).collect(), 1.0)
    } else {
        (phase.tenths.operations.iter().map(|count| *count as f64).collect(), 0.1)
    };
    let limit = usual(&counts) * SHARE;
    let mut windows: Vec<(f64, f64)> = Vec::new();
    for (position, count) in counts.iter().enumerate() {
        if *count > limit {
            continue;
        }
        let start = position as f64 * step;
        match windows.last_mut() {
            Some((_, end)) if start - *end < step / 2.0 => *end = start + step,
            _ => windows.push((start, start + step)),
        }
    }
    windows.retain(|(start, end)| end - start > SHORTEST_SECONDS);
    windows
}

/// What three quarters of the values do not exceed: a run that stalls for half of its time still has its usual.
fn usual(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() * 3 / 4).copied().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::Tenths;

    #[test]
    fn neighbouring_bad_tenths_are_one_stall() {
        let operations = vec![100, 90, 3, 0, 0, 5, 100, 110, 0, 95, 100, 0, 0, 0];
        let phase = PhaseResult {
            throughput_unit: "operations".to_owned(),
            tenths: Tenths { operations, ..Tenths::default() },
            ..PhaseResult::default()
        };
        let windows = windows(&phase);
        assert_eq!(windows.len(), 2, "{windows:?}");
        assert!((windows[0].0 - 0.2).abs() < 1e-9 && (windows[0].1 - 0.6).abs() < 1e-9);
    }
}
