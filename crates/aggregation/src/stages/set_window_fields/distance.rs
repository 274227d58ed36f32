//! Distances along what a window is measured by, a number or a date.

use document::Number;
use query_language::expression::TimeUnit;

use crate::error::Result;
use crate::stages::position::Position;

/// How far from a document's own position.
#[derive(Debug, Clone, Copy)]
pub(super) enum Distance {
    Number(Number),
    Time(i64, TimeUnit),
}

impl Distance {
    /// The position at this distance from another; `None` when they are of different kinds.
    pub(super) fn from(self, position: Position) -> Result<Option<Position>> {
        Ok(match (position, self) {
            (Position::Number(number), Distance::Number(distance)) => Some(Position::Number(number.add(distance))),
            (Position::Date(date), Distance::Time(amount, unit)) => Some(Position::Date(unit.add(date, amount)?)),
            _ => None,
        })
    }
}

/// The position as a number; dates in milliseconds.
pub(super) fn as_f64(position: Position) -> f64 {
    match position {
        Position::Number(number) => number.to_f64(),
        Position::Date(date) => date.timestamp_millis() as f64,
    }
}
