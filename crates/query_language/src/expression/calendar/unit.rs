//! Units of time and arithmetic with them in a time zone.
//!
//! Days and longer follow the calendar of the zone, so that a day added keeps the time of day over a clock change;
//! hours and shorter are exact durations.

use bson::DateTime;
use jiff::civil::{self, Weekday};
use jiff::tz::TimeZone;
use jiff::{Span, Zoned};

use super::{from_civil, in_zone, out_of_range};
use crate::error::{ErrorKind, QueryError, Result};

const SECOND_MS: i64 = 1_000;
const MINUTE_MS: i64 = 60 * SECOND_MS;
const HOUR_MS: i64 = 60 * MINUTE_MS;

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

    /// The length of a unit that is an exact duration.
    fn milliseconds(self) -> Option<i64> {
        match self {
            Unit::Hour => Some(HOUR_MS),
            Unit::Minute => Some(MINUTE_MS),
            Unit::Second => Some(SECOND_MS),
            Unit::Millisecond => Some(1),
            _ => None,
        }
    }

    /// The date `amount` units later.
    pub(crate) fn add(self, date: DateTime, amount: i64, zone: &TimeZone) -> Result<DateTime> {
        let overflow = || QueryError::new(ErrorKind::Overflow, "date overflow in date addition");
        if let Some(length) = self.milliseconds() {
            let shift = amount.checked_mul(length);
            let moved = shift.and_then(|shift| date.timestamp_millis().checked_add(shift));
            return moved.map(DateTime::from_millis).ok_or_else(overflow);
        }
        let span = Span::new();
        let span = match self {
            Unit::Year => span.try_years(amount),
            Unit::Quarter => span.try_months(amount.checked_mul(3).ok_or_else(overflow)?),
            Unit::Month => span.try_months(amount),
            Unit::Week => span.try_weeks(amount),
            _ => span.try_days(amount),
        };
        let moved = in_zone(date, zone)?.checked_add(span.map_err(out_of_range)?).map_err(out_of_range)?;
        Ok(DateTime::from_millis(moved.timestamp().as_millisecond()))
    }

    /// How many boundaries of the unit lie between two dates.
    pub(crate) fn difference(self, from: DateTime, to: DateTime, zone: &TimeZone, first_day: Weekday) -> Result<i64> {
        if self == Unit::Millisecond {
            let difference = to.timestamp_millis().checked_sub(from.timestamp_millis());
            return difference.ok_or_else(|| QueryError::new(ErrorKind::Overflow, "date overflow in $dateDiff"));
        }
        let (start, end) = (in_zone(from, zone)?, in_zone(to, zone)?);
        if let Some(length) = self.milliseconds() {
            let offset = i64::from(start.offset().seconds()) * SECOND_MS;
            let ordinal = |date: DateTime| (date.timestamp_millis() + offset).div_euclid(length);
            return Ok(ordinal(to) - ordinal(from));
        }
        Ok(match self {
            Unit::Year => i64::from(end.year()) - i64::from(start.year()),
            Unit::Quarter => month_number(&end).div_euclid(3) - month_number(&start).div_euclid(3),
            Unit::Month => month_number(&end) - month_number(&start),
            Unit::Week => {
                let week = |date: &Zoned| (day_number(date.date()) - first_day_number(first_day)).div_euclid(7);
                week(&end) - week(&start)
            }
            _ => day_number(end.date()) - day_number(start.date()),
        })
    }

    /// The start of the bin of `size` units that a date lies in; bins are counted from the start of the year 2000.
    pub(crate) fn truncate(self, date: DateTime, size: i64, zone: &TimeZone, first_day: Weekday) -> Result<DateTime> {
        let local = in_zone(date, zone)?;
        let reference = civil::date(2000, 1, 1);
        if let Some(length) = self.milliseconds() {
            let overflow = || QueryError::new(ErrorKind::Overflow, "$dateTrunc: binSize is too large");
            let length = length.checked_mul(size).ok_or_else(overflow)?;
            let reference = from_civil(reference.at(0, 0, 0, 0), zone)?.timestamp_millis();
            let since = date.timestamp_millis().checked_sub(reference).ok_or_else(overflow)?;
            return Ok(DateTime::from_millis(reference + since.div_euclid(length) * length));
        }
        let start = match self {
            Unit::Year => bin_of_months(&local, size.saturating_mul(12))?,
            Unit::Quarter => bin_of_months(&local, size.saturating_mul(3))?,
            Unit::Month => bin_of_months(&local, size)?,
            Unit::Week => {
                let first = day_number(reference) + i64::from(first_day.since(reference.weekday()));
                bin_of_days(&local, size.saturating_mul(7), first)?
            }
            _ => bin_of_days(&local, size, day_number(reference))?,
        };
        from_civil(start.at(0, 0, 0, 0), zone)
    }
}

/// Months since the start of the year 0.
fn month_number(date: &Zoned) -> i64 {
    i64::from(date.year()) * 12 + i64::from(date.month()) - 1
}

/// Days since 1970-01-01.
fn day_number(date: civil::Date) -> i64 {
    let epoch = civil::date(1970, 1, 1);
    date.duration_since(epoch).as_hours() / 24
}

/// The number of a day that falls on `day`.
fn first_day_number(day: Weekday) -> i64 {
    i64::from(day.since(Weekday::Thursday))
}

fn bin_of_months(date: &Zoned, size: i64) -> Result<civil::Date> {
    let reference = 2000 * 12;
    let start = reference + (month_number(date) - reference).div_euclid(size) * size;
    let too_early = |_| QueryError::new(ErrorKind::Overflow, "date out of the supported range");
    let year = i16::try_from(start.div_euclid(12)).map_err(too_early)?;
    civil::Date::new(year, (start.rem_euclid(12) + 1) as i8, 1).map_err(out_of_range)
}

fn bin_of_days(date: &Zoned, size: i64, reference: i64) -> Result<civil::Date> {
    let start = reference + (day_number(date.date()) - reference).div_euclid(size) * size;
    let days = Span::new().try_days(start).map_err(out_of_range)?;
    civil::date(1970, 1, 1).checked_add(days).map_err(out_of_range)
}

/// A day of the week by its English name or its first three letters.
pub(crate) fn parse_weekday(name: &str) -> Option<Weekday> {
    Some(match name.to_ascii_lowercase().as_str() {
        "monday" | "mon" => Weekday::Monday,
        "tuesday" | "tue" => Weekday::Tuesday,
        "wednesday" | "wed" => Weekday::Wednesday,
        "thursday" | "thu" => Weekday::Thursday,
        "friday" | "fri" => Weekday::Friday,
        "saturday" | "sat" => Weekday::Saturday,
        "sunday" | "sun" => Weekday::Sunday,
        _ => return None,
    })
}
