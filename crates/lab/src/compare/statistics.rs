//! How sure a difference is: bootstrap standard errors of the logarithm of a ratio, and intervals from them.
//!
//! Seconds of one run follow each other closely (a compaction lasts several), so they are drawn in blocks. Runs differ
//! from each other by more than their seconds say: with several runs a side that is measured, with one run a side it is
//! assumed, from how much two runs of the same build differ on a shared machine.

use statrs::distribution::{ContinuousCDF, Normal, StudentsT};

use crate::random::Random;

/// Draws of the bootstrap.
const DRAWS: usize = 1000;

/// What one run says of a figure.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Sample {
    pub(crate) value: f64,
    /// The same figure by second, where there is such a thing: its ups and downs, not its level, are used.
    pub(crate) series: Vec<f64>,
}

/// The logarithm of B to A.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct LogRatio {
    pub(crate) centre: f64,
    pub(crate) standard_error: f64,
    pub(crate) degrees_of_freedom: f64,
}

impl LogRatio {
    /// The interval that holds it with a probability.
    pub(crate) fn interval(&self, confidence: f64) -> (f64, f64) {
        let half = student_quantile(1.0 - (1.0 - confidence) / 2.0, self.degrees_of_freedom) * self.standard_error;
        (self.centre - half, self.centre + half)
    }
}

/// Estimates B to A. `offset` is added to all values, so that figures that may be 0 have a logarithm; `run_noise` is the
/// standard deviation, as a part of 1, that runs of the same build are assumed to have.
pub(crate) fn log_ratio(a: &[Sample], b: &[Sample], offset: f64, run_noise: f64, seed: u64) -> Option<LogRatio> {
    if a.is_empty() || b.is_empty() {
        return None;
    }
    let level = |samples: &[Sample]| {
        let logarithms = samples.iter().map(|sample| (sample.value.max(0.0) + offset).ln());
        logarithms.sum::<f64>() / samples.len() as f64
    };
    let centre = level(b) - level(a);
    let mut random = Random::new(seed);
    let variance = side_variance(a, offset, run_noise, &mut random) + side_variance(b, offset, run_noise, &mut random);
    let runs = a.len().min(b.len());
    let degrees_of_freedom = if runs < 3 { f64::INFINITY } else { (a.len() + b.len() - 2) as f64 };
    centre.is_finite().then_some(LogRatio { centre, standard_error: variance.sqrt(), degrees_of_freedom })
}

/// Variance of the mean logarithm of a side.
fn side_variance(samples: &[Sample], offset: f64, run_noise: f64, random: &mut Random) -> f64 {
    let runs = samples.len() as f64;
    // Runs that happened to be alike are not told apart below this.
    let floor = (0.1 * run_noise).powi(2) / runs;
    if samples.len() >= 3 {
        return floor + bootstrap_of_runs(samples, offset, random) * runs / (runs - 1.0);
    }
    let within: f64 = samples.iter().map(|sample| bootstrap_of_series(&sample.series, offset, random)).sum();
    run_noise * run_noise / runs + within / (runs * runs)
}

/// Variance of the mean logarithm when runs are drawn with repetition.
fn bootstrap_of_runs(samples: &[Sample], offset: f64, random: &mut Random) -> f64 {
    let logarithms: Vec<f64> = samples.iter().map(|sample| (sample.value.max(0.0) + offset).ln()).collect();
    let count = logarithms.len();
    let draws = (0..DRAWS).map(|_| {
        let drawn = (0..count).map(|_| logarithms.get(random.below(count as u64) as usize).copied().unwrap_or(0.0));
        drawn.sum::<f64>() / count as f64
    });
    variance(&draws.collect::<Vec<_>>())
}

/// Variance of the logarithm of a series' mean when blocks of seconds are drawn with repetition.
fn bootstrap_of_series(series: &[f64], offset: f64, random: &mut Random) -> f64 {
    if series.len() < 4 {
        return 0.0;
    }
    let block = (series.len() as f64).cbrt().ceil() as usize * 2;
    let block = block.min(series.len() / 2).max(1);
    let draws = (0..DRAWS).map(|_| {
        let (mut sum, mut count) = (0.0, 0_usize);
        while count < series.len() {
            let start = random.below(series.len() as u64) as usize;
            for position in start..start + block {
                // The series is a ring, so that its ends are drawn as often as its middle.
                sum += series.get(position % series.len()).copied().unwrap_or(0.0);
                count += 1;
            }
        }
        ((sum / count as f64).max(0.0) + offset.max(1e-9)).ln()
    });
    variance(&draws.collect::<Vec<_>>())
}

pub(crate) fn variance(values: &[f64]) -> f64 {
    let mean = values.iter().sum::<f64>() / values.len().max(1) as f64;
    values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / values.len().saturating_sub(1).max(1) as f64
}

/// The value below which a Student-distributed number lies with a probability of at least one half.
fn student_quantile(probability: f64, degrees_of_freedom: f64) -> f64 {
    let probability = probability.clamp(0.5, 1.0 - 1e-12);
    if !degrees_of_freedom.is_finite() {
        return Normal::standard().inverse_cdf(probability);
    }
    let student = StudentsT::new(0.0, 1.0, degrees_of_freedom.max(1.0));
    student.map_or(f64::INFINITY, |student| student.inverse_cdf(probability))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_the_tables() {
        for (probability, degrees, expected) in [
            (0.975, f64::INFINITY, 1.959_964),
            (0.995, f64::INFINITY, 2.575_829),
            (0.975, 1.0, 12.706_2),
            (0.975, 2.0, 4.302_65),
            (0.975, 4.0, 2.776_45),
            (0.975, 8.0, 2.306_0),
            (0.995, 8.0, 3.355_4),
            (0.9995, 8.0, 5.041_3),
            (0.999, 18.0, 3.610_5),
            (0.5, f64::INFINITY, 0.0),
        ] {
            let found = student_quantile(probability, degrees);
            assert!((found - expected).abs() < 0.01 * expected.max(0.1), "{probability} {degrees}: {found} {expected}");
        }
    }

    #[test]
    fn blocks_see_that_neighbours_are_alike() {
        let mut random = Random::new(1);
        let mut level = 0.0;
        let wandering: Vec<f64> = (0..200)
            .map(|_| {
                level = 0.9 * level + random.fraction() - 0.5;
                100.0 + 10.0 * level
            })
            .collect();
        let independent: Vec<f64> = (0..200).map(|_| 100.0 + 23.0 * (random.fraction() - 0.5)).collect();
        let of_wandering = bootstrap_of_series(&wandering, 0.0, &mut random);
        let of_independent = bootstrap_of_series(&independent, 0.0, &mut random);
        assert!(of_wandering > 3.0 * of_independent, "{of_wandering} {of_independent}");
    }
}
