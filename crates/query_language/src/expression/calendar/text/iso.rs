//! The text that programs write, `2019-03-09T10:30:02.813Z`, without the search among all rules.
//!
//! Called by `scan` before it begins. What is written otherwise, or wrongly, is for the rules; a property holds the two
//! together.

use super::super::civil::CivilDate;
use super::super::zone::Zone;
use super::{ParsedDate, days_of_valid_date};

/// Reads a day and, if it is there, a time with or without a fraction and `Z`.
pub(super) fn parse(text: &str) -> Option<ParsedDate> {
    let bytes = text.as_bytes();
    let (date, time) = bytes.split_at_checked(10)?;
    let [year, month, day] = numbers(date, b"0000-00-00")?;
    let days = days_of_valid_date(CivilDate { year, month, day })?;
    let Some((time, rest)) = time.split_at_checked(9) else {
        return time.is_empty().then(|| ParsedDate::new(days, 0, None));
    };
    let [hour, minute, second] = numbers(time, b"T00:00:00")?;
    let (fraction, rest) = fraction(rest)?;
    let zone = match rest {
        b"" => None,
        b"Z" => Some(Zone::UTC),
        _ => return None,
    };
    let is_valid = hour < 24 && minute < 60 && second < 60;
    is_valid.then(|| ParsedDate::new(days, ((hour * 60 + minute) * 60 + second) * 1_000 + fraction, zone))
}

/// Three numbers in a shape, where `0` stands for any digit.
fn numbers(text: &[u8], shape: &[u8]) -> Option<[i64; 3]> {
    let mut numbers = [0; 3];
    let mut place = 0;
    for (position, (byte, expected)) in text.iter().zip(shape).enumerate() {
        match (expected, byte) {
            (b'0', b'0'..=b'9') => {
                let number = numbers.get_mut(place)?;
                *number = *number * 10 + i64::from(byte - b'0');
            }
            (expected, byte) if expected == byte => place += usize::from(position > 0),
            _ => return None,
        }
    }
    Some(numbers)
}

/// Milliseconds from a point and digits, if they are there, and what follows.
fn fraction(text: &[u8]) -> Option<(i64, &[u8])> {
    let Some(digits) = text.strip_prefix(b".") else { return Some((0, text)) };
    let length = digits.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (digits, rest) = digits.split_at_checked(length).filter(|(digits, _)| !digits.is_empty())?;
    let value = |place: usize| digits.get(place).map_or(0, |digit| i64::from(digit - b'0'));
    Some((value(0) * 100 + value(1) * 10 + value(2), rest))
}
