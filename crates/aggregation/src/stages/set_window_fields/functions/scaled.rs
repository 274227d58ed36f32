//! `$minMaxScaler`: where a number lies between the least and the greatest of its window, on a scale of the client's.

use std::collections::VecDeque;
use std::ops::Range;

use bson::raw::RawBson;
use document::{Number, work};
use query_language::expression::Expression;
use query_language::expression::sort_pattern::SortPattern;

use super::super::Partition;
use super::super::window::Window;
use super::Numbers;
use super::slope::number_of;
use crate::error::Result;

/// The ends of the scale.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scale {
    pub(crate) min: Number,
    pub(crate) max: Number,
}

/// Null where there is no number.
pub(super) fn evaluate(
    partition: &mut Partition,
    sort: Option<&SortPattern>,
    input: &Expression,
    scale: Scale,
    window: &Window,
) -> Result<Numbers> {
    let ranges = window.ranges(partition, sort)?;
    let kept = size_of::<Option<Number>>() + 2 * size_of::<usize>() + size_of::<Option<RawBson>>();
    partition.hold(partition.len() * kept)?;
    let numbers = (0..partition.len()).map(|at| number_of(partition, input, at, "$minMaxScaler"));
    let numbers = numbers.collect::<Result<Vec<_>>>()?;
    let mut extremes = Extremes::new(&numbers);
    let mut results = Vec::with_capacity(partition.len());
    for (number, range) in numbers.iter().zip(ranges) {
        work::step()?;
        extremes.move_to(range)?;
        let scaled = number.zip(extremes.least_and_greatest()).map(|(number, ends)| scale.place(number, ends));
        results.push(Some(scaled.map_or(RawBson::Null, Number::to_bson)));
    }
    Ok(results)
}

impl Scale {
    fn place(self, number: Number, (least, greatest): (Number, Number)) -> Number {
        let part = number.subtract(least).divide(greatest.subtract(least));
        // All are the same: they are at the beginning.
        part.map_or(self.min, |part| self.min.add(part.multiply(self.max.subtract(self.min))))
    }
}

/// The least and the greatest number of a window that mostly moves on.
struct Extremes<'n> {
    numbers: &'n [Option<Number>],
    range: Range<usize>,
    /// Places of numbers, rising: whatever is behind a place and less has taken its place. The first is the least.
    rising: VecDeque<usize>,
    /// The same for the greatest.
    falling: VecDeque<usize>,
}

impl<'n> Extremes<'n> {
    fn new(numbers: &'n [Option<Number>]) -> Self {
        Self { numbers, range: 0..0, rising: VecDeque::new(), falling: VecDeque::new() }
    }

    fn at(&self, place: usize) -> Option<Number> {
        self.numbers.get(place).copied().flatten()
    }

    fn move_to(&mut self, range: Range<usize>) -> Result<()> {
        if range.start < self.range.start || range.end < self.range.end || range.start > self.range.end {
            self.rising.clear();
            self.falling.clear();
            self.range = range.start..range.start;
        }
        for place in self.range.end..range.end {
            work::step()?;
            let Some(number) = self.at(place) else { continue };
            while self.rising.back().and_then(|last| self.at(*last)).is_some_and(|last| last.compare(number).is_ge()) {
                self.rising.pop_back();
            }
            while self.falling.back().and_then(|last| self.at(*last)).is_some_and(|last| last.compare(number).is_le()) {
                self.falling.pop_back();
            }
            self.rising.push_back(place);
            self.falling.push_back(place);
        }
        for places in [&mut self.rising, &mut self.falling] {
            while places.front().is_some_and(|first| *first < range.start) {
                places.pop_front();
            }
        }
        self.range = range;
        Ok(())
    }

    fn least_and_greatest(&self) -> Option<(Number, Number)> {
        let end = |places: &VecDeque<usize>| places.front().and_then(|place| self.at(*place));
        end(&self.rising).zip(end(&self.falling))
    }
}
