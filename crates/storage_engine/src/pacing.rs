//! Pacing: how long a writer waits before its next change, so that the background keeps up (invariant I3).
//!
//! Called by `transaction` before it takes locks. The delay grows smoothly from nothing, long before memory is exhausted,
//! as in the kernel's balancing of dirty pages. Long work (a large transaction, an index build, expiry) rests beside others
//! earlier than changes are delayed, so that the others are not delayed for its sake.

use std::time::Duration;

use crate::engine::Engine;

/// Longest delay of one write.
const DELAY_MAX: Duration = Duration::from_millis(20);
/// Longest rest of long work. Short enough that an index build beside an overload that never ends comes to an end itself.
const LONG_DELAY_MAX: Duration = Duration::from_millis(10);

/// Where the delay begins and where it is at its longest.
#[derive(Debug, Clone, Copy)]
struct Ramp {
    start: f64,
    end: f64,
}

/// The ramps of a kind of writer.
#[derive(Debug, Clone, Copy)]
struct Ramps {
    /// Share of the frames that is dirty.
    dirty: Ramp,
    /// Share of the low mark of free frames that is missing; below 0: frames beyond it.
    frames: Ramp,
    /// Checkpoint copies in memory, as a share of the frames.
    checkpoint_copies: Ramp,
    /// Share of the memory for buffered changes.
    buffered_changes: Ramp,
    /// Version history in memory, in budgets of it.
    history: Ramp,
    /// Share of the leaves that may wait to be merged.
    sparse_leaves: Ramp,
    /// Share of the memory for rings.
    rings: Ramp,
}

const fn ramp(start: f64, end: f64) -> Ramp {
    Ramp { start, end }
}

/// Of each change.
const USUAL: Ramps = Ramps {
    dirty: ramp(0.92, 0.99),
    frames: ramp(0.25, 1.0),
    checkpoint_copies: ramp(0.0, 0.10),
    buffered_changes: ramp(0.92, 1.0),
    history: ramp(1.0, 4.0),
    sparse_leaves: ramp(0.5, 1.0),
    rings: ramp(0.75, 1.0),
};

/// Of long work, beside the former: it is at its slowest where the others begin to be slowed, so that they are not slowed for its sake.
const LONG: Ramps = Ramps {
    dirty: ramp(0.85, 0.92),
    frames: ramp(-0.75, 0.25),
    checkpoint_copies: ramp(0.0, 0.05),
    buffered_changes: ramp(0.84, 0.92),
    history: ramp(0.8, 1.2),
    // Not earlier than the others: while the snapshot of a long deletion is held, its leaves cannot be merged, however slow it is.
    sparse_leaves: USUAL.sparse_leaves,
    rings: ramp(0.5, 0.75),
};

/// Cubic: a hundredth of the longest delay at about a fifth of the way.
fn delay(longest: Duration, pressure: f64) -> Duration {
    if pressure <= 0.0 { Duration::ZERO } else { longest.mul_f64(pressure.powi(3)) }
}

impl Ramp {
    fn at(self, value: f64) -> f64 {
        ((value - self.start) / (self.end - self.start)).clamp(0.0, 1.0)
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_work_is_at_its_slowest_before_others_are_slowed_much() {
        let each: [fn(&Ramps) -> Ramp; 6] = [
            |ramps| ramps.dirty,
            |ramps| ramps.frames,
            |ramps| ramps.checkpoint_copies,
            |ramps| ramps.buffered_changes,
            |ramps| ramps.history,
            |ramps| ramps.rings,
        ];
        for ramp in each {
            let (usual, long) = (ramp(&USUAL), ramp(&LONG));
            assert!(long.start <= usual.start && long.end < usual.end, "{long:?} {usual:?}");
            assert_eq!(long.at(long.end), 1.0);
            // An eighth of the longest delay: the cube of a half.
            assert!(usual.at(long.end) <= 0.5, "{long:?} {usual:?}");
        }
    }
}
