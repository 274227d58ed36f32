//! Pacing: how long a writer waits before its next change, so that the background keeps up (invariant I3).
//!
//! Called by `transaction` before it takes locks. The delay grows smoothly from nothing, long before memory is exhausted,
//! as in the kernel's balancing of dirty pages.

use std::time::Duration;

use crate::engine::Engine;

/// Share of dirty frames from which on writers are slowed.
const DIRTY_SHARE_START: f64 = 0.90;
/// Share of dirty frames at which the delay is at its longest.
const DIRTY_SHARE_END: f64 = 0.99;
/// Share of the memory for buffered changes from which on writers are slowed.
const BUFFERED_SHARE_START: f64 = 0.92;
/// Share of that memory at which the delay is at its longest.
const BUFFERED_SHARE_END: f64 = 1.0;
/// Share of the memory for rings from which on writers are slowed.
const RINGS_SHARE_START: f64 = 0.75;
/// Longest delay of one write.
const DELAY_MAX: Duration = Duration::from_millis(20);
/// Checkpoint copies in memory, as a share of the frames, at which the delay is at its longest.
const COPIES_SHARE_END: f64 = 0.10;

/// What holds writers back, each from 0 (nothing) to 1 (as much as can be).
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Pressure {
    /// Dirty page frames.
    pub dirty: f64,
    /// Lack of free page frames.
    pub frames: f64,
    /// Page images copied for the checkpoint being written.
    pub checkpoint_copies: f64,
    /// Memory for buffered changes.
    pub buffered_changes: f64,
    /// Version history in memory beyond its budget.
    pub history: f64,
    /// Leaves emptied by deletions faster than they are merged.
    pub sparse_leaves: f64,
    /// Bytes of rings that are not in their files yet.
    pub rings: f64,
}

impl Pressure {
    /// The strongest of them.
    pub fn strongest(&self) -> f64 {
        self.dirty
            .max(self.frames)
            .max(self.checkpoint_copies)
            .max(self.buffered_changes)
            .max(self.history)
            .max(self.sparse_leaves)
            .max(self.rings)
    }
}

impl Engine {
    /// What holds writers back just now.
    pub fn pressure(&self) -> Pressure {
        let cache = &self.trees.cache;
        let frames = cache.usable_frames() as f64;
        let dirty_share = cache.dirty_frames() as f64 / frames;
        let share = |value: f64, start: f64, end: f64| ((value - start) / (end - start)).clamp(0.0, 1.0);
        Pressure {
            dirty: share(dirty_share, DIRTY_SHARE_START, DIRTY_SHARE_END),
            frames: share(1.0 - cache.frame_supply(), 0.25, 1.0),
            checkpoint_copies: share(cache.waiting_copies() as f64 / frames, 0.0, COPIES_SHARE_END),
            buffered_changes: share(cache.buffered_share(), BUFFERED_SHARE_START, BUFFERED_SHARE_END),
            history: share(self.trees.history.memory_share(), 1.0, 4.0),
            sparse_leaves: share(self.trees.leftovers.sparse_leaves.share(), 0.5, 1.0),
            rings: share(self.rings.buffered_share(), RINGS_SHARE_START, 1.0),
        }
    }

    /// How long a writer should wait before its next change; zero when nothing holds it back.
    pub fn pace(&self) -> Duration {
        let pressure = self.pressure().strongest();
        // Cubic: a hundredth of the longest delay at about a fifth of the way.
        if pressure <= 0.0 { Duration::ZERO } else { DELAY_MAX.mul_f64(pressure.powi(3)) }
    }
}
