//! Units of time and arithmetic with them in a time zone.
//!
//! Days and longer follow the calendar of the zone, so that a day added keeps the time of day over a clock change;
//! hours and shorter are exact durations.

use bson::DateTime;

use super::civil::{days_in_month, first_of_month};
use super::local::{DAY_MS, LocalTime, from_local, from_local_near};
use super::zone::Zone;
use crate::error::{ErrorKind, QueryError, Result};

const SECOND_MS: i64 = 1_000;
const MINUTE_MS: i64 = 60 * SECOND_MS;
const HOUR_MS: i64 = 60 * MINUTE_MS;

/// Bins are counted from the start of this year: its number of months, and its first day, a Saturday.
const REFERENCE_MONTH: i64 = 2000 * 12;
const REFERENCE_DAY: i64 = 10_957;
const REFERENCE_WEEKDAY: i64 = 6;
/// The largest bin of calendar units.
const BIN_SIZE_MAX: i64 = 100_000_000_000;

/// A unit of `$dateAdd`, `$dateDiff`, `$dateTrunc`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unit {
    Year,
    Quarter,
    Month,
    Week,
    Day,
    Hour,
    Minute,
    Second,
    Millisecond,
}

/// What a unit is made of.
enum Measure {
    Months(i64),
    Days(i64),
    Milliseconds(i64),
}

impl Unit {
    /// The unit of a name.
    pub(crate) fn parse(name: &str) -> Result<Self> {
        Ok(match name {
            "year" => Unit::Year,
            "quarter" => Unit::Quarter,
            "month" => Unit::Month,
            "week" => Unit::Week,
            "day" => Unit::Day,
            "hour" => Unit::Hour,
            "minute" => Unit::Minute,
            "second" => Unit::Second,
            "millisecond" => Unit::Millisecond,
            other => {
                return Err(QueryError::new(ErrorKind::FailedToParse, format!("unknown time unit value: {other}")));
            }
        })
    }

    fn measure(self) -> Measure {
        match self {
            Unit::Year => Measure::Months(12),
            Unit::Quarter => Measure::Months(3),
            Unit::Month => Measure::Months(1),
            Unit::Week => Measure::Days(7),
            Unit::Day => Measure::Days(1),
            Unit::Hour => Measure::Milliseconds(HOUR_MS),
            Unit::Minute => Measure::Milliseconds(MINUTE_MS),
            Unit::Second => Measure::Milliseconds(SECOND_MS),
            Unit::Millisecond => Measure::Milliseconds(1),
        }
    }

    /// The date `amount` units later.
    pub(crate) fn add(self, date: DateTime, amount: i64, zone: &Zone) -> Result<DateTime> {
        let overflow = || QueryError::new(ErrorKind::Location(5166406), "$dateAdd overflowed");
        if amount == 0 {
            return Ok(date);
        }
        if self.exceeds_every_date(amount) {
            let message = format!("invalid dateAdd 'amount' parameter value: {amount}");
            return Err(QueryError::new(ErrorKind::Location(5976500), message));
        }
        let local = LocalTime::new(date, zone);
        let days = match self.measure() {
            Measure::Milliseconds(length) => {
                let moved = date.timestamp_millis().checked_add(amount * length);
                return moved.map(DateTime::from_millis).ok_or_else(overflow);
            }
            Measure::Days(length) => local.days + amount * length,
            Measure::Months(length) => {
                let civil = local.date();
                let month = civil.month_number() + amount * length;
                first_of_month(month) + civil.day.min(days_in_month(month)) - 1
            }
        };
        from_local_near(days, local.millisecond_of_day, zone, local.offset_s).map_err(|_| overflow())
    }

    /// Whether no two dates are so many units apart. What is not keeps the sums with it within 64 bits.
    fn exceeds_every_date(self, amount: i64) -> bool {
        let shortest_ms = match self.measure() {
            Measure::Milliseconds(length) => i128::from(length),
            Measure::Days(length) => i128::from(length) * i128::from(DAY_MS),
            Measure::Months(length) => i128::from(length) * 28 * i128::from(DAY_MS),
        };
        let span_ms = i128::from(amount) * shortest_ms;
        match self.measure() {
            Measure::Milliseconds(_) => i64::try_from(span_ms).is_err(),
            _ => span_ms.abs() > i128::from(u64::MAX),
        }
    }

    /// How many boundaries of the unit lie between two dates; weeks begin on the day `first_day`, 1 for Monday.
    pub(crate) fn difference(self, from: DateTime, to: DateTime, zone: &Zone, first_day: i64) -> Result<i64> {
        let (start, end) = (LocalTime::new(from, zone), LocalTime::new(to, zone));
        let boundaries = match self.measure() {
            Measure::Months(length) => {
                let ordinal = |local: &LocalTime| i128::from(local.date().month_number().div_euclid(length));
                ordinal(&end) - ordinal(&start)
            }
            Measure::Days(1) => i128::from(end.days - start.days),
            Measure::Days(length) => {
                // Day 0 is a Thursday.
                let ordinal = |local: &LocalTime| i128::from((local.days + 4 - first_day).div_euclid(length));
                ordinal(&end) - ordinal(&start)
            }
            Measure::Milliseconds(length) => {
                let offset_ms = i128::from(start.offset_s) * 1_000;
                let ordinal =
                    |date: DateTime| (i128::from(date.timestamp_millis()) + offset_ms).div_euclid(i128::from(length));
                ordinal(to) - ordinal(from)
            }
        };
        i64::try_from(boundaries).map_err(|_| QueryError::new(ErrorKind::Location(5166308), "$dateDiff overflowed"))
    }

    /// The start of the bin of `size` units that a date lies in; bins are counted from the start of the year 2000.
    pub(crate) fn truncate(self, date: DateTime, size: i64, zone: &Zone, first_day: i64) -> Result<DateTime> {
        let too_large = |code| QueryError::new(ErrorKind::Location(code), "$dateTrunc unsupported binSize value");
        if !matches!(self.measure(), Measure::Milliseconds(_)) && size > BIN_SIZE_MAX {
            return Err(too_large(5439006));
        }
        let local = LocalTime::new(date, zone);
        let days = match self.measure() {
            Measure::Milliseconds(length) => {
                let length = length.checked_mul(size).ok_or_else(|| too_large(5439002))?;
                let reference = from_local(REFERENCE_DAY, 0, zone)?.timestamp_millis();
                return start_of_bin(date.timestamp_millis(), length, reference);
            }
            Measure::Days(1) => bin(local.days, size, REFERENCE_DAY),
            Measure::Days(length) => {
                let first = REFERENCE_DAY + (first_day - REFERENCE_WEEKDAY).rem_euclid(7);
                bin(local.days, size * length, first)
            }
            Measure::Months(length) => first_of_month(bin(local.date().month_number(), size * length, REFERENCE_MONTH)),
        };
        from_local(days, 0, zone)
    }
}

/// The start of the bin of `size` that `position` lies in, one bin starting at `reference`.
fn bin(position: i64, size: i64, reference: i64) -> i64 {
    reference + (position - reference).div_euclid(size) * size
}

fn start_of_bin(date_ms: i64, length_ms: i64, reference_ms: i64) -> Result<DateTime> {
    let (date, length, reference) = (i128::from(date_ms), i128::from(length_ms), i128::from(reference_ms));
    let start = reference + (date - reference).div_euclid(length) * length;
    let overflow = |_| QueryError::new(ErrorKind::Overflow, "the date is beyond what a BSON date can hold");
    i64::try_from(start).map(DateTime::from_millis).map_err(overflow)
}

/// A day of the week by its English name or its first three letters, from 1 for Monday.
pub(crate) fn parse_weekday(name: &str) -> Option<i64> {
    Some(match name.to_ascii_lowercase().as_str() {
        "monday" | "mon" => 1,
        "tuesday" | "tue" => 2,
        "wednesday" | "wed" => 3,
        "thursday" | "thu" => 4,
        "friday" | "fri" => 5,
        "saturday" | "sat" => 6,
        "sunday" | "sun" => 7,
        _ => return None,
    })
}
