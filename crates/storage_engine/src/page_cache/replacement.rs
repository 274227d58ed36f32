//! Which page leaves the cache: a clock whose pages earn rounds by being used again.
//!
//! Called by `page_cache` (a page comes, a page is used) and by `writing` (the hands). Knows frame headers only.
//!
//! A page that has just come is worth nothing until it is used again, and what happens to it right after it came counts as one use:
//! the changes of a document touch its page several times within microseconds. So whoever walks over more than the cache holds passes through a small part of
//! it, and one who does so in circles finds again what the rest of the cache has kept. With one bit a page such a walk would push out everything,
//! itself included. A generalized clock (Smith, "Sequentiality and prefetching in database systems", TODS 1978) with the correlated uses of LRU-K and 2Q
//! (O'Neil and others, SIGMOD 1993; Johnson and Shasha, VLDB 1994).
//!
//! ```text
//! comes: unused, worth 0 ──used again──▶ the hand passes: unused, worth + 2 (4 at most)
//!           │ the hand passes                 │ the hand passes an unused page: worth - 1
//!           ▼                                 ▼
//!         leaves ◀────────────────────── worth 0 ─one in sixteen─▶ worth 1
//! ```

use std::sync::atomic::Ordering;

use crate::frame_arena::FrameHeader;

/// Rounds of the hand that a page earns when it was used since the last.
const WORTH_OF_USE: u8 = 2;
/// Rounds of the hand that a page that is no longer used stays, at most: what two uses earn.
pub(super) const WORTH_MAX: u8 = 2 * WORTH_OF_USE;
/// One in so many pages that would leave stays.
const SPARED_ONE_IN: u32 = 16;
/// An era of the cache is over when as many pages have come as are one in this many of its frames.
const FRAMES_ERAS: usize = 128;
/// A page's uses count when it came so many eras ago.
const ERAS_OF_COMING: u32 = 2;

/// Pages that come in one era of a cache of so many frames.
pub(super) fn era_pages(frames: usize) -> u64 {
    (frames / FRAMES_ERAS).max(1) as u64
}

/// A page has come into the frame, in this era.
pub(super) fn note_arrival(header: &FrameHeader, era: u32) {
    header.arrived_in.store(era, Ordering::Relaxed);
    header.worth.store(0, Ordering::Relaxed);
    header.used.store(false, Ordering::Relaxed);
}

/// The frame's page is used. `era` is asked for only when it matters.
#[inline]
pub(super) fn note_use(header: &FrameHeader, era: impl FnOnce() -> u32) {
    if !header.used.load(Ordering::Relaxed)
        && era().wrapping_sub(header.arrived_in.load(Ordering::Relaxed)) >= ERAS_OF_COMING
    {
        header.used.store(true, Ordering::Relaxed);
    }
}

/// Which of the pages that would leave stay for another round: a few that nobody can predict, so that they leave in another order
/// than they came. A walk in circles would otherwise be one round behind the hand for ever, and never find a page again.
pub(super) struct Spared(u32);

impl Spared {
    pub(super) fn new() -> Spared {
        Spared(1)
    }

    /// Pseudo-random, the same in every run: a linear congruential generator (Knuth, volume 2, 3.3.4).
    fn next_is(&mut self) -> bool {
        self.0 = self.0.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (self.0 >> 16).is_multiple_of(SPARED_ONE_IN)
    }
}

/// The hand passes a frame that holds a page; whether the page is to leave.
pub(super) fn leaves_now(header: &FrameHeader, spared: &mut Spared) -> bool {
    let worth = header.worth.load(Ordering::Relaxed);
    let next = match (header.used.swap(false, Ordering::Relaxed), worth) {
        (true, _) => (worth + WORTH_OF_USE).min(WORTH_MAX),
        (false, 0) if spared.next_is() => 1,
        (false, 0) => return true,
        (false, _) => worth - 1,
    };
    header.worth.store(next, Ordering::Relaxed);
    false
}

/// How choosy writing ahead of eviction is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Cold {
    /// Pages that leave when the hand comes to them.
    Leaving,
    /// Pages not used since the hand's last round.
    Unused,
    /// All.
    Any,
}

impl Cold {
    /// Whether the frame's page is among them.
    pub(super) fn includes(self, header: &FrameHeader) -> bool {
        let is_unused = !header.used.load(Ordering::Relaxed);
        match self {
            Cold::Leaving => is_unused && header.worth.load(Ordering::Relaxed) == 0,
            Cold::Unused => is_unused,
            Cold::Any => true,
        }
    }

    /// When a round over all frames found too few.
    pub(super) fn wider(self) -> Cold {
        match self {
            Cold::Leaving => Cold::Unused,
            Cold::Unused | Cold::Any => Cold::Any,
        }
    }
}
