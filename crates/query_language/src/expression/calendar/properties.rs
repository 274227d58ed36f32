//! Calendar arithmetic against other implementations: `chrono` within its range, and a plain count of days beyond it.

use bson::DateTime;
use chrono::{Datelike, Months, NaiveDate, NaiveDateTime, TimeDelta, Timelike};
use proptest::prelude::*;

use super::civil::{CivilDate, week_date, weekday};
use super::format::{ISO_FORMAT_UTC, format_date};
use super::local::{DAY_MS, LocalTime, from_local};
use super::parse_format::parse_with_format;
use super::text::parse_date_text;
use super::unit::Unit;
use super::zone::Zone;

/// Milliseconds of dates that `chrono` holds: a little more than the years -262,000 to 262,000.
const CHRONO_MS: std::ops::RangeInclusive<i64> = -8_200_000_000_000_000..=8_200_000_000_000_000;

fn naive(time_ms: i64) -> NaiveDateTime {
    chrono::DateTime::from_timestamp_millis(time_ms).unwrap().naive_utc()
}

/// Any date, the ends of the range and the usual years more often than others.
fn any_ms() -> impl Strategy<Value = i64> {
    prop_oneof![
        any::<i64>(),
        Just(i64::MIN),
        Just(i64::MAX),
        -100_000_000_000_000..=300_000_000_000_000i64,
        (i64::MAX - 100 * DAY_MS)..=i64::MAX,
        i64::MIN..=(i64::MIN + 100 * DAY_MS),
    ]
}

/// The date of a day, counted year by year from the start of its cycle and month by month.
fn counted(days: i64) -> CivilDate {
    const CYCLE: i64 = 400 * 365 + 97;
    // 2000-01-01 is day 10,957 and starts a cycle.
    let cycles = (days - 10_957).div_euclid(CYCLE);
    let mut left = (days - 10_957).rem_euclid(CYCLE);
    let mut year = 2000 + cycles * 400;
    let is_leap = |year: i64| year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    while left >= 365 + i64::from(is_leap(year)) {
        left -= 365 + i64::from(is_leap(year));
        year += 1;
    }
    let mut month = 1;
    for length in [31, 28 + i64::from(is_leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
        if left < length {
            break;
        }
        left -= length;
        month += 1;
    }
    CivilDate { year, month, day: left + 1 }
}

const UNITS: [Unit; 9] = [
    Unit::Year,
    Unit::Quarter,
    Unit::Month,
    Unit::Week,
    Unit::Day,
    Unit::Hour,
    Unit::Minute,
    Unit::Second,
    Unit::Millisecond,
];

fn zones() -> impl Strategy<Value = Zone> {
    let names =
        ["UTC", "America/New_York", "Europe/Berlin", "Australia/Lord_Howe", "Asia/Kathmandu", "-99:99", "+14:00"];
    proptest::sample::select(names.to_vec()).prop_map(|name| Zone::parse(name).unwrap())
}

proptest! {
    #[test]
    fn days_are_counted_rightly_over_the_whole_range(time_ms in any_ms()) {
        let days = time_ms.div_euclid(DAY_MS);
        let date = CivilDate::from_days(days);
        prop_assert_eq!(date, counted(days));
        prop_assert_eq!(date.to_days(), days);
    }

    #[test]
    fn fields_are_those_of_chrono(time_ms in CHRONO_MS) {
        let local = LocalTime::in_utc(DateTime::from_millis(time_ms));
        let other = naive(time_ms);
        let date = local.date();
        prop_assert_eq!((date.year, date.month, date.day), (other.year().into(), other.month().into(), other.day().into()));
        prop_assert_eq!(local.day_of_year(), i64::from(other.ordinal()));
        prop_assert_eq!(weekday(local.days), i64::from(other.weekday().number_from_monday()));
        prop_assert_eq!(local.day_of_week(), i64::from(other.weekday().number_from_sunday()));
        let week = week_date(local.days);
        let other_week = other.iso_week();
        prop_assert_eq!((week.year, week.week), (other_week.year().into(), other_week.week().into()));
        prop_assert_eq!(local.week_of_year().to_string(), other.format("%-U").to_string());
        prop_assert_eq!(
            (local.hour(), local.minute(), local.second(), local.millisecond()),
            (
                other.hour().into(),
                other.minute().into(),
                other.second().into(),
                i64::from(other.and_utc().timestamp_subsec_millis()),
            )
        );
    }

    #[test]
    fn months_are_added_as_chrono_does(time_ms in -6_000_000_000_000_000..=6_000_000_000_000_000i64, months in 0u32..100_000) {
        let date = DateTime::from_millis(time_ms);
        for (sign, other) in
            [(1, naive(time_ms) + Months::new(months)), (-1, naive(time_ms) - Months::new(months))]
        {
            let moved = Unit::Month.add(date, sign * i64::from(months), &Zone::UTC).unwrap();
            prop_assert_eq!(moved.timestamp_millis(), other.and_utc().timestamp_millis());
        }
    }

    #[test]
    fn days_are_added_as_chrono_does(time_ms in -6_000_000_000_000_000..=6_000_000_000_000_000i64, days in -10_000_000i64..10_000_000) {
        let moved = Unit::Day.add(DateTime::from_millis(time_ms), days, &Zone::UTC).unwrap();
        prop_assert_eq!(moved.timestamp_millis(), (naive(time_ms) + TimeDelta::days(days)).and_utc().timestamp_millis());
    }

    #[test]
    fn a_local_time_leads_back_to_its_date(time_ms in any_ms(), zone in zones()) {
        let date = DateTime::from_millis(time_ms);
        let local = LocalTime::new(date, &zone);
        let back = from_local(local.days, local.millisecond_of_day, &zone).unwrap();
        // What the clock shows twice may lead to the other time.
        let again = LocalTime::new(back, &zone);
        prop_assert_eq!((again.days, again.millisecond_of_day), (local.days, local.millisecond_of_day));
        if matches!(zone, Zone::Fixed(_)) {
            prop_assert_eq!(back, date);
        }
    }

    #[test]
    fn differences_and_starts_agree(first in any_ms(), second in any_ms(), zone in zones(), place in 0..9usize) {
        let unit = UNITS[place];
        let (first, second) = (DateTime::from_millis(first), DateTime::from_millis(second));
        if let (Ok(there), Ok(back)) =
            (unit.difference(first, second, &zone, 1), unit.difference(second, first, &zone, 1))
            && (matches!(zone, Zone::Fixed(_)) || place < 5)
        {
            prop_assert_eq!(there, -back);
        }
        if let Ok(start) = unit.truncate(first, 1, &zone, 1) {
            prop_assert!(start <= first);
            prop_assert_eq!(unit.truncate(start, 1, &zone, 1).unwrap(), start);
            if matches!(zone, Zone::Fixed(_)) && place < 5 {
                prop_assert_eq!(unit.difference(start, first, &zone, 1).unwrap(), 0);
            }
        }
    }

    #[test]
    fn what_is_added_can_be_taken_away(time_ms in any_ms(), amount in any::<i64>(), shift in 0..63u32, place in 4..9usize) {
        let (unit, date, amount) = (UNITS[place], DateTime::from_millis(time_ms), amount >> shift);
        if let Ok(moved) = unit.add(date, amount, &Zone::UTC) {
            prop_assert_eq!(unit.add(moved, -amount, &Zone::UTC).unwrap(), date);
        }
    }

    #[test]
    fn what_is_written_is_read_again(time_ms in -62_167_219_200_000..=253_402_300_799_999i64) {
        let date = DateTime::from_millis(time_ms);
        let text = format_date(ISO_FORMAT_UTC, &LocalTime::in_utc(date)).unwrap();
        prop_assert_eq!(parse_date_text(&text).unwrap().resolve(&Zone::UTC).unwrap(), date);
        // The calendar by weeks tells the same day; it has a year before 0 and one after 9999 at the ends.
        for format in ["%Y-%m-%dT%H:%M:%S.%L%z", "%d %B %Y %H.%M.%S %L", "%b/%d/%Y %H%M%S%L", "%G-%V-%u %H:%M:%S,%L"] {
            if let Ok(text) = format_date(format, &LocalTime::in_utc(date)) {
                prop_assert_eq!(parse_with_format(&text, format).unwrap().resolve(&Zone::UTC).unwrap(), date, "{}", text);
            }
        }
    }

    #[test]
    fn any_text_is_a_date_or_has_a_problem(text in "[-+0-9:./ tTzZaApPmMWjJuUnN@ofdays,]{0,40}") {
        if let Ok(date) = parse_date_text(&text) {
            let _ = date.resolve(&Zone::UTC);
        }
    }

    #[test]
    fn a_day_added_keeps_the_time_of_day(time_ms in 0..4_000_000_000_000i64, days in -400i64..400, zone in zones()) {
        let date = DateTime::from_millis(time_ms);
        let (before, after) =
            (LocalTime::new(date, &zone), LocalTime::new(Unit::Day.add(date, days, &zone).unwrap(), &zone));
        // But for a time that the clock skips, which moves forward by what it skips, at most an hour.
        let moved = (after.days - before.days - days) * DAY_MS + after.millisecond_of_day - before.millisecond_of_day;
        prop_assert!((0..=3_600_000).contains(&moved), "{}", moved);
    }

    #[test]
    fn bins_of_months_start_where_chrono_says(time_ms in CHRONO_MS, size in 1i64..5_000) {
        let start = Unit::Month.truncate(DateTime::from_millis(time_ms), size, &Zone::UTC, 1).unwrap();
        let other = naive(time_ms);
        let since = (i64::from(other.year()) - 2000) * 12 + i64::from(other.month0());
        let month = since.div_euclid(size) * size;
        let year = 2000 + month.div_euclid(12);
        if let Some(first) = NaiveDate::from_ymd_opt(year as i32, month.rem_euclid(12) as u32 + 1, 1) {
            let expected = first.and_hms_opt(0, 0, 0).unwrap().and_utc().timestamp_millis();
            prop_assert_eq!(start.timestamp_millis(), expected);
        }
    }
}
