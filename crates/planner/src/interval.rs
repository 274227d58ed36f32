//! Intervals of BSON values, and sorted lists of disjoint ones: what a field of an index is searched by.
//!
//! Always in ascending BSON order, whatever the direction of the index; `key_ranges` turns them into bytes. What takes long here ends early when the
//! command is to stop, with bounds that mean nothing: `candidates` asks once more before it uses any.

use std::cmp::Ordering;

use bson::RawBsonRef;
use document::{compare_views, work};
use query_language::filter::Literal;

/// One end of an interval.
#[derive(Debug, Clone)]
pub struct Bound {
    /// The value.
    pub value: Literal,
    /// Whether the value itself is inside.
    pub inclusive: bool,
}

/// All values between two bounds.
#[derive(Debug, Clone)]
pub struct Interval {
    /// The lower end.
    pub start: Bound,
    /// The upper end.
    pub end: Bound,
}

impl Bound {
    /// A bound whose value is inside.
    pub fn inclusive(value: RawBsonRef<'_>) -> Bound {
        Bound { value: Literal::new(value), inclusive: true }
    }

    /// A bound whose value is outside.
    pub fn exclusive(value: RawBsonRef<'_>) -> Bound {
        Bound { value: Literal::new(value), inclusive: false }
    }

    fn compare_values(&self, other: &Bound) -> Ordering {
        compare_views(self.value.view(), other.value.view())
    }
}

/// Orders lower ends: of equal values the inclusive one begins earlier.
fn compare_starts(left: &Bound, right: &Bound) -> Ordering {
    left.compare_values(right).then_with(|| right.inclusive.cmp(&left.inclusive))
}

/// Orders upper ends: of equal values the exclusive one ends earlier.
fn compare_ends(left: &Bound, right: &Bound) -> Ordering {
    left.compare_values(right).then_with(|| left.inclusive.cmp(&right.inclusive))
}

impl Interval {
    /// The values between two bounds.
    pub fn new(start: Bound, end: Bound) -> Interval {
        Interval { start, end }
    }

    /// Everything.
    pub fn full() -> Interval {
        Interval::new(Bound::inclusive(RawBsonRef::MinKey), Bound::inclusive(RawBsonRef::MaxKey))
    }

    /// One value.
    pub fn point(value: RawBsonRef<'_>) -> Interval {
        Interval::new(Bound::inclusive(value), Bound::inclusive(value))
    }

    /// Whether there is nothing inside.
    pub fn is_empty(&self) -> bool {
        match self.start.compare_values(&self.end) {
            Ordering::Less => false,
            Ordering::Equal => !(self.start.inclusive && self.end.inclusive),
            Ordering::Greater => true,
        }
    }

    /// Whether exactly one value (with those equal to it) is inside.
    pub fn is_point(&self) -> bool {
        self.start.inclusive && self.end.inclusive && self.start.compare_values(&self.end).is_eq()
    }

    /// Whether everything is inside.
    pub fn is_full(&self) -> bool {
        matches!(
            (self.start.value.value(), self.end.value.value()),
            (RawBsonRef::MinKey, RawBsonRef::MaxKey) if self.start.inclusive && self.end.inclusive
        )
    }
}

/// Disjoint intervals in ascending order.
#[derive(Debug, Clone, Default)]
pub struct IntervalList {
    intervals: Vec<Interval>,
}

impl IntervalList {
    /// A list of one interval.
    pub fn one(interval: Interval) -> IntervalList {
        IntervalList::new(vec![interval])
    }

    /// Everything.
    pub fn full() -> IntervalList {
        IntervalList::one(Interval::full())
    }

    /// Nothing.
    pub fn empty() -> IntervalList {
        IntervalList::default()
    }

    /// The union of any intervals.
    pub fn new(mut intervals: Vec<Interval>) -> IntervalList {
        intervals.retain(|interval| !interval.is_empty());
        if work::sort_by(&mut intervals, |left, right| compare_starts(&left.start, &right.start)).is_err() {
            return IntervalList::empty();
        }
        let mut merged: Vec<Interval> = Vec::with_capacity(intervals.len());
        for interval in intervals {
            match merged.last_mut() {
                Some(last) if touches(&last.end, &interval.start) => {
                    if compare_ends(&interval.end, &last.end).is_gt() {
                        last.end = interval.end;
                    }
                }
                _ => merged.push(interval),
            }
        }
        IntervalList { intervals: merged }
    }

    /// The intervals.
    pub fn intervals(&self) -> &[Interval] {
        &self.intervals
    }

    /// Whether nothing is inside.
    pub fn is_empty(&self) -> bool {
        self.intervals.is_empty()
    }

    /// Whether everything is inside.
    pub fn is_full(&self) -> bool {
        matches!(&*self.intervals, [only] if only.is_full())
    }

    /// Whether there are only single values in it.
    pub fn is_points(&self) -> bool {
        self.intervals.iter().all(Interval::is_point)
    }

    /// Whether it is a single value.
    pub fn is_single_point(&self) -> bool {
        matches!(&*self.intervals, [only] if only.is_point())
    }

    /// What is in any of several.
    pub fn union_of(lists: impl IntoIterator<Item = IntervalList>) -> IntervalList {
        IntervalList::new(lists.into_iter().flat_map(|list| list.intervals).collect())
    }

    /// What is in all of several. Lists of like length are put together, so that many with a few intervals each take no square of them.
    pub fn intersection_of(lists: impl IntoIterator<Item = IntervalList>) -> IntervalList {
        let mut lists: Vec<IntervalList> = lists.into_iter().collect();
        while lists.len() > 1 {
            lists = lists
                .chunks(2)
                .map(|pair| match pair {
                    [left, right] => left.intersect(right),
                    others => others.first().cloned().unwrap_or_else(IntervalList::full),
                })
                .collect();
        }
        lists.pop().unwrap_or_else(IntervalList::full)
    }

    /// What is in both.
    pub fn intersect(&self, other: &IntervalList) -> IntervalList {
        let (mut left, mut right) = (self.intervals.iter().peekable(), other.intervals.iter().peekable());
        let mut common = Vec::new();
        while let (Some(first), Some(second)) = (left.peek(), right.peek()) {
            if work::step().is_err() {
                break;
            }
            let start = if compare_starts(&first.start, &second.start).is_ge() { &first.start } else { &second.start };
            let first_ends = compare_ends(&first.end, &second.end).is_le();
            let end = if first_ends { &first.end } else { &second.end };
            common.push(Interval::new(start.clone(), end.clone()));
            if first_ends {
                left.next()
            } else {
                right.next()
            };
        }
        common.retain(|interval| !interval.is_empty());
        IntervalList { intervals: common }
    }

    /// What is not in it.
    pub fn complement(&self) -> IntervalList {
        let mut gaps = Vec::with_capacity(self.intervals.len() + 1);
        let mut start = Bound::inclusive(RawBsonRef::MinKey);
        for interval in &self.intervals {
            let end = Bound { value: interval.start.value.clone(), inclusive: !interval.start.inclusive };
            gaps.push(Interval::new(start, end));
            start = Bound { value: interval.end.value.clone(), inclusive: !interval.end.inclusive };
        }
        gaps.push(Interval::new(start, Bound::inclusive(RawBsonRef::MaxKey)));
        IntervalList::new(gaps)
    }

    /// Whether everything in `self` is in `other`.
    pub fn is_within(&self, other: &IntervalList) -> bool {
        let mut others = other.intervals.iter().peekable();
        self.intervals.iter().all(|inner| {
            // What ends before this one does holds none of those that follow either.
            while others.next_if(|outer| compare_ends(&outer.end, &inner.end).is_lt()).is_some() {}
            others.peek().is_some_and(|outer| compare_starts(&outer.start, &inner.start).is_le())
        })
    }
}

/// Whether nothing lies between an upper end and a later lower end.
fn touches(end: &Bound, start: &Bound) -> bool {
    match start.compare_values(end) {
        Ordering::Less => true,
        Ordering::Equal => end.inclusive || start.inclusive,
        Ordering::Greater => false,
    }
}
