//! Reads a text token by token and puts together what the tokens say.

use super::super::civil::{CivilDate, first_iso_day, first_of_year};
use super::super::zone::Zone;
use super::abbreviations::parse_zone_text;
use super::pattern::{Captures, longest_match};
use super::relative::{MonthEdge, Relative, Step};
use super::rules::{Meaning, RULES};
use super::{DateProblem, ParsedDate, Problems, ZONE_IDENTIFIER, days_of_valid_date};

const DOUBLE_TIME: &str = "Double time specification";
const DOUBLE_DATE: &str = "Double date specification";
const DOUBLE_ZONE: &str = "Double timezone specification";

/// What may stand between tokens, no-break spaces among it.
const SEPARATORS: &str = " .,\t\n\0\u{a0}\u{202f}";

/// The amounts that `RELATIVE_WORDS` stand for.
const WORD_AMOUNTS: &[i64] = &[-1, 0, 1, -1, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 8];

/// What was read so far.
struct Scan<'t> {
    text: &'t str,
    /// Where the token begins.
    position: usize,
    year: Option<i64>,
    month: Option<i64>,
    day: Option<i64>,
    /// Hour, minute, second.
    time: Option<[i64; 3]>,
    microsecond: i64,
    zone: Option<Zone>,
    has_date: bool,
    times: usize,
    zones: usize,
    relative: Relative,
    problems: Problems<'t>,
}

/// Reads a date from free text. `Err` says what is wrong.
pub(crate) fn parse_date_text(text: &str) -> Result<ParsedDate, DateProblem> {
    let text = text.trim_matches([' ', '\t', '\n', '\r', '\u{b}', '\u{c}']);
    DateProblem::check_length(text)?;
    super::iso::parse(text).map_or_else(|| parse_by_rules(text), Ok)
}

/// Reads a date by the rules alone.
pub(super) fn parse_by_rules(text: &str) -> Result<ParsedDate, DateProblem> {
    let mut scan = Scan::new(text);
    if text.is_empty() {
        scan.problems.error(0, "Empty string");
    }
    while !scan.problems.is_full() && scan.skip_separators() {
        scan.token();
    }
    scan.finish()
}

impl<'t> Scan<'t> {
    fn new(text: &'t str) -> Self {
        Self {
            text,
            position: 0,
            year: None,
            month: None,
            day: None,
            time: None,
            microsecond: 0,
            zone: None,
            has_date: false,
            times: 0,
            zones: 0,
            relative: Relative::default(),
            problems: Problems::new(text),
        }
    }

    /// Goes on to the next token; `false` at the end.
    fn skip_separators(&mut self) -> bool {
        let rest = self.text.get(self.position..).unwrap_or_default();
        self.position += rest.len() - rest.trim_start_matches(|character| SEPARATORS.contains(character)).len();
        self.position < self.text.len()
    }

    /// Reads one token, the longest that begins here.
    fn token(&mut self) {
        let rest = self.text.get(self.position..).unwrap_or_default();
        let mut best: Option<(usize, Captures, Meaning)> = None;
        for (parts, meaning) in RULES {
            if let Some((length, captures)) = longest_match(parts, rest)
                && best.as_ref().is_none_or(|(longest, ..)| length > *longest)
            {
                best = Some((length, captures, *meaning));
            }
        }
        let Some((length, captures, meaning)) = best else {
            self.error("Unexpected character");
            self.position += rest.chars().next().map_or(1, char::len_utf8);
            return;
        };
        self.take(meaning, &captures, rest.get(..length).unwrap_or_default());
        self.position += length;
    }

    fn error(&mut self, message: &'static str) {
        self.problems.error(self.position, message);
    }

    /// Notes what a token says.
    fn take(&mut self, meaning: Meaning, captures: &Captures, token: &str) {
        let number = |place| captures.number(place);
        match meaning {
            Meaning::Nothing => {}
            Meaning::Midnight => self.drop_time(),
            Meaning::Noon => {
                self.drop_time();
                self.set_time([12, 0, 0], 0);
            }
            Meaning::Time => self.set_time([number(0), number(1), number(2)], captures.microsecond),
            Meaning::Time12 => self.set_time_12(captures, 0),
            Meaning::TimeOrYear => self.take_time_or_year(captures, token),
            Meaning::Zone => self.take_zone(token),
            Meaning::DateTime | Meaning::LogDateTime | Meaning::MonthDayTime | Meaning::MonthDayTime12 => {
                self.take_date_and_time(meaning, captures, token);
            }
            Meaning::ShiftedMidnight(_)
            | Meaning::UnixTime
            | Meaning::FirstDayOfMonth
            | Meaning::LastDayOfMonth
            | Meaning::Ago
            | Meaning::Weekday
            | Meaning::Relative
            | Meaning::RelativeWord => self.take_relative(meaning, captures),
            Meaning::Unsupported => self.error("this relative time is not supported"),
            _ => self.take_date(meaning, captures),
        }
    }

    fn take_date(&mut self, meaning: Meaning, captures: &Captures) {
        let (number, year) = (|place| captures.number(place), |place| captures.year(place));
        if meaning == Meaning::YearOnly {
            self.year = Some(number(0));
            return;
        }
        let (year, month, day) = match meaning {
            Meaning::MonthDay => (None, Some(number(0)), Some(number(1))),
            Meaning::DayMonth => (None, Some(number(1)), Some(number(0))),
            Meaning::MonthOnly => (None, Some(number(0)), None),
            Meaning::MonthDayYear => (Some(year(2)), Some(number(0)), Some(number(1))),
            Meaning::DayMonthYear => (Some(year(2)), Some(number(1)), Some(number(0))),
            Meaning::YearMonthDay => (Some(year(0)), Some(number(1)), Some(number(2))),
            Meaning::SignedYearMonthDay => (Some(-number(0)), Some(number(1)), Some(number(2))),
            Meaning::YearMonth => (Some(number(0)), Some(number(1)), Some(1)),
            Meaning::MonthYear => (Some(number(1)), Some(number(0)), Some(1)),
            Meaning::YearDayOfYear => (Some(number(0)), Some(1), Some(number(1))),
            Meaning::YearWeek => {
                let weekday = if captures.numbers.len() > 2 { number(2) } else { 1 };
                let monday = first_iso_day(number(0)) + (number(1) - 1) * 7;
                self.relative.set_days(monday + weekday - 1 - first_of_year(number(0)));
                (Some(number(0)), Some(1), Some(1))
            }
            _ => (Some(number(0)), Some(number(1)), Some(number(2))),
        };
        self.set_date(year, month, day);
    }

    fn take_date_and_time(&mut self, meaning: Meaning, captures: &Captures, token: &str) {
        let number = |place| captures.number(place);
        match meaning {
            Meaning::DateTime => {
                self.set_date(Some(number(0)), Some(number(1)), Some(number(2)));
                self.set_time([number(3), number(4), number(5)], captures.microsecond);
            }
            Meaning::LogDateTime => {
                self.set_date(Some(number(2)), Some(number(1)), Some(number(0)));
                self.set_time([number(3), number(4), number(5)], 0);
            }
            _ => {
                self.set_date(None, Some(number(0)), Some(number(1)));
                match meaning {
                    Meaning::MonthDayTime12 => self.set_time_12(captures, 2),
                    _ => self.set_time([number(2), number(3), number(4)], 0),
                }
            }
        }
        if let Some(zone) = captures.zone_start.and_then(|start| token.get(start..)) {
            self.set_zone(zone);
        }
    }

    fn take_relative(&mut self, meaning: Meaning, captures: &Captures) {
        let number = captures.number(0);
        match meaning {
            Meaning::ShiftedMidnight(days) => {
                self.drop_time();
                self.relative.set_days(days);
            }
            Meaning::UnixTime => {
                (self.has_date, self.times) = (false, 0);
                self.note_zone(|scan| scan.zone = Some(Zone::UTC));
                (self.year, self.month, self.day, self.time) = (Some(1970), Some(1), Some(1), Some([0, 0, 0]));
                self.relative.add(number, Step::Microseconds(1_000_000));
                self.relative.add(captures.microsecond, Step::Microseconds(1));
            }
            Meaning::FirstDayOfMonth => self.relative.edge = Some(MonthEdge::First),
            Meaning::LastDayOfMonth => self.relative.edge = Some(MonthEdge::Last),
            Meaning::Ago => self.relative.reverse(),
            Meaning::Weekday => {
                self.drop_time();
                self.relative.weekday = Some(number % 7);
            }
            _ => {
                let word = WORD_AMOUNTS.get(number as usize).copied().unwrap_or(0);
                let amount = if meaning == Meaning::Relative { number } else { word };
                if let Some(unit) = captures.unit {
                    self.relative.add(amount, unit);
                }
            }
        }
    }

    /// `2019` is a time as long as there is none.
    fn take_time_or_year(&mut self, captures: &Captures, token: &str) {
        match self.times {
            0 => {
                self.time = Some([captures.number(0), captures.number(1), 0]);
                self.times = 1;
            }
            1 => {
                let year = token.trim_start_matches(['t', 'T']);
                self.year = year.parse().ok();
                self.times = 2;
            }
            _ => self.error(DOUBLE_TIME),
        }
    }

    fn take_zone(&mut self, token: &str) {
        self.note_zone(|scan| scan.set_zone(token));
    }

    /// A zone beside another one is a mistake.
    fn note_zone(&mut self, set: impl FnOnce(&mut Self)) {
        match self.zones {
            0 => set(self),
            1 => self.problems.warning(self.position, DOUBLE_ZONE),
            _ => self.error(DOUBLE_ZONE),
        }
        self.zones += 1;
    }

    fn set_zone(&mut self, text: &str) {
        match parse_zone_text(text) {
            Some((zone, _)) => self.zone = Some(zone),
            None => self.error(ZONE_IDENTIFIER),
        }
    }

    fn set_date(&mut self, year: Option<i64>, month: Option<i64>, day: Option<i64>) {
        if self.has_date {
            return self.error(DOUBLE_DATE);
        }
        self.has_date = true;
        self.year = year.or(self.year);
        self.month = month.or(self.month);
        self.day = day.or(self.day);
    }

    fn set_time(&mut self, time: [i64; 3], microsecond: i64) {
        if self.times > 0 {
            return self.error(DOUBLE_TIME);
        }
        (self.time, self.microsecond, self.times) = (Some(time), microsecond, 1);
    }

    fn set_time_12(&mut self, captures: &Captures, first: usize) {
        let [hour, minute, second] = [first, first + 1, first + 2].map(|place| captures.number(place));
        let hour = hour % 12 + if captures.is_afternoon { 12 } else { 0 };
        self.set_time([hour, minute, second], captures.microsecond);
    }

    fn drop_time(&mut self) {
        (self.time, self.microsecond, self.times) = (Some([0, 0, 0]), 0, 0);
    }

    fn finish(mut self) -> Result<ParsedDate, DateProblem> {
        let end = self.text.len() + 1;
        if self.times > 0 && self.time.is_some_and(|[hour, _, second]| hour > 23 || second > 59) {
            self.problems.warning(end, "The parsed time was invalid");
        }
        let date = match (self.year, self.month, self.day) {
            (Some(year), Some(month), Some(day)) => Some(CivilDate { year, month, day }),
            _ => None,
        };
        if self.has_date && date.is_some_and(|date| days_of_valid_date(date).is_none()) {
            self.problems.warning(end, "The parsed date was invalid");
        }
        self.problems.check()?;
        let incomplete = || DateProblem::incomplete(self.text);
        let date = date.filter(|date| (1..=12).contains(&date.month)).ok_or_else(incomplete)?;
        let beyond = || DateProblem(format!("the date is beyond what a BSON date can hold: \"{}\"", self.text));
        let days = self.relative.apply(date).ok_or_else(beyond)?;
        let shift_ms = self.relative.milliseconds().ok_or_else(beyond)?;
        let [hour, minute, second] = self.time.unwrap_or_default();
        let milliseconds = ((hour * 60 + minute) * 60 + second) * 1_000 + self.microsecond / 1_000;
        let mut parsed = ParsedDate::new(days, milliseconds, self.zone);
        parsed.shift_ms = shift_ms;
        Ok(parsed)
    }
}
