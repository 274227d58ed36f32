//! What admission goes by: every number of it, with its reason. How commands are let in is said in `admission` and its parts.

use std::time::Duration;

use platform::{LATELY, part_of};

/// How long a command waits for its turn.
pub(super) const PATIENCE: Duration = Duration::from_secs(1);
/// How long it waits when the queue has not been empty for [`STANDING`]: a small part of that.
pub(super) const PATIENCE_OVERLOADED: Duration = part_of(PATIENCE, 20);
/// A queue as old as this is no passing one: all who were in it have got their turn or given up.
pub(super) const STANDING: Duration = PATIENCE;
/// Most commands that wait at one gate.
pub(super) const QUEUE_MAX: usize = 4096;

/// Where the search for the right numbers begins: reads may wait for the disk, writes give their ticket back before they do.
pub(super) const READS_FOR_EACH_PROCESSOR: usize = 16;
pub(super) const WRITES_FOR_EACH_PROCESSOR: usize = 6;

/// Never fewer: a command that waits for something must not keep everybody else out.
pub(super) const LIMIT_MIN: usize = WRITES_FOR_EACH_PROCESSOR;
/// Never more: each is a thread, and a full queue is through in a few turns.
pub(super) const LIMIT_MAX: usize = QUEUE_MAX / 4;
/// Throughput that makes a higher limit worth keeping, and that which a lower one must reach, over what it was before.
pub(super) const WORTH_MORE: f64 = 1.05;
pub(super) const AS_GOOD: f64 = 1.0 - (WORTH_MORE - 1.0) / 2.0;
/// How far a try goes, in parts of the limit. Upwards further than downwards: what a try upwards gives is measured against what was before and
/// what comes after, which takes a window more and lets chance keep it less often. The limit must not climb by chance: at the highest all
/// wait for a processor and nobody in the queue, so that nobody is told that the server is overloaded.
pub(super) const STEP_UP: usize = STEP_DOWN / 2;
pub(super) const STEP_DOWN: usize = 4;
/// Shortest time over which throughput is judged, and the commands that must end in it: of fewer nothing can be learnt.
pub(super) const WINDOW: Duration = part_of(PATIENCE, 5);
pub(super) const FINISHED_MIN: u64 = 32;
/// Time after which a window with fewer is given up.
pub(super) const WINDOW_MAX: Duration = PATIENCE.saturating_mul(5);

/// Over how long connections are counted, see `crowd`.
pub(super) const CROWD_STRETCH: Duration = part_of(PATIENCE, 2);

/// Connections for each processor that make a crowd, and those that are too few to be one any more.
pub(super) const MANY_FOR_EACH_PROCESSOR: usize = 40;
pub(super) const FEW_FOR_EACH_PROCESSOR: usize = MANY_FOR_EACH_PROCESSOR / 2;
/// The part of all processors that this process takes with a crowd, and that below which there is none. Clients may be on the same machine.
pub(super) const BUSY: f64 = 0.25;
pub(super) const NOT_BUSY: f64 = BUSY / 2.0;

/// Checks between two looks at the clock.
pub(super) const CHECKS_PER_LOOK: u32 = 4;
/// A command that has worked so long is a long one.
pub(super) const LONG_AFTER: Duration = LATELY;

const _: () = {
    assert!(PATIENCE_OVERLOADED.as_nanos() < PATIENCE.as_nanos());
    assert!(WRITES_FOR_EACH_PROCESSOR < READS_FOR_EACH_PROCESSOR);
    assert!(AS_GOOD < 1.0 && 1.0 < WORTH_MORE, "what throughput does by chance keeps neither");
    assert!(STEP_UP < STEP_DOWN, "a try upwards is the greater one");
    assert!(WINDOW.as_nanos() < WINDOW_MAX.as_nanos());
    assert!(NOT_BUSY < BUSY, "no crowd comes and goes by turns");
    // Fewer connections than may run at once are no crowd.
    assert!(READS_FOR_EACH_PROCESSOR <= FEW_FOR_EACH_PROCESSOR);
};
