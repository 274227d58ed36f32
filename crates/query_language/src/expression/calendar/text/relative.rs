//! What a text adds to the day and time that it names: `+2 days`, `next month`, a day of the week.
//!
//! Gathered by `scan`. A day of the week moves a date forward to it, so that `Tue, 1 Jan 2024` is the 2nd of January.

use super::super::civil::{CivilDate, days_in_month, first_of_month, weekday};

/// One unit of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    Months(i64),
    Days(i64),
    Microseconds(i64),
}

/// Units by their names; those of milliseconds and less come in one form only.
pub(super) const UNITS: &[(&str, Step)] = &[
    ("ms", Step::Microseconds(1_000)),
    ("msec", Step::Microseconds(1_000)),
    ("msecs", Step::Microseconds(1_000)),
    ("millisecond", Step::Microseconds(1_000)),
    ("milliseconds", Step::Microseconds(1_000)),
    ("usec", Step::Microseconds(1)),
    ("usecs", Step::Microseconds(1)),
    ("microsecond", Step::Microseconds(1)),
    ("microseconds", Step::Microseconds(1)),
    ("sec", Step::Microseconds(1_000_000)),
    ("secs", Step::Microseconds(1_000_000)),
    ("second", Step::Microseconds(1_000_000)),
    ("seconds", Step::Microseconds(1_000_000)),
    ("min", Step::Microseconds(60_000_000)),
    ("mins", Step::Microseconds(60_000_000)),
    ("minute", Step::Microseconds(60_000_000)),
    ("minutes", Step::Microseconds(60_000_000)),
    ("hour", Step::Microseconds(3_600_000_000)),
    ("hours", Step::Microseconds(3_600_000_000)),
    ("day", Step::Days(1)),
    ("days", Step::Days(1)),
    ("week", Step::Days(7)),
    ("weeks", Step::Days(7)),
    ("fortnight", Step::Days(14)),
    ("fortnights", Step::Days(14)),
    ("forthnight", Step::Days(14)),
    ("forthnights", Step::Days(14)),
    ("month", Step::Months(1)),
    ("months", Step::Months(1)),
    ("year", Step::Months(12)),
    ("years", Step::Months(12)),
];

/// A day of the month that replaces the one named.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MonthEdge {
    First,
    Last,
}

/// Steps and months that no date can take: they are refused as beyond what a date can hold.
const AMOUNT_MAX: i64 = 1 << 40;

/// Everything that a text adds.
#[derive(Debug, Default)]
pub(super) struct Relative {
    // Of texts that are short enough to be read, no sum overflows these.
    months: i128,
    days: i128,
    microseconds: i128,
    pub(super) edge: Option<MonthEdge>,
    /// From 0 for Sunday.
    pub(super) weekday: Option<i64>,
}

impl Relative {
    /// Adds `amount` units.
    pub(super) fn add(&mut self, amount: i64, unit: Step) {
        let (sum, length) = match unit {
            Step::Months(length) => (&mut self.months, length),
            Step::Days(length) => (&mut self.days, length),
            Step::Microseconds(length) => (&mut self.microseconds, length),
        };
        *sum += i128::from(amount) * i128::from(length);
    }

    /// Days before the one that is named otherwise, or after it; the last one said counts.
    pub(super) fn set_days(&mut self, days: i64) {
        self.days = days.into();
    }

    /// `ago`: what was added so far is taken away instead.
    pub(super) fn reverse(&mut self) {
        (self.months, self.days, self.microseconds) = (-self.months, -self.days, -self.microseconds);
    }

    /// The elapsed time that is added; `None` when it is more than there is.
    pub(super) fn milliseconds(&self) -> Option<i64> {
        i64::try_from(self.microseconds).ok().map(|microseconds| microseconds / 1_000)
    }

    /// The day that is meant, as days since 1970-01-01; `None` beyond what can be counted.
    pub(super) fn apply(&self, date: CivilDate) -> Option<i64> {
        let countable = |amount: i128| i64::try_from(amount).ok().filter(|amount| amount.abs() <= AMOUNT_MAX);
        let (months, added_days) = (countable(self.months)?, countable(self.days)?);
        let to_weekday = self.weekday.map_or(0, |wanted| {
            let difference = wanted - weekday(date.to_days()) % 7;
            let passed = if added_days < 0 { difference < 0 } else { difference <= -1 };
            if passed { difference + 7 } else { difference }
        });
        let month = date.month_number() + months;
        let days = first_of_month(month) + date.day - 1 + to_weekday + added_days;
        Some(match self.edge {
            None => days,
            Some(edge) => {
                let month = CivilDate::from_days(days).month_number();
                let last = days_in_month(month) - 1;
                first_of_month(month) + if edge == MonthEdge::First { 0 } else { last }
            }
        })
    }
}
