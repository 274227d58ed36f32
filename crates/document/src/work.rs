//! A meter of the work that documents cause, and whether the command that this thread works for is to stop.
//!
//! What is in a document is examined by pure functions, which know of no command, and a document may have millions of elements. Loops over
//! them say how much they do: one unit is about the time that passing over one element takes. When as many units are done as a question
//! costs next to nothing beside, the watch is asked that `commands` has set for this thread. Without a watch, as in background work and
//! recovery, nothing is to stop.
//!
//! What cannot fail, such as a comparison, only counts; who called it asks. Sorting is done here (`sort_by`), in pieces, since a comparison
//! cannot be left in the midst of a sort.

use std::cell::{Cell, RefCell};
use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

/// Why a command is to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Interruption {
    /// MongoDB's name of the code: `Interrupted`, `MaxTimeMSExpired`, ...
    pub name: &'static str,
    /// The text for the client.
    pub message: &'static str,
}

impl fmt::Display for Interruption {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.message)
    }
}

impl std::error::Error for Interruption {}

/// What a command's thread can be asked.
pub trait Watch {
    /// Why the command is to stop, if it is.
    fn interruption(&self) -> Option<Interruption>;
}

/// Units of work between two questions: some ten microseconds.
const UNITS_PER_CHECK: i64 = 1024;
/// Bytes that are copied, compared or passed over in the time of one unit.
const BYTES_PER_UNIT: usize = 128;

/// Bytes of a small element: what one of a long array takes.
const BYTES_PER_ELEMENT: usize = 16;

/// Bytes of a document in which a search for a field counts, and those of one unit of it.
const LONG_SEARCH_BYTES: usize = 4096;
const BYTES_PER_SEARCHED: usize = 64;

thread_local! {
    static WATCH: RefCell<Option<Arc<dyn Watch>>> = const { RefCell::new(None) };
    /// Units until the next question; below zero when it is due.
    static UNITS_LEFT: Cell<i64> = const { Cell::new(UNITS_PER_CHECK) };
}

/// The time during which a watch is asked; what was asked before is asked again afterwards.
#[must_use]
pub struct Watching {
    before: Option<Arc<dyn Watch>>,
}

/// Has what takes long in this thread ask `watch`.
pub fn watch(watch: Arc<dyn Watch>) -> Watching {
    Watching { before: WATCH.replace(Some(watch)) }
}

/// Has nothing in this thread stop, for what must be done to its end once it has begun.
pub fn unwatched() -> Watching {
    Watching { before: WATCH.replace(None) }
}

impl Drop for Watching {
    fn drop(&mut self) {
        WATCH.set(self.before.take());
    }
}

/// Counts work where nothing can be asked.
#[inline]
pub fn count(units: usize) {
    UNITS_LEFT.set(UNITS_LEFT.get().wrapping_sub(units as i64));
}

/// Counts work, and asks when it is time to.
///
/// # Errors
/// The command is to stop.
#[inline]
pub fn done(units: usize) -> Result<(), Interruption> {
    let left = UNITS_LEFT.get().wrapping_sub(units as i64);
    UNITS_LEFT.set(left);
    if left < 0 { check() } else { Ok(()) }
}

/// One unit.
///
/// # Errors
/// The command is to stop.
#[inline]
pub fn step() -> Result<(), Interruption> {
    done(1)
}

/// The units of as many bytes that are copied or passed over.
#[inline]
pub fn of_bytes(bytes: usize) -> usize {
    1 + bytes / BYTES_PER_UNIT
}

/// The units of as many bytes of elements that are passed over one by one. Large values count for more than passing over them takes, which only
/// means that somebody asks early.
#[inline]
pub fn of_elements(bytes: usize) -> usize {
    1 + bytes / BYTES_PER_ELEMENT
}

/// Counts the search for a field in a document of so many bytes. One that is not large is less than what asks for it, which counts itself; one that
/// is large may be found early, so it counts for less than passing over all of it.
#[inline]
pub fn note_search(document: &[u8]) {
    if document.len() >= LONG_SEARCH_BYTES {
        count(document.len() / BYTES_PER_SEARCHED);
    }
}

/// Counts such a search, and asks when it is time to.
///
/// # Errors
/// The command is to stop.
#[inline]
pub fn search(document: &[u8]) -> Result<(), Interruption> {
    if document.len() >= LONG_SEARCH_BYTES { done(document.len() / BYTES_PER_SEARCHED) } else { Ok(()) }
}

/// Asks.
///
/// # Errors
/// The command is to stop.
#[cold]
pub fn check() -> Result<(), Interruption> {
    let interruption = WATCH.with_borrow(|watch| watch.as_ref().and_then(|watch| watch.interruption()));
    // Who is told to stop and goes on is told again at once.
    UNITS_LEFT.set(if interruption.is_none() { UNITS_PER_CHECK } else { 0 });
    interruption.map_or(Ok(()), Err)
}

/// Items that are sorted at once in any case, and at most: when a piece has cost little, the next is larger.
const PIECE_MIN: usize = 64;
const PIECE_MAX: usize = 4096;
/// The same for items that are quickly compared and moved.
const PIECE_OF_COPIES_MAX: usize = 32_768;
/// Units that a piece may take before the next is smaller.
const PIECE_UNITS_MAX: i64 = 1 << 18;

/// Sorts stably, as `sort_by` of a slice. Asks between pieces and while they are merged.
///
/// # Errors
/// The command is to stop; what there was to sort is then lost.
pub fn sort_by<T>(items: &mut Vec<T>, compare: impl FnMut(&T, &T) -> Ordering) -> Result<(), Interruption> {
    sort_in_pieces(items, compare, PIECE_MAX, |sorted, is_end, compare| {
        merge_lasts(sorted, is_end, &mut |left, right| merge(left, right, &mut |left, right| Ok(compare(left, right))))
    })
}

/// The same for small items, quicker.
///
/// # Errors
/// As `sort_by`.
pub fn sort_copies_by<T: Copy>(
    items: &mut Vec<T>,
    compare: impl FnMut(&T, &T) -> Ordering,
) -> Result<(), Interruption> {
    sort_in_pieces(items, compare, PIECE_OF_COPIES_MAX, |sorted, is_end, compare| {
        merge_lasts(sorted, is_end, &mut |left, right| merge_copies(&left, &right, compare))
    })
}

fn sort_in_pieces<T, C: FnMut(&T, &T) -> Ordering>(
    items: &mut Vec<T>,
    mut compare: C,
    piece_max: usize,
    mut merge: impl FnMut(&mut Vec<Vec<T>>, bool, &mut C) -> Result<(), Interruption>,
) -> Result<(), Interruption> {
    if items.len() <= PIECE_MIN {
        items.sort_by(compare);
        return done(items.len());
    }
    let mut rest = std::mem::take(items).into_iter();
    let (mut sorted, mut size): (Vec<Vec<T>>, usize) = (Vec::new(), PIECE_MIN);
    while rest.len() > 0 {
        let mut piece: Vec<T> = rest.by_ref().take(size).collect();
        let before = UNITS_LEFT.get();
        piece.sort_by(&mut compare);
        let cost = before.wrapping_sub(UNITS_LEFT.get());
        size = if cost > PIECE_UNITS_MAX / 4 { size / 2 } else { size * 2 }.clamp(2, piece_max);
        done(piece.len())?;
        sorted.push(piece);
        merge(&mut sorted, rest.len() == 0, &mut compare)?;
    }
    *items = sorted.pop().unwrap_or_default();
    Ok(())
}

/// The same by a comparison that may take long and asks itself.
///
/// # Errors
/// The command is to stop; what there was to sort is then lost.
pub fn try_sort_by<T>(
    items: &mut Vec<T>,
    mut compare: impl FnMut(&T, &T) -> Result<Ordering, Interruption>,
) -> Result<(), Interruption> {
    let mut rest = std::mem::take(items).into_iter();
    let mut sorted = Vec::new();
    while let Some(item) = rest.next() {
        sorted.push(vec![item]);
        merge_lasts(&mut sorted, rest.len() == 0, &mut |left, right| merge(left, right, &mut compare))?;
    }
    *items = sorted.pop().unwrap_or_default();
    Ok(())
}

/// Merges the last of several sorted pieces until each is more than twice as long as the one behind it, or until there is one.
fn merge_lasts<T>(
    sorted: &mut Vec<Vec<T>>,
    are_all: bool,
    merge: &mut impl FnMut(Vec<T>, Vec<T>) -> Result<Vec<T>, Interruption>,
) -> Result<(), Interruption> {
    while let [.., left, right] = sorted.as_slice()
        && (left.len() <= right.len() * 2 || are_all)
    {
        if let (Some(right), Some(left)) = (sorted.pop(), sorted.pop()) {
            sorted.push(merge(left, right)?);
        }
    }
    Ok(())
}

/// Merges two sorted pieces.
fn merge<T>(
    left: Vec<T>,
    right: Vec<T>,
    compare: &mut impl FnMut(&T, &T) -> Result<Ordering, Interruption>,
) -> Result<Vec<T>, Interruption> {
    let mut merged = Vec::with_capacity(left.len() + right.len());
    let (mut left, mut right) = (left.into_iter(), right.into_iter());
    let (mut first, mut second) = (left.next(), right.next());
    while let (Some(lesser), Some(greater)) = (&first, &second) {
        step()?;
        if compare(lesser, greater)?.is_gt() {
            merged.extend(std::mem::replace(&mut second, right.next()));
        } else {
            merged.extend(std::mem::replace(&mut first, left.next()));
        }
    }
    merged.extend(first.into_iter().chain(left));
    merged.extend(second.into_iter().chain(right));
    Ok(merged)
}

/// The same for items that are copied, which needs no branch that the processor would have to guess.
fn merge_copies<T: Copy>(
    left: &[T],
    right: &[T],
    compare: &mut impl FnMut(&T, &T) -> Ordering,
) -> Result<Vec<T>, Interruption> {
    let mut merged = Vec::with_capacity(left.len() + right.len());
    let (mut first, mut second) = (0, 0);
    while let (Some(lesser), Some(greater)) = (left.get(first), right.get(second)) {
        step()?;
        let is_greater = compare(lesser, greater).is_gt();
        merged.push(if is_greater { *greater } else { *lesser });
        first += usize::from(!is_greater);
        second += usize::from(is_greater);
    }
    merged.extend_from_slice(left.get(first..).unwrap_or_default());
    merged.extend_from_slice(right.get(second..).unwrap_or_default());
    Ok(merged)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

    use proptest::prelude::*;

    use super::*;

    /// Wants the command to stop when it has been asked so often.
    struct StopAfter(AtomicU64);

    impl Watch for StopAfter {
        fn interruption(&self) -> Option<Interruption> {
            let is_over = self.0.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1)).is_err();
            is_over.then_some(Interruption { name: "Interrupted", message: "operation was interrupted" })
        }
    }

    fn stop_after(questions: u64) -> Watching {
        watch(Arc::new(StopAfter(AtomicU64::new(questions))))
    }

    #[test]
    fn asks_at_every_so_many_units() {
        let _watching = stop_after(3);
        let steps = (0..).take_while(|_| step().is_ok()).count();
        assert!((2048..=8192).contains(&steps), "{steps}");
        assert!(done(1 << 20).is_err());
    }

    #[test]
    fn counted_work_is_asked_for_at_the_next_step() {
        let _watching = stop_after(0);
        count(10_000);
        assert!(step().is_err());
    }

    #[test]
    fn nothing_stops_without_a_watch() {
        let _watching = stop_after(0);
        {
            let _unwatched = unwatched();
            assert!(check().is_ok());
        }
        assert!(check().is_err());
    }

    #[test]
    fn a_sort_ends_when_the_command_is_to_stop() {
        let _watching = stop_after(10);
        let mut compared = 0;
        let mut numbers: Vec<u32> = (0..1_000_000u32).map(|number| number.wrapping_mul(2_654_435_761)).collect();
        let outcome = sort_by(&mut numbers, |left, right| {
            compared += 1;
            left.cmp(right)
        });
        assert!(outcome.is_err());
        assert!(compared < 200_000, "{compared}");
    }

    /// Comparisons of large values count, so that few are made between two questions.
    #[test]
    fn dear_items_are_sorted_in_small_pieces() {
        let _watching = stop_after(30);
        let mut compared = 0;
        let mut numbers: Vec<u32> = (0..100_000).rev().collect();
        let outcome = sort_by(&mut numbers, |left, right| {
            compared += 1;
            count(100_000);
            left.cmp(right)
        });
        assert!(outcome.is_err());
        assert!(compared < 2_000, "{compared}");
    }

    proptest! {
        #[test]
        fn sorts_stably(mut items in proptest::collection::vec((0u8..50, any::<u16>()), 0..3000)) {
            let mut expected = items.clone();
            expected.sort_by_key(|item| item.0);
            let mut tried = items.clone();
            let mut copied = items.clone();
            sort_by(&mut items, |left, right| left.0.cmp(&right.0)).unwrap();
            prop_assert_eq!(&items, &expected);
            sort_copies_by(&mut copied, |left, right| left.0.cmp(&right.0)).unwrap();
            prop_assert_eq!(&copied, &expected);
            try_sort_by(&mut tried, |left, right| Ok(left.0.cmp(&right.0))).unwrap();
            prop_assert_eq!(tried, expected);
        }

        #[test]
        fn sorts_dear_items(mut items in proptest::collection::vec((0u8..50, any::<u16>()), 0..300)) {
            let mut expected = items.clone();
            expected.sort_by_key(|item| item.0);
            let dear = |left: &(u8, u16), right: &(u8, u16)| {
                count(1 << 17);
                left.0.cmp(&right.0)
            };
            sort_by(&mut items, dear).unwrap();
            prop_assert_eq!(items, expected);
        }
    }
}
