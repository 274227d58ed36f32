//! The formats that dates are read in: what a token looks like and what it means.
//!
//! They are timelib's. Where two rules take the same text, the first one counts.

use super::pattern::Part::{
    self, Any, End, Fraction, Maybe, Meridian, Month, MonthAbbreviation, MonthWord, Number, Offset, One, OneOf,
    OrdinalEnding, SignedNumber, Some, Unit, Word, Zone,
};

/// What a token says; the numbers are those that the pattern captures, in their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Meaning {
    /// Days from the day that the text names otherwise, at midnight.
    ShiftedMidnight(i64),
    Nothing,
    Noon,
    Midnight,
    /// Seconds since 1970.
    UnixTime,
    FirstDayOfMonth,
    LastDayOfMonth,
    /// Hour, minute, second; the first may be all.
    Time,
    Time12,
    /// Four digits: hour and minute, or a year once there is a time.
    TimeOrYear,
    MonthDay,
    MonthDayYear,
    YearMonthDay,
    /// The same with a year that is never of this or the last century.
    WholeYearMonthDay,
    SignedYearMonthDay,
    YearMonth,
    DayMonth,
    DayMonthYear,
    MonthYear,
    MonthOnly,
    YearOnly,
    YearDayOfYear,
    YearWeek,
    /// Year, month, day, hour, minute, second.
    DateTime,
    /// Day, month, year, hour, minute, second.
    LogDateTime,
    MonthDayTime,
    MonthDayTime12,
    Ago,
    Weekday,
    /// A number and a unit.
    Relative,
    /// A word and a unit.
    RelativeWord,
    Zone,
    /// What MongoDB reads and this server does not.
    Unsupported,
}

/// A pattern and its meaning.
pub(super) type Rule = (&'static [Part], Meaning);

pub(super) const WEEKDAYS: &[&str] = &[
    "sunday",
    "monday",
    "tuesday",
    "wednesday",
    "thursday",
    "friday",
    "saturday",
    "sun",
    "mon",
    "tue",
    "wed",
    "thu",
    "fri",
    "sat",
];
/// From the place 0 on: last, this, next, and the ordinals from the first on.
pub(super) const RELATIVE_WORDS: &[&str] = &[
    "last", "this", "next", "previous", "first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth",
    "ninth", "tenth", "eleventh", "twelfth", "eight",
];

const YEAR: Part = Number(1, 4, 0, 9999);
const YEAR2: Part = Number(2, 2, 0, 99);
const YEAR4: Part = Number(4, 4, 0, 9999);
const MONTH: Part = Number(1, 2, 0, 12);
const MONTH2: Part = Number(2, 2, 0, 12);
const DAY: Part = Number(1, 2, 0, 31);
const DAY2: Part = Number(2, 2, 0, 31);
const HOUR: Part = Number(1, 2, 0, 24);
const HOUR2: Part = Number(2, 2, 0, 24);
const HOUR12: Part = Number(1, 2, 1, 12);
const MINUTE: Part = Number(1, 2, 0, 59);
const MINUTE2: Part = Number(2, 2, 0, 59);
const SECOND: Part = Number(1, 2, 0, 60);
const SECOND2: Part = Number(2, 2, 0, 60);
const WEEK: Part = Number(2, 2, 1, 53);
const SPACE: Part = Any(" \t");
const COLON: Part = One(":.");
const T: Part = Maybe("tT");
const GAP: Part = Any(" \t.-");
const AFTER_DAY: Part = Some(",.stndrh\t ");

pub(super) const RULES: &[Rule] = &[
    (&[Word("yesterday")], Meaning::ShiftedMidnight(-1)),
    (&[Word("now")], Meaning::Nothing),
    (&[Word("noon")], Meaning::Noon),
    (&[Word("midnight")], Meaning::Midnight),
    (&[Word("today")], Meaning::Midnight),
    (&[Word("tomorrow")], Meaning::ShiftedMidnight(1)),
    (&[One("@"), SignedNumber], Meaning::UnixTime),
    (&[One("@"), SignedNumber, Fraction], Meaning::UnixTime),
    (&[Word("first day of")], Meaning::FirstDayOfMonth),
    (&[Word("last day of")], Meaning::LastDayOfMonth),
    (&[OneOf(&["back of ", "front of "]), HOUR], Meaning::Unsupported),
    (&[OneOf(RELATIVE_WORDS), Some(" \t"), OneOf(WEEKDAYS), Some(" \t"), Word("of")], Meaning::Unsupported),
    (&[HOUR12, SPACE, Meridian], Meaning::Time12),
    (&[HOUR12, COLON, MINUTE2, SPACE, Meridian], Meaning::Time12),
    (&[HOUR12, COLON, MINUTE, COLON, SECOND2, SPACE, Meridian], Meaning::Time12),
    (&[HOUR12, One(":"), MINUTE2, One(":"), SECOND2, Fraction, Meridian], Meaning::Time12),
    (&[One("tT"), HOUR], Meaning::Time),
    (&[T, HOUR, COLON, MINUTE], Meaning::Time),
    (&[T, HOUR, COLON, MINUTE, COLON, SECOND], Meaning::Time),
    (&[T, HOUR, COLON, MINUTE, COLON, SECOND, Fraction], Meaning::Time),
    (&[T, HOUR2, MINUTE2], Meaning::TimeOrYear),
    (&[T, HOUR2, MINUTE2, SECOND2], Meaning::Time),
    (&[MONTH, One("/"), DAY, OrdinalEnding], Meaning::MonthDay),
    (&[MONTH, One("/"), DAY, OrdinalEnding, One("/"), YEAR], Meaning::MonthDayYear),
    (&[Maybe("+"), YEAR4, One("-"), MONTH2, One("-"), DAY2], Meaning::WholeYearMonthDay),
    (&[One("-"), YEAR4, One("-"), MONTH2, One("-"), DAY2], Meaning::SignedYearMonthDay),
    (&[YEAR4, One("/"), MONTH2, One("/"), DAY2, Maybe("/")], Meaning::WholeYearMonthDay),
    (&[YEAR4, One("/"), MONTH, One("/"), DAY, OrdinalEnding], Meaning::WholeYearMonthDay),
    (&[YEAR2, One("-"), MONTH2, One("-"), DAY2], Meaning::YearMonthDay),
    (&[Maybe("+"), LONG_YEAR, One("-"), MONTH2, One("-"), DAY2], Meaning::WholeYearMonthDay),
    (&[One("-"), LONG_YEAR, One("-"), MONTH2, One("-"), DAY2], Meaning::SignedYearMonthDay),
    (&[YEAR4, One("-"), MONTH], Meaning::YearMonth),
    (&[YEAR, One("-"), MONTH, One("-"), DAY, OrdinalEnding], Meaning::YearMonthDay),
    (&[DAY, OrdinalEnding, GAP, Month, GAP, YEAR], Meaning::DayMonthYear),
    (&[DAY, OrdinalEnding, One(".\t-"), MONTH, One(".-"), YEAR4], Meaning::DayMonthYear),
    (&[DAY, OrdinalEnding, One(".\t"), MONTH, One("."), YEAR2], Meaning::DayMonthYear),
    (&[Month, GAP, YEAR4], Meaning::MonthYear),
    (&[YEAR4, GAP, Month], Meaning::YearMonth),
    (&[Month, GAP, DAY, OrdinalEnding, AFTER_DAY, YEAR], Meaning::MonthDayYear),
    (&[Month, GAP, DAY, OrdinalEnding, AFTER_DAY], Meaning::MonthDay),
    (&[Month, GAP, DAY, OrdinalEnding, End], Meaning::MonthDay),
    (&[DAY, OrdinalEnding, GAP, Month], Meaning::DayMonth),
    (&[YEAR4, MONTH2, DAY2], Meaning::WholeYearMonthDay),
    (&[YEAR4, MONTH2, DAY2, One("tT"), HOUR, One(":"), MINUTE2, One(":"), SECOND2], Meaning::DateTime),
    (&[YEAR4, MONTH2, DAY2, One("tT"), HOUR, MINUTE2, SECOND2], Meaning::DateTime),
    (
        &[YEAR4, One("-"), MONTH2, One("-"), DAY2, One("T"), HOUR2, One(":"), MINUTE2, One(":"), SECOND2, Fraction],
        Meaning::DateTime,
    ),
    (
        &[
            YEAR4,
            One("-"),
            MONTH2,
            One("-"),
            DAY2,
            One("T"),
            HOUR2,
            One(":"),
            MINUTE2,
            One(":"),
            SECOND2,
            Fraction,
            Offset,
        ],
        Meaning::DateTime,
    ),
    (
        &[YEAR4, One("-"), MONTH, One("-"), DAY, OrdinalEnding, One("T"), HOUR, One(":"), MINUTE, One(":"), SECOND],
        Meaning::DateTime,
    ),
    (
        &[YEAR4, One(":"), MONTH2, One(":"), DAY2, One(" "), HOUR2, One(":"), MINUTE2, One(":"), SECOND2],
        Meaning::DateTime,
    ),
    (&[YEAR4, Maybe("."), Number(3, 3, 1, 366)], Meaning::YearDayOfYear),
    (&[YEAR4, Maybe("-"), One("W"), WEEK, Maybe("-"), Number(1, 1, 0, 7)], Meaning::YearWeek),
    (&[YEAR4, Maybe("-"), One("W"), WEEK], Meaning::YearWeek),
    (&[MonthAbbreviation, One("-"), DAY2, One("-"), YEAR], Meaning::MonthDayYear),
    (&[YEAR, One("-"), MonthAbbreviation, One("-"), DAY2], Meaning::YearMonthDay),
    (
        &[
            DAY,
            OrdinalEnding,
            One("/"),
            MonthAbbreviation,
            One("/"),
            YEAR4,
            One(":"),
            HOUR2,
            One(":"),
            MINUTE2,
            One(":"),
            SECOND2,
            Some(" \t"),
            Offset,
        ],
        Meaning::LogDateTime,
    ),
    (&[YEAR4], Meaning::YearOnly),
    (&[Word("ago")], Meaning::Ago),
    (&[OneOf(WEEKDAYS)], Meaning::Weekday),
    (&[OneOf(&["weekdays", "weekday"])], Meaning::Unsupported),
    (&[OneOf(&["last", "this", "next", "previous"]), Some(" \t"), Word("week")], Meaning::Unsupported),
    (&[OneOf(RELATIVE_WORDS), Some(" \t"), Unit], Meaning::RelativeWord),
    (&[OneOf(RELATIVE_WORDS), Some(" \t"), OneOf(WEEKDAYS)], Meaning::Unsupported),
    (&[MonthWord], Meaning::MonthOnly),
    (&[Offset], Meaning::Zone),
    (&[Zone], Meaning::Zone),
    (&[Month, GAP, DAY, OrdinalEnding, AFTER_DAY, HOUR12, COLON, MINUTE2, SPACE, Meridian], Meaning::MonthDayTime12),
    (
        &[Month, GAP, DAY, OrdinalEnding, AFTER_DAY, HOUR12, COLON, MINUTE, COLON, SECOND2, SPACE, Meridian],
        Meaning::MonthDayTime12,
    ),
    (&[Month, GAP, DAY, OrdinalEnding, AFTER_DAY, T, HOUR, COLON, MINUTE], Meaning::MonthDayTime),
    (&[Month, GAP, DAY, OrdinalEnding, AFTER_DAY, T, HOUR, COLON, MINUTE, COLON, SECOND], Meaning::MonthDayTime),
    (
        &[Month, GAP, DAY, OrdinalEnding, AFTER_DAY, T, HOUR, COLON, MINUTE, COLON, SECOND2, SPACE, Offset],
        Meaning::MonthDayTime,
    ),
    (
        &[Month, GAP, DAY, OrdinalEnding, AFTER_DAY, T, HOUR, COLON, MINUTE, COLON, SECOND2, SPACE, Zone],
        Meaning::MonthDayTime,
    ),
    (&[SignedNumber, SPACE, Unit], Meaning::Relative),
    (&[SignedNumber, SPACE, OneOf(&["weekdays", "weekday"])], Meaning::Unsupported),
    (&[SignedNumber, SPACE, OneOf(WEEKDAYS)], Meaning::Unsupported),
];

const LONG_YEAR: Part = Number(5, 9, 0, 999_999_999);
