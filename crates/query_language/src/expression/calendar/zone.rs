//! Time zones: fixed offsets and those of the time zone database, over the whole range of BSON dates.
//!
//! The database is the one bundled with `jiff`, so that results do not depend on the machine. `jiff` knows times of the
//! years -9999 to 9999; beyond them the last rules of a zone go on, as the calendar repeats every 400 years.

use bson::raw::RawBsonRef;
use jiff::Timestamp;
use jiff::tz::TimeZone;

use super::civil::CYCLE_DAYS;
use super::local::DAY_S;
use crate::error::{ErrorKind, QueryError, Result};
use crate::expression::parse::show;
use crate::expression::value::Value;

/// A time zone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Zone {
    /// Always the same seconds ahead of UTC.
    Fixed(i32),
    /// Of the time zone database.
    Named(TimeZone),
}

impl Zone {
    /// Coordinated universal time.
    pub(crate) const UTC: Self = Zone::Fixed(0);

    /// A zone by its name in the time zone database, written as there, or an offset: `+03`, `+0300`, `+03:00`.
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let zone = match text {
            "UTC" | "GMT" => Some(Zone::UTC),
            _ if text.starts_with(['+', '-']) => parse_offset(text).map(Zone::Fixed),
            _ => TimeZone::get(text).ok().filter(|zone| zone.iana_name() == Some(text)).map(Zone::Named),
        };
        zone.ok_or_else(|| {
            let shown = show(RawBsonRef::String(text));
            QueryError::new(ErrorKind::Location(40485), format!("unrecognized time zone identifier: {shown}"))
        })
    }

    /// Whether this is UTC.
    pub(crate) fn is_utc(&self) -> bool {
        *self == Zone::UTC
    }

    /// The seconds ahead of UTC at a time, given in seconds since 1970.
    pub(crate) fn offset_s(&self, time_s: i64) -> i64 {
        let zone = match self {
            Zone::Fixed(offset) => return i64::from(*offset),
            Zone::Named(zone) => zone,
        };
        let beyond = time_s.saturating_sub(Timestamp::MAX.as_second());
        let known = if beyond > 0 {
            let cycle_s = CYCLE_DAYS * DAY_S;
            time_s - ((beyond - 1) / cycle_s + 1) * cycle_s
        } else {
            time_s.max(Timestamp::MIN.as_second())
        };
        // `known` is within the range of timestamps.
        Timestamp::from_second(known).map_or(0, |time| i64::from(zone.to_offset(time).seconds()))
    }

    /// The offset of a local time, given in seconds since 1970 on the local clock.
    ///
    /// A time that the clock skips is read with the offset from before, so that it moves forward. Of a time that the
    /// clock shows twice, the one is taken that lies on the side of UTC, which is what timelib and so MongoDB does.
    pub(crate) fn offset_of_local_s(&self, local_s: i64) -> i64 {
        let guess = self.offset_s(local_s);
        let found = self.offset_s(local_s - guess);
        if self.offset_s(local_s - found) == found { found } else { guess.min(found) }
    }
}

/// The time zone argument of an operator: UTC when left out, `None` when null.
pub(crate) fn zone_argument(argument: Option<&Value<'_>>) -> Result<Option<Zone>> {
    let Some(value) = argument else { return Ok(Some(Zone::UTC)) };
    if value.is_nullish() {
        return Ok(None);
    }
    match value.as_str() {
        Some(text) => Zone::parse(text).map(Some),
        None => {
            let message = format!("timezone must evaluate to a string, found {}", value.type_name());
            Err(QueryError::new(ErrorKind::Location(40517), message))
        }
    }
}

/// The seconds of `+hh`, `+hhmm` or `+hh:mm`; any two digits are hours or minutes.
fn parse_offset(text: &str) -> Option<i32> {
    let (sign, digits) = match text.as_bytes().split_first()? {
        (b'+', rest) => (1, rest),
        (b'-', rest) => (-1, rest),
        _ => return None,
    };
    let (hours, minutes) = match digits {
        [_, _] => (digits, None),
        [h, hh, b':', m, mm] | [h, hh, m, mm] => (&[*h, *hh][..], Some([*m, *mm])),
        _ => return None,
    };
    let minutes = minutes.map_or(Some(0), |minutes| two_digits(&minutes))?;
    Some(sign * (two_digits(hours)? * 60 + minutes) * 60)
}

fn two_digits(bytes: &[u8]) -> Option<i32> {
    bytes.iter().try_fold(0, |sum, byte| byte.is_ascii_digit().then(|| sum * 10 + i32::from(byte - b'0')))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zones_are_names_or_offsets() {
        for text in ["UTC", "GMT", "America/New_York", "EST", "+03", "-0330", "+05:45", "+25:00", "-99:99"] {
            assert!(Zone::parse(text).is_ok(), "{text}");
        }
        for text in ["", "Z", "Nowhere/City", "america/new_york", "+3", "+03:0", "+ab", "+100:00", "utc"] {
            assert!(Zone::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn clock_changes_go_on_beyond_what_the_database_knows() {
        let zone = Zone::parse("Europe/Berlin").unwrap();
        // 12 July and 12 January of a year 400,000 years after 2000, at noon.
        let (july, january) = (963_403_200, 947_678_400);
        let far = 1_000 * CYCLE_DAYS * DAY_S;
        assert_eq!((zone.offset_s(july + far), zone.offset_s(january + far)), (7_200, 3_600));
        assert_eq!(zone.offset_s(i64::MIN), zone.offset_s(Timestamp::MIN.as_second()));
    }

    #[test]
    fn skipped_and_repeated_local_times() {
        let at = |zone: &str, local: i64| Zone::parse(zone).unwrap().offset_of_local_s(local) / 3_600;
        // 2021-03-14T02:30 is skipped in New York, 2021-11-07T01:30 is there twice.
        assert_eq!((at("America/New_York", 1_615_689_000), at("America/New_York", 1_636_248_600)), (-5, -4));
        // 2021-03-28T02:30 is skipped in Berlin, 2021-10-31T02:30 is there twice.
        assert_eq!((at("Europe/Berlin", 1_616_898_600), at("Europe/Berlin", 1_635_647_400)), (1, 1));
    }
}
