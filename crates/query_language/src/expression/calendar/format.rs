//! `$dateToString`'s format language.

use jiff::Zoned;
use jiff::civil::Weekday;

use crate::error::{ErrorKind, QueryError, Result};

/// ISO 8601 with milliseconds, of a date in UTC.
pub(crate) const ISO_FORMAT_UTC: &str = "%Y-%m-%dT%H:%M:%S.%LZ";
/// The same of a date in another zone.
pub(crate) const ISO_FORMAT_LOCAL: &str = "%Y-%m-%dT%H:%M:%S.%L";

const SPECIFIERS: &str = "bBdGHjLmMSuUVwYzZ%";
const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

/// Refuses a format with an unknown specifier or a lone `%` at its end.
pub(crate) fn check_format(format: &str) -> Result<()> {
    let mut characters = format.chars();
    while let Some(character) = characters.next() {
        if character != '%' {
            continue;
        }
        match characters.next() {
            None => {
                let message = "Unmatched '%' at end of format string";
                return Err(QueryError::new(ErrorKind::Location(18535), message));
            }
            Some(specifier) if !SPECIFIERS.contains(specifier) => {
                let message = format!("Invalid format character '%{specifier}' in format string");
                return Err(QueryError::new(ErrorKind::Location(18536), message));
            }
            Some(_) => {}
        }
    }
    Ok(())
}

/// A date in a format that `check_format` accepts.
pub(crate) fn format_zoned(format: &str, date: &Zoned) -> Result<String> {
    check_format(format)?;
    let mut text = String::with_capacity(format.len() + 16);
    let mut characters = format.chars();
    while let Some(character) = characters.next() {
        match (character, characters.as_str().chars().next()) {
            ('%', Some(specifier)) => {
                characters.next();
                text.push_str(&field(specifier, date)?);
            }
            (literal, _) => text.push(literal),
        }
    }
    Ok(text)
}

fn field(specifier: char, date: &Zoned) -> Result<String> {
    let month = MONTHS.get((date.month() - 1) as usize).copied().unwrap_or_default();
    Ok(match specifier {
        'b' => month.get(..3).unwrap_or_default().to_owned(),
        'B' => month.to_owned(),
        'd' => format!("{:02}", date.day()),
        'G' => year(i32::from(date.date().iso_week_date().year()))?,
        'H' => format!("{:02}", date.hour()),
        'j' => format!("{:03}", date.day_of_year()),
        'L' => format!("{:03}", date.millisecond()),
        'm' => format!("{:02}", date.month()),
        'M' => format!("{:02}", date.minute()),
        'S' => format!("{:02}", date.second()),
        'u' => date.weekday().to_monday_one_offset().to_string(),
        'U' => format!("{:02}", week_of_year(date)),
        'V' => format!("{:02}", date.date().iso_week_date().week()),
        'w' => date.weekday().to_sunday_one_offset().to_string(),
        'Y' => year(i32::from(date.year()))?,
        'z' => {
            let minutes = date.offset().seconds() / 60;
            let sign = if minutes < 0 { '-' } else { '+' };
            format!("{sign}{:02}{:02}", minutes.abs() / 60, minutes.abs() % 60)
        }
        'Z' => format!("{:+04}", date.offset().seconds() / 60),
        _ => "%".to_owned(),
    })
}

fn year(year: i32) -> Result<String> {
    if !(0..=9999).contains(&year) {
        let message = format!("Could not convert date to string: year {year} is outside 0-9999");
        return Err(QueryError::new(ErrorKind::Location(18537), message));
    }
    Ok(format!("{year:04}"))
}

/// The week of the year from 0 to 53: weeks begin on Sunday, and what comes before the first Sunday is week 0.
pub(crate) fn week_of_year(date: &Zoned) -> i32 {
    let days_since_sunday = i32::from(date.weekday().since(Weekday::Sunday));
    (i32::from(date.day_of_year()) + 6 - days_since_sunday) / 7
}
