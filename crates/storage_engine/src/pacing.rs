//! Pacing: how long a writer waits before its next change, so that the background keeps up (invariant I3).
//!
//! Called by `transaction` before it takes locks. The delay grows smoothly from nothing, long before memory is exhausted,
//! as in the kernel's balancing of dirty pages. Long work (a large transaction, an index build, expiry) rests beside others
//! earlier than changes are delayed, so that the others are not delayed for its sake.

use std::time::Duration;

use platform::part_of;

use crate::engine::Engine;
use crate::pressure_marks::{LONG, Ramps, USUAL};

/// Longest delay of one write.
pub(crate) const DELAY_MAX: Duration = Duration::from_millis(20);
/// Longest rest of long work. Short enough that an index build beside an overload that never ends comes to an end itself.
const LONG_DELAY_MAX: Duration = part_of(DELAY_MAX, 2);

/// Cubic: a hundredth of the longest delay at about a fifth of the way.
fn delay(longest: Duration, pressure: f64) -> Duration {
    if pressure <= 0.0 { Duration::ZERO } else { longest.mul_f64(pressure.powi(3)) }
}

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
        self.pressure_on(&USUAL)
    }

    fn pressure_on(&self, ramps: &Ramps) -> Pressure {
        let cache = &self.trees.cache;
        let frames = cache.usable_frames() as f64;
        Pressure {
            dirty: ramps.dirty.at(cache.frames.dirty() as f64 / frames),
            frames: ramps.frames.at(1.0 - cache.frames.supply()),
            checkpoint_copies: ramps.checkpoint_copies.at(cache.writer.waiting_copies() as f64 / frames),
            buffered_changes: ramps.buffered_changes.at(cache.changes.buffered_share()),
            history: ramps.history.at(self.trees.history.memory_share()),
            sparse_leaves: ramps.sparse_leaves.at(self.trees.leftovers.sparse_leaves.backlog_share()),
            rings: ramps.rings.at(self.rings.buffered_share()),
        }
    }

    /// How long a writer should wait before its next change; zero when nothing holds it back.
    pub fn pace(&self) -> Duration {
        delay(DELAY_MAX, self.pressure().strongest())
    }

    /// How long work that lasts should wait beside others, after each millisecond of it or less.
    pub fn pace_long(&self) -> Duration {
        delay(LONG_DELAY_MAX, self.pressure_on(&LONG).strongest())
    }
}
