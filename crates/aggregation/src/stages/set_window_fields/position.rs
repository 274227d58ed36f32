//! What a window that goes by values is measured along: numbers or dates.

use std::cmp::Ordering;

use bson::DateTime;
use bson::raw::RawBsonRef;
use document::Number;
use query_language::expression::TimeUnit;

use crate::error::Result;

/// A number or a date.
#[derive(Debug, Clone, Copy)]
pub(super) enum Position {
    Number(Number),
    Date(DateTime),
}

/// How far from a document's own position.
#[derive(Debug, Clone, Copy)]
pub(super) enum Distance {
    Number(Number),
    Time(i64, TimeUnit),
}

impl Position {
    /// The position of a value; `None` when it is neither.
    pub(super) fn of(value: RawBsonRef<'_>) -> Option<Position> {
        match value {
            RawBsonRef::DateTime(date) => Some(Position::Date(date)),
            other => Number::from_bson(other).map(Position::Number),
        }
    }

    /// The order of two; numbers come before dates.
    pub(super) fn compare(self, other: Position) -> Ordering {
        match (self, other) {
            (Position::Number(number), Position::Number(other)) => number.compare(other),
            (Position::Date(date), Position::Date(other)) => date.cmp(&other),
            (Position::Number(_), Position::Date(_)) => Ordering::Less,
            (Position::Date(_), Position::Number(_)) => Ordering::Greater,
        }
    }

    /// The position at a distance; `None` when the distance is of the other kind.
    pub(super) fn at(self, distance: Distance) -> Result<Option<Position>> {
        Ok(match (self, distance) {
            (Position::Number(number), Distance::Number(distance)) => Some(Position::Number(number.add(distance))),
            (Position::Date(date), Distance::Time(amount, unit)) => Some(Position::Date(unit.add(date, amount)?)),
            _ => None,
        })
    }

    /// The position as a number; dates in milliseconds.
    pub(super) fn to_f64(self) -> f64 {
        match self {
            Position::Number(number) => number.to_f64(),
            Position::Date(date) => date.timestamp_millis() as f64,
        }
    }
}
