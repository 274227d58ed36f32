//! The proleptic Gregorian calendar over days counted from 1970-01-01, for every year that a BSON date can have and more.
//!
//! Used by everything in `calendar`. BSON dates reach 292 million years either way, far beyond what calendar crates hold,
//! so the arithmetic is here; the rules of time zones are still those of `jiff`. The year 0 is the year before 1.

/// Days in 400 years, after which the calendar repeats with its days of the week.
pub(crate) const CYCLE_DAYS: i64 = 146_097;

/// Days from 0000-03-01 to 1970-01-01.
const EPOCH_DAYS: i64 = 719_468;

/// A day of the calendar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CivilDate {
    pub(crate) year: i64,
    /// From 1 to 12.
    pub(crate) month: i64,
    /// From 1 to 31.
    pub(crate) day: i64,
}

/// A day named by its ISO 8601 week.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WeekDate {
    pub(crate) year: i64,
    /// From 1 to 53.
    pub(crate) week: i64,
    /// From 1 for Monday to 7.
    pub(crate) weekday: i64,
}

impl CivilDate {
    /// The day that lies `days` after 1970-01-01.
    pub(crate) fn from_days(days: i64) -> Self {
        // Years are counted from March on, so that the leap day is the last of its year.
        let shifted = days + EPOCH_DAYS;
        let (cycle, day_of_cycle) = (shifted.div_euclid(CYCLE_DAYS), shifted.rem_euclid(CYCLE_DAYS));
        let year_of_cycle =
            (day_of_cycle - day_of_cycle / 1_460 + day_of_cycle / 36_524 - day_of_cycle / 146_096) / 365;
        let day_of_year = day_of_cycle - (365 * year_of_cycle + year_of_cycle / 4 - year_of_cycle / 100);
        let shifted_month = (5 * day_of_year + 2) / 153;
        let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
        let year = cycle * 400 + year_of_cycle + i64::from(month <= 2);
        Self { year, month, day: day_of_year - (153 * shifted_month + 2) / 5 + 1 }
    }

    /// Days since 1970-01-01.
    pub(crate) fn to_days(self) -> i64 {
        let year = self.year - i64::from(self.month <= 2);
        let (cycle, year_of_cycle) = (year.div_euclid(400), year.rem_euclid(400));
        let shifted_month = (self.month + 9) % 12;
        let day_of_year = (153 * shifted_month + 2) / 5 + self.day - 1;
        cycle * CYCLE_DAYS + year_of_cycle * 365 + year_of_cycle / 4 - year_of_cycle / 100 + day_of_year - EPOCH_DAYS
    }

    /// The months since the start of the year 0.
    pub(crate) fn month_number(self) -> i64 {
        self.year * 12 + self.month - 1
    }
}

/// The first day of a month that is counted from the start of the year 0, as days since 1970-01-01.
pub(crate) fn first_of_month(month_number: i64) -> i64 {
    CivilDate { year: month_number.div_euclid(12), month: month_number.rem_euclid(12) + 1, day: 1 }.to_days()
}

/// The first day of a year, as days since 1970-01-01.
pub(crate) fn first_of_year(year: i64) -> i64 {
    CivilDate { year, month: 1, day: 1 }.to_days()
}

/// How many days a month has that is counted from the start of the year 0.
pub(crate) fn days_in_month(month_number: i64) -> i64 {
    first_of_month(month_number + 1) - first_of_month(month_number)
}

/// The day of the week, from 1 for Monday to 7 for Sunday.
pub(crate) fn weekday(days: i64) -> i64 {
    (days + 3).rem_euclid(7) + 1
}

/// The Monday of the first ISO week of a year, as days since 1970-01-01: the week with the 4th of January.
pub(crate) fn first_iso_day(year: i64) -> i64 {
    let fourth = first_of_year(year) + 3;
    fourth - (weekday(fourth) - 1)
}

/// The ISO week of a day.
pub(crate) fn week_date(days: i64) -> WeekDate {
    let weekday = weekday(days);
    // A week belongs to the year that its Thursday lies in.
    let thursday = days - weekday + 4;
    let year = CivilDate::from_days(thursday).year;
    WeekDate { year, week: (thursday - first_of_year(year)) / 7 + 1, weekday }
}
