//! Decoding of numbers: the inverse of `number.rs`.

use bson::spec::ElementType;
use document::{Decimal, decompose};

use crate::cursor::Cursor;
use crate::layout::{DIRECT_CODES, END, HUGE_CODE, INFINITY_CODE, NAN, SIZED_CODES, ZERO};
use crate::number::{DIGIT_EXPONENT_BIAS, HUGE, fraction_bits};
use crate::type_bits::TypeBit;

/// A decoded number.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct ParsedNumber {
    pub(crate) negative: bool,
    pub(crate) magnitude: Magnitude,
}

/// Its magnitude, in the forms of the encoding.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Magnitude {
    NaN,
    Infinity,
    /// Below 2^63.
    Integer(u64),
    /// Exactly this double: a fraction, or 2^63 and more.
    Double(f64),
    /// Coefficient and exponent of a decimal, and the double it is cut to.
    Digits {
        coefficient: u128,
        exponent: i32,
        truncated: f64,
    },
}

/// Reads the number whose first byte was `first` if it is an integer; otherwise `None`, with the cursor anywhere.
///
/// What `parse_number` would find, with nothing but integers in hand: index scans come here for every entry.
#[inline]
pub(crate) fn parse_integer(cursor: &mut Cursor<'_>, first: u8) -> Option<i64> {
    let negative = first < ZERO;
    let code = first.abs_diff(ZERO);
    let whole = match code {
        0..DIRECT_CODES => u64::from(code),
        DIRECT_CODES..HUGE_CODE => {
            let size = usize::from(code - SIZED_CODES);
            let whole = cursor.unsigned(size)?;
            if negative { !whole & (u64::MAX >> (64 - 8 * size)) } else { whole }
        }
        _ => return None,
    };
    let magnitude = (whole >> 1) as i64;
    (whole & 1 == 0).then_some(if negative { -magnitude } else { magnitude })
}

/// Reads the number whose first byte was `first`.
pub(crate) fn parse_number(cursor: &mut Cursor<'_>, first: u8) -> Option<ParsedNumber> {
    if first == NAN {
        return Some(ParsedNumber { negative: false, magnitude: Magnitude::NaN });
    }
    let negative = first < ZERO;
    let code = first.abs_diff(ZERO);
    if negative {
        cursor.invert();
    }
    let magnitude = parse_magnitude(cursor, code);
    if negative {
        cursor.invert();
    }
    Some(ParsedNumber { negative, magnitude: magnitude? })
}

#[inline]
fn parse_magnitude(cursor: &mut Cursor<'_>, code: u8) -> Option<Magnitude> {
    let whole = match code {
        0..DIRECT_CODES => u64::from(code),
        DIRECT_CODES..HUGE_CODE => cursor.unsigned(usize::from(code - SIZED_CODES))?,
        HUGE_CODE => return parse_whole_double(cursor),
        INFINITY_CODE => return Some(Magnitude::Infinity),
        _ => return None,
    };
    if whole & 1 == 0 {
        return Some(Magnitude::Integer(whole >> 1));
    }
    if whole == 1 { parse_whole_double(cursor) } else { parse_mixed(cursor, whole >> 1) }
}

fn parse_whole_double(cursor: &mut Cursor<'_>) -> Option<Magnitude> {
    let flagged = cursor.unsigned(8)?;
    let truncated = f64::from_bits(flagged >> 1);
    if flagged & 1 == 0 {
        return Some(Magnitude::Double(truncated));
    }
    let leading = cursor.unsigned(2)? as i32 - DIGIT_EXPONENT_BIAS;
    parse_digits(cursor, leading, truncated)
}

fn parse_mixed(cursor: &mut Cursor<'_>, whole: u64) -> Option<Magnitude> {
    let bits = fraction_bits(whole) + 1;
    let size = bits.div_ceil(8);
    let flagged = cursor.unsigned(size as usize)? >> (8 * size - bits);
    let fraction = flagged >> 1;
    let scale = 2f64.powi(bits as i32 - 1);
    let truncated = (cut_to_double(whole) * scale + fraction as f64) / scale;
    if flagged & 1 == 0 {
        return Some(Magnitude::Double(truncated));
    }
    parse_digits(cursor, whole.ilog10() as i32, truncated)
}

/// The largest double not above an integer, which `as` would round to the nearest.
fn cut_to_double(whole: u64) -> f64 {
    let beyond_the_mantissa = (u64::BITS - whole.leading_zeros()).saturating_sub(f64::MANTISSA_DIGITS);
    (whole >> beyond_the_mantissa << beyond_the_mantissa) as f64
}

/// Reads digits, the first of which has the exponent `leading`.
fn parse_digits(cursor: &mut Cursor<'_>, leading: i32, truncated: f64) -> Option<Magnitude> {
    let mut coefficient = 0u128;
    let mut exponent = leading + 1;
    loop {
        match cursor.byte()? {
            END => break,
            pair => {
                coefficient = coefficient.checked_mul(100)?.checked_add(u128::from(pair - 1))?;
                exponent -= 2;
            }
        }
    }
    // The last pair may end with a zero that the shortest form has not.
    if coefficient != 0 && coefficient.is_multiple_of(10) {
        coefficient /= 10;
        exponent += 1;
    }
    Some(Magnitude::Digits { coefficient, exponent, truncated })
}

impl ParsedNumber {
    /// The value as int64, when it is an integer in that range.
    #[inline]
    pub(crate) fn integer(self) -> Option<i64> {
        match self.magnitude {
            Magnitude::Integer(magnitude) if self.negative => Some(-(magnitude as i64)),
            Magnitude::Integer(magnitude) => Some(magnitude as i64),
            _ => None,
        }
    }

    /// The value as a double, cut towards zero if it is a decimal that is not exactly one.
    #[inline]
    pub(crate) fn double(self) -> f64 {
        let magnitude = match self.magnitude {
            Magnitude::NaN => return f64::NAN,
            Magnitude::Infinity => f64::INFINITY,
            Magnitude::Integer(magnitude) => magnitude as f64,
            Magnitude::Double(double) => double,
            Magnitude::Digits { truncated, .. } => truncated,
        };
        if self.negative { -magnitude } else { magnitude }
    }

    /// Appends the stored bytes of the number with the type that `type_bit` tells; `None` when they do not go together.
    pub(crate) fn append_stored(self, type_bit: TypeBit, out: &mut Vec<u8>) -> Option<ElementType> {
        match (type_bit, self.integer()) {
            (TypeBit::Default, Some(integer)) => match i32::try_from(integer) {
                Ok(small) => out.extend_from_slice(&small.to_le_bytes()),
                Err(_) => {
                    out.extend_from_slice(&integer.to_le_bytes());
                    return Some(ElementType::Int64);
                }
            },
            (TypeBit::Int64, _) => {
                out.extend_from_slice(&self.integer().or_else(|| self.minimum_int64())?.to_le_bytes());
                return Some(ElementType::Int64);
            }
            (TypeBit::Default | TypeBit::Double, _) => {
                out.extend_from_slice(&self.double().to_le_bytes());
                return Some(ElementType::Double);
            }
            (TypeBit::NegativeZero, _) => {
                out.extend_from_slice(&(-0.0f64).to_le_bytes());
                return Some(ElementType::Double);
            }
            (TypeBit::RawDouble(bytes), _) => {
                out.extend_from_slice(&bytes);
                return Some(ElementType::Double);
            }
            (TypeBit::RawDecimal(bytes), _) => {
                out.extend_from_slice(&bytes);
                return Some(ElementType::Decimal128);
            }
            (TypeBit::Decimal { exponent, negative_zero }, _) => {
                out.extend_from_slice(&self.decimal(exponent, negative_zero)?.to_stored());
                return Some(ElementType::Decimal128);
            }
            (TypeBit::Symbol, _) => return None,
        }
        Some(ElementType::Int32)
    }

    /// int64's minimum is encoded as the double it equals.
    fn minimum_int64(self) -> Option<i64> {
        (self.negative && self.magnitude == Magnitude::Double(HUGE)).then_some(i64::MIN)
    }

    /// The decimal of this value whose last digit has the given exponent.
    fn decimal(self, exponent: i32, negative_zero: bool) -> Option<Decimal> {
        let power = |exponent: i32| document::decimal::power_of_ten(exponent.unsigned_abs());
        let coefficient = match self.magnitude {
            Magnitude::NaN => return Some(Decimal::NaN),
            Magnitude::Infinity => return Some(Decimal::Infinity { negative: self.negative }),
            Magnitude::Integer(0) => 0,
            Magnitude::Integer(integer) if exponent <= 0 => u128::from(integer).checked_mul(power(exponent)?)?,
            Magnitude::Integer(integer) => u128::from(integer) / power(exponent)?,
            Magnitude::Double(double) => scale_double(double, exponent)?,
            Magnitude::Digits { coefficient, exponent: shortest, .. } => {
                coefficient.checked_mul(power(shortest.checked_sub(exponent).filter(|shift| *shift >= 0)?)?)?
            }
        };
        Some(Decimal::Finite { negative: self.negative || negative_zero, coefficient, exponent })
    }
}

/// The integer `double / 10^exponent`; `None` when it is none or too large, which no encoded decimal leads to. Nor does one
/// lead to the double 0, which has a code of its own: only a damaged key has it here.
fn scale_double(double: f64, exponent: i32) -> Option<u128> {
    let (mantissa, binary) = decompose(double);
    if mantissa == 0 {
        return None;
    }
    let zeroes = mantissa.trailing_zeros();
    let (mantissa, binary) = (u128::from(mantissa >> zeroes), binary + zeroes as i32);
    let fives = 5u128.checked_pow(exponent.unsigned_abs())?;
    let odd_part = if exponent <= 0 { mantissa.checked_mul(fives)? } else { mantissa / fives };
    // What remains of 2^binary / 10^exponent after the fives.
    let twos = binary - exponent;
    if twos >= 0 { odd_part.checked_mul(1u128.checked_shl(twos.unsigned_abs())?) } else { None }
}
