//! Randomness: the kernel's for identifiers and salts, a seeded generator for tests and the simulator.
//!
//! `SeededRandom` is xoshiro256** seeded by splitmix64 (Blackman and Vigna, public domain); not for secrets.

use parking_lot::Mutex;
use rustix::rand::{GetRandomFlags, getrandom};

/// A source of random bytes.
pub trait Random: Send + Sync {
    /// Fills `bytes` with random bytes.
    fn fill(&self, bytes: &mut [u8]);

    /// A uniformly distributed number.
    fn next_u64(&self) -> u64 {
        let mut bytes = [0; 8];
        self.fill(&mut bytes);
        u64::from_le_bytes(bytes)
    }

    /// A number in `0..bound`; 0 when `bound` is 0. The bias is at most `bound / 2^64`.
    fn below(&self, bound: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// True with the given probability (0 never, 1 always).
    fn chance(&self, probability: f64) -> bool {
        // 53 random bits make every double of the form k / 2^53 in 0..1 equally likely.
        ((self.next_u64() >> 11) as f64) < probability * (1_u64 << 53) as f64
    }
}

/// The kernel's generator, fit for secrets.
#[derive(Default)]
pub struct SystemRandom;

impl Random for SystemRandom {
    /// # Panics
    /// If the kernel refuses randomness: nothing that needs unpredictable bytes may go on without them.
    #[allow(clippy::panic, reason = "there is no safe continuation without randomness")]
    fn fill(&self, bytes: &mut [u8]) {
        let mut rest = bytes;
        while !rest.is_empty() {
            match getrandom(&mut *rest, GetRandomFlags::empty()) {
                Ok(count) => rest = rest.split_at_mut(count).1,
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => panic!("the kernel gave no randomness: {error}"),
            }
        }
    }
}

/// A deterministic generator: the same seed gives the same sequence.
pub struct SeededRandom {
    state: Mutex<[u64; 4]>,
}

impl SeededRandom {
    /// A generator started from `seed`.
    pub fn new(seed: u64) -> SeededRandom {
        let mut splitmix = seed;
        SeededRandom { state: Mutex::new(std::array::from_fn(|_| splitmix_next(&mut splitmix))) }
    }
}

impl Random for SeededRandom {
    fn fill(&self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            let word = self.next_u64().to_le_bytes();
            chunk.copy_from_slice(&word[..chunk.len()]);
        }
    }

    fn next_u64(&self) -> u64 {
        let mut state = self.state.lock();
        let result = state[1].wrapping_mul(5).rotate_left(7).wrapping_mul(9);
        let shifted = state[1] << 17;
        state[2] ^= state[0];
        state[3] ^= state[1];
        state[1] ^= state[2];
        state[0] ^= state[3];
        state[2] ^= shifted;
        state[3] = state[3].rotate_left(45);
        result
    }
}

fn splitmix_next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mut mixed = *state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn same_seed_same_sequence_other_seed_another() {
        let sequence = |seed| {
            let random = SeededRandom::new(seed);
            (0..10).map(|_| random.next_u64()).collect::<Vec<_>>()
        };
        assert_eq!(sequence(1), sequence(1));
        assert_ne!(sequence(1), sequence(2));
    }

    #[test]
    fn below_stays_below_and_reaches_all() {
        let random = SeededRandom::new(3);
        let mut seen = [false; 10];
        (0..1_000).for_each(|_| seen[random.below(10) as usize] = true);
        assert!(seen.iter().all(|seen| *seen));
        assert_eq!(random.below(0), 0);
    }

    #[test]
    fn chance_keeps_its_extremes() {
        let random = SeededRandom::new(4);
        assert!((0..100).all(|_| random.chance(1.0) && !random.chance(0.0)));
    }

    #[test]
    fn system_random_fills_every_byte() {
        let mut bytes = [0; 1_000];
        SystemRandom.fill(&mut bytes);
        assert!(bytes.iter().filter(|byte| **byte == 0).count() < 50);
    }
}
