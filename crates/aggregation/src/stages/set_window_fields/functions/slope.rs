//! `$derivative` and `$integral`: values along the position.

use bson::raw::{RawBson, RawBsonRef};
use document::Number;
use query_language::expression::Expression;
use query_language::expression::sort_pattern::SortPattern;

use super::super::window::{Window, positions};
use super::super::{Partition, unsuitable};
use super::Numbers;
use crate::error::{AggregationError, Result};
use crate::stages::position::Position;

/// The unit of time in which positions are measured that are dates.
#[derive(Debug)]
pub(crate) struct TimeScale {
    pub(crate) name: String,
    pub(crate) milliseconds: f64,
}

/// The positions in their unit.
fn scaled(positions: &[Position], scale: Option<&TimeScale>, name: &str) -> Result<Vec<f64>> {
    let scale_one = |position: &Position| match (position, scale) {
        (Position::Number(number), None) => Ok(number.to_f64()),
        (Position::Date(date), Some(scale)) => Ok(date.timestamp_millis() as f64 / scale.milliseconds),
        (Position::Number(_), Some(_)) => {
            let message = format!("{name} with a 'unit' expects the sortBy field to be a Date");
            Err(AggregationError::numbered(5429513, message))
        }
        (Position::Date(_), None) => {
            let message = format!("{name} where the sortBy is a Date requires a 'unit'");
            Err(AggregationError::numbered(5429413, message))
        }
    };
    positions.iter().map(scale_one).collect()
}

/// The number that an expression gives; `None` when it is null or missing.
pub(super) fn number_of(partition: &Partition, input: &Expression, at: usize, name: &str) -> Result<Option<Number>> {
    let value = partition.value(input, at)?.unwrap_or(RawBson::Null);
    match value.as_raw_bson_ref() {
        RawBsonRef::Null | RawBsonRef::Undefined => Ok(None),
        value => match Number::from_bson(value) {
            Some(number) => Ok(Some(number)),
            None => {
                Err(unsuitable(5423900, &format!("The input value of {name} window function must be numeric"), value))
            }
        },
    }
}

/// From the first document of a window to its last; null where they are one, or have the same position.
pub(super) fn derivative(
    partition: &mut Partition,
    sort: Option<&SortPattern>,
    input: &Expression,
    scale: Option<&TimeScale>,
    window: &Window,
) -> Result<Numbers> {
    const NAME: &str = "$derivative";
    let positions = scaled(&positions(partition, sort)?, scale, NAME)?;
    let ranges = window.ranges(partition, sort)?;
    let mut results = Vec::with_capacity(partition.len());
    for range in ranges {
        let (first, last) = (range.start, range.end.saturating_sub(1));
        let rise = match range.len() {
            0 | 1 => None,
            _ => {
                let ends = (number_of(partition, input, first, NAME)?, number_of(partition, input, last, NAME)?);
                ends.0.zip(ends.1).map(|(first, last)| last.subtract(first))
            }
        };
        let run = positions.get(last).zip(positions.get(first)).map_or(0.0, |(last, first)| last - first);
        let slope = rise.filter(|_| run != 0.0).and_then(|rise| rise.divide(Number::Double(run)));
        results.push(Some(slope.map_or(RawBson::Null, Number::to_bson)));
    }
    partition.hold(results.len() * (size_of::<Option<RawBson>>() + size_of::<f64>()))?;
    Ok(results)
}

/// By trapezoids between neighbours. Documents without a number are passed over.
pub(super) fn integral(
    partition: &mut Partition,
    sort: Option<&SortPattern>,
    input: &Expression,
    scale: Option<&TimeScale>,
    window: &Window,
) -> Result<Numbers> {
    const NAME: &str = "$integral";
    let positions = scaled(&positions(partition, sort)?, scale, NAME)?;
    // The documents that count, and the areas from each of them to the next.
    let (mut points, mut values): (Vec<usize>, Vec<(f64, f64)>) = (Vec::new(), Vec::new());
    for (number, position) in positions.iter().enumerate() {
        if let Some(value) = number_of(partition, input, number, NAME)? {
            points.push(number);
            values.push((*position, value.to_f64()));
        }
    }
    let areas = values.windows(2).map(|pair| match pair {
        [(x, y), (next_x, next_y)] => (next_x - x) * (y + next_y) / 2.0,
        _ => 0.0,
    });
    let sums = Sums::new(areas.collect());
    let mut results = Vec::with_capacity(partition.len());
    for range in window.ranges(partition, sort)? {
        let first = points.partition_point(|point| *point < range.start);
        let end = points.partition_point(|point| *point < range.end);
        results.push(Some(match end - first {
            0 => RawBson::Null,
            count => RawBson::Double(sums.of(first, first + count - 1)),
        }));
    }
    partition.hold(results.len() * (size_of::<Option<RawBson>>() + 6 * size_of::<f64>()))?;
    Ok(results)
}

/// Sums of ranges of numbers. Each is of the numbers themselves, not a difference of larger sums.
struct Sums {
    /// The sums of pairs, of pairs of pairs and so on; the numbers themselves are the second half.
    nodes: Vec<f64>,
}

impl Sums {
    fn new(numbers: Vec<f64>) -> Sums {
        let len = numbers.len();
        let mut nodes = vec![0.0; len];
        nodes.extend(numbers);
        for at in (1..len).rev() {
            let pair = [2 * at, 2 * at + 1].map(|child| nodes.get(child).copied().unwrap_or(0.0));
            if let Some(node) = nodes.get_mut(at) {
                *node = pair.iter().sum();
            }
        }
        Sums { nodes }
    }

    fn of(&self, start: usize, end: usize) -> f64 {
        let (mut sum, len) = (0.0, self.nodes.len() / 2);
        let (mut low, mut high) = (start + len, end + len);
        while low < high {
            if low % 2 == 1 {
                sum += self.nodes.get(low).copied().unwrap_or(0.0);
                low += 1;
            }
            if high % 2 == 1 {
                high -= 1;
                sum += self.nodes.get(high).copied().unwrap_or(0.0);
            }
            (low, high) = (low / 2, high / 2);
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::Sums;

    #[test]
    fn sums_of_all_ranges() {
        for len in 0..20_usize {
            let sums = Sums::new((0..len).map(|number| (number * number) as f64).collect());
            for start in 0..=len {
                for end in start..=len {
                    let expected: usize = (start..end).map(|number| number * number).sum();
                    assert_eq!(sums.of(start, end), expected as f64, "{start}..{end} of {len}");
                }
            }
        }
    }
}
