//! `$locf` and `$linearFill`: values in the place of those that are null or missing.

use bson::raw::RawBson;
use document::Number;
use query_language::accumulator::value_bytes;
use query_language::expression::Expression;
use query_language::expression::sort_pattern::SortPattern;

use super::super::distance::as_f64;
use super::super::results::Results;
use super::super::window::positions;
use super::super::{Partition, unsuitable};
use super::Numbers;
use crate::error::{AggregationError, Result};
use crate::stages::position::Position;

/// The last value before; null where there is none.
pub(super) fn carry_forward(partition: &mut Partition, expression: &Expression) -> Result<Results> {
    let (mut results, mut last) = (Results::new(), RawBson::Null);
    for number in 0..partition.len() {
        if let Some(value) = partition.value(expression, number)?.filter(|value| !is_nothing(value)) {
            last = value;
        }
        query_language::before_allocating_if_large(value_bytes(&last))?;
        results.push(partition, Some(last.clone()))?;
    }
    Ok(results)
}

/// A known value and where it is.
struct Known {
    number: usize,
    at: Position,
    value: Number,
}

/// On the line between the known values before and behind; null where one of them is not there.
pub(super) fn interpolate(
    partition: &mut Partition,
    expression: &Expression,
    sort: Option<&SortPattern>,
) -> Result<Numbers> {
    let positions = positions(partition, sort)?;
    if positions.windows(2).any(|pair| matches!(pair, [one, other] if one.compare(*other).is_eq())) {
        let message = "There can be no repeated values in the sort field of $linearFill";
        return Err(AggregationError::numbered(6050106, message));
    }
    let mut results: Numbers = Vec::with_capacity(partition.len());
    let mut before: Option<Known> = None;
    for (number, at) in positions.iter().enumerate() {
        let value = partition.value(expression, number)?.filter(|value| !is_nothing(value));
        let Some(value) = value else {
            results.push(Some(RawBson::Null));
            continue;
        };
        let Some(known) = Number::from_bson(value.as_raw_bson_ref()) else {
            return Err(unsuitable(6050201, "Value to be filled must be numeric or nullish", value.as_raw_bson_ref()));
        };
        let known = Known { number, at: *at, value: known };
        if let Some(before) = &before {
            for (gap, at) in positions.iter().enumerate().take(number).skip(before.number + 1) {
                if let Some(result) = results.get_mut(gap) {
                    *result = Some(between(before, &known, *at));
                }
            }
        }
        results.push(Some(value));
        before = Some(known);
    }
    partition.hold(results.len() * size_of::<Option<RawBson>>())?;
    Ok(results)
}

fn between(left: &Known, right: &Known, at: Position) -> RawBson {
    let share = (as_f64(at) - as_f64(left.at)) / (as_f64(right.at) - as_f64(left.at));
    let rise = right.value.subtract(left.value);
    let value = left.value.add(rise.multiply(Number::Double(share)));
    value.to_bson()
}

fn is_nothing(value: &RawBson) -> bool {
    matches!(value, RawBson::Null | RawBson::Undefined)
}
