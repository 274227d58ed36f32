//! `$dateToString`'s format language.

use super::civil::weekday;
use super::local::LocalTime;
use crate::error::{ErrorKind, QueryError, Result};

/// ISO 8601 with milliseconds, of a date in UTC.
pub(crate) const ISO_FORMAT_UTC: &str = "%Y-%m-%dT%H:%M:%S.%LZ";
/// The same of a date in another zone.
pub(crate) const ISO_FORMAT_LOCAL: &str = "%Y-%m-%dT%H:%M:%S.%L";

const SPECIFIERS: &str = "bBdGHjLmMSuUVwYzZ%";
pub(super) const MONTHS: [&str; 12] = [
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
fn check_format(format: &str) -> Result<()> {
    check_specifiers(format, SPECIFIERS)
}

/// Refuses a format with a specifier that is not among `specifiers`.
pub(super) fn check_specifiers(format: &str, specifiers: &str) -> Result<()> {
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
            Some(specifier) if !specifiers.contains(specifier) => {
                let message = format!("Invalid format character '%{specifier}' in format string");
                return Err(QueryError::new(ErrorKind::Location(18536), message));
            }
            Some(_) => {}
        }
    }
    Ok(())
}

/// A date in a format that `check_format` accepts.
pub(crate) fn format_date(format: &str, date: &LocalTime) -> Result<String> {
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

fn field(specifier: char, date: &LocalTime) -> Result<String> {
    let civil = date.date();
    let month = MONTHS.get((civil.month - 1) as usize).copied().unwrap_or_default();
    Ok(match specifier {
        'b' => month.get(..3).unwrap_or_default().to_owned(),
        'B' => month.to_owned(),
        'd' => format!("{:02}", civil.day),
        'G' => year(date.week_date().year)?,
        'H' => format!("{:02}", date.hour()),
        'j' => format!("{:03}", date.day_of_year()),
        'L' => format!("{:03}", date.millisecond()),
        'm' => format!("{:02}", civil.month),
        'M' => format!("{:02}", date.minute()),
        'S' => format!("{:02}", date.second()),
        'u' => weekday(date.days).to_string(),
        'U' => format!("{:02}", date.week_of_year()),
        'V' => format!("{:02}", date.week_date().week),
        'w' => date.day_of_week().to_string(),
        'Y' => year(civil.year)?,
        'z' => {
            let minutes = date.offset_s / 60;
            let sign = if minutes < 0 { '-' } else { '+' };
            format!("{sign}{:02}{:02}", minutes.abs() / 60, minutes.abs() % 60)
        }
        'Z' => (date.offset_s / 60).to_string(),
        _ => "%".to_owned(),
    })
}

fn year(year: i64) -> Result<String> {
    if !(0..=9999).contains(&year) {
        let message = format!(
            "Could not convert date to string: date component was outside the supported range of 0-9999: {year}"
        );
        return Err(QueryError::new(ErrorKind::Location(18537), message));
    }
    Ok(format!("{year:04}"))
}
