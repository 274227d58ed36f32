//! Trigonometric and hyperbolic functions of decimals, right in all 34 digits.
//!
//! Called by the expression operators. Series are summed with 60 digits, and angles are reduced to a quadrant with 96, so
//! that more than 34 are right after everything that cancels. Domains are the caller's: outside of one a function gives NaN.

use std::sync::OnceLock;

use dec::Context;

use super::wide::{Wide, WideContext, decimal_places_of_pi, from_wide, to_wide};
use super::{Decimal, to_dec};

/// Terms of a series: each is at most 0.7 of the one before, squared and divided by a growing factorial, or 1/400 of it.
const TERMS: i32 = 45;
/// Below this (as a power of ten) a few terms of a series are exact, and the closed form would cancel.
const SMALL_EXPONENT: i32 = -15;
/// Above ten to this power an angle is reduced with more digits: it may lie so close to a whole quadrant that of the 96
/// digits too few were left.
const HUGE_POWER: i32 = 20;
/// Digits of π and of the remainder for an argument of up to 6,145 digits.
const HUGE_DIGITS: usize = 6_300;
type Huge = dec::Decimal<2100>;

const NAN: Decimal = Decimal::NaN;
const ZERO: Decimal = Decimal::Finite { negative: false, coefficient: 0, exponent: 0 };
const ONE: Decimal = Decimal::Finite { negative: false, coefficient: 1, exponent: 0 };

/// The sine of radians.
pub fn sin(value: Decimal) -> Decimal {
    if value.is_zero() {
        return value;
    }
    angle(value).map_or(NAN, |(mut context, rest, quadrant)| {
        let result = match quadrant % 2 {
            0 => sine_series(&mut context, &rest),
            _ => cosine_series(&mut context, &rest),
        };
        from_wide(if quadrant < 2 { result } else { context.negated(result) })
    })
}

/// The cosine of radians.
pub fn cos(value: Decimal) -> Decimal {
    angle(value).map_or(NAN, |(mut context, rest, quadrant)| {
        let result = match quadrant % 2 {
            0 => cosine_series(&mut context, &rest),
            _ => sine_series(&mut context, &rest),
        };
        from_wide(if quadrant == 0 || quadrant == 3 { result } else { context.negated(result) })
    })
}

/// The tangent of radians.
pub fn tan(value: Decimal) -> Decimal {
    if value.is_zero() {
        return value;
    }
    angle(value).map_or(NAN, |(mut context, rest, quadrant)| {
        let (sine, cosine) = (sine_series(&mut context, &rest), cosine_series(&mut context, &rest));
        from_wide(match quadrant % 2 {
            0 => context.quotient(sine, &cosine),
            _ => {
                let cotangent = context.quotient(cosine, &sine);
                context.negated(cotangent)
            }
        })
    })
}

/// The arc sine of -1 to 1.
pub fn asin(value: Decimal) -> Decimal {
    of_finite(value, NAN, |context, x| {
        // x / sqrt((1 - x) (1 + x)): the difference is exact.
        let one = context.integer(1);
        let (below, above) = (context.difference(one, x), context.sum(one, x));
        let product = context.product(below, &above);
        let root = context.root(product);
        if root.is_zero() {
            return context.half_pi_with_sign_of(x);
        }
        let tangent = context.quotient(*x, &root);
        arc_tangent(context, tangent)
    })
}

/// The arc cosine of -1 to 1.
pub fn acos(value: Decimal) -> Decimal {
    let Decimal::Finite { .. } = value else { return NAN };
    if value.compare(ONE).is_eq() {
        return ZERO;
    }
    let mut context = WideContext::new();
    let (x, one) = (to_wide(value), context.integer(1));
    let (below, above) = (context.difference(one, &x), context.sum(one, &x));
    if above.is_zero() {
        return from_wide(context.pi());
    }
    let quotient = context.quotient(below, &above);
    let root = context.root(quotient);
    let half = arc_tangent(&mut context, root);
    from_wide(context.sum(half, &half))
}

/// The arc tangent.
pub fn atan(value: Decimal) -> Decimal {
    if let Decimal::Infinity { negative } = value {
        let mut context = WideContext::new();
        let sign = context.integer(if negative { -1 } else { 1 });
        return from_wide(context.half_pi_with_sign_of(&sign));
    }
    of_finite(value, NAN, |context, x| arc_tangent(context, *x))
}

/// The angle of the point (x, y).
pub fn atan2(y: Decimal, x: Decimal) -> Decimal {
    let (Some(y_negative), Some(x_negative)) = (is_negative(y), is_negative(x)) else { return NAN };
    let mut context = WideContext::new();
    let infinite = |value| matches!(value, Decimal::Infinity { .. });
    // The angle in the first quadrant, of |y| and |x|.
    let acute = match (infinite(y), infinite(x)) {
        (true, true) => {
            let pi = context.pi();
            let four = context.integer(4);
            context.quotient(pi, &four)
        }
        (true, false) => context.half_pi(),
        (false, true) => context.integer(0),
        (false, false) if y.is_zero() => context.integer(0),
        (false, false) if x.is_zero() => context.half_pi(),
        (false, false) => {
            let quotient = context.quotient(to_wide(magnitude(y)), &to_wide(magnitude(x)));
            arc_tangent(&mut context, quotient)
        }
    };
    let angle = if x_negative {
        let pi = context.pi();
        context.difference(pi, &acute)
    } else {
        acute
    };
    with_sign(from_wide(angle), y_negative)
}

/// The hyperbolic sine.
pub fn sinh(value: Decimal) -> Decimal {
    of_finite(value, value, |context, x| {
        if is_small(x) {
            return context.odd_series(x, &[(1, 6), (1, 120), (1, 5_040)]);
        }
        let (up, down) = exponentials(context, x);
        let difference = context.difference(up, &down);
        context.half(difference)
    })
}

/// The hyperbolic cosine.
pub fn cosh(value: Decimal) -> Decimal {
    if value.is_zero() {
        return ONE;
    }
    of_finite(value, magnitude(value), |context, x| {
        let (up, down) = exponentials(context, x);
        let sum = context.sum(up, &down);
        context.half(sum)
    })
}

/// The hyperbolic tangent.
pub fn tanh(value: Decimal) -> Decimal {
    let sign = is_negative(value).map_or(NAN, |negative| with_sign(ONE, negative));
    // From here on it is 1 in all 34 digits.
    if magnitude(value).compare(Decimal::from_i64(50)).is_gt() {
        return sign;
    }
    of_finite(value, sign, |context, x| {
        if is_small(x) {
            return context.odd_series(x, &[(-1, 3), (2, 15), (-17, 315)]);
        }
        let (up, down) = exponentials(context, x);
        let (difference, sum) = (context.difference(up, &down), context.sum(up, &down));
        context.quotient(difference, &sum)
    })
}

/// The inverse of the hyperbolic sine.
pub fn asinh(value: Decimal) -> Decimal {
    of_finite(value, value, |context, x| {
        if is_small(x) {
            return context.odd_series(x, &[(-1, 6), (3, 40), (-15, 336)]);
        }
        let magnitude = context.magnitude(x);
        let square = context.product(magnitude, &magnitude);
        let one = context.integer(1);
        let radicand = context.sum(square, &one);
        let root = context.root(radicand);
        let argument = context.sum(magnitude, &root);
        let logarithm = context.logarithm(argument);
        if x.is_negative() { context.negated(logarithm) } else { logarithm }
    })
}

/// The inverse of the hyperbolic cosine, from 1 on.
pub fn acosh(value: Decimal) -> Decimal {
    if value.compare(ONE).is_eq() {
        return ZERO;
    }
    of_finite(value, value, |context, x| {
        let one = context.integer(1);
        let (below, above) = (context.difference(*x, &one), context.sum(*x, &one));
        let product = context.product(below, &above);
        let root = context.root(product);
        let argument = context.sum(*x, &root);
        context.logarithm(argument)
    })
}

/// The inverse of the hyperbolic tangent, from -1 to 1.
pub fn atanh(value: Decimal) -> Decimal {
    if magnitude(value).compare(ONE).is_eq() {
        return Decimal::Infinity { negative: is_negative(value).unwrap_or_default() };
    }
    of_finite(value, NAN, |context, x| {
        if is_small(x) {
            return context.odd_series(x, &[(1, 3), (1, 5), (1, 7)]);
        }
        let one = context.integer(1);
        let (above, below) = (context.sum(one, x), context.difference(one, x));
        let quotient = context.quotient(above, &below);
        let logarithm = context.logarithm(quotient);
        context.half(logarithm)
    })
}

/// Degrees as radians.
pub fn degrees_to_radians(value: Decimal) -> Decimal {
    of_finite(value, value, |context, x| {
        let pi = context.pi();
        let product = context.product(*x, &pi);
        let half_turn = context.integer(180);
        context.quotient(product, &half_turn)
    })
}

/// Radians as degrees.
pub fn radians_to_degrees(value: Decimal) -> Decimal {
    of_finite(value, value, |context, x| {
        let half_turn = context.integer(180);
        let product = context.product(*x, &half_turn);
        let pi = context.pi();
        context.quotient(product, &pi)
    })
}

/// Applies a function to a finite number; zero stays as it is, infinity gives `of_infinity`.
fn of_finite(value: Decimal, of_infinity: Decimal, function: impl FnOnce(&mut WideContext, &Wide) -> Wide) -> Decimal {
    match value {
        Decimal::NaN => NAN,
        Decimal::Infinity { .. } => of_infinity,
        Decimal::Finite { coefficient: 0, .. } => value,
        Decimal::Finite { .. } => from_wide(function(&mut WideContext::new(), &to_wide(value))),
    }
}

fn is_negative(value: Decimal) -> Option<bool> {
    match value {
        Decimal::NaN => None,
        Decimal::Infinity { negative } | Decimal::Finite { negative, .. } => Some(negative),
    }
}

fn magnitude(value: Decimal) -> Decimal {
    with_sign(value, false)
}

fn with_sign(value: Decimal, negative: bool) -> Decimal {
    match value {
        Decimal::NaN => NAN,
        Decimal::Infinity { .. } => Decimal::Infinity { negative },
        Decimal::Finite { coefficient, exponent, .. } => Decimal::Finite { negative, coefficient, exponent },
    }
}

fn is_small(x: &Wide) -> bool {
    x.exponent() + x.digits() as i32 <= SMALL_EXPONENT
}

/// e to the power x and to the power -x.
fn exponentials(context: &mut WideContext, x: &Wide) -> (Wide, Wide) {
    let negated = context.negated(*x);
    (context.exponential(*x), context.exponential(negated))
}

/// An angle as a quadrant from 0 to 3 and what is left, between -π/4 and π/4; `None` for NaN and infinities.
fn angle(value: Decimal) -> Option<(WideContext, Wide, u32)> {
    let Decimal::Finite { coefficient, exponent, .. } = value else { return None };
    let digits = coefficient.checked_ilog10().map_or(1, |power| power as i32 + 1);
    let mut context = WideContext::of_angles();
    let x = if exponent + digits > HUGE_POWER { rest_of_huge_angle(value) } else { to_wide(value) };
    let half_pi = context.half_pi();
    let mut quadrants = context.quotient(x, &half_pi);
    context.round_to_integer(&mut quadrants);
    let whole = context.product(quadrants, &half_pi);
    let rest = context.difference(x, &whole);
    let quadrant = context.remainder(quadrants, 4);
    Some((WideContext::new(), rest, quadrant))
}

/// What is left of a huge angle after whole turns.
fn rest_of_huge_angle(value: Decimal) -> Wide {
    static TURN: OnceLock<Huge> = OnceLock::new();
    let mut context = Context::<Huge>::default();
    let turn = TURN.get_or_init(|| {
        let pi = decimal_places_of_pi::<2100>(HUGE_DIGITS);
        let mut turn = pi;
        Context::<Huge>::default().add(&mut turn, &pi);
        turn
    });
    let mut rest = Huge::from(to_dec(value));
    context.rem(&mut rest, turn);
    Context::<Wide>::default().to_width(rest)
}

/// x - x³/3! + x⁵/5! - ...
fn sine_series(context: &mut WideContext, x: &Wide) -> Wide {
    alternating_series(context, *x, x, |term| (2 * term) * (2 * term + 1))
}

/// 1 - x²/2! + x⁴/4! - ...
fn cosine_series(context: &mut WideContext, x: &Wide) -> Wide {
    let one = context.integer(1);
    alternating_series(context, one, x, |term| (2 * term - 1) * (2 * term))
}

/// The sum of terms, each made of the one before by the factor -x² / `divisor`.
fn alternating_series(context: &mut WideContext, first: Wide, x: &Wide, divisor: fn(i32) -> i32) -> Wide {
    if x.is_zero() {
        return first;
    }
    let square = context.product(*x, x);
    let factor = context.negated(square);
    let (mut sum, mut term) = (first, first);
    for number in 1..=TERMS {
        term = context.product(term, &factor);
        let divisor = context.integer(divisor(number));
        term = context.quotient(term, &divisor);
        sum = context.sum(sum, &term);
    }
    sum
}

/// The arc tangent: the argument is brought below 1 by its reciprocal, then halved as an angle four times.
fn arc_tangent(context: &mut WideContext, x: Wide) -> Wide {
    if x.is_zero() {
        return x;
    }
    let one = context.integer(1);
    let magnitude = context.magnitude(&x);
    let is_steep = context.is_greater(&magnitude, &one);
    let mut reduced = if is_steep { context.quotient(one, &magnitude) } else { magnitude };
    for _ in 0..4 {
        let square = context.product(reduced, &reduced);
        let radicand = context.sum(square, &one);
        let root = context.root(radicand);
        let divisor = context.sum(root, &one);
        reduced = context.quotient(reduced, &divisor);
    }
    let square = context.product(reduced, &reduced);
    let factor = context.negated(square);
    let (mut sum, mut power) = (reduced, reduced);
    for number in 1..=TERMS {
        power = context.product(power, &factor);
        let divisor = context.integer(2 * number + 1);
        let term = context.quotient(power, &divisor);
        sum = context.sum(sum, &term);
    }
    let sixteen = context.integer(16);
    let mut angle = context.product(sum, &sixteen);
    if is_steep {
        let half_pi = context.half_pi();
        angle = context.difference(half_pi, &angle);
    }
    if x.is_negative() { context.negated(angle) } else { angle }
}

#[cfg(test)]
mod tests;
