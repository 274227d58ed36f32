//! How sure a difference is: bootstrap standard errors of the logarithm of a ratio, and intervals from them.
//!
//! Seconds of one run follow each other closely (a compaction lasts several), so they are drawn in blocks. Runs differ
//! from each other by more than their seconds say: with several runs a side that is measured, with one run a side it is
//! assumed, from how much two runs of the same build differ on a shared machine.

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
///
/// Cornish and Fisher's expansion about the normal quantile; for few degrees of freedom exact formulas.
pub(crate) fn student_quantile(probability: f64, degrees_of_freedom: f64) -> f64 {
    let tail = 2.0 * (1.0 - probability).max(1e-12);
    if degrees_of_freedom <= 1.0 {
        return 1.0 / (tail * std::f64::consts::FRAC_PI_2).tan();
    }
    if degrees_of_freedom <= 2.0 {
        return (2.0 / (tail * (2.0 - tail)) - 2.0).max(0.0).sqrt();
    }
    let z = normal_quantile(probability);
    if !degrees_of_freedom.is_finite() {
        return z;
    }
    // Hill, "Algorithm 396: Student's t-quantiles" (1970).
    let n = degrees_of_freedom;
    let a = 1.0 / (n - 0.5);
    let b = (48.0 / a).powi(2) / 2304.0 * 48.0;
    let mut c = ((20700.0 * a / b - 98.0) * a - 16.0) * a + 96.36;
    let d = ((94.5 / (b + c) - 3.0) / b + 1.0) * (a * std::f64::consts::FRAC_PI_2).sqrt() * n;
    let mut y = (d * tail).powf(2.0 / n);
    if y > 0.05 + a {
        let x = -z;
        y = x * x;
        if n < 5.0 {
            c += 0.3 * (n - 4.5) * (x + 0.6);
        }
        c += (((0.05 * d * x - 5.0) * x - 7.0) * x - 2.0) * x + b;
        y = (((((0.4 * y + 6.3) * y + 36.0) * y + 94.5) / c - y - 3.0) / b + 1.0) * x;
        y = a * y * y;
        y = if y > 0.002 { y.exp_m1() } else { 0.5 * y * y + y };
    } else {
        y = ((1.0 / (((n + 6.0) / (n * y) - 0.089 * d - 0.822) * (n + 2.0) * 3.0) + 0.5 / (n + 4.0)) * y - 1.0)
            * (n + 1.0)
            / (n + 2.0)
            + 1.0 / y;
    }
    (n * y).sqrt()
}

/// Acklam's approximation of the normal quantile, for probabilities of one half and more; its error is below 2e-9.
fn normal_quantile(probability: f64) -> f64 {
    let tail = (1.0 - probability).clamp(1e-300, 0.5);
    if tail < 0.024_25 {
        let q = (-2.0 * tail.ln()).sqrt();
        let above = ((((-7.784894002430293e-03 * q - 3.223964580411365e-01) * q - 2.400758277161838) * q
            - 2.549732539343734)
            * q
            + 4.374664141464968)
            * q
            + 2.938163982698783;
        let below =
            (((7.784695709041462e-03 * q + 3.224671290700398e-01) * q + 2.445134137142996) * q + 3.754408661907416) * q
                + 1.0;
        return -above / below;
    }
    let q = 0.5 - tail;
    let r = q * q;
    let above = ((((-3.969683028665376e+01 * r + 2.209460984245205e+02) * r - 2.759285104469687e+02) * r
        + 1.383_577_518_672_69e2)
        * r
        - 3.066479806614716e+01)
        * r
        + 2.506628277459239;
    let below = ((((-5.447609879822406e+01 * r + 1.615858368580409e+02) * r - 1.556989798598866e+02) * r
        + 6.680131188771972e+01)
        * r
        - 1.328068155288572e+01)
        * r
        + 1.0;
    above * q / below
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
