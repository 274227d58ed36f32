//! Units of time for stages that go from date to date: `$densify` and windows of `$setWindowFields`.

use bson::DateTime;

use super::calendar::{Unit, Zone};
use crate::error::Result;

/// A unit from `millisecond` to `year`. Dates are in UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimeUnit(Unit);

impl TimeUnit {
    /// The unit of a name.
    ///
    /// # Errors
    /// No unit has the name.
    pub fn parse(name: &str) -> Result<Self> {
        Unit::parse(name).map(Self)
    }

    /// The date so many units later; a day that a month does not have is its last one.
    ///
    /// # Errors
    /// Overflow.
    pub fn add(self, date: DateTime, amount: i64) -> Result<DateTime> {
        self.0.add(date, amount, &Zone::UTC)
    }
}
