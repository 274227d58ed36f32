//! Dates from text: ISO 8601 as people write it, or `$dateFromString`'s formats.

use bson::DateTime;
use jiff::civil::{self, ISOWeekDate, Weekday};
use jiff::tz::TimeZone;

use super::{from_civil, parse_zone};

/// A date read from text, with the time zone that the text names.
#[derive(Debug)]
pub(crate) struct ParsedDate {
    civil: civil::DateTime,
    zone: Option<TimeZone>,
}

impl ParsedDate {
    /// Whether the text says in which zone it is.
    pub(crate) fn has_zone(&self) -> bool {
        self.zone.is_some()
    }

    /// The date, in `zone` unless the text says otherwise.
    pub(crate) fn resolve(&self, zone: &TimeZone) -> crate::error::Result<DateTime> {
        from_civil(self.civil, self.zone.as_ref().unwrap_or(zone))
    }
}

/// Reads `2019-03-07`, `20190307`, with an optional time after `T` or white space, down to a fraction of a second, and
/// an optional zone (`Z`, an offset or a name). `Err` says what is wrong.
pub(crate) fn parse_date_text(text: &str) -> Result<ParsedDate, String> {
    let mut reader = Reader { rest: text.trim() };
    let date = parse_date(&mut reader).ok_or("no date found")?;
    let mut time = civil::Time::midnight();
    if reader.take('T') || reader.take('t') || reader.skip_spaces() {
        reader.skip_spaces();
        if reader.rest.starts_with(|c: char| c.is_ascii_digit()) {
            time = parse_time(&mut reader).ok_or("invalid time")?;
        }
    }
    let zone = parse_zone_suffix(&mut reader)?;
    Ok(ParsedDate { civil: date.to_datetime(time), zone })
}

fn parse_date(reader: &mut Reader<'_>) -> Option<civil::Date> {
    let year = reader.digits(4, 4)?;
    let separator = ['-', '/'].into_iter().find(|separator| reader.take(*separator));
    let month = if separator.is_some() { reader.digits(1, 2)? } else { reader.digits(2, 2)? };
    let day = match separator {
        None => reader.digits(2, 2)?,
        Some(separator) if reader.take(separator) => reader.digits(1, 2)?,
        Some(_) => 1,
    };
    civil::Date::new(year as i16, month as i8, day as i8).ok()
}

fn parse_time(reader: &mut Reader<'_>) -> Option<civil::Time> {
    let hour = reader.digits(1, 2)?;
    let colon = reader.take(':');
    let minute = if colon || reader.rest.starts_with(|c: char| c.is_ascii_digit()) { reader.digits(2, 2)? } else { 0 };
    let mut second = 0;
    if if colon { reader.take(':') } else { reader.rest.starts_with(|c: char| c.is_ascii_digit()) } {
        second = reader.digits(2, 2)?;
    }
    let nanosecond = if reader.take('.') || reader.take(',') { reader.fraction()? } else { 0 };
    civil::Time::new(hour as i8, minute as i8, second as i8, nanosecond).ok()
}

/// What is left must be a zone.
fn parse_zone_suffix(reader: &mut Reader<'_>) -> Result<Option<TimeZone>, String> {
    let text = reader.rest.trim();
    reader.rest = "";
    match text {
        "" => Ok(None),
        "z" => Ok(Some(TimeZone::UTC)),
        text => {
            let text = text.strip_prefix("UTC").filter(|rest| !rest.is_empty()).unwrap_or(text);
            parse_zone(text).map(Some).map_err(|error| error.message)
        }
    }
}

/// Fields gathered by a format.
#[derive(Debug, Default)]
struct Fields {
    year: Option<i32>,
    month: Option<i32>,
    day: Option<i32>,
    day_of_year: Option<i32>,
    iso_year: Option<i32>,
    iso_week: Option<i32>,
    iso_weekday: Option<i32>,
    hour: i32,
    minute: i32,
    second: i32,
    nanosecond: i32,
    zone: Option<TimeZone>,
}

/// Reads a date written in a format of `check_format`'s language. `Err` says what is wrong.
pub(crate) fn parse_with_format(text: &str, format: &str) -> Result<ParsedDate, String> {
    let mut reader = Reader { rest: text };
    let mut fields = Fields::default();
    let mut characters = format.chars();
    while let Some(character) = characters.next() {
        let found = match character {
            '%' => characters.next().and_then(|specifier| fields.read(specifier, &mut reader)),
            literal => reader.take(literal).then_some(()),
        };
        if found.is_none() {
            return Err(format!("Format literal or field not found at '{}'", reader.rest));
        }
    }
    if !reader.rest.is_empty() {
        return Err(format!("Trailing data: '{}'", reader.rest));
    }
    fields.finish().ok_or_else(|| "the fields do not make a date".to_owned())
}

impl Fields {
    fn read(&mut self, specifier: char, reader: &mut Reader<'_>) -> Option<()> {
        match specifier {
            'Y' => self.year = Some(reader.digits(1, 4)?),
            'm' => self.month = Some(reader.digits(1, 2)?),
            'b' | 'B' => self.month = Some(reader.month_name(specifier == 'B')?),
            'd' => self.day = Some(reader.digits(1, 2)?),
            'j' => self.day_of_year = Some(reader.digits(1, 3)?),
            'G' => self.iso_year = Some(reader.digits(1, 4)?),
            'V' => self.iso_week = Some(reader.digits(1, 2)?),
            'u' => self.iso_weekday = Some(reader.digits(1, 1)?),
            'H' => self.hour = reader.digits(1, 2)?,
            'M' => self.minute = reader.digits(1, 2)?,
            'S' => self.second = reader.digits(1, 2)?,
            'L' => self.nanosecond = reader.fraction_of(3)?,
            'z' => self.zone = Some(parse_zone(reader.offset()?).ok()?),
            'Z' => {
                let sign = if reader.take('-') {
                    -1
                } else if reader.take('+') {
                    1
                } else {
                    return None;
                };
                let seconds = sign * reader.digits(1, 4)? * 60;
                self.zone = Some(TimeZone::fixed(jiff::tz::Offset::from_seconds(seconds).ok()?));
            }
            '%' => return reader.take('%').then_some(()),
            _ => return None,
        }
        Some(())
    }

    fn finish(self) -> Option<ParsedDate> {
        let date = match (self.iso_year, self.year, self.day_of_year) {
            (Some(year), _, _) => {
                let weekday = Weekday::from_monday_one_offset(self.iso_weekday.unwrap_or(1) as i8).ok()?;
                ISOWeekDate::new(year as i16, self.iso_week.unwrap_or(1) as i8, weekday).ok()?.date()
            }
            (None, Some(year), Some(day)) => {
                civil::Date::new(year as i16, 1, 1).ok()?.with().day_of_year(day as i16).build().ok()?
            }
            (None, Some(year), None) => {
                civil::Date::new(year as i16, self.month.unwrap_or(1) as i8, self.day.unwrap_or(1) as i8).ok()?
            }
            (None, None, _) => return None,
        };
        let time = civil::Time::new(self.hour as i8, self.minute as i8, self.second as i8, self.nanosecond).ok()?;
        Some(ParsedDate { civil: date.to_datetime(time), zone: self.zone })
    }
}

/// What is left of a text.
struct Reader<'t> {
    rest: &'t str,
}

impl<'t> Reader<'t> {
    fn take(&mut self, wanted: char) -> bool {
        match self.rest.strip_prefix(wanted) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn skip_spaces(&mut self) -> bool {
        let trimmed = self.rest.trim_start();
        let skipped = trimmed.len() < self.rest.len();
        self.rest = trimmed;
        skipped
    }

    /// A number of `least` to `most` digits.
    fn digits(&mut self, least: usize, most: usize) -> Option<i32> {
        let count = self.rest.bytes().take(most).take_while(u8::is_ascii_digit).count();
        if count < least {
            return None;
        }
        self.split(count).parse().ok()
    }

    /// Any number of digits as a fraction of a second, in nanoseconds.
    fn fraction(&mut self) -> Option<i32> {
        self.fraction_of(usize::MAX)
    }

    fn fraction_of(&mut self, most: usize) -> Option<i32> {
        let count = self.rest.bytes().take(most).take_while(u8::is_ascii_digit).count();
        if count == 0 {
            return None;
        }
        let digits = self.split(count);
        let digits = digits.get(..digits.len().min(9))?;
        Some(digits.parse::<i32>().ok()? * 10_i32.pow(9 - digits.len() as u32))
    }

    /// The text of an offset such as `+0300` or `Z`.
    fn offset(&mut self) -> Option<&'t str> {
        if self.rest.starts_with('Z') {
            return Some(self.split(1));
        }
        let count = self.rest.bytes().take_while(|byte| byte.is_ascii_digit() || b"+-:".contains(byte)).count();
        (count > 0).then(|| self.split(count))
    }

    fn month_name(&mut self, full: bool) -> Option<i32> {
        const NAMES: [&str; 12] = [
            "january",
            "february",
            "march",
            "april",
            "may",
            "june",
            "july",
            "august",
            "september",
            "october",
            "november",
            "december",
        ];
        let lower = self.rest.to_ascii_lowercase();
        for (position, name) in NAMES.into_iter().enumerate() {
            let name = if full { name } else { name.get(..3)? };
            if lower.starts_with(name) {
                self.split(name.len());
                return Some(position as i32 + 1);
            }
        }
        None
    }

    fn split(&mut self, count: usize) -> &'t str {
        let (taken, rest) = self.rest.split_at_checked(count).unwrap_or((self.rest, ""));
        self.rest = rest;
        taken
    }
}
