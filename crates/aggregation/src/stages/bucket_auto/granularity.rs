//! Series of preferred numbers, to which the bounds of buckets are rounded.
//!
//! Renard's series (ISO 3), the E series of resistors (IEC 60063), 1-2-5, and the powers of two. A number of a series, multiplied by any
//! power of ten, is of the series as well.

use bson::Decimal128;
use bson::raw::{RawBson, RawBsonRef};
use document::Number;

use crate::error::{AggregationError, Result};
use crate::stages::type_of;

const R5: &[u16] = &[10, 16, 25, 40, 63];
const R10: &[u16] = &[100, 125, 160, 200, 250, 315, 400, 500, 630, 800];
const R20: &[u16] =
    &[100, 112, 125, 140, 160, 180, 200, 224, 250, 280, 315, 355, 400, 450, 500, 560, 630, 710, 800, 900];
const R40: &[u16] = &[
    100, 106, 112, 118, 125, 132, 140, 150, 160, 170, 180, 190, 200, 212, 224, 236, 250, 265, 280, 300, 315, 335, 355,
    375, 400, 425, 450, 475, 500, 530, 560, 600, 630, 670, 710, 750, 800, 850, 900, 950,
];
/// Those of R80 that are not of R40: each stands behind one of R40.
const R80_BETWEEN: &[u16] = &[
    103, 109, 115, 122, 128, 136, 145, 155, 165, 175, 185, 195, 206, 218, 230, 243, 258, 272, 290, 307, 325, 345, 365,
    387, 412, 437, 462, 487, 515, 545, 575, 615, 650, 690, 730, 775, 825, 875, 925, 975,
];
const ONE_TWO_FIVE: &[u16] = &[10, 20, 50];
const E6: &[u16] = &[10, 15, 22, 33, 47, 68];
const E12: &[u16] = &[10, 12, 15, 18, 22, 27, 33, 39, 47, 56, 68, 82];
const E24: &[u16] = &[10, 11, 12, 13, 15, 16, 18, 20, 22, 24, 27, 30, 33, 36, 39, 43, 47, 51, 56, 62, 68, 75, 82, 91];
/// In E192 this number is not what the formula gives.
const E192_EXCEPTION: (f64, f64) = (919.0, 920.0);

/// A series by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Granularity {
    name: &'static str,
    series: Series,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Series {
    Listed(&'static [u16]),
    /// The numbers of both lists by turns.
    Interleaved(&'static [u16], &'static [u16]),
    /// So many numbers, each a constant factor above the one before, to three digits.
    Geometric(u16),
    PowersOfTwo,
}

const ALL: &[Granularity] = &[
    Granularity { name: "R5", series: Series::Listed(R5) },
    Granularity { name: "R10", series: Series::Listed(R10) },
    Granularity { name: "R20", series: Series::Listed(R20) },
    Granularity { name: "R40", series: Series::Listed(R40) },
    Granularity { name: "R80", series: Series::Interleaved(R40, R80_BETWEEN) },
    Granularity { name: "1-2-5", series: Series::Listed(ONE_TWO_FIVE) },
    Granularity { name: "E6", series: Series::Listed(E6) },
    Granularity { name: "E12", series: Series::Listed(E12) },
    Granularity { name: "E24", series: Series::Listed(E24) },
    Granularity { name: "E48", series: Series::Geometric(48) },
    Granularity { name: "E96", series: Series::Geometric(96) },
    Granularity { name: "E192", series: Series::Geometric(192) },
    Granularity { name: "POWERSOF2", series: Series::PowersOfTwo },
];

/// Refuses a value that cannot be rounded.
pub(super) fn check(value: RawBsonRef<'_>) -> Result<()> {
    let Some(number) = Number::from_bson(value) else {
        let found = type_of(value);
        let message = format!(
            "$bucketAuto can specify a 'granularity' with numeric boundaries only, but found a value with type: {found}"
        );
        return Err(AggregationError::numbered(40258, message));
    };
    let number = number.to_f64();
    if number.is_nan() {
        let message = "$bucketAuto can specify a 'granularity' with numeric boundaries only, but found a NaN";
        return Err(AggregationError::numbered(40259, message));
    }
    if number < 0.0 {
        let message =
            "$bucketAuto can specify a 'granularity' with non-negative numbers only, but found a negative one";
        return Err(AggregationError::numbered(40260, message));
    }
    Ok(())
}

impl Granularity {
    /// The series of a name.
    pub(super) fn find(name: &str) -> Option<Granularity> {
        ALL.iter().find(|granularity| granularity.name == name).copied()
    }

    pub(super) fn name(&self) -> &'static str {
        self.name
    }

    /// The next number of the series above a value, which has been checked. Zero stays.
    pub(super) fn round_up(&self, value: RawBsonRef<'_>) -> RawBson {
        rounded(value, |number| self.above(number))
    }

    /// The next number of the series below a value, which has been checked. Zero stays.
    pub(super) fn round_down(&self, value: RawBsonRef<'_>) -> RawBson {
        rounded(value, |number| self.below(number))
    }

    fn above(&self, number: f64) -> f64 {
        if self.series == Series::PowersOfTwo {
            let lower = power_of_two_up_to(number);
            return lower * 2.0;
        }
        let numbers = self.series.numbers();
        let (first, exponent) = (numbers.first().copied().unwrap_or(1.0), exponent_of(number, &numbers));
        let next = numbers.iter().map(|member| scaled(*member, exponent)).find(|member| *member > number);
        next.unwrap_or_else(|| scaled(first, exponent + 1))
    }

    fn below(&self, number: f64) -> f64 {
        if self.series == Series::PowersOfTwo {
            let lower = power_of_two_up_to(number);
            return if lower == number { lower / 2.0 } else { lower };
        }
        let numbers = self.series.numbers();
        let (last, exponent) = (numbers.last().copied().unwrap_or(1.0), exponent_of(number, &numbers));
        let before = numbers.iter().rev().map(|member| scaled(*member, exponent)).find(|member| *member < number);
        before.unwrap_or_else(|| scaled(last, exponent - 1))
    }
}

impl Series {
    fn numbers(self) -> Vec<f64> {
        match self {
            Series::Listed(list) => list.iter().map(|number| f64::from(*number)).collect(),
            Series::Interleaved(one, other) => {
                one.iter().zip(other).flat_map(|(one, other)| [f64::from(*one), f64::from(*other)]).collect()
            }
            Series::Geometric(count) => (0..count).map(|position| geometric(position, count)).collect(),
            Series::PowersOfTwo => Vec::new(),
        }
    }
}

fn geometric(position: u16, count: u16) -> f64 {
    let number = (100.0 * 10_f64.powf(f64::from(position) / f64::from(count))).round();
    if count == 192 && number == E192_EXCEPTION.0 { E192_EXCEPTION.1 } else { number }
}

/// The power of ten by which the series' first number is multiplied to be the last such number that is no larger.
fn exponent_of(number: f64, numbers: &[f64]) -> i32 {
    let first = numbers.first().copied().unwrap_or(1.0);
    let mut exponent = (number / first).log10().floor() as i32;
    // The logarithm may be off by the last digit.
    while scaled(first, exponent) > number {
        exponent -= 1;
    }
    while scaled(first, exponent + 1) <= number {
        exponent += 1;
    }
    exponent
}

/// `number * 10^exponent`, as exact as a double can be.
fn scaled(number: f64, exponent: i32) -> f64 {
    if exponent >= 0 { number * 10_f64.powi(exponent) } else { number / 10_f64.powi(-exponent) }
}

fn power_of_two_up_to(number: f64) -> f64 {
    let power = number.log2().floor().exp2();
    if power > number { power / 2.0 } else { power }
}

fn rounded(value: RawBsonRef<'_>, round: impl Fn(f64) -> f64) -> RawBson {
    let number = Number::from_bson(value).map_or(0.0, Number::to_f64);
    // Nothing lies above infinity, and a series has no number next to zero.
    if number == 0.0 || number.is_infinite() || number < f64::MIN_POSITIVE {
        return value.into();
    }
    let rounded = round(number);
    if let RawBsonRef::Decimal128(_) = value
        && let Ok(decimal) = rounded.to_string().parse::<Decimal128>()
    {
        return RawBson::Decimal128(decimal);
    }
    RawBson::Double(rounded)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn series_are_whole_and_in_order() {
        let lengths =
            [("R5", 5), ("R10", 10), ("R20", 20), ("R40", 40), ("R80", 80), ("E24", 24), ("E48", 48), ("E192", 192)];
        for (name, length) in lengths {
            let numbers = Granularity::find(name).unwrap().series.numbers();
            assert_eq!(numbers.len(), length, "{name}");
            assert!(numbers.windows(2).all(|pair| pair[0] < pair[1]), "{name}");
        }
        let e192 = Granularity::find("E192").unwrap().series.numbers();
        assert!([101.0, 187.0, 920.0, 988.0].iter().all(|number| e192.contains(number)));
    }

    #[test]
    fn numbers_are_rounded_to_their_neighbours() {
        for (name, number, below, above) in [
            ("R5", 16.0, 10.0, 25.0),
            ("R5", 17.0, 16.0, 25.0),
            ("R5", 63.0, 40.0, 100.0),
            ("R5", 70.0, 63.0, 100.0),
            ("R5", 10.0, 6.3, 16.0),
            ("R5", 0.016, 0.01, 0.025),
            ("1-2-5", 999.0, 500.0, 1000.0),
            ("1-2-5", 1000.0, 500.0, 2000.0),
            ("E6", 1.5, 1.0, 2.2),
            ("R80", 1.04, 1.03, 1.06),
            ("E192", 91.9, 90.9, 92.0),
            ("POWERSOF2", 8.0, 4.0, 16.0),
            ("POWERSOF2", 9.0, 8.0, 16.0),
            ("POWERSOF2", 0.3, 0.25, 0.5),
        ] {
            let granularity = Granularity::find(name).unwrap();
            assert_eq!(granularity.below(number), below, "{name} {number}");
            assert_eq!(granularity.above(number), above, "{name} {number}");
        }
    }
}
