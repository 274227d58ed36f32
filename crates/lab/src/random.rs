//! Reproducible random numbers for workloads and for resampling: SplitMix64, and the distributions built on it.
//!
//! Not for anything that must not be guessed.

/// A stream of random numbers that a seed determines.
#[derive(Debug, Clone)]
pub(crate) struct Random {
    state: u64,
}

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// A stream of its own for one of many users of a seed.
    pub(crate) fn stream(seed: u64, number: u64) -> Self {
        Self { state: mix(seed ^ mix(number.wrapping_add(0x9E37_79B9_7F4A_7C15))) }
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        mix(self.state)
    }

    /// From 0 up to, not including, `bound`; 0 for a bound of 0.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        // The bias of the multiplication is below bound / 2^64.
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }

    /// From 0 up to, not including, 1.
    pub(crate) fn fraction(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Exponentially distributed with a mean of 1: the gaps between arrivals that know nothing of each other.
    pub(crate) fn exponential(&mut self) -> f64 {
        -(1.0 - self.fraction()).ln()
    }
}

fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    value ^ (value >> 31)
}

/// Numbers of which few are frequent: the k-th most frequent has a share proportional to 1 / k^exponent.
///
/// After Gray and others, "Quickly generating billion-record synthetic databases" (SIGMOD 1994), as YCSB uses it.
#[derive(Debug, Clone)]
pub(crate) struct Zipfian {
    count: u64,
    exponent: f64,
    zeta: f64,
    alpha: f64,
    eta: f64,
}

impl Zipfian {
    /// Over the ranks 0 to `count - 1`, with an exponent between 0 and 1, both not included.
    pub(crate) fn new(count: u64, exponent: f64) -> Self {
        let count = count.max(1);
        let zeta_of = |count: u64| (1..=count).map(|rank| (rank as f64).powf(-exponent)).sum::<f64>();
        let zeta = zeta_of(count);
        let eta = (1.0 - (2.0 / count as f64).powf(1.0 - exponent)) / (1.0 - zeta_of(2.min(count)) / zeta).max(1e-12);
        Self { count, exponent, zeta, alpha: 1.0 / (1.0 - exponent), eta }
    }

    /// A rank; 0 is the most frequent.
    pub(crate) fn rank(&self, random: &mut Random) -> u64 {
        let fraction = random.fraction();
        let scaled = fraction * self.zeta;
        if scaled < 1.0 {
            return 0;
        }
        if scaled < 1.0 + 0.5_f64.powf(self.exponent) {
            return 1.min(self.count - 1);
        }
        let rank = self.count as f64 * (self.eta * fraction - self.eta + 1.0).powf(self.alpha);
        (rank as u64).min(self.count - 1)
    }

    /// A rank's place among all, so that frequent ones are not neighbours.
    pub(crate) fn scattered(&self, random: &mut Random) -> u64 {
        mix(self.rank(random).wrapping_add(0x5851_F42D_4C95_7F2D)) % self.count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_even_and_reproducible() {
        let mut random = Random::new(7);
        let mut counts = [0_u32; 10];
        for _ in 0..100_000 {
            counts[random.below(10) as usize] += 1;
        }
        assert!(counts.iter().all(|count| (9_500..10_500).contains(count)), "{counts:?}");
        assert_eq!(Random::stream(1, 2).next(), Random::stream(1, 2).next());
        assert_ne!(Random::stream(1, 2).next(), Random::stream(1, 3).next());
        let mean = (0..100_000).map(|_| random.exponential()).sum::<f64>() / 100_000.0;
        assert!((mean - 1.0).abs() < 0.02, "{mean}");
    }

    #[test]
    fn few_ranks_are_frequent() {
        let (zipfian, mut random) = (Zipfian::new(1000, 0.99), Random::new(1));
        let mut counts = vec![0_u32; 1000];
        for _ in 0..100_000 {
            counts[zipfian.rank(&mut random) as usize] += 1;
        }
        // 1 / zeta(1000, 0.99) is 12.9 %.
        assert!((12_000..14_000).contains(&counts[0]), "{}", counts[0]);
        assert!(counts[0] > counts[1] && counts[1] > counts[10] && counts[10] > counts[500]);
        assert!((0..1000).all(|_| zipfian.scattered(&mut random) < 1000));
        assert_eq!(Zipfian::new(1, 0.5).rank(&mut random), 0);
    }
}
