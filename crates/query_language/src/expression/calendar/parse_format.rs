//! Dates read by `$dateFromString`'s formats.
//!
//! The language is that of `format`, without the weeks that begin on Sunday. Reading goes on after a mistake, as in
//! timelib, so that the message names all of them.

use super::civil::{CivilDate, first_iso_day, first_of_year};
use super::format::{MONTHS, check_specifiers};
use super::text::{DateProblem, ParsedDate, Problems, ZONE_IDENTIFIER, days_of_valid_date, parse_zone_text};
use super::zone::Zone;
use crate::error::Result;

const SPECIFIERS: &str = "bBdGHjLmMSuVYzZ%";

/// Refuses a format that dates cannot be read by.
pub(crate) fn check_parse_format(format: &str) -> Result<()> {
    check_specifiers(format, SPECIFIERS)
}

/// Fields gathered by a format.
#[derive(Debug, Default)]
struct Fields {
    year: Option<i64>,
    month: Option<i64>,
    day: Option<i64>,
    /// Days after the 1st of January.
    day_of_year: Option<i64>,
    iso_year: Option<i64>,
    iso_week: Option<i64>,
    iso_weekday: Option<i64>,
    hour: Option<i64>,
    minute: Option<i64>,
    second: Option<i64>,
    millisecond: i64,
    zone: Option<Zone>,
}

/// Reads a date written in a format that `check_parse_format` accepts.
pub(crate) fn parse_with_format(text: &str, format: &str) -> std::result::Result<ParsedDate, DateProblem> {
    DateProblem::check_length(text)?;
    let mut reader = Reader { text, position: 0, problems: Problems::new(text) };
    let mut fields = Fields::default();
    let mut characters = format.chars();
    while let Some(character) = characters.next() {
        if reader.problems.is_full() {
            break;
        }
        if reader.rest().is_empty() {
            reader.complain("Not enough data available to satisfy format");
            break;
        }
        match character {
            '%' => {
                if let Some(specifier) = characters.next() {
                    fields.read(specifier, &mut reader);
                }
            }
            literal => reader.literal(literal),
        }
    }
    if reader.problems.is_empty() && !reader.rest().is_empty() {
        reader.complain("Trailing data");
    }
    fields.finish(reader)
}

impl Fields {
    fn read(&mut self, specifier: char, reader: &mut Reader<'_>) {
        match specifier {
            'Y' => self.year = reader.number(4, "A four digit year could not be found"),
            'm' => self.month = reader.number(2, "A two digit month could not be found"),
            'b' | 'B' => self.month = reader.month_name(),
            'd' => self.day = reader.number(2, "A two digit day could not be found"),
            'j' => self.read_day_of_year(reader),
            'G' => self.iso_year = reader.number(4, "A four digit ISO year could not be found"),
            'V' => self.iso_week = reader.number(2, "A two digit ISO week could not be found"),
            'u' => self.iso_weekday = reader.number(1, "A single digit ISO day of week could not be found"),
            'H' => self.hour = reader.number(2, "A two digit hour could not be found"),
            'M' => self.minute = reader.number(2, "A two digit minute could not be found"),
            'S' => self.second = reader.number(2, "A two digit second could not be found"),
            'L' => self.millisecond = reader.milliseconds(),
            'z' => self.zone = reader.zone(),
            'Z' => self.zone = reader.minutes_offset(),
            literal => reader.literal(literal),
        }
    }

    /// What MongoDB reads here is the number of days after the 1st of January: 0 is that day.
    fn read_day_of_year(&mut self, reader: &mut Reader<'_>) {
        let start = reader.position;
        let number = reader.number(3, "A three digit day-of-year could not be found");
        if self.year.is_none() && number.is_some() {
            reader.problems.error(start, "A 'day of year' can only come after a year has been found");
        }
        self.day_of_year = number;
    }

    fn finish(self, mut reader: Reader<'_>) -> std::result::Result<ParsedDate, DateProblem> {
        let end = reader.position;
        let is_iso = self.iso_year.is_some() || self.iso_week.is_some() || self.iso_weekday.is_some();
        let is_natural =
            self.year.is_some() || self.month.is_some() || self.day.is_some() || self.day_of_year.is_some();
        if is_iso && is_natural {
            reader.problems.error(end, "Mixing of ISO dates with natural dates is not allowed");
        }
        let valid_time = self.hour.unwrap_or(0) < 24 && self.minute.unwrap_or(0) < 60 && self.second.unwrap_or(0) < 60;
        if !valid_time {
            reader.problems.warning(end, "The parsed time was invalid");
        }
        let days = if is_iso {
            self.iso_year.map(|year| {
                first_iso_day(year) + (self.iso_week.unwrap_or(1) - 1) * 7 + self.iso_weekday.unwrap_or(1) - 1
            })
        } else if let (Some(year), Some(day)) = (self.year, self.day_of_year) {
            Some(first_of_year(year) + day)
        } else if let (Some(year), Some(month), Some(day)) = (self.year, self.month, self.day) {
            let days = days_of_valid_date(CivilDate { year, month, day });
            if days.is_none() {
                reader.problems.warning(end, "The parsed date was invalid");
            }
            days
        } else {
            None
        };
        reader.problems.check()?;
        let Some(days) = days else { return Err(DateProblem::incomplete(reader.text)) };
        let [hour, minute, second] = [self.hour, self.minute, self.second].map(|field| field.unwrap_or(0));
        let milliseconds = (hour * 3_600 + minute * 60 + second) * 1_000 + self.millisecond;
        Ok(ParsedDate::new(days, milliseconds, self.zone))
    }
}

struct Reader<'t> {
    text: &'t str,
    position: usize,
    problems: Problems<'t>,
}

impl<'t> Reader<'t> {
    fn rest(&self) -> &'t str {
        self.text.get(self.position..).unwrap_or_default()
    }

    fn complain(&mut self, message: &'static str) {
        self.problems.error(self.position, message);
    }

    fn literal(&mut self, literal: char) {
        if !self.rest().starts_with(literal) {
            self.complain("Format literal not found");
        }
        self.position += self.rest().chars().next().map_or(0, char::len_utf8);
    }

    /// At most `digits_max` digits as a number.
    fn number(&mut self, digits_max: usize, missing: &'static str) -> Option<i64> {
        let digits = self.rest().bytes().take(digits_max).take_while(u8::is_ascii_digit).count();
        let number = self.rest().get(..digits).and_then(|digits| digits.parse().ok());
        if number.is_none() {
            self.complain("Unexpected data found.");
            self.complain(missing);
        }
        self.position += digits;
        number
    }

    /// Up to three digits as a fraction of a second.
    fn milliseconds(&mut self) -> i64 {
        let start = self.position;
        let number = self.number(3, "A three digit millisecond could not be found");
        let digits = (self.position - start).min(3) as u32;
        number.unwrap_or(0) * 10_i64.pow(3 - digits)
    }

    /// A month by its whole name or its first three letters.
    fn month_name(&mut self) -> Option<i64> {
        let letters = self.rest().bytes().take_while(u8::is_ascii_alphabetic).count();
        let word = self.rest().get(..letters).unwrap_or_default().to_ascii_lowercase();
        let is_named = |name: &str| {
            let name = name.to_ascii_lowercase();
            word == name || name.get(..3) == Some(word.as_str()) || (word == "sept" && name == "september")
        };
        let month = MONTHS.into_iter().position(is_named);
        match month {
            Some(_) => self.position += letters,
            None => self.complain("A textual month could not be found"),
        }
        month.map(|month| month as i64 + 1)
    }

    fn zone(&mut self) -> Option<Zone> {
        match parse_zone_text(self.rest()) {
            Some((zone, length)) => {
                self.position += length;
                Some(zone)
            }
            None => {
                self.complain(ZONE_IDENTIFIER);
                self.position = self.text.len();
                None
            }
        }
    }

    /// `+330` or `-90`: minutes.
    fn minutes_offset(&mut self) -> Option<Zone> {
        let sign = match self.rest().bytes().next() {
            Some(b'+') => 1,
            Some(b'-') => -1,
            _ => {
                self.complain("Invalid timezone offset in minutes");
                self.complain("Trailing data");
                return None;
            }
        };
        let digits = self.rest().bytes().skip(1).take_while(u8::is_ascii_digit).count();
        let minutes = self.rest().get(1..=digits).and_then(|digits| digits.parse::<i32>().ok());
        let seconds = minutes.and_then(|minutes| minutes.checked_mul(sign * 60));
        if seconds.is_none() {
            self.complain("Invalid timezone offset in minutes");
        }
        self.position += digits + 1;
        seconds.map(Zone::Fixed)
    }
}
