//! Hashes of keys: quick ones, which nobody can choose keys for, since each table has its own seeds.
//!
//! Words are folded into one another by a wide multiplication. Used by `table`.

use std::hash::Hasher;

/// An odd number without a pattern.
const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;

/// What a table's hashes begin with.
#[derive(Debug, Clone, Copy)]
pub(super) struct Seeds {
    pub(super) first: u64,
    pub(super) second: u64,
}

/// Both halves of a product.
#[inline]
fn fold(left: u64, right: u64) -> u64 {
    let product = u128::from(left) * u128::from(right);
    product as u64 ^ (product >> 64) as u64
}

impl Seeds {
    /// The hash of an integer.
    #[inline]
    pub(super) fn of_integer(self, value: i64) -> u32 {
        let folded = fold(value as u64 ^ self.first, MULTIPLIER ^ self.second);
        (folded ^ (folded >> 32)) as u32
    }

    /// The hash of bytes.
    #[inline]
    pub(super) fn of_bytes(self, bytes: &[u8]) -> u32 {
        let mut hasher = KeyHasher::new(self);
        hasher.write(bytes);
        hasher.finish() as u32
    }
}

/// A hasher that begins with a table's seeds.
pub(super) struct KeyHasher {
    state: u64,
    second: u64,
}

impl KeyHasher {
    #[inline]
    pub(super) fn new(seeds: Seeds) -> Self {
        Self { state: seeds.first, second: seeds.second | 1 }
    }

    #[inline]
    fn add(&mut self, word: u64) {
        self.state = fold(self.state ^ word, MULTIPLIER ^ self.second).rotate_left(23);
    }
}

impl Hasher for KeyHasher {
    #[inline]
    fn write(&mut self, bytes: &[u8]) {
        let mut chunks = bytes.chunks_exact(8);
        for chunk in &mut chunks {
            self.add(chunk.first_chunk().map_or(0, |word| u64::from_le_bytes(*word)));
        }
        let mut last = [0; 8];
        for (place, byte) in last.iter_mut().zip(chunks.remainder()) {
            *place = *byte;
        }
        self.add(u64::from_le_bytes(last));
        self.add(bytes.len() as u64);
    }

    #[inline]
    fn write_u8(&mut self, value: u8) {
        self.add(u64::from(value));
    }

    #[inline]
    fn write_u64(&mut self, value: u64) {
        self.add(value);
    }

    #[inline]
    fn write_i64(&mut self, value: i64) {
        self.add(value as u64);
    }

    #[inline]
    fn write_usize(&mut self, value: usize) {
        self.add(value as u64);
    }

    #[inline]
    fn finish(&self) -> u64 {
        let folded = fold(self.state, MULTIPLIER ^ self.second);
        folded ^ (folded >> 32)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn hashes_differ() {
        let seeds = Seeds { first: 0x1234_5678_9abc_def1, second: 0x0fed_cba9_8765_4321 };
        let integers: HashSet<u32> = (0..100_000).map(|value| seeds.of_integer(value)).collect();
        // Of 100,000 among 2^32 about one or two fall together.
        assert!(integers.len() > 99_980, "{}", integers.len());
        let low: HashSet<u32> = (0..1000).map(|value| seeds.of_integer(value << 40) & 0xFFF).collect();
        assert!(low.len() > 800, "{}", low.len());
        let texts: HashSet<u32> = (0..100_000).map(|value| seeds.of_bytes(format!("key {value}").as_bytes())).collect();
        assert!(texts.len() > 99_980, "{}", texts.len());
        assert_ne!(seeds.of_bytes(b"a"), seeds.of_bytes(b"a\0"));
    }
}
