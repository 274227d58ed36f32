//! A date as the clock and the calendar of a time zone show it.
//!
//! Used by the operators that take dates apart and put them together. A day number and the milliseconds of the day hold
//! every BSON date in every zone; only the way back to a BSON date can overflow.

use bson::DateTime;

use super::civil::{CivilDate, WeekDate, first_of_year, week_date, weekday};
use super::zone::Zone;
use crate::error::{ErrorKind, QueryError, Result};

/// Milliseconds of a day.
pub(crate) const DAY_MS: i64 = 86_400_000;
/// Seconds of a day.
pub(crate) const DAY_S: i64 = 86_400;

/// A local time and the offset of its zone then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LocalTime {
    /// Since 1970-01-01.
    pub(crate) days: i64,
    /// Since midnight, below [`DAY_MS`].
    pub(crate) millisecond_of_day: i64,
    /// How far the zone is ahead of UTC.
    pub(crate) offset_s: i64,
}

impl LocalTime {
    /// A date in a time zone.
    pub(crate) fn new(date: DateTime, zone: &Zone) -> Self {
        let time_ms = date.timestamp_millis();
        let offset_s = zone.offset_s(time_ms.div_euclid(1_000));
        let local_ms = time_ms.rem_euclid(DAY_MS) + offset_s * 1_000;
        Self {
            days: time_ms.div_euclid(DAY_MS) + local_ms.div_euclid(DAY_MS),
            millisecond_of_day: local_ms.rem_euclid(DAY_MS),
            offset_s,
        }
    }

    /// A date in UTC.
    pub(crate) fn in_utc(date: DateTime) -> Self {
        Self::new(date, &Zone::UTC)
    }

    pub(crate) fn date(&self) -> CivilDate {
        CivilDate::from_days(self.days)
    }

    pub(crate) fn week_date(&self) -> WeekDate {
        week_date(self.days)
    }

    pub(crate) fn hour(&self) -> i64 {
        self.millisecond_of_day / 3_600_000
    }

    pub(crate) fn minute(&self) -> i64 {
        self.millisecond_of_day / 60_000 % 60
    }

    pub(crate) fn second(&self) -> i64 {
        self.millisecond_of_day / 1_000 % 60
    }

    pub(crate) fn millisecond(&self) -> i64 {
        self.millisecond_of_day % 1_000
    }

    /// From 1 to 366.
    pub(crate) fn day_of_year(&self) -> i64 {
        self.days - first_of_year(self.date().year) + 1
    }

    /// From 1 for Sunday to 7.
    pub(crate) fn day_of_week(&self) -> i64 {
        weekday(self.days) % 7 + 1
    }

    /// The week of the year from 0 to 53: weeks begin on Sunday, and what comes before the first Sunday is week 0.
    pub(crate) fn week_of_year(&self) -> i64 {
        (self.day_of_year() + 7 - self.day_of_week()) / 7
    }
}

/// The date of a local time in a zone, given as a day and milliseconds that may be of other days.
pub(crate) fn from_local(days: i64, milliseconds: i64, zone: &Zone) -> Result<DateTime> {
    from_local_near(days, milliseconds, zone, i64::MIN)
}

/// The same; of a time that the clock shows twice, the earlier one when it has the offset `before_s`.
pub(crate) fn from_local_near(days: i64, milliseconds: i64, zone: &Zone, before_s: i64) -> Result<DateTime> {
    let local_ms = i128::from(days) * i128::from(DAY_MS) + i128::from(milliseconds);
    let overflow = || QueryError::new(ErrorKind::Overflow, "the date is beyond what a BSON date can hold");
    let local_s = i64::try_from(local_ms.div_euclid(1_000)).map_err(|_| overflow())?;
    let mut offset_s = zone.offset_of_local_s(local_s);
    if before_s > offset_s && zone.offset_s(local_s - before_s) == before_s {
        offset_s = before_s;
    }
    let time_ms = i64::try_from(local_ms - i128::from(offset_s) * 1_000).map_err(|_| overflow())?;
    Ok(DateTime::from_millis(time_ms))
}
