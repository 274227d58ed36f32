//! Decimal128 values: taking the stored form apart, exact comparison, arithmetic and text.
//!
//! BSON stores decimal128 with a binary integer coefficient; the arithmetic comes from the `dec` crate, which stores
//! densely packed digits, so values are converted through (sign, coefficient, exponent). Called by `number`, by key
//! encoding in `index_key`, and by expressions that need decimal functions.

pub mod trigonometry;
mod wide;

use std::cmp::Ordering;

use bson::Decimal128;

use wide::{WideContext, from_wide, to_wide};

/// The largest coefficient: 34 nines.
pub const COEFFICIENT_MAX: u128 = 10u128.pow(34) - 1;
/// The smallest exponent of the last digit.
pub const EXPONENT_MIN: i32 = -6176;
/// The largest exponent of the last digit.
pub const EXPONENT_MAX: i32 = 6111;

/// A decimal128 value taken apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decimal {
    /// Not a number, whatever its sign and payload.
    NaN,
    /// Plus or minus infinity.
    Infinity {
        /// True below zero.
        negative: bool,
    },
    /// `coefficient` times ten to the `exponent`.
    Finite {
        /// True below zero, and for negative zero.
        negative: bool,
        /// At most [`COEFFICIENT_MAX`].
        coefficient: u128,
        /// From [`EXPONENT_MIN`] to [`EXPONENT_MAX`] in a stored value.
        exponent: i32,
    },
}

impl Decimal {
    /// Takes the 16 stored bytes apart. A coefficient of more than 34 digits counts as zero, as IEEE 754 has it.
    #[inline]
    pub fn from_stored(bytes: [u8; 16]) -> Self {
        let bits = u128::from_le_bytes(bytes);
        let negative = bits >> 127 == 1;
        match (bits >> 122) & 0b11111 {
            0b11111 => Decimal::NaN,
            0b11110 => Decimal::Infinity { negative },
            high if high >> 3 == 0b11 => {
                let exponent = ((bits >> 111) & 0x3FFF) as i32 + EXPONENT_MIN;
                Decimal::Finite { negative, coefficient: 0, exponent }
            }
            _ => {
                let exponent = ((bits >> 113) & 0x3FFF) as i32 + EXPONENT_MIN;
                let stored = bits & ((1 << 113) - 1);
                let coefficient = if stored > COEFFICIENT_MAX { 0 } else { stored };
                Decimal::Finite { negative, coefficient, exponent }
            }
        }
    }

    /// The stored bytes. The coefficient and exponent must be in range: out of range reads as NaN.
    #[inline]
    pub fn to_stored(self) -> [u8; 16] {
        let bits = match self {
            Decimal::Finite { negative, coefficient, exponent }
                if coefficient <= COEFFICIENT_MAX && (EXPONENT_MIN..=EXPONENT_MAX).contains(&exponent) =>
            {
                u128::from(negative) << 127 | ((exponent - EXPONENT_MIN) as u128) << 113 | coefficient
            }
            Decimal::Infinity { negative } => u128::from(negative) << 127 | 0b11110 << 122,
            _ => 0b11111 << 122,
        };
        bits.to_le_bytes()
    }

    /// The parts of a `bson` decimal.
    #[inline]
    pub fn from_bson(value: Decimal128) -> Self {
        Self::from_stored(value.bytes())
    }

    /// The `bson` decimal with these parts.
    #[inline]
    pub fn to_bson(self) -> Decimal128 {
        Decimal128::from_bytes(self.to_stored())
    }

    /// An integer, exactly.
    #[inline]
    pub fn from_i64(value: i64) -> Self {
        Decimal::Finite { negative: value < 0, coefficient: u128::from(value.unsigned_abs()), exponent: 0 }
    }

    /// A double rounded to 15 significant digits, as MongoDB converts doubles to decimals.
    pub fn from_f64(value: f64) -> Self {
        if value.is_nan() {
            return Decimal::NaN;
        }
        let negative = value.is_sign_negative();
        if value.is_infinite() {
            return Decimal::Infinity { negative };
        }
        if value == 0.0 {
            return Decimal::Finite { negative, coefficient: 0, exponent: 0 };
        }
        let text = format!("{:.14e}", value.abs());
        let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        let coefficient =
            digits.bytes().filter(u8::is_ascii_digit).fold(0u128, |sum, digit| sum * 10 + u128::from(digit - b'0'));
        Decimal::Finite { negative, coefficient, exponent: exponent.parse::<i32>().unwrap_or(0) - 14 }
    }

    /// Reads a decimal from text such as `-1.5E+3`, `Infinity` or `NaN`, rounding to 34 digits.
    ///
    /// Returns `None` when the text is not a number.
    pub fn parse(text: &str) -> Option<Self> {
        if text.is_empty() || text.contains(char::is_whitespace) {
            return None;
        }
        dec::Context::<dec::Decimal128>::default().parse(text).ok().map(from_dec)
    }

    /// The nearest double.
    pub fn to_f64(self) -> f64 {
        match self {
            Decimal::NaN => f64::NAN,
            Decimal::Infinity { negative: true } => f64::NEG_INFINITY,
            Decimal::Infinity { negative: false } => f64::INFINITY,
            Decimal::Finite { negative, coefficient, exponent } => {
                let magnitude: f64 = format!("{coefficient}e{exponent}").parse().unwrap_or(f64::NAN);
                if negative { -magnitude } else { magnitude }
            }
        }
    }

    /// The integer part, truncated towards zero; `None` when it does not fit or there is none.
    pub fn to_i64_truncated(self) -> Option<i64> {
        let Decimal::Finite { negative, coefficient, exponent } = self else { return None };
        let magnitude = if exponent >= 0 {
            if coefficient == 0 { 0 } else { coefficient.checked_mul(power_of_ten(exponent as u32)?)? }
        } else {
            power_of_ten(exponent.unsigned_abs()).map_or(0, |divisor| coefficient / divisor)
        };
        let signed = i128::try_from(magnitude).ok()?;
        i64::try_from(if negative { -signed } else { signed }).ok()
    }

    /// True when the value is finite and has no fractional part.
    pub fn is_integral(self) -> bool {
        match self {
            Decimal::Finite { coefficient, exponent, .. } => {
                coefficient == 0
                    || exponent >= 0
                    || power_of_ten(exponent.unsigned_abs()).is_some_and(|divisor| coefficient % divisor == 0)
            }
            _ => false,
        }
    }

    /// True for zero of either sign.
    #[inline]
    pub fn is_zero(self) -> bool {
        matches!(self, Decimal::Finite { coefficient: 0, .. })
    }

    /// Exact comparison; NaN equals NaN and is below everything else, zeroes are equal.
    pub fn compare(self, other: Decimal) -> Ordering {
        match (self, other) {
            (Decimal::NaN, Decimal::NaN) => Ordering::Equal,
            (Decimal::NaN, _) => Ordering::Less,
            (_, Decimal::NaN) => Ordering::Greater,
            _ => self.sign().cmp(&other.sign()).then_with(|| match self.sign() {
                0 => Ordering::Equal,
                1 => compare_magnitudes(self, other),
                _ => compare_magnitudes(other, self),
            }),
        }
    }

    /// -1, 0 or 1; 0 also for NaN.
    #[inline]
    pub fn sign(self) -> i8 {
        match self {
            Decimal::NaN | Decimal::Finite { coefficient: 0, .. } => 0,
            Decimal::Infinity { negative } | Decimal::Finite { negative, .. } => {
                if negative {
                    -1
                } else {
                    1
                }
            }
        }
    }
}

/// Ten to the `exponent`, when it fits.
#[inline]
pub fn power_of_ten(exponent: u32) -> Option<u128> {
    if exponent <= 38 { 10u128.checked_pow(exponent) } else { None }
}

fn compare_magnitudes(left: Decimal, right: Decimal) -> Ordering {
    match (left, right) {
        (
            Decimal::Finite { coefficient: left, exponent: left_exponent, .. },
            Decimal::Finite { coefficient: right, exponent: right_exponent, .. },
        ) => compare_finite((left, left_exponent), (right, right_exponent)),
        (Decimal::Infinity { .. }, Decimal::Infinity { .. }) => Ordering::Equal,
        (Decimal::Infinity { .. }, _) => Ordering::Greater,
        _ => Ordering::Less,
    }
}

/// Compares two non-zero magnitudes (coefficient, exponent): first by position of the leading digit, then aligned.
fn compare_finite(left: (u128, i32), right: (u128, i32)) -> Ordering {
    let leading = |(coefficient, exponent): (u128, i32)| coefficient.ilog10() as i32 + exponent;
    leading(left).cmp(&leading(right)).then_with(|| {
        let shift = |difference: i32| power_of_ten(difference.unsigned_abs()).unwrap_or(u128::MAX);
        match left.1.cmp(&right.1) {
            Ordering::Equal => left.0.cmp(&right.0),
            Ordering::Greater => left.0.saturating_mul(shift(left.1 - right.1)).cmp(&right.0),
            Ordering::Less => left.0.cmp(&right.0.saturating_mul(shift(right.1 - left.1))),
        }
    })
}

/// The `dec` crate's form, for arithmetic not offered here.
pub fn to_dec(value: Decimal) -> dec::Decimal128 {
    let (negative, magnitude) = match value {
        Decimal::NaN => return dec::Decimal128::NAN,
        Decimal::Infinity { negative } => {
            let infinity = dec::Decimal128::ONE / dec::Decimal128::ZERO;
            return if negative { -infinity } else { infinity };
        }
        Decimal::Finite { negative, coefficient, exponent } => {
            let mut context = dec::Context::<dec::Decimal128>::default();
            let mut magnitude = context.from_u128(coefficient);
            context.set_exponent(&mut magnitude, exponent);
            (negative, magnitude)
        }
    };
    // Copying the sign rather than negating keeps negative zero.
    let mut bytes = magnitude.to_le_bytes();
    if negative {
        bytes[15] |= 0x80;
    }
    dec::Decimal128::from_le_bytes(bytes)
}

/// Back from the `dec` crate's form.
pub fn from_dec(value: dec::Decimal128) -> Decimal {
    let negative = value.is_signed();
    if value.is_nan() {
        Decimal::NaN
    } else if value.is_infinite() {
        Decimal::Infinity { negative }
    } else {
        Decimal::Finite { negative, coefficient: value.coefficient().unsigned_abs(), exponent: value.exponent() }
    }
}

/// A binary operation rounded to 34 digits, half to even; division by zero and invalid operations give infinity or NaN.
fn apply(
    left: Decimal,
    right: Decimal,
    operation: impl FnOnce(&mut dec::Context<dec::Decimal128>, dec::Decimal128, dec::Decimal128) -> dec::Decimal128,
) -> Decimal {
    from_dec(operation(&mut dec::Context::default(), to_dec(left), to_dec(right)))
}

/// `left + right`.
pub fn add(left: Decimal, right: Decimal) -> Decimal {
    apply(left, right, |context, left, right| context.add(left, right))
}

/// `left - right`.
pub fn subtract(left: Decimal, right: Decimal) -> Decimal {
    apply(left, right, |context, left, right| context.sub(left, right))
}

/// `left * right`.
pub fn multiply(left: Decimal, right: Decimal) -> Decimal {
    apply(left, right, |context, left, right| context.mul(left, right))
}

/// `left / right`.
pub fn divide(left: Decimal, right: Decimal) -> Decimal {
    apply(left, right, |context, left, right| context.div(left, right))
}

/// The remainder of the truncated division, exact whatever the sizes; NaN for a zero divisor.
pub fn remainder(left: Decimal, right: Decimal) -> Decimal {
    let (
        Decimal::Finite { negative, coefficient: left_coefficient, exponent: left_exponent },
        Decimal::Finite { coefficient: right_coefficient, exponent: right_exponent, .. },
    ) = (left, right)
    else {
        return apply(left, right, |context, left, right| context.rem(left, right));
    };
    if right_coefficient == 0 {
        return Decimal::NaN;
    }
    let exponent = left_exponent.min(right_exponent);
    let coefficient = if left_exponent >= right_exponent {
        // left * 10^shift mod right, by square and multiply on digits: both factors stay below 10^34.
        scaled_remainder(left_coefficient, (left_exponent - right_exponent) as u32, right_coefficient)
    } else {
        match power_of_ten((right_exponent - left_exponent) as u32)
            .and_then(|scale| right_coefficient.checked_mul(scale))
        {
            Some(divisor) => left_coefficient % divisor,
            None => left_coefficient,
        }
    };
    Decimal::Finite { negative, coefficient, exponent }
}

/// `value * 10^shift mod divisor` for a divisor below 10^34.
fn scaled_remainder(value: u128, shift: u32, divisor: u128) -> u128 {
    (0..shift).fold(value % divisor, |rest, _| rest * 10 % divisor)
}

/// `value` with its last digit at `exponent`, rounded by `rounding`; unchanged when it is not finite or has already
/// as few digits after the point. NaN when the result would need more than 34 digits.
pub fn quantize(value: Decimal, exponent: i32, rounding: dec::Rounding) -> Decimal {
    if !matches!(value, Decimal::Finite { .. }) {
        return value;
    }
    let mut context = dec::Context::<dec::Decimal128>::default();
    context.set_rounding(rounding);
    let pattern = to_dec(Decimal::Finite { negative: false, coefficient: 1, exponent });
    from_dec(context.quantize(to_dec(value), pattern))
}

/// The nearest integer, half to even; unchanged when it is one, however large.
pub fn quantize_to_integer(value: Decimal) -> Decimal {
    match value {
        Decimal::Finite { exponent: ..0, .. } => quantize(value, 0, dec::Rounding::HalfEven),
        other => other,
    }
}

/// MongoDB's text of a decimal: plain where the exponent is small, scientific (`1.5E+3`) otherwise.
pub fn format(value: Decimal) -> String {
    value.to_bson().to_string()
}

/// The square root.
pub fn square_root(value: Decimal) -> Decimal {
    from_wide(WideContext::new().root(to_wide(value)))
}

/// e to the power `value`.
pub fn exponential(value: Decimal) -> Decimal {
    from_wide(WideContext::new().exponential(to_wide(value)))
}

/// The natural logarithm.
pub fn logarithm(value: Decimal) -> Decimal {
    from_wide(WideContext::new().logarithm(to_wide(value)))
}

/// The logarithm in base 10.
pub fn decimal_logarithm(value: Decimal) -> Decimal {
    from_wide(WideContext::new().decimal_logarithm(to_wide(value)))
}

/// The logarithm in another base.
pub fn logarithm_in_base(value: Decimal, base: Decimal) -> Decimal {
    let mut context = WideContext::new();
    let (value, base) = (context.logarithm(to_wide(value)), context.logarithm(to_wide(base)));
    from_wide(context.quotient(value, &base))
}

/// `base` to the power `exponent`.
pub fn power(base: Decimal, exponent: Decimal) -> Decimal {
    from_wide(WideContext::new().power(to_wide(base), &to_wide(exponent)))
}
