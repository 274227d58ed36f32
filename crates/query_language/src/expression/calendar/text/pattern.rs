//! Patterns of tokens: sequences of parts, matched so that the most text is taken.
//!
//! `rules` is written in these parts. Numbers try fewer digits when what follows does not match otherwise; runs of
//! separators take all they can, as nothing that follows one may begin with its characters.

use smallvec::SmallVec;

use super::super::format::MONTHS;
use super::relative::Step;

/// One part of a pattern.
#[derive(Debug, Clone, Copy)]
pub(super) enum Part {
    /// From the first to the second number of digits, with a value from the third to the fourth.
    Number(usize, usize, i64, i64),
    /// Signs, blanks and digits.
    SignedNumber,
    /// One of these characters.
    One(&'static str),
    /// None or one of these characters.
    Maybe(&'static str),
    /// Any number of these characters.
    Any(&'static str),
    /// At least one of these characters.
    Some(&'static str),
    /// A word in any case.
    Word(&'static str),
    /// One of some words in any case; its position counts as a number.
    OneOf(&'static [&'static str]),
    /// A month: its name, its abbreviation or a Roman number.
    Month,
    /// A month by its abbreviation.
    MonthAbbreviation,
    /// A month by its name or its abbreviation.
    MonthWord,
    /// Nothing or the ending of an ordinal.
    OrdinalEnding,
    /// A point and digits: a fraction of a second.
    Fraction,
    /// `am` or `pm`, with or without points, and the blank or the end after it.
    Meridian,
    /// An abbreviation or a name of a zone.
    Zone,
    /// An offset from UTC.
    Offset,
    /// A unit of relative time.
    Unit,
    /// The end of the text.
    End,
}

/// What the parts of a pattern took.
#[derive(Debug, Clone, Default)]
pub(super) struct Captures {
    /// The numbers in their order, each with its number of digits.
    pub(super) numbers: SmallVec<[(i64, usize); 8]>,
    pub(super) microsecond: i64,
    pub(super) is_afternoon: bool,
    /// Where the text of a zone begins.
    pub(super) zone_start: Option<usize>,
    pub(super) unit: Option<Step>,
}

impl Captures {
    /// A number by its place; zero when there are fewer.
    pub(super) fn number(&self, place: usize) -> i64 {
        self.numbers.get(place).map_or(0, |(number, _)| *number)
    }

    /// A year by its place, with the century that one of two digits stands for.
    pub(super) fn year(&self, place: usize) -> i64 {
        match self.numbers.get(place) {
            Some((year @ 0..70, ..=3)) => year + 2000,
            Some((year @ 70..100, ..=3)) => year + 1900,
            _ => self.number(place),
        }
    }
}

/// The longest match of a pattern at the start of `text`: its length and what was captured.
pub(super) fn longest_match(parts: &[Part], text: &str) -> Option<(usize, Captures)> {
    let mut best = None;
    advance(parts, text.as_bytes(), 0, Captures::default(), &mut best);
    best
}

type Best = Option<(usize, Captures)>;

fn advance(parts: &[Part], text: &[u8], position: usize, captures: Captures, best: &mut Best) {
    let Some((part, rest)) = parts.split_first() else {
        if best.as_ref().is_none_or(|(length, _)| position > *length) {
            *best = Some((position, captures));
        }
        return;
    };
    let ahead = text.get(position..).unwrap_or_default();
    let mut go = |length: usize, captures: Captures| advance(rest, text, position + length, captures, best);
    match *part {
        Part::Number(least, most, low, high) => {
            let available = ahead.iter().take(most).take_while(|byte| byte.is_ascii_digit()).count();
            for length in (least..=available).rev() {
                let value = digits_value(ahead.get(..length).unwrap_or_default());
                if (low..=high).contains(&value) {
                    go(length, with_number(&captures, value, length));
                }
            }
        }
        Part::SignedNumber => {
            if let Some((value, length)) = signed_number(ahead) {
                go(length, with_number(&captures, value, length));
            }
        }
        Part::One(set) => {
            if ahead.first().is_some_and(|byte| set.as_bytes().contains(byte)) {
                go(1, captures);
            }
        }
        Part::Maybe(set) => {
            if ahead.first().is_some_and(|byte| set.as_bytes().contains(byte)) {
                go(1, captures.clone());
            }
            go(0, captures);
        }
        Part::Any(set) => go(run(ahead, set), captures),
        Part::Some(set) => match run(ahead, set) {
            0 => {}
            length => go(length, captures),
        },
        Part::Word(word) => {
            if begins_with(ahead, word) {
                go(word.len(), captures);
            }
        }
        Part::OneOf(words) => {
            for (place, word) in words.iter().enumerate().filter(|(_, word)| begins_with(ahead, word)) {
                go(word.len(), with_number(&captures, place as i64, word.len()));
            }
        }
        Part::OrdinalEnding => {
            if ["st", "nd", "rd", "th"].iter().any(|ending| ahead.starts_with(ending.as_bytes())) {
                go(2, captures.clone());
            }
            go(0, captures);
        }
        Part::End => {
            if ahead.is_empty() {
                go(0, captures);
            }
        }
        named => advance_named(named, ahead, position, captures, &mut go),
    }
}

/// The parts that have a meaning of their own.
fn advance_named(part: Part, ahead: &[u8], position: usize, captures: Captures, go: &mut dyn FnMut(usize, Captures)) {
    let with_zone = || Captures { zone_start: Some(position), ..captures.clone() };
    match part {
        Part::Month => {
            months(ahead, &MONTHS.map(|name| name.get(..3).unwrap_or(name)), &captures, go);
            months(ahead, &MONTHS, &captures, go);
            months(ahead, &ROMAN_NUMBERS, &captures, go);
        }
        Part::MonthWord => {
            months(ahead, &MONTHS.map(|name| name.get(..3).unwrap_or(name)), &captures, go);
            months(ahead, &MONTHS, &captures, go);
        }
        Part::MonthAbbreviation => months(ahead, &MONTHS.map(|name| name.get(..3).unwrap_or(name)), &captures, go),
        Part::Fraction => {
            let digits = ahead.iter().skip(1).take_while(|byte| byte.is_ascii_digit()).count();
            if ahead.first() == Some(&b'.') && digits > 0 {
                let digits_read = ahead.get(1..=digits.min(6)).unwrap_or_default();
                let microsecond = digits_value(digits_read) * 10_i64.pow(6 - digits_read.len() as u32);
                go(digits + 1, Captures { microsecond, ..captures.clone() });
            }
        }
        Part::Meridian => {
            if let Some((is_afternoon, length)) = meridian(ahead) {
                go(length, Captures { is_afternoon, ..captures.clone() });
            }
        }
        Part::Zone => {
            for length in [abbreviation_length(ahead), identifier_length(ahead)].into_iter().flatten() {
                go(length, with_zone());
            }
        }
        Part::Offset => offset_lengths(ahead, &mut |length| go(length, with_zone())),
        Part::Unit => {
            for (name, step) in super::relative::UNITS.iter().filter(|(name, _)| begins_with(ahead, name)) {
                go(name.len(), Captures { unit: Some(*step), ..captures.clone() });
            }
        }
        _ => {}
    }
}

fn with_number(captures: &Captures, value: i64, digits: usize) -> Captures {
    let mut captures = captures.clone();
    captures.numbers.push((value, digits));
    captures
}

fn run(ahead: &[u8], set: &str) -> usize {
    ahead.iter().take_while(|byte| set.as_bytes().contains(byte)).count()
}

fn begins_with(ahead: &[u8], word: &str) -> bool {
    ahead.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word.as_bytes()))
}

/// The value of digits; of too many, the largest number.
fn digits_value(digits: &[u8]) -> i64 {
    digits.iter().fold(0i64, |sum, digit| sum.saturating_mul(10).saturating_add(i64::from(digit - b'0')))
}

/// `+-`, blanks and digits; each minus turns the sign.
fn signed_number(ahead: &[u8]) -> Option<(i64, usize)> {
    let signs = run(ahead, "+-");
    let start = signs + run(ahead.get(signs..)?, " \t");
    let digits = ahead.get(start..)?.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let value = digits_value(ahead.get(start..start + digits)?);
    let minuses = ahead.get(..signs)?.iter().filter(|byte| **byte == b'-').count();
    (digits > 0).then_some((if minuses % 2 == 1 { -value } else { value }, start + digits))
}

/// Roman numbers stand for months in capitals only.
const ROMAN_NUMBERS: [&str; 12] = ["I", "II", "III", "IV", "V", "VI", "VII", "VIII", "IX", "X", "XI", "XII"];

/// Every month that the text may begin with, by one list of names.
fn months(ahead: &[u8], names: &[&str; 12], captures: &Captures, go: &mut dyn FnMut(usize, Captures)) {
    let is_roman = names.first() == ROMAN_NUMBERS.first();
    for (place, name) in names.iter().enumerate() {
        let begins = if is_roman { ahead.starts_with(name.as_bytes()) } else { begins_with(ahead, name) };
        if begins {
            go(name.len(), with_number(captures, place as i64 + 1, name.len()));
        }
    }
    if begins_with(ahead, "sept") && !is_roman {
        go(4, with_number(captures, 9, 4));
    }
}

/// `am`, `a.m.`, `PM` and the like, which a blank or the end must follow.
fn meridian(ahead: &[u8]) -> Option<(bool, usize)> {
    let is_afternoon = match ahead.first()?.to_ascii_lowercase() {
        b'a' => false,
        b'p' => true,
        _ => return None,
    };
    let mut length = 1 + usize::from(ahead.get(1) == Some(&b'.'));
    if !ahead.get(length)?.eq_ignore_ascii_case(&b'm') {
        return None;
    }
    length += 1;
    length += usize::from(ahead.get(length) == Some(&b'.'));
    match ahead.get(length) {
        None => Some((is_afternoon, length)),
        Some(b' ' | b'\t') => Some((is_afternoon, length + 1)),
        Some(_) => None,
    }
}

/// One to six letters, in parentheses or not.
fn abbreviation_length(ahead: &[u8]) -> Option<usize> {
    let opened = usize::from(ahead.first() == Some(&b'('));
    let letters = ahead.iter().skip(opened).take(6).take_while(|byte| byte.is_ascii_alphabetic()).count();
    let closed = usize::from(ahead.get(opened + letters) == Some(&b')'));
    (letters > 0).then_some(opened + letters + closed)
}

/// A name such as `Europe/Berlin`.
fn identifier_length(ahead: &[u8]) -> Option<usize> {
    let letters = |from: usize| {
        ahead.get(from..).unwrap_or_default().iter().take_while(|byte| byte.is_ascii_alphabetic()).count()
    };
    let mut length = letters(0);
    let begins_well = ahead.first().is_some_and(u8::is_ascii_uppercase) && length > 1;
    let mut parts = 0;
    while ahead.get(length).is_some_and(|byte| b"_/-".contains(byte)) && letters(length + 1) > 0 {
        length += 1 + letters(length + 1);
        parts += 1;
    }
    (begins_well && parts > 0).then_some(length)
}

/// `+hh`, `+hhmm`, `GMT-h:mm` and the like.
fn offset_lengths(ahead: &[u8], found: &mut dyn FnMut(usize)) {
    let start = if ahead.starts_with(b"GMT") { 3 } else { 0 };
    if !ahead.get(start).is_some_and(|byte| b"+-".contains(byte)) {
        return;
    }
    const HOUR: Part = Part::Number(1, 2, 0, 24);
    const MINUTE: Part = Part::Number(1, 2, 0, 59);
    let digits = ahead.get(start + 1..).unwrap_or_default();
    for parts in [&[HOUR, Part::Maybe(":"), MINUTE][..], &[HOUR, Part::Maybe(":")][..]] {
        let mut best = None;
        advance(parts, digits, 0, Captures::default(), &mut best);
        if let Some((length, _)) = best {
            found(start + 1 + length);
        }
    }
}
