//! Decimals with up to 96 digits, for functions whose result must be right in 34.
//!
//! Used by `trigonometry` and by the functions of `decimal`. Operations take and give values, so that formulas read as
//! such; none of them can fail, what has no result is NaN.

use std::sync::OnceLock;

use dec::Context;

use super::{Decimal, from_dec, to_dec};

/// Units of three digits.
const UNITS: usize = 32;
/// What most functions are computed with: the 34 of the result, up to 17 that cancel, and some to spare.
const USUAL_DIGITS: usize = 60;

/// A decimal with up to 96 digits.
pub(super) type Wide = dec::Decimal<UNITS>;

/// What operations need.
pub(super) struct WideContext(Context<Wide>);

/// A stored decimal, exactly.
pub(super) fn to_wide(value: Decimal) -> Wide {
    Wide::from(to_dec(value))
}

/// Rounded to 34 digits, half to even.
pub(super) fn from_wide(value: Wide) -> Decimal {
    from_dec(Context::<dec::Decimal128>::default().from_decimal(&value))
}

impl WideContext {
    pub(super) fn new() -> Self {
        let mut context = Self::of_angles();
        let precision = context.0.set_precision(USUAL_DIGITS);
        debug_assert!(precision.is_ok());
        context
    }

    /// All 96 digits, for angles that lie close to a whole quadrant.
    pub(super) fn of_angles() -> Self {
        let mut context = Context::<Wide>::default();
        // The library computes powers and logarithms within these limits only, and they are within its own.
        let limits = (context.set_max_exponent(999_999), context.set_min_exponent(-999_999));
        debug_assert!(limits.0.is_ok() && limits.1.is_ok());
        Self(context)
    }

    pub(super) fn integer(&mut self, value: i32) -> Wide {
        self.0.from_i32(value)
    }

    pub(super) fn sum(&mut self, mut left: Wide, right: &Wide) -> Wide {
        self.0.add(&mut left, right);
        left
    }

    pub(super) fn difference(&mut self, mut left: Wide, right: &Wide) -> Wide {
        self.0.sub(&mut left, right);
        left
    }

    pub(super) fn product(&mut self, mut left: Wide, right: &Wide) -> Wide {
        self.0.mul(&mut left, right);
        left
    }

    pub(super) fn quotient(&mut self, mut left: Wide, right: &Wide) -> Wide {
        self.0.div(&mut left, right);
        left
    }

    pub(super) fn negated(&mut self, mut value: Wide) -> Wide {
        self.0.minus(&mut value);
        value
    }

    pub(super) fn magnitude(&mut self, value: &Wide) -> Wide {
        let mut value = *value;
        self.0.abs(&mut value);
        value
    }

    pub(super) fn root(&mut self, mut value: Wide) -> Wide {
        self.0.sqrt(&mut value);
        value
    }

    pub(super) fn exponential(&mut self, mut value: Wide) -> Wide {
        self.0.exp(&mut value);
        value
    }

    pub(super) fn logarithm(&mut self, mut value: Wide) -> Wide {
        self.0.ln(&mut value);
        value
    }

    pub(super) fn decimal_logarithm(&mut self, mut value: Wide) -> Wide {
        self.0.log10(&mut value);
        value
    }

    pub(super) fn power(&mut self, mut base: Wide, exponent: &Wide) -> Wide {
        self.0.pow(&mut base, exponent);
        base
    }

    pub(super) fn half(&mut self, value: Wide) -> Wide {
        let two = self.integer(2);
        self.quotient(value, &two)
    }

    pub(super) fn round_to_integer(&mut self, value: &mut Wide) {
        self.0.round(value);
    }

    /// The remainder of an integer, from 0 to below the divisor.
    pub(super) fn remainder(&mut self, mut left: Wide, divisor: u32) -> u32 {
        let right = self.0.from_u32(divisor);
        self.0.rem(&mut left, &right);
        if left.is_negative() {
            self.0.add(&mut left, &right);
        }
        // A context remembers that results were rounded, and would refuse the conversion for it.
        Context::<Wide>::default().try_into_u32(left).map_or(0, |rest| rest % divisor)
    }

    pub(super) fn is_greater(&mut self, left: &Wide, right: &Wide) -> bool {
        self.0.partial_cmp(left, right).is_some_and(std::cmp::Ordering::is_gt)
    }

    /// π.
    pub(super) fn pi(&mut self) -> Wide {
        static PI: OnceLock<Wide> = OnceLock::new();
        *PI.get_or_init(|| decimal_places_of_pi::<UNITS>(96))
    }

    /// π/2.
    pub(super) fn half_pi(&mut self) -> Wide {
        let pi = self.pi();
        self.half(pi)
    }

    pub(super) fn half_pi_with_sign_of(&mut self, sign: &Wide) -> Wide {
        let half_pi = self.half_pi();
        if sign.is_negative() { self.negated(half_pi) } else { half_pi }
    }

    /// x + a x³ + b x⁵ + ..., the factors given as fractions.
    pub(super) fn odd_series(&mut self, x: &Wide, factors: &[(i32, i32)]) -> Wide {
        let square = self.product(*x, x);
        let (mut sum, mut power) = (*x, *x);
        for (numerator, denominator) in factors {
            power = self.product(power, &square);
            let (numerator, denominator) = (self.integer(*numerator), self.integer(*denominator));
            let scaled = self.product(power, &numerator);
            let term = self.quotient(scaled, &denominator);
            sum = self.sum(sum, &term);
        }
        sum
    }
}

/// π with so many digits, by Machin's formula: 16 arctan(1/5) - 4 arctan(1/239).
pub(super) fn decimal_places_of_pi<const N: usize>(digits: usize) -> dec::Decimal<N> {
    let mut context = Context::<dec::Decimal<N>>::default();
    // As many digits as the type holds, or fewer for less work.
    let precision = context.set_precision(digits);
    debug_assert!(precision.is_ok());
    let mut pi = arc_tangent_of_reciprocal::<N>(&mut context, 5, digits);
    let mut small = arc_tangent_of_reciprocal::<N>(&mut context, 239, digits);
    let (sixteen, four) = (context.from_i32(16), context.from_i32(4));
    context.mul(&mut pi, &sixteen);
    context.mul(&mut small, &four);
    context.sub(&mut pi, &small);
    pi
}

/// arctan(1/n) = 1/n - 1/(3 n³) + 1/(5 n⁵) - ...
fn arc_tangent_of_reciprocal<const N: usize>(
    context: &mut Context<dec::Decimal<N>>,
    n: i32,
    digits: usize,
) -> dec::Decimal<N> {
    let square = context.from_i32(-n * n);
    let n = context.from_i32(n);
    let mut power = context.from_i32(1);
    context.div(&mut power, &n);
    let mut sum = power;
    let mut divisor = 1;
    while power.exponent() + power.digits() as i32 > -(digits as i32) - 3 {
        context.div(&mut power, &square);
        divisor += 2;
        let mut term = power;
        let odd = context.from_i32(divisor);
        context.div(&mut term, &odd);
        context.add(&mut sum, &term);
    }
    sum
}
