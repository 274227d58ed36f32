//! Where a document lies on the axis of `$densify`, a number or a date, and the steps between.

use std::cmp::Ordering;

use bson::DateTime;
use bson::raw::{RawBson, RawBsonRef};
use document::Number;
use query_language::expression::{TimeUnit, show_value};

use crate::error::{AggregationError, Result};

/// A number or a date.
#[derive(Debug, Clone, Copy)]
pub(super) enum Position {
    Number(Number),
    Date(DateTime),
}

/// How far it is from one position to the next.
#[derive(Debug, Clone, Copy)]
pub(super) enum Step {
    Number(Number),
    /// So many units of time; with the unit's name.
    Time(i64, TimeUnit),
}

impl Position {
    /// The position of a value; `None` when it is neither a number nor a date.
    pub(super) fn of(value: RawBsonRef<'_>) -> Option<Position> {
        match value {
            RawBsonRef::DateTime(date) => Some(Position::Date(date)),
            other => Number::from_bson(other).filter(|number| !number.is_nan()).map(Position::Number),
        }
    }

    pub(super) fn to_bson(self) -> RawBson {
        match self {
            Position::Number(number) => number.to_bson(),
            Position::Date(date) => RawBson::DateTime(date),
        }
    }

    /// The order of two positions of one kind; numbers come before dates.
    pub(super) fn compare(self, other: Position) -> Ordering {
        match (self, other) {
            (Position::Number(number), Position::Number(other)) => number.compare(other),
            (Position::Date(date), Position::Date(other)) => date.cmp(&other),
            (Position::Number(_), Position::Date(_)) => Ordering::Less,
            (Position::Date(_), Position::Number(_)) => Ordering::Greater,
        }
    }
}

impl Step {
    /// The position of a document's value, which must be of the step's kind.
    pub(super) fn position_of(self, value: RawBsonRef<'_>) -> Result<Position> {
        match (self, Position::of(value)) {
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
