//! Where a document lies on the axis of `$densify` or of a window: a number or a date.

use std::cmp::Ordering;

use bson::DateTime;
use bson::raw::RawBsonRef;
use document::Number;

/// A number or a date.
#[derive(Debug, Clone, Copy)]
pub(super) enum Position {
    Number(Number),
    Date(DateTime),
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
}
