//! Moments as people write and read them. Called by `diagnose`.

use bson::DateTime;

const SECOND: i64 = 1_000;
const MINUTE: i64 = 60 * SECOND;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;

/// The milliseconds since 1970 that a text says: RFC 3339, or how long before `end`.
pub(super) fn parse(text: &str, end: i64) -> Result<i64, String> {
    let before = text.char_indices().next_back().and_then(|(place, unit)| {
        let unit = match unit {
            's' => SECOND,
            'm' => MINUTE,
            'h' => HOUR,
            'd' => DAY,
            _ => return None,
        };
        let count: u32 = text.get(..place)?.parse().ok()?;
        Some(end.saturating_sub(i64::from(count) * unit))
    });
    let wrong = || format!("'{text}' is no time: write 2026-11-28T20:00:00Z, or 90m, 6h or 2d before the end");
    before.or_else(|| DateTime::parse_rfc3339_str(text).ok().map(DateTime::timestamp_millis)).ok_or_else(wrong)
}

/// A moment in UTC, to the second.
pub(crate) fn in_words(millis: i64) -> String {
    let whole = DateTime::from_millis(millis - millis.rem_euclid(SECOND));
    whole.try_to_rfc3339_string().unwrap_or_else(|_| format!("{millis} ms"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_times_before_the_end() {
        assert_eq!(parse("90m", 10 * HOUR), Ok(10 * HOUR - 90 * MINUTE));
        assert_eq!(parse("2d", 0), Ok(-2 * DAY));
        assert_eq!(parse("1970-01-01T01:00:00Z", 0), Ok(HOUR));
        for wrong in ["", "m", "yesterday", "5w", "ü", "-5m"] {
            assert!(parse(wrong, 0).is_err(), "{wrong}");
        }
        assert_eq!(in_words(HOUR + 999), "1970-01-01T01:00:00Z");
    }
}
