//! The sizes of documents in the cases of SERVER-17561.

use crate::random::Random;

/// A case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Case {
    /// Workload 1: primed with all sizes, then documents below 256 bytes and bursts of large ones
    Bursts,
    /// Workload 2: what an oplog gets when files are put into GridFS and deleted: chunks of 255 kB, and many small entries
    Gridfs,
    /// Case 1: 850 +- 730 bytes
    Small,
    /// Case 2: 100 +- 90 kB
    Large,
    /// Case 3: from 100 bytes to 100 kB, growing
    Growing,
    /// Case 4: powers of two
    Powers,
}

/// Documents of a burst, and every how many documents one comes.
const BURST_DOCUMENTS: u64 = 100;
const BURST_EVERY: u64 = 100_000;
const BURST_BYTES_MAX: u64 = 4 << 20;
const CHUNK_BYTES: u64 = 255 * 1024;

impl Case {
    /// Bytes of the document with a number, of a workload that has written `progress` (0 to 1) of what it will write into `ring_bytes`.
    pub(crate) fn bytes(self, number: u64, progress: f64, ring_bytes: u64, random: &mut Random) -> u64 {
        match self {
            Case::Bursts if progress < 0.05 => 1 << (5 + random.below(16)),
            // A burst takes half of a small collection.
            Case::Bursts if number % BURST_EVERY < BURST_DOCUMENTS => BURST_BYTES_MAX.min(ring_bytes / 200),
            Case::Bursts => 20 + random.below(236),
            // A file of ten chunks, the last one not full, is put; another one is deleted.
            Case::Gridfs => match number % 22 {
                0 => 250 + random.below(100),
                1..10 => CHUNK_BYTES,
                10 => 200 + random.below(CHUNK_BYTES),
                _ => 90 + random.below(60),
            },
            Case::Small => 120 + random.below(1461),
            Case::Large => 10_000 + random.below(180_001),
            Case::Growing => 100 + (progress * 100_000.0) as u64,
            Case::Powers => 1 << (5 + random.below(16)),
        }
    }
}
