//! The steps of `$densify` along a number or a date.

use bson::raw::{RawBson, RawBsonRef};
use document::Number;
use query_language::expression::{TimeUnit, show_value};

use crate::error::{AggregationError, Result};
use crate::stages::position::Position;

/// How far it is from one position to the next.
#[derive(Debug, Clone, Copy)]
pub(super) enum Step {
    Number(Number),
    /// So many units of time; with the unit's name.
    Time(i64, TimeUnit),
}

/// The position of a value that is one on the axis: no document lies at NaN.
pub(super) fn position_of(value: RawBsonRef<'_>) -> Option<Position> {
    Position::of(value).filter(|position| !matches!(position, Position::Number(number) if number.is_nan()))
}

/// The value of a position.
pub(super) fn value_at(position: Position) -> RawBson {
    match position {
        Position::Number(number) => number.to_bson(),
        Position::Date(date) => RawBson::DateTime(date),
    }
}

impl Step {
    /// The position of a document's value, which must be of the step's kind.
    pub(super) fn position_of(self, value: RawBsonRef<'_>) -> Result<Position> {
        match (self, position_of(value)) {
            (Step::Number(_), Some(position @ Position::Number(_)))
            | (Step::Time(..), Some(position @ Position::Date(_))) => Ok(position),
            (Step::Number(_), _) => {
                let message = format!("Densify field type must be numeric, but found: {}", show_value(value));
                Err(AggregationError::numbered(5733201, message))
            }
            (Step::Time(..), _) => {
                let message =
                    format!("Densify field type must be a date with a unit, but found: {}", show_value(value));
                Err(AggregationError::numbered(6053600, message))
            }
        }
    }

    /// The next position.
    pub(super) fn after(self, position: Position) -> Result<Position> {
        match (self, position) {
            (Step::Number(step), Position::Number(number)) => {
                let next = number.add(step);
                // A step that is lost in the digits of what it is added to would go on for ever.
                if next.compare(number).is_gt() { Ok(Position::Number(next)) } else { Err(too_small()) }
            }
            (Step::Time(amount, unit), Position::Date(date)) => Ok(Position::Date(unit.add(date, amount)?)),
            (_, position) => Ok(position),
        }
    }
}

fn too_small() -> AggregationError {
    let message = "The step of $densify is too small beside the values, so that adding it changes nothing";
    AggregationError::new(query_language::ErrorKind::BadValue, message)
}
