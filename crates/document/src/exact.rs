//! Exact comparison of a double with a decimal128, by long integers when an estimate does not decide.
//!
//! Called by `number` and by key encoding, which must agree on the order of every double and decimal.

use std::cmp::Ordering;

use crate::decimal::Decimal;

/// Compares `double` with `decimal` exactly. NaN equals NaN and is below everything else; zeroes are equal.
pub fn compare_double_with_decimal(double: f64, decimal: Decimal) -> Ordering {
    match (double.is_nan(), decimal) {
        (true, Decimal::NaN) => return Ordering::Equal,
        (true, _) => return Ordering::Less,
        (false, Decimal::NaN) => return Ordering::Greater,
        _ => {}
    }
    let double_sign = (double > 0.0) as i8 - (double < 0.0) as i8;
    double_sign.cmp(&decimal.sign()).then_with(|| match double_sign {
        0 => Ordering::Equal,
        1 => compare_magnitudes(double, decimal),
        _ => compare_magnitudes(-double, decimal).reverse(),
    })
}

/// Compares a positive double with the magnitude of a non-zero decimal.
fn compare_magnitudes(double: f64, decimal: Decimal) -> Ordering {
    let (coefficient, exponent) = match decimal {
        Decimal::Finite { coefficient, exponent, .. } => (coefficient, exponent),
        _ if double.is_infinite() => return Ordering::Equal,
        _ => return Ordering::Less,
    };
    // Position of the leading digit: doubles go from 4.9E-324 to 1.8E+308.
    let leading = coefficient.ilog10() as i32 + exponent;
    if double.is_infinite() || leading < -325 {
        return Ordering::Greater;
    }
    if leading > 310 {
        return Ordering::Less;
    }
    if (-250..250).contains(&leading) && exponent > -290 {
        // Accurate to about 1 in 10^13, so a larger difference decides.
        let estimate = coefficient as f64 * 10f64.powi(exponent);
        if (estimate - double).abs() > estimate * 1e-9 {
            return double.total_cmp(&estimate);
        }
    }
    compare_by_long_integers(double, coefficient, exponent)
}

/// Compares mantissa * 2^binary with coefficient * 10^decimal by bringing both to integers.
fn compare_by_long_integers(double: f64, coefficient: u128, decimal_exponent: i32) -> Ordering {
    let (mantissa, binary_exponent) = decompose(double);
    let mut left = LongInteger::from(u128::from(mantissa));
    let mut right = LongInteger::from(coefficient);
    left.multiply_by_power_of_ten(decimal_exponent.min(0).unsigned_abs());
    right.multiply_by_power_of_ten(decimal_exponent.max(0).unsigned_abs());
    left.shift_left(binary_exponent.max(0).unsigned_abs());
    right.shift_left(binary_exponent.min(0).unsigned_abs());
    left.limbs.iter().rev().cmp(right.limbs.iter().rev())
}

/// Mantissa and exponent with `value == mantissa * 2^exponent`, for a positive finite double.
pub fn decompose(value: f64) -> (u64, i32) {
    let bits = value.to_bits() & !(1 << 63);
    let fraction = bits & ((1 << 52) - 1);
    match (bits >> 52) as i32 {
        0 => (fraction, -1074),
        biased => (fraction | 1 << 52, biased - 1075),
    }
}

/// An unsigned integer large enough for both sides: at most 53 + 971 + 359 * 3.33 bits.
struct LongInteger {
    /// Least significant first.
    limbs: [u64; Self::LIMBS],
}

impl LongInteger {
    const LIMBS: usize = 40;

    fn from(value: u128) -> Self {
        let mut limbs = [0; Self::LIMBS];
        limbs[0] = value as u64;
        limbs[1] = (value >> 64) as u64;
        Self { limbs }
    }

    fn multiply(&mut self, factor: u64) {
        let mut carry = 0u128;
        for limb in &mut self.limbs {
            let product = u128::from(*limb) * u128::from(factor) + carry;
            *limb = product as u64;
            carry = product >> 64;
        }
        debug_assert_eq!(carry, 0);
    }

    fn multiply_by_power_of_ten(&mut self, exponent: u32) {
        const STEP: u32 = 19;
        for _ in 0..exponent / STEP {
            self.multiply(10u64.pow(STEP));
        }
        self.multiply(10u64.pow(exponent % STEP));
    }

    fn shift_left(&mut self, bits: u32) {
        let whole = (bits / 64) as usize;
        self.limbs.rotate_right(whole);
        self.limbs[..whole].fill(0);
        self.multiply(1 << (bits % 64));
    }
}
