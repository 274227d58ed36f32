//! Texts and the dates they mean; the expectations are those of MongoDB's manual and of timelib's formats.

use super::super::parse_format::parse_with_format;
use super::super::zone::Zone;
use super::parse_date_text;

fn read(text: &str) -> Result<String, String> {
    let date = parse_date_text(text).map_err(|problem| problem.0)?;
    let date = date.resolve(&Zone::UTC).map_err(|error| error.message)?;
    date.try_to_rfc3339_string().map_err(|error| error.to_string())
}

#[track_caller]
fn expect(cases: &[(&str, &str)]) {
    for (text, date) in cases {
        assert_eq!(read(text).as_deref(), Ok(*date), "{text}");
    }
}

#[test]
fn iso_dates() {
    expect(&[
        ("2019-03-09T10:30:02Z", "2019-03-09T10:30:02Z"),
        ("2019-03-09T10:30:02.8Z", "2019-03-09T10:30:02.8Z"),
        ("2019-03-09T10:30:02.813", "2019-03-09T10:30:02.813Z"),
        ("2019-03-09T10:30:02.813999999", "2019-03-09T10:30:02.813Z"),
        ("2019-03-09T10:30.02", "2019-03-09T10:30:02Z"),
        ("2019-03-09T10:30.02.813", "2019-03-09T10:30:02.813Z"),
        ("2019-03-09T10:30.02.8", "2019-03-09T10:30:02.8Z"),
        ("2019-03-09 10:30", "2019-03-09T10:30:00Z"),
        ("2019-03-09", "2019-03-09T00:00:00Z"),
        ("2019-03", "2019-03-01T00:00:00Z"),
        ("20190309", "2019-03-09T00:00:00Z"),
        ("20190309T103002", "2019-03-09T10:30:02Z"),
        ("20190309T10:30:02", "2019-03-09T10:30:02Z"),
        ("2019-W10-6", "2019-03-09T00:00:00Z"),
        ("2019W10", "2019-03-04T00:00:00Z"),
        ("2019.031", "2019-01-31T00:00:00Z"),
        ("@1552127402", "2019-03-09T10:30:02Z"),
        ("@-1", "1969-12-31T23:59:59Z"),
        (" 2019-03-09T10:30:02Z\t", "2019-03-09T10:30:02Z"),
        ("\u{0}2019-03-09T10:30:02Z\u{0}", "2019-03-09T10:30:02Z"),
        ("\u{a0}2019-03-09T10:30:02Z\u{a0}", "2019-03-09T10:30:02Z"),
        ("2019-03-09\t10:30:02 Z", "2019-03-09T10:30:02Z"),
    ]);
    let far = parse_date_text("+12019-03-09").unwrap().resolve(&Zone::UTC).unwrap();
    assert_eq!(far.timestamp_millis(), 317_121_609_600_000);
}

#[test]
fn dates_as_people_write_them() {
    expect(&[
        ("March 9th, 2019", "2019-03-09T00:00:00Z"),
        ("9 March 2019", "2019-03-09T00:00:00Z"),
        ("9-Mar-2019", "2019-03-09T00:00:00Z"),
        ("Mar-09-2019", "2019-03-09T00:00:00Z"),
        ("2019-Mar-09", "2019-03-09T00:00:00Z"),
        ("2019-Mar-09 noon", "2019-03-09T12:00:00Z"),
        ("9.III.2019", "2019-03-09T00:00:00Z"),
        ("3/9/19", "2019-03-09T00:00:00Z"),
        ("3/9/70", "1970-03-09T00:00:00Z"),
        ("2019/3/9", "2019-03-09T00:00:00Z"),
        ("09-03-2019", "2019-03-09T00:00:00Z"),
        ("9.3.2019", "2019-03-09T00:00:00Z"),
        ("9.3.79", "1979-03-09T00:00:00Z"),
        ("oct 20 2020", "2020-10-20T00:00:00Z"),
        ("Sept 2024", "2024-09-01T00:00:00Z"),
        ("2024 Jan", "2024-01-01T00:00:00Z"),
        ("10/Oct/2000:13:55:36 -0700", "2000-10-10T20:55:36Z"),
        ("2019:03:09 10:30:02", "2019-03-09T10:30:02Z"),
        ("Jan 1 10:00:00 2024", "2024-01-01T10:00:00Z"),
        ("22:00 2024-01-01", "2024-01-01T22:00:00Z"),
    ]);
}

#[test]
fn times_of_half_a_day() {
    expect(&[
        ("2024-01-01 10:00 PM", "2024-01-01T22:00:00Z"),
        ("2024-01-01 10pm", "2024-01-01T22:00:00Z"),
        ("2024-01-01 12:00 AM", "2024-01-01T00:00:00Z"),
        ("2024-01-01 12:00 PM", "2024-01-01T12:00:00Z"),
        ("2024-01-01 10:30 p.m.", "2024-01-01T22:30:00Z"),
        ("10:00 PM 2024-01-01", "2024-01-01T22:00:00Z"),
        ("March 9th, 2019 12pm", "2019-03-09T12:00:00Z"),
        ("2024-01-01 10:00 PM +02:00", "2024-01-01T20:00:00Z"),
        // A letter alone is a zone of the military.
        ("2024-01-01 10:00 P", "2024-01-01T13:00:00Z"),
    ]);
}

#[test]
fn zones() {
    expect(&[
        ("March 9th, 2019 10:30:02 GMT+02:00", "2019-03-09T08:30:02Z"),
        ("March 9th, 2019 10:30:02 GMT+0545", "2019-03-09T04:45:02Z"),
        ("March 9th, 2019 10:30:02 CEST", "2019-03-09T08:30:02Z"),
        ("March 9th, 2019 10:30:02 PDT", "2019-03-09T17:30:02Z"),
        ("March 9th, 2019 10:30:02 A", "2019-03-09T09:30:02Z"),
        ("2024-01-01 22:30:00 utc", "2024-01-01T22:30:00Z"),
        ("2024-01-01 22:30:00 IST", "2024-01-01T20:30:00Z"),
        ("2024-01-01 22:30:00 NDT", "2024-01-02T01:00:52Z"),
        ("2024-01-01 22:30:00+0200", "2024-01-01T20:30:00Z"),
        ("2024-01-01 22:30:00 -05", "2024-01-02T03:30:00Z"),
        ("2024-01-01T", "2024-01-01T07:00:00Z"),
    ]);
}

#[test]
fn a_day_of_the_week_moves_the_date_forward_to_it() {
    expect(&[
        ("WED jan 31 12:05:28 +03:30 1996", "1996-01-31T08:35:28Z"),
        ("Mon, 01 Jan 2024 10:00:00 GMT", "2024-01-01T10:00:00Z"),
        ("Tue, 01 Jan 2024 10:00:00 GMT", "2024-01-02T10:00:00Z"),
        ("Sun, 01 Jan 2024", "2024-01-07T00:00:00Z"),
        ("Tue Jan 1 10:00:00 2024", "2024-01-02T10:00:00Z"),
    ]);
}

#[test]
fn relative_times_need_a_date_to_start_from() {
    expect(&[
        ("2024-01-31 +1 day", "2024-02-01T00:00:00Z"),
        ("2024-01-31 10:00 +2 hours", "2024-01-31T12:00:00Z"),
        ("2024-01-31 2 weeks ago", "2024-01-17T00:00:00Z"),
        ("2024-01-15 next month", "2024-02-15T00:00:00Z"),
        ("2024-01-15 last day of", "2024-01-31T00:00:00Z"),
        ("2024-01-15 10:00 tomorrow", "2024-01-16T00:00:00Z"),
    ]);
    for text in ["tomorrow", "now", "+1 day", "July 4th", "12:00", "Jan, 2024", "10:00 PM", "first day of next month"] {
        assert!(read(text).is_err(), "{text}");
    }
}

#[test]
fn problems_are_named_with_their_place() {
    let cases = [
        ("", "Error parsing date string ''; 0: Empty string '\0'"),
        ("2024-13-01", "Error parsing date string '2024-13-01'; 6: Unexpected character '3'"),
        ("2024-02-30", "Error parsing date string '2024-02-30'; 11: The parsed date was invalid '\0'"),
        ("2024-01-01T25:00", "Error parsing date string '2024-01-01T25:00'; 12: Double time specification '5'"),
        (
            "2024-01-01 23:59:60",
            "Error parsing date string '2024-01-01 23:59:60'; 20: The parsed time was invalid '\0'",
        ),
        ("@@", "Error parsing date string '@@'; 0: Unexpected character '@'; 1: Unexpected character '@'"),
        (
            "2024-01-01T00:00:00+25:00",
            "Error parsing date string '2024-01-01T00:00:00+25:00'; 22: Unexpected character ':'; 23: Unexpected \
             character '0'; 24: Unexpected character '0'",
        ),
        (
            "2019-03-09 Europe/Berlin",
            "Error parsing date string '2019-03-09 Europe/Berlin'; 11: passing a time zone identifier as part of the \
             string is not allowed 'E'",
        ),
        (
            "hello world",
            "Error parsing date string 'hello world'; 0: passing a time zone identifier as part of the string is not \
             allowed 'h'; 6: Double timezone specification 'w'",
        ),
        ("12:00", "an incomplete date/time string has been found, with elements missing: \"12:00\""),
    ];
    for (text, problem) in cases {
        assert_eq!(read(text), Err(problem.to_owned()), "{text}");
    }
}

#[test]
fn problems_of_formats_are_named_with_their_place() {
    let cases = [
        ("2024-13-01", "%Y-%m-%d", "Error parsing date string '2024-13-01'; 10: The parsed date was invalid '\0'"),
        (
            "2024-01",
            "%Y-%m-%d",
            "Error parsing date string '2024-01'; 7: Not enough data available to satisfy format '\0'",
        ),
        (
            "2024-01-15 25",
            "%Y-%m-%d %H",
            "Error parsing date string '2024-01-15 25'; 13: The parsed time was invalid '\0'",
        ),
    ];
    for (text, format, problem) in cases {
        let found = parse_with_format(text, format).map(|_| ()).map_err(|problem| problem.0);
        assert_eq!(found, Err(problem.to_owned()), "{text}");
    }
}

proptest::proptest! {
    #[test]
    fn the_short_way_agrees_with_the_rules(
        text in "[0-2][0-9]{3}-[01][0-9]-[0-3][0-9](T[0-2][0-9]:[0-6][0-9]:[0-6][0-9](\\.[0-9]{0,5})?)?Z?",
    ) {
        if let Some(date) = super::iso::parse(&text) {
            let other = super::scan::parse_by_rules(&text).unwrap();
            proptest::prop_assert_eq!(date.resolve(&Zone::UTC).unwrap(), other.resolve(&Zone::UTC).unwrap());
            proptest::prop_assert_eq!(date.has_zone(), other.has_zone());
        }
    }
}

#[test]
fn what_is_beyond_every_date_is_refused() {
    for text in [
        "@99999999999999999999",
        "@-9223372036854775808",
        "2024-01-01 +99999999999999999999 days",
        "2024-01-01 +9223372036854775807 years",
        "2024-01-01 -9999999999999999 hours",
        "+999999999-01-01",
    ] {
        assert!(read(text).is_err_and(|problem| problem.contains("beyond what a BSON date can hold")), "{text}");
    }
    let far = parse_date_text("@9223372036854").unwrap().resolve(&Zone::UTC).unwrap();
    assert_eq!(far.timestamp_millis(), 9_223_372_036_854_000);
}

#[test]
fn long_texts_are_refused_at_once() {
    let padded = format!("{}2024-01-01{}", " ".repeat(1_000_000), " ".repeat(1_000_000));
    assert_eq!(read(&padded), Ok("2024-01-01T00:00:00Z".to_owned()));
    let long = format!("2024-01-01 {}", "sat ".repeat(1_000_000));
    assert!(read(&long).is_err_and(|problem| problem.contains("bytes; a date has 4096 at most")));
}

#[test]
fn impossible_times_are_refused() {
    for text in [
        "2024-01-01 13:00 PM",
        "2024-01-01 0:30 am",
        "2024-01-01T10:00 PM",
        "2024-01-01 22:30:00 SGT",
        "2024",
        "2024 -06-15T12:30:45Z",
        "2024-06-15T12: 30:45Z",
        "Friday",
        "2024-01-01 10:00:30.5 pm",
        "2024-02-29 2024-03-01",
    ] {
        assert!(read(text).is_err(), "{text}");
    }
}
