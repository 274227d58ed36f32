//! How much cleaning is worth now. Pure bookkeeping.
//!
//! Called by `background` before each piece of cleaning; `checkpoint` asks whether what has been moved waits for one.
//!
//! Blocks that live in the same extent die at different times. To move those that are left is cheap when they stay, and in vain when they die a moment
//! later: with blocks dying at random, to keep the file within an eighth more than it holds moves up to eight bytes for each that dies (Rosenblum and Ousterhout,
//! "The Design and Implementation of a Log-Structured File System", 1992). So the less is changed, the further cleaning goes; what it moves is bounded by
//! what is written and by the time; and as the old places stay until the next checkpoint is published, it waits for that when they have become many.

use std::time::Duration;

use platform::part_of;

use crate::page_store::{CleaningEffort, PageStoreSpace};

/// How long pages written and freed are counted to tell whether much is being changed.
pub(crate) const WINDOW: Duration = Duration::from_secs(2);
/// Much is being changed when more than one page in this many is, in that time ...
const BUSY_ONE_IN: u64 = 200;
/// ... and nearly nothing when less than one in this many is.
const IDLE_ONE_IN: u64 = 100 * BUSY_ONE_IN;
/// Databases with fewer pages count as having this many: of fewer, a page or two would be nearly nothing or much.
const PAGES_MIN: u64 = 2 * IDLE_ONE_IN;
/// While anything is being changed, cleaning moves one byte for this many written in that time ...
const ONE_IN: u64 = 4;
/// ... and so many more: it would otherwise take turns of doing nothing and of taking what the disk and a processor can do. While much is being changed they
/// come with the time: taken at once, each mebibyte moved in a tenth of a second took 4 % of what others did in it.
pub(crate) const BYTES_BUSY: u64 = 8 << 20;
const BYTES_CALM: u64 = 2 * BYTES_BUSY;
pub(crate) const BYTES_IDLE: u64 = 16 * BYTES_BUSY;
/// Time from the last piece of cleaning to the next search for extents while much is being changed. Which blocks an extent still holds is found by going
/// through the addresses of all pages, and the more extents have become sparse meanwhile, the more of them share that.
const PAUSE_BUSY: Duration = Duration::from_millis(50);
/// Time from one piece of free space given back to the file system to the next: the file cannot be read while they go, file systems mounted with
/// `discard` hand them on to the disk, which may do nothing else meanwhile, and the memory that the operating system kept them in goes back to the host of
/// a virtual machine, which stops everybody for a moment too (4 GB given back in a minute took an eighth of the processors' time).
const GIVING_BACK_PAUSE_BUSY: Duration = GIVING_BACK_PAUSE_CALM.saturating_mul(2);
const GIVING_BACK_PAUSE_CALM: Duration = PAUSE_BUSY;
const GIVING_BACK_PAUSE_IDLE: Duration = part_of(PAUSE_BUSY, 2);
/// Free space that writing will take again within this many times `WINDOW` is not given back to the file system meanwhile. A checkpoint spread over eight
/// seconds frees at its end about what is written until the next one frees anything.
const EXPECTED_WINDOWS: u64 = 4;
/// ... but no more than one byte for this many that stay, and some ...
const KEPT_ONE_IN: u64 = 2 * SPARE_ONE_IN;
const KEPT_BYTES: u64 = BYTES_BUSY / 2;
const KEPT_BYTES_BUSY: u64 = BYTES_CALM;
/// ... unless all that stays would be written anew in this many times `WINDOW`: then the file takes several times what it holds before each checkpoint
/// anyway, and what was given back would have to be taken again within the minute. As long as the disk has room for that.
const TURNOVER_WINDOWS: u64 = 4 * EXPECTED_WINDOWS;
/// Where little is being changed the page file is brought within one byte for this many of what it holds: extents with less to win are not cleaned, and
/// what only a checkpoint gives back is worth one when it is more.
pub(crate) const SPARE_ONE_IN: u64 = 8;
/// And so much more, before cleaning waits for a checkpoint: what it moves in a `WINDOW` at the least.
const WAITING_SLACK: u64 = BYTES_BUSY;

const _: () = {
    assert!(BUSY_ONE_IN < IDLE_ONE_IN);
    assert!(GIVING_BACK_PAUSE_IDLE.as_nanos() < GIVING_BACK_PAUSE_CALM.as_nanos());
    assert!(EXPECTED_WINDOWS < TURNOVER_WINDOWS);
};

/// What has happened since the store was opened, and what is so now.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PageActivity {
    /// Pages written and pages freed.
    pub(crate) pages_changed: u64,
    /// Highest page id, about.
    pub(crate) pages: u64,
    /// Bytes written but for cleaning.
    pub(crate) bytes_written: u64,
    /// Bytes moved by cleaning.
    pub(crate) bytes_moved: u64,
    /// Extents that are worth it have been found and are not yet gone through.
    pub(crate) is_cleaning: bool,
}

/// What the disk has left beside our files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DiskRoom {
    /// As much again as the page file takes.
    Ample,
    /// Others may soon need what the page file has free.
    Short,
}

/// How fast pages are being changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Rate {
    #[default]
    Idle,
    Calm,
    Busy,
}

/// Says how much may be moved.
#[derive(Debug, Default)]
pub(crate) struct CleaningPace {
    since: Duration,
    /// When the time began.
    then: PageActivity,
    rate: Rate,
    /// Written and moved in the last time.
    bytes: u64,
    cleaned_at: Duration,
}

impl CleaningPace {
    /// Whether much is being changed.
    pub(crate) fn is_busy(&self) -> bool {
        self.rate == Rate::Busy
    }

    /// How much of the file's free space is not given back: what will soon be taken again, going by what was taken last.
    pub(crate) fn kept_bytes(&self, space: PageStoreSpace, disk: DiskRoom) -> u64 {
        let is_turned_over = self.bytes.saturating_mul(TURNOVER_WINDOWS) > space.lasting_bytes;
        match self.rate {
            Rate::Busy if disk == DiskRoom::Ample && is_turned_over => u64::MAX,
            Rate::Busy => (self.bytes * EXPECTED_WINDOWS).min(space.lasting_bytes / KEPT_ONE_IN).max(KEPT_BYTES_BUSY),
            Rate::Calm | Rate::Idle => KEPT_BYTES,
        }
    }

    /// Time from one piece of free space given back to the file system to the next.
    pub(crate) fn giving_back_pause(&self) -> Duration {
        match self.rate {
            Rate::Busy => GIVING_BACK_PAUSE_BUSY,
            Rate::Calm => GIVING_BACK_PAUSE_CALM,
            Rate::Idle => GIVING_BACK_PAUSE_IDLE,
        }
    }

    /// How much a piece of cleaning may cost now. `None`: nothing is to be moved at this moment.
    pub(crate) fn effort(
        &mut self,
        now: Duration,
        activity: PageActivity,
        space: PageStoreSpace,
    ) -> Option<CleaningEffort> {
        if now.saturating_sub(self.since) >= WINDOW {
            let changed = activity.pages_changed.saturating_sub(self.then.pages_changed);
            let pages = activity.pages.max(PAGES_MIN);
            self.rate = match changed {
                _ if changed * BUSY_ONE_IN > pages => Rate::Busy,
                _ if changed * IDLE_ONE_IN > pages => Rate::Calm,
                _ => Rate::Idle,
            };
            let taken = |activity: PageActivity| activity.bytes_written + activity.bytes_moved;
            self.bytes = taken(activity).saturating_sub(taken(self.then));
            self.since = now;
            self.then = activity;
        }
        let allowance = match self.rate {
            Rate::Idle => BYTES_IDLE,
            Rate::Calm => BYTES_CALM,
            Rate::Busy => share_of_window(BYTES_BUSY, now.saturating_sub(self.since)),
        };
        let written = activity.bytes_written.saturating_sub(self.then.bytes_written);
        let moved = activity.bytes_moved.saturating_sub(self.then.bytes_moved);
        let waits = match self.rate {
            Rate::Idle | Rate::Calm => self.wants_checkpoint(space),
            Rate::Busy => !activity.is_cleaning && now.saturating_sub(self.cleaned_at) < PAUSE_BUSY,
        };
        if waits || moved > written / ONE_IN + allowance {
            return None;
        }
        self.cleaned_at = now;
        Some(if self.is_busy() { CleaningEffort::Cheap } else { CleaningEffort::Thorough })
    }

    /// Whether a checkpoint, which costs little while little is being changed, would give back much of what the file takes.
    pub(crate) fn wants_checkpoint(&self, space: PageStoreSpace) -> bool {
        !self.is_busy() && space.superseded_bytes > space.lasting_bytes / SPARE_ONE_IN + WAITING_SLACK
    }
}

/// What of so many bytes a window has come after this time of it.
fn share_of_window(bytes: u64, elapsed: Duration) -> u64 {
    (bytes as f64 * elapsed.as_secs_f64() / WINDOW.as_secs_f64()) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    /// A store of 400,000 pages with half as much superseded as would make cleaning wait.
    fn space(superseded_mib: u64) -> PageStoreSpace {
        PageStoreSpace { used_bytes: 1600 * MIB, lasting_bytes: 800 * MIB, superseded_bytes: superseded_mib * MIB }
    }

    fn after_window(pages_changed: u64) -> (CleaningPace, PageActivity) {
        let mut pace = CleaningPace::default();
        let activity = PageActivity { pages_changed, pages: 400_000, ..PageActivity::default() };
        pace.effort(WINDOW, activity, space(0));
        (pace, activity)
    }

    #[test]
    fn pages_freed_and_written_make_cleaning_cheap() {
        assert_eq!(
            CleaningPace::default().effort(Duration::ZERO, PageActivity::default(), space(0)),
            Some(CleaningEffort::Thorough)
        );
        let later = WINDOW + PAUSE_BUSY;
        for (changed, effort) in [(2_000, CleaningEffort::Thorough), (2_001, CleaningEffort::Cheap)] {
            let (mut pace, activity) = after_window(changed);
            assert_eq!(pace.effort(later, activity, space(0)), Some(effort));
        }
        let (mut pace, activity) = after_window(2_001);
        let too_soon = later - Duration::from_millis(1);
        assert_eq!(pace.effort(too_soon, activity, space(0)), None);
        let activity = PageActivity { is_cleaning: true, ..activity };
        assert_eq!(pace.effort(too_soon, activity, space(0)), Some(CleaningEffort::Cheap), "nothing has to be found");
    }

    #[test]
    fn what_is_moved_is_bounded_by_what_is_written() {
        for (changed, allowance) in [(0, BYTES_IDLE), (100, BYTES_CALM), (10_000, BYTES_BUSY / 2)] {
            let (mut pace, activity) = after_window(changed);
            let later = WINDOW + WINDOW / 2;
            let moved = PageActivity { bytes_moved: allowance + 10 * MIB, ..activity };
            assert_eq!(pace.effort(later, moved, space(0)), None);
            let written = PageActivity { bytes_written: 41 * MIB, ..moved };
            assert!(pace.effort(later, written, space(0)).is_some());
            // A new window begins.
            assert!(pace.effort(later + WINDOW, moved, space(0)).is_some());
        }
    }

    #[test]
    fn while_much_is_changed_the_allowance_comes_with_the_time() {
        let (mut pace, activity) = after_window(10_000);
        for (tenths, mib, is_allowed) in
            [(1, 1, false), (2, 1, false), (3, 1, true), (4, 2, false), (5, 2, true), (19, 8, false)]
        {
            let moved = PageActivity { bytes_moved: mib * MIB, ..activity };
            let effort = pace.effort(WINDOW + WINDOW / 20 * tenths, moved, space(0));
            assert_eq!(effort.is_some(), is_allowed, "{mib} MiB after {tenths} tenths of a second");
        }
    }

    #[test]
    fn what_was_taken_last_is_expected_to_be_taken_again() {
        let (mut pace, activity) = after_window(10_000);
        assert_eq!(pace.kept_bytes(space(0), DiskRoom::Ample), KEPT_BYTES_BUSY);
        let more = PageActivity {
            pages_changed: 20_000,
            bytes_written: activity.bytes_written + 5 * MIB,
            bytes_moved: activity.bytes_moved + MIB,
            ..activity
        };
        pace.effort(2 * WINDOW, more, space(0));
        assert_eq!(pace.kept_bytes(space(0), DiskRoom::Ample), EXPECTED_WINDOWS * 6 * MIB);
        let smaller = PageStoreSpace { lasting_bytes: 320 * MIB, ..space(0) };
        let turned_over = PageStoreSpace { lasting_bytes: 89 * MIB, ..space(0) };
        assert_eq!(pace.kept_bytes(turned_over, DiskRoom::Ample), u64::MAX);
        assert_eq!(pace.kept_bytes(turned_over, DiskRoom::Short), KEPT_BYTES_BUSY);
        assert_eq!(pace.kept_bytes(smaller, DiskRoom::Ample), 20 * MIB);
        pace.effort(3 * WINDOW, PageActivity { bytes_written: more.bytes_written + 5 * MIB, ..more }, space(0));
        assert_eq!(pace.kept_bytes(space(0), DiskRoom::Ample), KEPT_BYTES, "little is being changed");
    }

    #[test]
    fn cleaning_waits_for_a_checkpoint_that_gives_much_back() {
        let (mut pace, activity) = after_window(100);
        assert!(!pace.wants_checkpoint(space(108)));
        assert!(pace.effort(WINDOW, activity, space(108)).is_some());
        assert!(pace.wants_checkpoint(space(109)));
        assert_eq!(pace.effort(WINDOW, activity, space(109)), None);
        // With much being changed checkpoints are dear, and what they give back is taken again.
        let (mut pace, activity) = after_window(10_000);
        assert!(!pace.wants_checkpoint(space(800)));
        assert_eq!(pace.effort(WINDOW + PAUSE_BUSY, activity, space(800)), Some(CleaningEffort::Cheap));
    }
}
