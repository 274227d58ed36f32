//! Dates from free text, as people and programs write them.
//!
//! Used by `$dateFromString` without a format and by conversions from string to date. MongoDB reads such texts with
//! timelib, whose formats PHP documents; `rules` lists them, `scan` puts what they find together. A text is read token by
//! token, each time by the rule that takes most of it.

mod abbreviations;
mod iso;
mod pattern;
mod relative;
mod rules;
mod scan;

use std::fmt::Write;

use bson::DateTime;

use super::civil::CivilDate;
use super::local::from_local;
use super::zone::Zone;
use crate::error::{ErrorKind, QueryError};

pub(super) use abbreviations::parse_zone_text;
pub(crate) use scan::parse_date_text;

/// What MongoDB says of a zone that is no abbreviation: names of zones are for the `timezone` argument.
pub(super) const ZONE_IDENTIFIER: &str = "passing a time zone identifier as part of the string is not allowed";

/// No date takes more bytes.
const TEXT_BYTES_MAX: usize = 4_096;

/// Mistakes beyond which no more are noted.
const PROBLEMS_MAX: usize = 32;

/// A local time read from text, with the zone that the text names.
#[derive(Debug)]
pub(crate) struct ParsedDate {
    days: i64,
    /// Since the midnight of that day; may be of another day.
    milliseconds: i64,
    zone: Option<Zone>,
    /// Elapsed time that the text adds.
    shift_ms: i64,
}

impl ParsedDate {
    pub(super) fn new(days: i64, milliseconds: i64, zone: Option<Zone>) -> Self {
        Self { days, milliseconds, zone, shift_ms: 0 }
    }

    /// Whether the text says in which zone it is.
    pub(crate) fn has_zone(&self) -> bool {
        self.zone.is_some()
    }

    /// The date, in `zone` unless the text says otherwise.
    pub(crate) fn resolve(&self, zone: &Zone) -> crate::error::Result<DateTime> {
        let date = from_local(self.days, self.milliseconds, self.zone.as_ref().unwrap_or(zone))?;
        let moved = date.timestamp_millis().checked_add(self.shift_ms);
        let overflow = || QueryError::new(ErrorKind::Overflow, "the date is beyond what a BSON date can hold");
        moved.map(DateTime::from_millis).ok_or_else(overflow)
    }
}

/// Why a text is no date: a message for the client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DateProblem(pub(crate) String);

impl DateProblem {
    /// Refuses a text that is too long for a date, without showing it.
    pub(super) fn check_length(text: &str) -> Result<(), Self> {
        let bytes = text.len();
        match bytes <= TEXT_BYTES_MAX {
            true => Ok(()),
            false => {
                Err(Self(format!("Error parsing date string of {bytes} bytes; a date has {TEXT_BYTES_MAX} at most")))
            }
        }
    }

    pub(super) fn incomplete(text: &str) -> Self {
        Self(format!("an incomplete date/time string has been found, with elements missing: \"{text}\""))
    }
}

/// The mistakes found in a text, each with the place where it was found.
#[derive(Debug)]
pub(super) struct Problems<'t> {
    text: &'t str,
    errors: Vec<(usize, &'static str)>,
    /// Named after the errors.
    warnings: Vec<(usize, &'static str)>,
}

impl<'t> Problems<'t> {
    pub(super) fn new(text: &'t str) -> Self {
        Self { text, errors: Vec::new(), warnings: Vec::new() }
    }

    pub(super) fn error(&mut self, position: usize, message: &'static str) {
        self.errors.push((position, message));
    }

    pub(super) fn warning(&mut self, position: usize, message: &'static str) {
        self.warnings.push((position, message));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.errors.is_empty() && self.warnings.is_empty()
    }

    /// Whether so many mistakes were found that looking for more is of no use.
    pub(super) fn is_full(&self) -> bool {
        self.errors.len() + self.warnings.len() >= PROBLEMS_MAX
    }

    /// All mistakes as one problem, if there are any.
    pub(super) fn check(&self) -> Result<(), DateProblem> {
        if self.is_empty() {
            return Ok(());
        }
        let mut message = format!("Error parsing date string '{}'", self.text);
        for (position, problem) in self.errors.iter().chain(&self.warnings) {
            let character = self.text.get(*position..).and_then(|rest| rest.chars().next()).unwrap_or('\0');
            // Writing to a string cannot fail.
            let _ = write!(message, "; {position}: {problem} '{character}'");
        }
        Err(DateProblem(message))
    }
}

/// The day number of a date, when there is such a day.
pub(super) fn days_of_valid_date(date: CivilDate) -> Option<i64> {
    let days = (1..=12).contains(&date.month).then(|| date.to_days())?;
    (CivilDate::from_days(days) == date).then_some(days)
}

#[cfg(test)]
mod tests;
