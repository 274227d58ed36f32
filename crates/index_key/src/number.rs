//! Encoding of numbers: one order over int32, int64, double and decimal128, exact.
//!
//! Every number is a sign and a magnitude. The first byte is `ZERO` plus (or minus) a code; negative numbers have the
//! bytes after it inverted. With `w` = 2 * integer part + (1 if there is a fraction):
//!
//! ```text
//! code        bytes after the first
//! 0..=63      code is w                               integers 0 to 31 take one byte
//! 64..=71     w in 1 to 8 bytes                       all other integers below 2^63
//! 72          the double, see below                   magnitudes of 2^63 and more
//! 73          none                                    infinity
//! ```
//!
//! When w is odd, a fraction follows. A double with an integer part of b bits has at most 53 - b bits of fraction;
//! these bits and one flag, left-aligned in whole bytes, follow. The flag says that the value (a decimal) lies above
//! this, below the next double, and that its digits follow. An integer part of zero, and code 72, are followed by the
//! double's own 63 bits and the flag instead; a decimal is cut down to a double for that.
//!
//! Digits follow as the exponent of the first digit (2 bytes, left out if there is an integer part below 2^63, which
//! implies it), then two digits a byte plus one, then 00.

use document::{Decimal, compare_double_with_decimal};

use crate::layout::{DIRECT_CODES, END, HUGE_CODE, INFINITY_CODE, NAN, SIZED_CODES, ZERO};
use crate::type_bits::{TypeBit, TypeBits};

/// The smallest magnitude that is encoded as a double whatever its type.
pub(crate) const HUGE: f64 = 9_223_372_036_854_775_808.0;
/// Added to the exponent of the first digit.
pub(crate) const DIGIT_EXPONENT_BIAS: i32 = 8192;
const CANONICAL_NAN: u64 = 0x7FF8_0000_0000_0000;

/// Appends an int32, for which no type bit is ever needed.
#[inline]
pub(crate) fn append_int32(out: &mut Vec<u8>, type_bits: &mut TypeBits, value: i32) {
    type_bits.push_default();
    append_integer(out, value < 0, u64::from(value.unsigned_abs()));
}

/// Appends an int64.
#[inline]
pub(crate) fn append_int64(out: &mut Vec<u8>, type_bits: &mut TypeBits, value: i64) {
    let is_default = i32::try_from(value).is_err() && value != i64::MIN;
    type_bits.push(if is_default { TypeBit::Default } else { TypeBit::Int64 });
    if value == i64::MIN {
        append_huge(out, true, HUGE, None);
    } else {
        append_integer(out, value < 0, value.unsigned_abs());
    }
}

/// Appends a double.
pub(crate) fn append_double(out: &mut Vec<u8>, type_bits: &mut TypeBits, value: f64) {
    let (negative, magnitude) = (value.is_sign_negative(), value.abs());
    if magnitude < HUGE && magnitude.trunc() == magnitude {
        let negative_zero = negative && magnitude == 0.0;
        type_bits.push(if negative_zero { TypeBit::NegativeZero } else { TypeBit::Double });
        append_integer(out, negative, magnitude as u64);
    } else if magnitude.is_finite() {
        type_bits.push_default();
        match magnitude {
            HUGE.. => append_huge(out, negative, magnitude, None),
            ..1.0 => append_below_one(out, negative, magnitude, None),
            _ => {
                let whole = magnitude as u64;
                let fraction = magnitude.to_bits() & ((1 << fraction_bits(whole)) - 1);
                append_mixed(out, negative, whole, fraction, None);
            }
        }
    } else if value.is_nan() {
        let is_default = value.to_bits() == CANONICAL_NAN;
        type_bits.push(if is_default { TypeBit::Default } else { TypeBit::RawDouble(value.to_le_bytes()) });
        out.push(NAN);
    } else {
        type_bits.push_default();
        append_infinity(out, negative);
    }
}

/// Appends a decimal128 given as stored.
pub(crate) fn append_decimal(out: &mut Vec<u8>, type_bits: &mut TypeBits, stored: [u8; 16]) {
    let decimal = Decimal::from_stored(stored);
    let (exponent, negative_zero) = match decimal {
        Decimal::Finite { negative, coefficient, exponent } => (exponent, negative && coefficient == 0),
        _ => (0, false),
    };
    let is_canonical = decimal.to_stored() == stored;
    type_bits.push(if is_canonical {
        TypeBit::Decimal { exponent, negative_zero }
    } else {
        TypeBit::RawDecimal(stored)
    });
    match decimal {
        Decimal::NaN => out.push(NAN),
        Decimal::Infinity { negative } => append_infinity(out, negative),
        Decimal::Finite { coefficient: 0, .. } => out.push(ZERO),
        Decimal::Finite { negative, coefficient, exponent } => {
            append_finite_decimal(out, negative, coefficient, exponent);
        }
    }
}

fn append_finite_decimal(out: &mut Vec<u8>, negative: bool, coefficient: u128, exponent: i32) {
    let power = document::decimal::power_of_ten(exponent.unsigned_abs());
    let (whole, rest, divisor) = match power {
        Some(power) if exponent < 0 => (Some(coefficient / power), coefficient % power, power),
        None if exponent < 0 => (Some(0), coefficient, 1),
        Some(power) => (coefficient.checked_mul(power), 0, 1),
        None => (None, 0, 1),
    };
    let digits = Some((coefficient, exponent));
    match whole.and_then(|whole| u64::try_from(whole).ok()).filter(|whole| *whole < 1 << 63) {
        Some(whole) if rest == 0 => append_integer(out, negative, whole),
        Some(0) => {
            let (double, is_exact) = truncate_to_double(coefficient, exponent);
            append_below_one(out, negative, double, if is_exact { None } else { digits });
        }
        Some(whole) => {
            let (fraction, is_exact) = binary_fraction(rest, divisor, fraction_bits(whole));
            append_mixed(out, negative, whole, fraction, if is_exact { None } else { digits });
        }
        None => {
            let (double, is_exact) = truncate_to_double(coefficient, exponent);
            append_huge(out, negative, double, if is_exact { None } else { digits });
        }
    }
}

/// How many bits of fraction a double has beside the integer part `whole`, which is not zero.
#[inline]
pub(crate) fn fraction_bits(whole: u64) -> u32 {
    53u32.saturating_sub(u64::BITS - whole.leading_zeros())
}

/// The first `bits` binary digits of `rest / divisor` (below one), and whether that is all of it.
fn binary_fraction(mut rest: u128, divisor: u128, bits: u32) -> (u64, bool) {
    let mut fraction = 0;
    for _ in 0..bits {
        rest <<= 1;
        fraction <<= 1;
        if rest >= divisor {
            rest -= divisor;
            fraction |= 1;
        }
    }
    (fraction, rest == 0)
}

/// The largest double not above a positive decimal, and whether it is equal.
fn truncate_to_double(coefficient: u128, exponent: i32) -> (f64, bool) {
    let decimal = Decimal::Finite { negative: false, coefficient, exponent };
    let nearest = decimal.to_f64().min(f64::MAX);
    match compare_double_with_decimal(nearest, decimal) {
        std::cmp::Ordering::Equal => (nearest, true),
        std::cmp::Ordering::Less => (nearest, false),
        std::cmp::Ordering::Greater => (f64::from_bits(nearest.to_bits() - 1), false),
    }
}

/// Appends an integer with a magnitude below 2^63.
#[inline]
fn append_integer(out: &mut Vec<u8>, negative: bool, magnitude: u64) {
    append_whole(out, negative, magnitude << 1);
}

/// Appends `w`: twice the integer part, plus one if a fraction follows.
#[inline]
fn append_whole(out: &mut Vec<u8>, negative: bool, whole: u64) {
    if whole < u64::from(DIRECT_CODES) {
        return out.push(first_byte(negative, whole as u8));
    }
    let size = (71 - whole.leading_zeros()) / 8;
    let aligned = whole << (64 - 8 * size);
    let payload = if negative { !aligned } else { aligned };
    // One write of nine bytes, then cut: cheaper than a copy of variable length.
    let mut bytes = [0; 9];
    bytes[0] = first_byte(negative, SIZED_CODES + size as u8);
    bytes[1..].copy_from_slice(&payload.to_be_bytes());
    let length = out.len() + 1 + size as usize;
    out.extend_from_slice(&bytes);
    out.truncate(length);
}

#[inline]
fn first_byte(negative: bool, code: u8) -> u8 {
    if negative { ZERO - code } else { ZERO + code }
}

fn append_infinity(out: &mut Vec<u8>, negative: bool) {
    out.push(first_byte(negative, INFINITY_CODE));
}

type Digits = Option<(u128, i32)>;

/// Appends a number with an integer part (at least 1) and a fraction.
fn append_mixed(out: &mut Vec<u8>, negative: bool, whole: u64, fraction: u64, digits: Digits) {
    append_whole(out, negative, whole << 1 | 1);
    let start = out.len();
    let bits = fraction_bits(whole) + 1;
    let size = bits.div_ceil(8);
    let flagged = fraction << 1 | u64::from(digits.is_some());
    let aligned = flagged << (64 - bits);
    out.extend_from_slice(aligned.to_be_bytes().get(..size as usize).unwrap_or_default());
    if let Some((coefficient, _)) = digits {
        append_digits(out, coefficient);
    }
    invert_if(negative, out, start);
}

/// Appends a number between zero and one, given as the double it is cut to.
fn append_below_one(out: &mut Vec<u8>, negative: bool, double: f64, digits: Digits) {
    out.push(first_byte(negative, 1));
    append_whole_double(out, negative, double, digits);
}

/// Appends a number of 2^63 or more, given as the double it is cut to.
fn append_huge(out: &mut Vec<u8>, negative: bool, double: f64, digits: Digits) {
    out.push(first_byte(negative, HUGE_CODE));
    append_whole_double(out, negative, double, digits);
}

fn append_whole_double(out: &mut Vec<u8>, negative: bool, double: f64, digits: Digits) {
    let start = out.len();
    let flagged = double.to_bits() << 1 | u64::from(digits.is_some());
    out.extend_from_slice(&flagged.to_be_bytes());
    if let Some((coefficient, exponent)) = digits {
        let leading = coefficient.ilog10() as i32 + exponent;
        out.extend_from_slice(&((leading + DIGIT_EXPONENT_BIAS) as u16).to_be_bytes());
        append_digits(out, coefficient);
    }
    invert_if(negative, out, start);
}

/// Appends the decimal digits from the first on, two a byte, without trailing zeroes.
fn append_digits(out: &mut Vec<u8>, coefficient: u128) {
    const PAIRS: u32 = 17;
    let mut aligned = coefficient * 10u128.pow(2 * PAIRS - 1 - coefficient.ilog10());
    let mut unit = 10u128.pow(2 * (PAIRS - 1));
    while aligned != 0 {
        out.push((aligned / unit) as u8 + 1);
        aligned %= unit;
        unit /= 100;
    }
    out.push(END);
}

#[inline]
fn invert_if(negative: bool, out: &mut [u8], start: usize) {
    if negative {
        invert(out, start);
    }
}

/// Inverts all bytes from `start` on.
#[inline]
pub(crate) fn invert(out: &mut [u8], start: usize) {
    for byte in out.iter_mut().skip(start) {
        *byte = !*byte;
    }
}
