//! Marks of pressure: from how much of something on the background does more, and writers wait. One place, as they hang together.
//!
//! Used by `pacing`, `page_cache` and `background`. Each resource has its marks in the order in which they are met as it gets
//! short; `in_order` holds them to that when this is compiled. All are shares of the resource that their heading names.

/// Where a delay begins and where it is at its longest.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ramp {
    pub(crate) start: f64,
    pub(crate) end: f64,
}

impl Ramp {
    /// How far a value is on it, from 0 to 1.
    pub(crate) fn at(self, value: f64) -> f64 {
        ((value - self.start) / (self.end - self.start)).clamp(0.0, 1.0)
    }
}

/// The ramps of a kind of writer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ramps {
    /// Share of the frames that is dirty.
    pub(crate) dirty: Ramp,
    /// Share of the low mark of free frames that is missing; below 0: frames beyond it.
    pub(crate) frames: Ramp,
    /// Checkpoint copies in memory, as a share of the frames.
    pub(crate) checkpoint_copies: Ramp,
    /// Share of the memory for buffered changes.
    pub(crate) buffered_changes: Ramp,
    /// Version history in memory, in budgets of it.
    pub(crate) history: Ramp,
    /// Share of the leaves that may wait to be merged.
    pub(crate) sparse_leaves: Ramp,
    /// Share of the memory for rings.
    pub(crate) rings: Ramp,
}

const fn ramp(start: f64, end: f64) -> Ramp {
    Ramp { start, end }
}

/// One as long as another, which it leads up to.
const fn before(next: Ramp) -> Ramp {
    ramp(next.start - (next.end - next.start), next.start)
}

const fn halfway(from: f64, to: f64) -> f64 {
    (from + to) / 2.0
}

/// Of each change.
pub(crate) const USUAL: Ramps = Ramps {
    dirty: ramp(0.92, 0.99),
    frames: ramp(0.25, 1.0),
    checkpoint_copies: ramp(0.0, 0.10),
    buffered_changes: ramp(0.92, 1.0),
    history: ramp(1.0, 4.0),
    sparse_leaves: ramp(0.5, 1.0),
    rings: ramp(0.75, 1.0),
};

/// Of long work, beside the former: it is at its slowest where the others begin to be slowed, so that they are not slowed for its sake.
pub(crate) const LONG: Ramps = Ramps {
    dirty: before(USUAL.dirty),
    frames: before(USUAL.frames),
    // Others begin at nothing, and the history is over its budget for an instant again and again: halfway is early enough there.
    checkpoint_copies: ramp(0.0, 0.05),
    history: ramp(0.8, 1.2),
    buffered_changes: before(USUAL.buffered_changes),
    // Not earlier than the others: while the snapshot of a long deletion is held, its leaves cannot be merged, however slow it is.
    sparse_leaves: USUAL.sparse_leaves,
    rings: before(USUAL.rings),
};

/// Dirty share of the frames above which cold pages are written ahead of eviction: where the first writers are slowed.
pub(crate) const WRITTEN_AHEAD_FROM: f64 = LONG.dirty.start;

/// With so many free frames, as a share of the low mark, who writes pages offers its processor to others. It is woken just below 1.
pub(crate) const OFFERED_FROM_SUPPLY: f64 = 0.85;
/// With so many the evictor waits for the victims that are being written: it comes to this only when the disk does not answer. Twice
/// as many are missing as when writers begin to be slowed.
pub(crate) const PATIENT_FROM_SUPPLY: f64 = 1.0 - 2.0 * USUAL.frames.start;

/// Below this share merging is spread over time; up to the second less and less, and then not at all any more.
pub(crate) const MERGING_SPREAD_BELOW: f64 = halfway(LONG.buffered_changes.start, USUAL.buffered_changes.start);
pub(crate) const MERGING_SPREAD_ENDS: f64 = USUAL.buffered_changes.start;
/// Share of the memory for buffered changes at which merging begins, of a shard.
pub(crate) const MERGED_FROM: f64 = halfway(MERGING_SPREAD_BELOW, MERGING_SPREAD_ENDS);

/// Whether each is less than the next.
const fn in_order<const N: usize>(marks: [f64; N]) -> bool {
    let mut place = 1;
    while place < N {
        if marks[place - 1] >= marks[place] {
            return false;
        }
        place += 1;
    }
    true
}

/// Long work is slowed first, and at its slowest where others are not slowed much: an eighth is the cube of a half.
const fn gives_way(long: Ramp, usual: Ramp) -> bool {
    long.start <= usual.start
        && in_order([long.start, long.end, usual.end])
        && long.end <= halfway(usual.start, usual.end)
}

const _: () = {
    assert!(gives_way(LONG.dirty, USUAL.dirty) && gives_way(LONG.frames, USUAL.frames));
    assert!(gives_way(LONG.checkpoint_copies, USUAL.checkpoint_copies));
    assert!(gives_way(LONG.buffered_changes, USUAL.buffered_changes));
    assert!(gives_way(LONG.history, USUAL.history) && gives_way(LONG.rings, USUAL.rings));
    // The background is at work before anybody is slowed for it, and alone when nothing else helps.
    assert!(in_order([0.0, PATIENT_FROM_SUPPLY, 1.0 - USUAL.frames.start, OFFERED_FROM_SUPPLY, 1.0]));
    assert!(in_order([LONG.buffered_changes.start, MERGING_SPREAD_BELOW, MERGED_FROM, USUAL.buffered_changes.start]));
};
